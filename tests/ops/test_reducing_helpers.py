"""Reducing and sorting by helpers of handlers: what they emit, and where they need less."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted, emitter

from dialect_handlers.common import sorting
from dialect_handlers.common.reductions import first_extreme, halve, has_reducer, reduce_axes
from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.sort_keys import Key, Order, keys_of, permutation, top_k
from hlo2onnx.ir.ranges import RANGE, Range

T = oir.DataType

# -- reductions ---------------------------------------------------------------------------------


def test_reducers() -> None:
    arithmetic = {Combiner.ADD, Combiner.MULTIPLY, Combiner.MINIMUM, Combiner.MAXIMUM}
    logic = {Combiner.AND, Combiner.OR, Combiner.XOR}
    for combiner in [*Combiner, None]:
        assert has_reducer(combiner, T.FLOAT) == (combiner in arithmetic)
        assert has_reducer(combiner, T.BOOL) == (combiner in logic)


@pytest.mark.parametrize("keepdims", [False, True])
@pytest.mark.parametrize(
    ("combiner", "function", "nodes"),
    [
        (Combiner.AND, np.all, ["Cast", "ReduceMin", "Cast"]),
        (Combiner.OR, np.any, ["Cast", "ReduceMax", "Cast"]),
        (Combiner.XOR, np.logical_xor.reduce, ["Cast", "ReduceSum", "BitwiseAnd", "Cast"]),
    ],
)
def test_reducing_booleans(
    combiner: Combiner, function: Any, nodes: list[str], keepdims: bool
) -> None:
    x = np.array([[0, 0, 0, 0], [1, 1, 1, 1], [1, 0, 0, 1], [1, 1, 0, 1]]).astype(bool)
    made = Emitted(lambda em, x: reduce_axes(em, combiner, x, [1], keepdims), {"x": x})
    assert made.nodes == nodes
    np.testing.assert_array_equal(made.results[0], function(x, axis=1, keepdims=keepdims))


@pytest.mark.parametrize("rows", [1, 2, 3, 4, 5, 6, 7, 8, 13])
def test_halving_keeps_the_order(rows: int) -> None:
    """Matrix products are associative and do not commute."""
    x = np.random.default_rng(rows).integers(-2, 3, (rows, 1, 2, 2)).astype(np.float64)

    def build(em: Any, x: oir.Value) -> oir.Value:
        def product(lhs: Any, rhs: Any) -> list[oir.Value]:
            return [em.MatMul(lhs[0], rhs[0])]

        ((result,),) = halve(em, product, [(x,)])
        return result

    made = Emitted(build, {"x": x})
    expected = np.eye(2)
    for matrix in x[:, 0]:
        expected = expected @ matrix
    np.testing.assert_array_equal(made.results[0], expected[None, None])
    steps = (rows - 1).bit_length()
    assert made.nodes.count("MatMul") == steps


NAN = np.array([[1, 3, np.nan, 3], [np.nan, 1, 0, np.nan], [2, -1, 2, -1], [-np.inf, 1, np.inf, 1]])


@pytest.mark.parametrize("nan", ["default", "xla", "runtime"])
@pytest.mark.parametrize("combiner", [Combiner.ARGMAX, Combiner.ARGMIN])
def test_the_first_nan_is_the_extreme(combiner: Combiner, nan: str) -> None:
    x = NAN.astype(np.float32)
    made = Emitted(lambda em, x: first_extreme(em, combiner, x, 1), {"x": x}, nan=nan)
    if nan == "runtime":
        assert made.nodes == ["ArgMax" if combiner == Combiner.ARGMAX else "ArgMin"]
        return
    assert "IsNaN" in made.nodes
    expected = np.argmax(x, 1) if combiner == Combiner.ARGMAX else np.argmin(x, 1)
    np.testing.assert_array_equal(made.results[0], expected)


@pytest.mark.parametrize("combiner", [Combiner.ARGMAX_NAN_UNDEFINED, Combiner.ARGMIN_NAN_UNDEFINED])
def test_no_guard_where_nan_is_undefined(combiner: Combiner) -> None:
    x = np.array([[1, 3, 3], [2, 2, 1]], np.float32)
    made = Emitted(lambda em, x: first_extreme(em, combiner, x, 1), {"x": x})
    largest = combiner == Combiner.ARGMAX_NAN_UNDEFINED
    assert made.nodes == ["ArgMax" if largest else "ArgMin"]
    np.testing.assert_array_equal(made.results[0], (np.argmax if largest else np.argmin)(x, 1))


def test_extremes_of_what_has_no_nan() -> None:
    for x, nodes in (
        (np.array([[0, 1, 1], [0, 0, 0]], bool), ["Cast", "ArgMax"]),
        (np.array([[0, 1, 1], [0, 0, 0]], np.int32), ["ArgMax"]),
    ):
        made = Emitted(lambda em, x: first_extreme(em, Combiner.ARGMAX, x, 1), {"x": x})
        assert made.nodes == nodes
        np.testing.assert_array_equal(made.results[0], np.argmax(x, 1))


# -- keys of sorts ------------------------------------------------------------------------------

FLOATS = np.array([1, np.nan, -0.0, 0.0, np.inf, -np.nan, -np.inf, -1, 6e4], np.float64)


@pytest.mark.parametrize("descending", [False, True])
@pytest.mark.parametrize(
    "x",
    [
        np.array([True, False, True]),
        np.array([2**64 - 1, 0, 2**63, 5], np.uint64),
        np.array([3, -4, 0], np.int32),
        *(FLOATS.astype(dtype) for dtype in (np.float16, np.float32, np.float64)),
    ],
    ids=lambda x: x.dtype.name,
)
def test_keys_sort_numbers(x: np.ndarray, descending: bool) -> None:
    """NaN comes last in the order of numbers, zeros are equal, equals keep their order."""

    def build(em: Any, x: oir.Value) -> oir.Value:
        return permutation(em, keys_of(em, x, Order.NUMBERS, descending), 0, None)

    made = Emitted(build, {"x": x}, nan="xla")
    number = {item: rank for rank, item in enumerate(sorted({v for v in x.tolist() if v == v}))}
    ranks = np.array([number.get(item, len(number)) for item in x.tolist()])
    expected = np.argsort(-ranks if descending else ranks, kind="stable")
    np.testing.assert_array_equal(made.results[0], expected)


def test_keys_in_as_few_nodes_as_there_are() -> None:
    em = emitter()

    def count(dtype: oir.DataType, order: Order, bounds: tuple[int, int] | None = None) -> int:
        before = len(em.graph)
        x = em.value("x", dtype, (3,))
        if bounds is not None:
            x.meta[RANGE] = Range(*bounds)
        keys_of(em, x, order, descending=False)
        return len(em.graph) - before

    assert count(T.INT32, Order.NUMBERS) == 0
    assert count(T.INT8, Order.NUMBERS) == 0
    assert count(T.INT4, Order.NUMBERS) == 1
    assert count(T.UINT64, Order.NUMBERS) == 2
    assert count(T.UINT64, Order.NUMBERS, (0, 2**63 - 1)) == 1
    assert count(T.UINT64, Order.NUMBERS, (0, 2**63)) == 2


def _keys(em: Any, major: oir.Value, minor: oir.Value, descending: tuple[bool, bool]) -> oir.Value:
    keys = [Key(major, descending[0]), Key(minor, descending[1])]
    return permutation(em, keys, 0, None)


@pytest.mark.parametrize("descending", [(a, b) for a in (False, True) for b in (False, True)])
@pytest.mark.parametrize(
    ("major", "minor", "sorts"),
    [
        ((-3, 5), (-2, 4), 1),
        # major * span + span - 1 <= 2^63 - 1, and -2^63 <= low * span
        ((0, 2**32 - 1), (0, 2**31 - 1), 1),
        ((0, 2**32), (0, 2**31 - 1), 2),
        ((-(2**32), 0), (-(2**31), -1), 1),
        ((-(2**32) - 1, -1), (0, 2**31 - 1), 2),
        ((0, 0), (0, 2**63 - 2), 1),
        ((0, 0), (0, 2**63 - 1), 2),
    ],
)
def test_keys_are_joined_where_they_fit(
    major: tuple[int, int], minor: tuple[int, int], sorts: int, descending: tuple[bool, bool]
) -> None:
    grid = [(a, b) for a in (major[1], major[0]) for b in (minor[0], minor[1], minor[0])]
    x = {"major": np.array([a for a, _ in grid]), "minor": np.array([b for _, b in grid])}
    ranges = {"major": major, "minor": minor}
    made = Emitted(lambda em, **v: _keys(em, v["major"], v["minor"], descending), x, ranges=ranges)
    assert made.nodes.count("TopK") == sorts
    signs = [-1 if down else 1 for down in descending]
    order = sorted(range(6), key=lambda at: (signs[0] * grid[at][0], signs[1] * grid[at][1], at))
    np.testing.assert_array_equal(made.results[0], order)


def test_floats_are_not_joined() -> None:
    x = {"major": np.array([1, 0, 1], np.float32), "minor": np.array([1, 2, 0], np.int32)}
    for names in (("major", "minor"), ("minor", "major")):
        made = Emitted(
            lambda em, names=names, **v: _keys(em, v[names[0]], v[names[1]], (False, False)), x
        )
        assert made.nodes.count("TopK") == 2


@pytest.mark.parametrize("k", [1, 2, None])
def test_the_first_of_two_keys(k: int | None) -> None:
    """All elements are sorted by the second key, the first k of them by the first one."""
    x = {"major": np.array([1, 0, 1, 0], np.float32), "minor": np.array([1, 2, 0, 1], np.float32)}

    def build(em: Any, major: oir.Value, minor: oir.Value) -> oir.Value:
        return permutation(em, [Key(major, False), Key(minor, False)], 0, k)

    np.testing.assert_array_equal(Emitted(build, x).results[0], np.array([3, 1, 2, 0])[:k])


@pytest.mark.parametrize("axis", [0, 1])
def test_top_k(axis: int) -> None:
    x = np.array([[3, 1, 2], [1, 5, 4]], np.float32)
    for descending in (False, True):
        made = Emitted(lambda em, x, d=descending: top_k(em, Key(x, d), axis, 2), {"x": x})
        order = np.argsort(-x if descending else x, axis, kind="stable").take([0, 1], axis)
        np.testing.assert_array_equal(made.results[1], order)
        np.testing.assert_array_equal(made.results[0], np.take_along_axis(x, order, axis))


# -- sorting by comparisons ---------------------------------------------------------------------


@pytest.mark.parametrize("axis", [0, 1])
@pytest.mark.parametrize("extent", [1, 2, 3, 5, 8, 13])
@pytest.mark.parametrize("way", [sorting.by_rank, sorting.by_network])
def test_comparators_sort_stably(way: Any, extent: int, axis: int) -> None:
    dims = [extent, 2] if axis == 0 else [2, extent]
    x = np.random.default_rng(extent).integers(0, 4, dims).astype(np.int32)

    def build(em: Any, x: oir.Value) -> oir.Value:
        return way(em, lambda lhs, rhs: [em.Greater(*lhs, *rhs)], [(x,)], dims, axis)

    made = Emitted(build, {"x": x})
    np.testing.assert_array_equal(made.results[0], np.argsort(-x, axis, kind="stable"))


def test_steps_of_the_network_sort_everything() -> None:
    """By the 0-1 principle: all sequences of zeros and ones."""
    for extent in (1, 2, 3, 4, 5, 7, 8, 9):
        every = (np.arange(2**extent)[:, None] >> np.arange(extent)) & 1
        for p, r, d in sorting._steps(extent):
            for i in range(extent - d):
                if i & p == r:
                    low = np.minimum(every[:, i], every[:, i + d])
                    every[:, i + d] = np.maximum(every[:, i], every[:, i + d])
                    every[:, i] = low
        assert (np.diff(every, axis=1) >= 0).all()
        doublings = max(extent - 1, 1).bit_length()
        assert len(sorting._steps(extent)) == doublings * (doublings + 1) // 2


@pytest.mark.parametrize(("extent", "operator"), [(256, "ReduceSum"), (257, "Scan")])
def test_long_axes_are_sorted_by_a_network(extent: int, operator: str) -> None:
    em = emitter()
    x = em.value("x", T.INT32, (extent,))
    sorting.order_by_comparing(em, lambda a, b: [em.Less(*a, *b)], [(x,)], [extent], 0)
    assert operator in [node.op_type for node in em.graph]
