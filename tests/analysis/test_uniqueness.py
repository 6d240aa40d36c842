"""Which values are known, and which indices are provably different from each other."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.ir.builder import GraphBuilder

Build = Callable[[GraphBuilder, oir.Value], oir.Value]


def made(build: Build, dims: tuple[int, ...] = (4, 1)) -> oir.Value:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    builder = GraphBuilder(graph, 23)
    return build(builder, builder.value("x", oir.DataType.INT64, dims))


def jax_normalised(b: GraphBuilder, index: oir.Value) -> oir.Value:
    return b.Where(b.Less(index, b.i64(0)), b.Add(index, b.i64(9)), index)


def counted(b: GraphBuilder, count: int = 100_000) -> oir.Value:
    return b.Range(b.i64(0), b.i64(count), b.i64(1))


KNOWN: dict[str, tuple[Build, list[int]]] = {
    "normalised": (lambda b, x: jax_normalised(b, b.i64([-1, 3, -9])), [8, 3, 0]),
    "moved": (lambda b, x: b.reshape(b.expand(b.i64([[1], [2]]), [2, 2]), [4]), [1, 1, 2, 2]),
    "joined": (lambda b, x: b.concat([b.i64([4]), b.Max(b.i64([1, 5]), b.i64(2))], 0), [4, 2, 5]),
    "wrapped": (lambda b, x: b.cast(b.i64([300]), oir.DataType.UINT8), [44]),
}


@pytest.mark.parametrize("name", KNOWN)
def test_known_elements(name: str) -> None:
    build, elements = KNOWN[name]
    found = Facts().elements(made(build))
    assert found is not None
    np.testing.assert_array_equal(found, elements)


def test_inputs_and_large_values_are_not_known() -> None:
    assert Facts().elements(made(lambda b, x: b.Add(x, b.i64(1)))) is None
    assert Facts().elements(made(lambda b, x: b.expand(b.i64(1), [100_000]))) is None


DISTINCT: dict[str, Build] = {
    "one_row": lambda b, x: b.reshape(x, [1, 4]),
    "no_rows": lambda b, x: b.i64(np.zeros((0, 2))),
    "constant": lambda b, x: b.i64([[3], [1], [2]]),
    "rows": lambda b, x: b.i64([[0, 1], [1, 0], [1, 1]]),
    "range": lambda b, x: b.reshape(counted(b), [100_000, 1]),
    "shifted": lambda b, x: b.reshape(b.Sub(b.i64(7), counted(b)), [100_000, 1]),
    "normalised": lambda b, x: b.reshape(jax_normalised(b, counted(b)), [100_000, 1]),
    "narrowed": lambda b, x: b.cast(
        b.reshape(counted(b, 70_000), [70_000, 1]), oir.DataType.INT32
    ),
    "one_column": lambda b, x: b.concat([x, b.i64([[0], [1], [2], [3]])], 1),
    "top_k": lambda b, x: b.reshape(
        b.outputs("TopK", b.reshape(x, [4]), b.i64([3]), n_outputs=2)[1], [3, 1]
    ),
}  # fmt: skip
NOT_PROVEN: dict[str, Build] = {
    "input": lambda b, x: x,
    "constant": lambda b, x: b.i64([[3], [1], [3]]),
    "no_columns": lambda b, x: b.i64(np.zeros((3, 0))),
    "rows": lambda b, x: b.i64([[0, 1], [1, 0], [0, 1]]),
    "repeated": lambda b, x: b.reshape(
        b.expand(b.reshape(counted(b), [100_000, 1]), [100_000, 2]), [200_000, 1]
    ),
    "narrowed": lambda b, x: b.cast(b.reshape(counted(b), [100_000, 1]), oir.DataType.INT16),
    "scaled": lambda b, x: b.reshape(b.Mul(counted(b), b.i64(1 << 62)), [100_000, 1]),
    "sum": lambda b, x: b.reshape(b.Add(counted(b), counted(b)), [100_000, 1]),
    "columns": lambda b, x: b.concat([x, x], 1),
    "top_k_of_rows": lambda b, x: b.reshape(
        b.outputs("TopK", b.reshape(x, [2, 2]), b.i64([1]), n_outputs=2)[1], [2, 1]
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", DISTINCT)
def test_distinct_rows(name: str) -> None:
    assert Facts().distinct_rows(made(DISTINCT[name]))


@pytest.mark.parametrize("name", NOT_PROVEN)
def test_rows_that_may_be_equal(name: str) -> None:
    assert not Facts().distinct_rows(made(NOT_PROVEN[name]))


def test_a_decided_comparison_narrows_the_range() -> None:
    facts = Facts()
    known = facts.int_range(made(lambda b, x: jax_normalised(b, counted(b))))
    assert known is not None and known.within(0, 99_999)
    unknown = facts.int_range(made(jax_normalised))
    assert unknown is not None and unknown.low < 0
