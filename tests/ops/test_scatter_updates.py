"""Combining updates with a tensor's elements: each way alone, before any rule."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from emitting import Emitted

from dialect_handlers.common.regions import Combiner
from dialect_handlers.common.scatter_updates import (
    Region,
    scatter_in_order,
    scatter_last,
    scatter_rows,
    with_spare_rows,
)
from hlo2onnx.ir.dims import symbol
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

B, N = symbol("b", positive=True), symbol("n", positive=False)

REGIONS: dict[str, tuple[Combiner, str, Callable[[Any, Any], Any]]] = {
    "add": (Combiner.ADD, "Add", lambda x, y: x + y),
    "multiply": (Combiner.MULTIPLY, "Mul", lambda x, y: x * y),
    "minimum": (Combiner.MINIMUM, "Min", min),
    "maximum": (Combiner.MAXIMUM, "Max", max),
    "and": (Combiner.AND, "And", lambda x, y: x and y),
    "or": (Combiner.OR, "Or", lambda x, y: x or y),
    "xor": (Combiner.XOR, "Xor", lambda x, y: x != y),
    "set": (Combiner.RHS, "", lambda x, y: y),
    "keep": (Combiner.LHS, "", lambda x, y: x),
}


def region(em: Emitter, name: str) -> Region:
    combiner, op_type, _ = REGIONS[name]

    def function(old: Sequence[oir.Value], new: Sequence[oir.Value]) -> list[oir.Value]:
        if not op_type:
            return list(new if combiner == Combiner.RHS else old)
        return [em.op(op_type, *pair) for pair in zip(old, new, strict=True)]

    return Region(function, [combiner])


def combined(name: str, x: Any, index: Any, updates: Any, valid: Any = None) -> np.ndarray:
    """One update after the other."""
    result = np.array(x)
    valid = np.full(np.shape(index), True) if valid is None else valid
    for row, update, counts in zip(index, updates, valid, strict=True):
        if counts:
            for place in np.ndindex(*result.shape[1:]):
                old, new = result[(row, *place)], np.asarray(update)[place]
                result[(row, *place)] = REGIONS[name][2](old, new)
    return result


INDEX = np.array([0, 3, 1, 3, 0, 2])
VALID = np.array([True, True, False, True, True, False])
GUARD = "Relu Relu ScatterElements IsNaN Where"
SPARE = "Where Expand Concat"
IN_ORDER: list[tuple[str, str, bool, int, str]] = [
    ("add", "f4", False, 5, "ScatterElements"),
    ("add", "f4", True, 7, "Where ScatterElements"),
    ("multiply", "i4", True, 7, "Where ScatterElements"),
    ("maximum", "i4", False, 5, "ScatterElements"),
    ("maximum", "f4", False, 5, f"ScatterElements {GUARD}"),
    ("minimum", "f4", True, 7, f"Where ScatterElements {GUARD}"),
    ("set", "f4", False, 5, "ScatterElements"),
    # a spare element takes what does not count, up to as many elements as updates
    ("add", "f4", True, 6, f"{SPARE} ScatterElements Slice"),
    ("minimum", "f4", True, 6, f"{SPARE} ScatterElements {GUARD} Slice"),
    ("set", "f4", True, 5, f"{SPARE} ScatterElements Slice"),
    ("set", "f4", True, 6, f"{SPARE} ScatterElements Slice"),
    ("set", "f4", True, 7, "Compress Compress ScatterElements"),
    ("keep", "f4", True, 7, ""),
    ("and", "?", False, 5, "Cast Cast ScatterElements Cast"),
    ("or", "?", True, 6, f"{SPARE} Cast Cast ScatterElements Cast Slice"),
    ("xor", "?", True, 5, f"{SPARE} Cast Cast ScatterElements BitwiseAnd Cast Slice"),
]


def elements(count: int, kind: str, seed: int) -> np.ndarray:
    if kind == "?":
        return np.random.default_rng(seed).integers(0, 2, count).astype(bool)
    return np.random.default_rng(seed).permutation(count).astype(kind) - 2


@pytest.mark.parametrize(("name", "kind", "some", "size", "nodes"), IN_ORDER)
def test_in_order(name: str, kind: str, some: bool, size: int, nodes: str) -> None:
    x, updates = elements(size, kind, 0), elements(6, kind, 1)
    inputs = {"x": x, "i": INDEX, "u": updates, "v": VALID}

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value, v: oir.Value) -> Parts:
        return scatter_in_order(
            em, region(em, name), [(x,)], i, [(u,)], v if some else None, trips=6
        )[0]

    made = Emitted(build, inputs)
    assert " ".join(made.nodes) == nodes
    made.gives(combined(name, x, INDEX, updates, VALID if some else None))


@pytest.mark.parametrize("name", ["minimum", "maximum"])
@pytest.mark.parametrize("nan_in", ["x", "updates"])
def test_extremes_are_guarded_where_there_may_be_nan(name: str, nan_in: str) -> None:
    """Numbers that were integers are no NaN, on both sides."""
    plain = np.array([1, 2, 3, 4], np.int32)
    inputs = {"a": plain, "b": plain.astype(np.float32), "i": np.array([0, 0, 1, 3])}

    def build(em: Emitter, a: oir.Value, b: oir.Value, i: oir.Value) -> list[oir.Value]:
        safe = em.cast(a, oir.DataType.FLOAT)
        sides = [(b, safe), (safe, b), (safe, safe)]
        made = []
        for x, u in (sides[nan_in == "updates"], sides[2]):
            before = len(list(em.main_graph))
            made += scatter_in_order(em, region(em, name), [(x,)], i, [(u,)], None, trips=4)[0]
            guards = [node.op_type for node in list(em.main_graph)[before:]].count("IsNaN")
            assert guards == (x is not u)
        return made

    Emitted(build, inputs)


@pytest.mark.parametrize("name", ["add", "maximum", "xor"])
def test_no_element_may_be_there(name: str) -> None:
    """One more takes what does not count; nothing is asked for where all count."""
    kind = "?" if name == "xor" else "i4"
    for count, some in ((0, True), (4, True), (4, False)):
        x = elements(count, kind, 0)
        valid = np.zeros(6, bool) if count == 0 else VALID
        inputs = {"x": x, "i": INDEX, "u": elements(6, kind, 1), "v": valid}

        def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value, v: oir.Value) -> Parts:
            given = v if some else None  # noqa: B023
            return scatter_in_order(em, region(em, name), [(x,)], i, [(u,)], given, trips=6)[0]

        made = Emitted(build, inputs, {"x": [N]})
        assert ("Concat" in made.nodes) == some
        index = np.zeros(6, int) if count == 0 else INDEX
        made.gives(combined(name, x, index, inputs["u"], valid if some else None))


@pytest.mark.parametrize("trips", [6, 3, 1])
@pytest.mark.parametrize("some", [False, True])
def test_one_by_one(trips: int, some: bool) -> None:
    """A Loop over equal parts of the updates: within a part no two meet."""
    index = np.array([0, 3, 1, 3, 0, 2]) if trips > 1 else np.array([5, 4, 3, 2, 1, 0])
    x, updates = elements(6, "f4", 0), elements(6, "f4", 1)

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value, v: oir.Value) -> Parts:
        def function(old: Sequence[oir.Value], new: Sequence[oir.Value]) -> list[oir.Value]:
            return [em.Add(em.Add(*old, *old), *new)]

        valid = v if some else None
        return scatter_in_order(
            em, Region(function, [None]), [(x,)], i, [(u,)], valid, trips=trips
        )[0]

    made = Emitted(build, {"x": x, "i": index, "u": updates, "v": VALID})
    assert made.nodes.count("Loop") == 1
    result = x.copy()
    for row, update, counts in zip(index, updates, VALID, strict=True):
        if counts or not some:
            result[row] = 2 * result[row] + update
    made.gives(result)


ROWS: list[tuple[str, str, bool, int, str]] = [
    ("add", "f4", False, 5, "ScatterND"),
    ("set", "f4", False, 5, "ScatterND"),
    ("keep", "f4", True, 5, ""),
    ("maximum", "i4", False, 5, "ScatterND"),
    ("maximum", "f4", False, 5, "GatherND Max ScatterND"),
    ("minimum", "f4", True, 5, "Unsqueeze Where Expand Concat GatherND Min ScatterND Slice"),
    ("and", "?", False, 5, "GatherND And ScatterND"),
    # updates are filtered where the operand has more elements than they have
    ("add", "f4", True, 4, "Unsqueeze Where Expand Concat ScatterND Slice"),
    ("add", "f4", True, 5, "Compress Compress ScatterND"),
    ("set", "f4", True, 5, "Compress Compress ScatterND"),
]


@pytest.mark.parametrize(("name", "kind", "some", "size", "nodes"), ROWS)
def test_rows(name: str, kind: str, some: bool, size: int, nodes: str) -> None:
    x, updates = elements(size * 2, kind, 0).reshape(size, 2), elements(8, kind, 1).reshape(4, 2)
    index, valid = np.array([0, 3, 1, 2]), VALID[:4]
    inputs = {"x": x, "i": index[:, None], "u": updates, "v": valid}

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value, v: oir.Value) -> Parts:
        return scatter_rows(em, region(em, name), [(x,)], i, [(u,)], v if some else None)[0]

    made = Emitted(build, inputs)
    if name != "keep":
        assert " ".join(made.nodes) == nodes
    made.gives(combined(name, x, index, updates, valid if some else None))


@pytest.mark.parametrize(
    "names", [("keep", "minimum"), ("add", "keep"), ("set", "add"), ("add", "maximum")]
)
def test_rows_of_two_operands(names: tuple[str, str]) -> None:
    x, updates = elements(5, "f4", 0), elements(4, "f4", 1)
    index = np.array([0, 3, 1, 2])

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> list[oir.Value]:
        each = [region(em, name) for name in names]

        def function(*parts: Sequence[oir.Value]) -> list[oir.Value]:
            pairs = zip(each, parts[:2], parts[2:], strict=True)
            return [part for one, old, new in pairs for part in one.function(old, new)]

        both = Region(function, [one.combiners[0] for one in each])
        results = scatter_rows(em, both, [(x,), (x,)], i, [(u,), (u,)], None)
        return [part for parts in results for part in parts]

    made = Emitted(build, {"x": x, "i": index[:, None], "u": updates})
    made.gives(*(combined(name, x, index, updates) for name in names))


@pytest.mark.parametrize("some", [False, True])
@pytest.mark.parametrize("size", [1, 4, 9])
@pytest.mark.parametrize("rows", ["static", "symbolic"])
def test_the_last_row(some: bool, size: int, rows: str) -> None:
    """Few rows are gathered twice. The sign of a zero stays."""
    x, updates = elements(2 * size, "f4", 0).reshape(size, 2), np.full((6, 2), -0.0, np.float32)
    updates[:, 1] = np.arange(6)
    inputs = {"x": x, "i": INDEX % size, "u": updates, "v": VALID}

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value, v: oir.Value) -> Parts:
        return scatter_last(em, region(em, "set"), [(x,)], i, [(u,)], v if some else None)[0]

    made = Emitted(build, inputs, {"x": [N, 2]} if rows == "symbolic" else None)
    expected = combined("set", x, INDEX % size, updates, VALID if some else None)
    (found,) = made.results
    assert found.tobytes() == expected.tobytes()
    assert made.nodes.count("Gather") == (2 if size == 1 and rows == "static" else 1)


def test_no_row_may_be_there() -> None:
    """What does not count goes to a row of its own."""
    inputs = {"x": np.zeros((0, 2), "f4"), "i": np.zeros(3, int), "u": np.ones((3, 2), "f4")}

    def build(em: Emitter, x: oir.Value, i: oir.Value, u: oir.Value) -> Parts:
        valid = em.const(np.zeros(3, bool))
        return scatter_last(em, region(em, "set"), [(x,)], i, [(u,)], valid)[0]

    assert Emitted(build, inputs, {"x": [N, 2]}).results[0].shape == (0, 2)


@pytest.mark.parametrize("axes", [1, 2])
def test_spare_rows(axes: int) -> None:
    x = np.arange(6, dtype=np.float32).reshape(3, 2)
    dims = (4, 2) if axes == 1 else (4, 3)
    made = Emitted(lambda em, x: with_spare_rows(em, x, axes), {"x": x})
    assert made.nodes == (["Expand", "Concat"] if axes == 1 else ["Pad"])
    np.testing.assert_array_equal(made.results[0][:3, :2], x)
    assert made.outputs[0].shape == dims
    same = Emitted(
        lambda em: with_spare_rows(em, em.expand(em.scalar(7, oir.DataType.FLOAT), [3, 2]), axes)
    )
    assert same.nodes[-1] == "Expand"
    same.gives(np.full(dims, 7, np.float32))
