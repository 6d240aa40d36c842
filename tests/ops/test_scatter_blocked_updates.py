"""Updates of a small operand block by block, with blocks that are small."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest
from against_xla import against_xla
from rule_names import RULE_NAMES
from scatter_case import Case, numbers
from target_costs import use_costs, with_costs

from dialect_handlers.stablehlo.scatter.blocked_updates import rows_of_a_block
from hlo2onnx.ir.dims import symbol

SMALL = {
    "scattered_elements": 64,
    "ordered_scatter_elements": 0,
}
COSTS = with_costs(**SMALL).costs


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, **SMALL)


def rows(dims: Sequence[int], count: int) -> Case:
    return Case(tuple(dims), (count, 1), (count, *dims[1:]), (0,), 1, (1,), (0,))


def pairs(count: int) -> Case:
    return Case((3,), (count, 100), (count, 100), (0,), 2, (), (0,))


BLOCKS: list[tuple[Case, int]] = [
    (rows((3, 2), 40), 12),
    (rows((1, 2), 40), 8),  # no fewer than a quarter of `scattered_elements`
    (rows((3, 2), 32), 12),
    (rows((3, 2), 31), 0),  # too few updates
    (rows((5, 2), 40), 20),
    (rows((5, 2), 41), 20),
    (rows((5, 2), 39), 0),  # less than two blocks
    (pairs(40), 1),
    (pairs(2), 1),
    (pairs(1), 0),
]


@pytest.mark.parametrize(("case", "expected"), BLOCKS)
def test_rows_of_a_block(case: Case, expected: int) -> None:
    n = numbers(case)
    assert rows_of_a_block(n, n.windows, COSTS) == expected


def test_what_is_taken_at_once() -> None:
    n = numbers(rows((3, 2), 40))
    assert rows_of_a_block(n, n.windows[::-1], COSTS) == 0
    assert rows_of_a_block(n, [], COSTS) == 0
    columns = numbers(Case((4, 2), (40, 1), (4, 40), (1,), 1, (0,), (1,)))
    assert rows_of_a_block(columns, columns.windows, COSTS) == 0
    batched = numbers(Case((40, 3), (40, 2, 1), (40, 2), (1,), 2, (), (1,), ((0, 0),)))
    assert rows_of_a_block(batched, batched.windows, COSTS) == 0
    symbols = numbers(rows((3, 2), 40), lambda dims: tuple(map(named, dims)))
    assert rows_of_a_block(symbols, symbols.windows, COSTS) == 0


def named(dim: int) -> object:
    return symbol(f"n{dim}", positive=True) if dim == 40 else dim


CLAMPED = "Cast Max Min Equal Reshape"
SPARE = "Where Expand Concat"
NODES: dict[str, tuple[Case, str, str, str]] = {
    "all inside": (
        Case((256,), (3000, 1), (3000,), (0,), 1, (), (0,)),
        "add",
        "ui8",
        "Cast Reshape Slice Slice Reshape Reshape Scan Slice Slice ScatterElements",
    ),
    "spare row": (
        Case((20, 2), (500, 1), (500, 2), (0,), 1, (1,), (0,)),
        "add",
        "i32",
        f"{CLAMPED} Reshape Reshape Mul Reshape Reshape {SPARE} Slice Slice Reshape "
        "Reshape Scan Slice Slice Add Reshape Reshape ScatterElements Slice Reshape",
    ),
    "no rest": (
        Case((20, 2), (480, 1), (480, 2), (0,), 1, (1,), (0,)),
        "add",
        "i32",
        f"{CLAMPED} Reshape Reshape Mul Reshape Reshape {SPARE} Reshape Reshape Scan Slice Reshape",
    ),
    "window as long as the operand allows": (
        Case((8,), (80, 1), (80, 2), (0,), 1, (1,)),
        "add",
        "i32",
        f"{CLAMPED} Reshape Reshape Reshape {SPARE} Reshape Reshape Scan Slice",
    ),
    "spare rows would be many": (
        Case((9, 2), (70, 1), (70, 3, 2), (0,), 1, (1, 2)),
        "add",
        "i32",
        f"{CLAMPED} Reshape Reshape Mul Reshape Reshape Slice Slice Slice Reshape "
        "Reshape Reshape Scan Slice Slice Slice Add Where Reshape Reshape "
        "ScatterElements Reshape",
    ),
    "windows behind": (
        Case((9, 2), (70, 1), (3, 2, 70), (0,), 1, (0, 1)),
        "maximum",
        "i32",
        f"{CLAMPED} Reshape Transpose Reshape Mul Reshape Reshape Slice Slice Slice "
        "Reshape Reshape Reshape Scan Slice Slice Slice Add Where Reshape Reshape "
        "ScatterElements Relu Relu Reshape ScatterElements IsNaN Where Reshape",
    ),
    "whole operand": (
        Case((3, 5), (33, 0), (33, 3, 5), (), 1, (1, 2)),
        "add",
        "i32",
        "Reshape Expand Slice Slice Reshape Reshape Scan Slice Slice Add Reshape "
        "Reshape ScatterElements Reshape",
    ),
    "two batch axes": (
        Case((30,), (41, 10, 1), (41, 10), (0,), 2, (), (0,)),
        "set",
        "i32",
        f"{CLAMPED} Reshape {SPARE} Slice Slice Reshape Reshape Scan Slice Slice "
        "Reshape Reshape ScatterElements Slice",
    ),
    "kept": (
        Case((30,), (410, 1), (410,), (0,), 1, (), (0,)),
        "keep",
        "i32",
        "Expand Concat Loop Slice",
    ),
}
"""Case, region, type of the indices, and the nodes before any rule."""


@pytest.mark.costly
@pytest.mark.parametrize("name", NODES)
def test_nodes(name: str) -> None:
    case, region, index, nodes = NODES[name]
    run = case.run(region=region, index=index, without=RULE_NAMES)
    assert " ".join(node.op_type for node in run.program.model.graph) == nodes
    found = case.run(region=region, index=index).nodes
    assert found["Scan"] + found["Loop"] == 1  # a Loop if the body reads no row


def test_a_block_has_as_many_rows_as_asked_for() -> None:
    case = rows((20, 2), 500)
    n = numbers(case)
    (scan,) = (
        node
        for node in case.run(region="add").program.model.graph.all_nodes()
        if node.op_type == "Scan"
    )
    count = rows_of_a_block(n, n.windows, COSTS)
    assert [tuple(x.shape or ())[:2] for x in scan.inputs[1:] if x] == [(500 // count, count)] * 2


@pytest.mark.parametrize("element", ["complex<f32>", "i1"])
def test_element_types(element: str) -> None:
    run = rows((3, 2), 41).run(np.arange(41) % 5 - 1, "add", element)
    assert run.nodes["Scan"] == 1


ONE_STAYS = """
module { func.func public @main(%x: tensor<6xf32>, %y: tensor<6xi32>, %i: tensor<90x1xi32>,
    %u: tensor<90xf32>, %v: tensor<90xi32>) -> (tensor<6xf32>, tensor<6xi32>) {
  %0:2 = "stablehlo.scatter"(%x, %y, %i, %u, %v) <{
    scatter_dimension_numbers = #stablehlo.scatter<inserted_window_dims = [0],
      scatter_dims_to_operand_dims = [0], index_vector_dim = 1> }> ({
    ^bb0(%a: tensor<f32>, %b: tensor<i32>, %c: tensor<f32>, %d: tensor<i32>):
      %e = stablehlo.add %b, %d : tensor<i32>
      stablehlo.return %a, %e : tensor<f32>, tensor<i32>
  }) : (tensor<6xf32>, tensor<6xi32>, tensor<90x1xi32>, tensor<90xf32>, tensor<90xi32>)
    -> (tensor<6xf32>, tensor<6xi32>)
  return %0#0, %0#1 : tensor<6xf32>, tensor<6xi32>
} }
"""


def test_an_operand_that_stays_as_it_is() -> None:
    """The runtime returns anything for a state that a Scan's body returns without a node."""
    rng = np.random.default_rng(0)
    x, y = rng.permutation(6).astype(np.float32), np.arange(6, dtype=np.int32)
    indices = rng.integers(-1, 7, (90, 1)).astype(np.int32)
    u, v = rng.permutation(90).astype(np.float32), np.arange(90, dtype=np.int32)
    assert against_xla(ONE_STAYS, x, y, indices, u, v).bit_exact().nodes["Loop"] == 1
