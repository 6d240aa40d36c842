"""dynamic_slice: known and computed starts, inside and outside of the operand."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import jax
import numpy as np
import pytest
from against_xla import Run, against_xla
from edge_values import edge_values
from every_size import every_size
from mlir_text import Start, Starts, tensor
from rule_names import RULE_NAMES
from target_costs import use_costs

from hlo2onnx import translate
from hlo2onnx.frontend.mlir.types import numpy_type


def sliced(
    dims: Sequence[int],
    starts: Sequence[Start],
    sizes: Sequence[int],
    element: str = "f32",
    index: str = "i32",
    **options: Any,
) -> Run:
    at = Starts.of(starts, index, first=1)
    operand, result = tensor(dims, element), tensor(sizes, element)
    text = f"""
    module {{ func.func public @main(%arg0: {operand}{at.parameters}) -> {result} {{
      {at.constants}
      %0 = "stablehlo.dynamic_slice"({", ".join(["%arg0", *at.names])})
        <{{slice_sizes = array<i64{": " if sizes else ""}{", ".join(map(str, sizes))}>}}> :
        ({", ".join([operand, *at.types])}) -> {result}
      return %0 : {result}
    }} }}
    """
    x = np.resize(edge_values(element), int(np.prod(dims))).reshape(dims)
    if element == "f32":
        x = np.arange(x.size, dtype=np.float32).reshape(dims)
    return against_xla(text, x, *at.inputs, **options).bit_exact()


CASES: list[tuple[Sequence[int], Sequence[Start], Sequence[int], list[str]]] = [
    ((7, 3), ("@2", "@0"), (1, 3), ["Clip", "Gather", "Reshape"]),
    ((7, 3), ("@2", 1), (1, 2), ["Slice", "Clip", "Gather", "Reshape"]),
    ((7, 3), ("@9", 0), (4, 3), ["Reshape", "Clip", "Add", "Slice"]),
    ((7, 3), ("@-3", 0), (4, 3), ["Reshape", "Clip", "Add", "Slice"]),
    ((7, 5), ("@2", "@9"), (4, 3), ["Reshape", "Reshape", "Concat", "Max", "Min", "Add", "Slice"]),
    ((7, 5), ("@2", "@1"), (6, 4), ["Reshape", "Reshape", "Concat", "Clip", "Add", "Slice"]),
    ((7, 5), (2, 1), (4, 3), ["Slice"]),
    ((7, 5), (-2, 100), (4, 3), ["Slice"]),
    ((7, 5), (100, 5), (7, 5), ["Identity"]),
    ((7, 5), ("@3", "@3"), (7, 5), ["Identity"]),
    ((7,), ("@-1",), (1,), ["Clip", "Gather", "Reshape"]),
    ((3, 5000), ("@2", 0), (1, 5000), ["Clip", "Gather", "Reshape"]),
    ((), (), (), ["Identity"]),
    ((7, 5), ("@3", "@3"), (0, 2), ["Identity"]),
    ((0, 5), ("@3", "@3"), (0, 2), ["Identity"]),
]


@pytest.mark.parametrize(("dims", "starts", "sizes", "nodes"), CASES)
def test_dynamic_slice(
    dims: Sequence[int], starts: Sequence[Start], sizes: Sequence[int], nodes: list[str]
) -> None:
    sliced(dims, starts, sizes).graph_is(*nodes)


@pytest.mark.costly
@pytest.mark.parametrize(
    "element",
    ["i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "f16", "bf16", "f64",
     "f8E4M3FN", "f8E5M2", "complex<f32>", "complex<f64>"],
)  # fmt: skip
@pytest.mark.parametrize("sizes", [(1, 5), (2, 3)])
def test_element_types(sizes: tuple[int, int], element: str) -> None:
    sliced((7, 5), ("@2", "@1"), sizes, element)


@pytest.mark.costly
@pytest.mark.parametrize("index", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_extreme_starts_are_clamped(index: str) -> None:
    info = np.iinfo(numpy_type(index))
    sliced((7, 5), (f"@{info.max}", f"@{info.min}"), (2, 3), index=index)
    sliced((7, 5), (f"@{info.min}", f"@{info.max}"), (1, 5), index=index)
    if index.startswith("i"):
        sliced((7, 5), (info.max, info.min), (2, 3), index=index)


@pytest.mark.parametrize("index", ["ui8", "ui16", "ui32", "ui64"])
def test_constant_unsigned_starts_are_unsigned(index: str) -> None:
    """XLA takes a start of the type's upper half for a negative one, but only where it is a
    constant: 255 of ui8 is 0 to its folding and 255 when computed. The specification has no such
    difference, so the expected element is written down."""
    top = np.iinfo(numpy_type(index)).max
    program = translate(f"""
    module {{ func.func public @main(%arg0: tensor<300xf32>) -> tensor<1xf32> {{
      %c = stablehlo.constant dense<{top}> : tensor<{index}>
      %0 = stablehlo.dynamic_slice %arg0, %c, sizes = [1] :
        (tensor<300xf32>, tensor<{index}>) -> tensor<1xf32>
      return %0 : tensor<1xf32>
    }} }}
    """)
    assert program(np.arange(300, dtype=np.float32)) == min(top, 299)


def test_proven_starts_are_not_clamped() -> None:
    sliced((300,), ("@255",), (40,), index="ui8").graph_is("Reshape", "Cast", "Add", "Slice")


SINGLE: list[tuple[Sequence[int], Sequence[Start], Sequence[int] | None]] = [
    ((4, 5), ("@2", "@3"), [1, 0]),
    ((5, 4), ("@2", "@3"), [0, 0]),
    ((5, 5), ("@2", "@3"), None),
    ((2, 4, 5), (1, "@2", "@3"), [2, 1]),
    ((5, 6), ("@2", "@3"), None),
    ((4, 5, 3), ("@2", "@3", 0), None),
    ((50, 60), ("@2", 3), [0]),
]
"""Extents, starts, and the axes of the Gathers; None for a Slice."""


@pytest.mark.parametrize(("dims", "starts", "axes"), SINGLE)
def test_single_elements_along_several_axes(
    dims: Sequence[int],
    starts: Sequence[Start],
    axes: Sequence[int] | None,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """The longest axis is taken first: little is then left to copy. Where much is, one Slice
    takes it all."""
    use_costs(monkeypatch, gathered_elements=4)
    sizes = [1 if isinstance(start, str) else 1 + (len(dims) == 3) for start in starts]
    sizes = [min(size, dim - 1) for size, dim in zip(sizes, dims, strict=True)]
    run = sliced(dims, starts, sizes, without=RULE_NAMES)
    gathers = [node for node in run.program.model.graph if node.op_type == "Gather"]
    assert [node.attributes["axis"].as_int() for node in gathers] == (axes or [])


@pytest.mark.parametrize(("sizes", "op_type"), [((1, 1), "Slice"), ((1, 8), "Gather")])
def test_one_row_of_a_symbolic_number(sizes: tuple[int, int], op_type: str) -> None:
    def sliced(x: jax.Array, i: jax.Array) -> jax.Array:
        return jax.lax.dynamic_slice(x, (i[0], i[1]), sizes)

    program = every_size(sliced, "b, 8", "int32[2]", sizes=(1, 4))
    nodes = [node for node in program.model.graph if str(node.inputs[0].name) == "x"]
    assert [node.op_type for node in nodes if node.op_type != "Shape"] == [op_type]
