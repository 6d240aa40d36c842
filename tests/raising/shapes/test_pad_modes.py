"""Borders of a tensor's own elements: where they are a mode of Pad, and where they are not."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_jax
from jax import lax
from loop_graphs import CELLS, part, stepped
from rewriting import Rewrite
from symbolic import free

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_ints
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.shapes.pad_modes import DEEPEST, PadModes, is_padded

Value = oir.Value
X = np.arange(3 * 4 * 3, dtype=np.float32).reshape(3, 4, 3)
WIDTHS = [((0, 0), (1, 1), (0, 0)), ((1, 0), (2, 3), (0, 2)), ((0, 0), (0, 0), (2, 1))]


def padded(x: np.ndarray, **options: object) -> hlo2onnx.OnnxProgram:
    """jnp.pad translated, its result compared with JAX's."""
    function = lambda x: jnp.pad(x, **options)  # noqa: E731
    with jax.enable_x64(True):
        program = hlo2onnx.translate(jax.jit(function).lower(x))
        want = np.asarray(jax.jit(function)(x))
    np.testing.assert_array_equal(program(x), want)
    return program


def operators(program: hlo2onnx.OnnxProgram) -> list[str]:
    return [node.op_type for node in program.model_proto.graph.node]


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
@pytest.mark.parametrize("widths", WIDTHS)
@pytest.mark.parametrize("dtype", ["f4", "f8", "f2", "i1", "i4", "i8", "u1", "u8", "?"])
def test_modes(mode: str, widths: tuple[tuple[int, int], ...], dtype: str) -> None:
    if mode == "reflect":
        widths = tuple(
            (min(low, dim - 1), min(high, dim - 1))
            for (low, high), dim in zip(widths, X.shape, strict=True)
        )
    found = operators(padded(X.astype(dtype), pad_width=widths, mode=mode))
    assert found == (["Cast", "Pad", "Cast"] if dtype == "f2" else ["Pad"])


@pytest.mark.parametrize(
    "options",
    [
        {"pad_width": ((0, 0), (2, 2), (0, 0)), "mode": "symmetric"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "reflect", "reflect_type": "odd"},
        {"pad_width": ((0, 0), (2, 1), (0, 0)), "mode": "linear_ramp"},
    ],
)
def test_other_borders(options: dict[str, object]) -> None:
    found = padded(X, **options).model_proto.graph.node
    assert not any(node.op_type == "Pad" and node.attribute for node in found)


def test_wrapped_twice() -> None:
    padded(X, pad_width=((0, 0), (5, 0), (0, 0)), mode="wrap")


def test_types_without_the_kernel() -> None:
    assert "Pad" not in operators(padded(X.astype(ml_dtypes.bfloat16), pad_width=1, mode="edge"))


@pytest.mark.parametrize("mode", ["edge", "reflect", "wrap"])
def test_empty_tensors(mode: str) -> None:
    empty = np.zeros((3, 0), np.float32)
    assert "Pad" not in operators(padded(empty, pad_width=((1, 1), (0, 0)), mode=mode))


@pytest.mark.wide
def test_long_chains() -> None:
    def function(x: jax.Array) -> jax.Array:
        y = x
        for _ in range(1500):
            y = jnp.concatenate([y, x])
        return y

    against_jax(function, np.arange(3, dtype=np.float32)).close()


# -- small graphs ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("mode", "widths", "fits"),
    [("edge", (9, 0), True), ("edge", (0, 9), True), ("reflect", (3, 0), True),
     ("reflect", (0, 3), True), ("reflect", (4, 0), False), ("reflect", (0, 4), False),
     ("wrap", (3, 0), True), ("wrap", (0, 3), True), ("wrap", (4, 0), False),
     ("wrap", (0, 4), False)],
)  # fmt: skip
def test_how_far_a_mode_goes(mode: str, widths: tuple[int, int], fits: bool) -> None:
    core = np.array([7, 3, 5, 1])
    rows = np.pad(core, widths, mode)  # type: ignore[call-overload]
    kept = range(widths[0], widths[0] + 4)
    assert is_padded(rows, kept, mode) == fits
    rows[-1 if widths[1] else 0] += 1
    assert not is_padded(rows, kept, mode)


def _row(b: GraphBuilder, x: Value, low: int, high: int) -> Value:
    return b.slice(x, [low], [high], [1], [1])


def _pad(b: GraphBuilder, x: Value, pads: list[int], mode: str = "edge") -> Value:
    return b.Pad(x, b.i64(pads), mode=mode)


def _cut(b: GraphBuilder, x: Value, *spec: list[int]) -> Value:
    return b.Slice(x, *map(b.i64, spec))


def _one_side(b: GraphBuilder, x: Value) -> Value:
    return b.concat([_row(b, x, 0, 1), x], 1)


def _shared(b: GraphBuilder, x: Value) -> list[Value]:
    low = _row(b, x, 0, 1)
    return [b.concat([low, x], 1), b.Neg(low)]


PADS: dict[str, tuple[Callable[..., Any], list[str], list[int]]] = {
    "one side": (_one_side, [], [0, 1, 0, 0, 0, 0]),
    "along another axis": (
        lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 2, 0]), [3, 0, 0, 0, 0, 1]),
        [], [3, 1, 0, 0, 2, 1],
    ),
    "along one axis": (
        lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 0, 0]), [1, 1, 0, 0, 0, 0]),
        [], [1, 2, 0, 0, 0, 0],
    ),
    "a row counted from the end": (
        lambda b, x: b.Concat(x, _cut(b, x, [-1], [9], [-2]), axis=-2), [], [0, 0, 0, 0, 1, 0],
    ),
    "turned round": (
        lambda b, x: b.Concat(_cut(b, x, [2], [0], [1], [-1]), x, axis=1), [], [0, 2, 0, 0, 0, 0],
    ),
    "a row that is repeated": (
        lambda b, x: b.Concat(b.expand(_row(b, x, 0, 1), (3, 3, 3)), x, axis=1),
        [], [0, 3, 0, 0, 0, 0],
    ),
    "a part that is padded": (
        lambda b, x: b.Concat(_pad(b, x, [0, 1, 0, 0, 0, 0]), _row(b, x, 3, 4), axis=1),
        [], [0, 1, 0, 0, 1, 0],
    ),
    "a part with more rows before it": (
        lambda b, x: b.Concat(_row(b, x, 0, 1), _pad(b, x, [0, 1, 0, 0, 1, 0]), axis=1),
        [], [0, 2, 0, 0, 1, 0],
    ),
    "a border cut from what is padded": (
        lambda b, x: b.Concat(x, _cut(b, _pad(b, x, [0, 0, 0, 0, 2, 0]), [4], [6], [1]), axis=1),
        [], [0, 0, 0, 0, 2, 0],
    ),
    "the first axis": (
        lambda b, x: b.Concat(x, _cut(b, x, [2], [3], [0]), axis=0), [], [0, 0, 0, 1, 0, 0],
    ),
    "around a part": (
        lambda b, x: b.Concat(_row(b, (y := _row(b, x, 1, 3)), 0, 1), y, _row(b, y, 1, 2), axis=1),
        ["Slice"], [0, 1, 0, 0, 1, 0],
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", PADS)
def test_borders_that_become_one_pad(name: str) -> None:
    build, others, pads = PADS[name]
    x = X if name != "around a part" else np.concatenate([X, X], 1)[:, :5]
    rewrite = Rewrite(build, {"x": x}, PadModes())
    rewrite.gives("Pad", *others)
    (node,) = (node for node in rewrite.model.graph if node.op_type == "Pad")
    assert const_ints(node.inputs[1]) == tuple(pads)


STAYS: dict[str, Callable[..., Any]] = {
    "a row that others read": _shared,
    "twice": lambda b, x: b.concat([x, x], 1),
    "the second row": lambda b, x: b.concat([_row(b, x, 1, 2), x, _row(b, x, 3, 4)], 1),
    "another axis": lambda b, x: b.concat([b.slice(x, [0], [4], [1], [1]), x], 0),
    "another tensor": lambda b, x: b.concat([_row(b, b.Neg(x), 0, 1), x], 1),
    "rows alone": lambda b, x: b.concat([_row(b, x, 0, 1), _row(b, x, 0, 1), _row(b, x, 2, 3)], 1),
    "two modes": lambda b, x: _pad(b, _pad(b, x, [0, 1, 0, 0, 1, 0], "wrap"), [1, 0, 0, 0, 0, 0]),
    "wrapped twice": lambda b, x: _pad(
        b, _pad(b, x, [0, 1, 0, 0, 0, 0], "wrap"), [0, 0, 0, 0, 2, 0], "wrap"
    ),
    "zeros": lambda b, x: b.Pad(b.Pad(x, b.i64([0, 1, 0, 0, 1, 0])), b.i64([1, 0, 0, 0, 0, 0])),
    "edges of zeros": lambda b, x: _pad(
        b, b.Pad(x, b.i64([0, 1, 0, 0, 1, 0])), [1, 0, 0, 0, 0, 0]
    ),
    "zeros around edges": lambda b, x: b.Pad(
        _pad(b, x, [0, 1, 0, 0, 1, 0]), b.i64([1, 0, 0, 0, 0, 0])
    ),
    "no Pad inside": lambda b, x: _pad(b, b.Neg(x), [1, 1, 0, 0, 0, 0]),
    "computed pads": lambda b, x: b.op(
        "Pad", _pad(b, x, [0, 1, 0, 0, 0, 0]), b.Abs(b.i64([1, 0, 0, 0, 0, 0])), mode="edge",
        types=[(x.dtype, (4, 5, 3))],
    ),
    "named axes": lambda b, x: b.op(
        "Pad", _pad(b, x, [0, 1, 0, 0, 0, 0]), b.i64([1, 0]), None, b.i64([0]), mode="edge",
        types=[(x.dtype, (4, 5, 3))],
    ),
    "a row of a cut": lambda b, x: b.Concat(_row(b, _row(b, x, 1, 3), 1, 2), x, axis=1),
    "another row at the end": lambda b, x: b.Concat(x, _row(b, x, 1, 2), axis=1),
    "a part without its rows": lambda b, x: b.Concat(_row(b, x, 0, 1), _row(b, x, 0, 3), axis=1),
    "a part padded with zeros": lambda b, x: b.Concat(
        _row(b, x, 0, 1), b.Pad(x, b.i64([0, 1, 0, 0, 0, 0])), axis=1
    ),
    "computed steps": lambda b, x: b.Concat(
        b.op("Slice", x, *map(b.i64, ([0], [1], [1])), b.Abs(b.i64([1])),
             types=[(x.dtype, (3, 1, 3))]),
        x, axis=1,
    ),
    "a single tensor": lambda b, x: b.Concat(x, axis=1),
    "joined along another axis": lambda b, x: b.Concat(
        b.Concat(_row(b, x, 0, 1), _row(b, x, 0, 1), axis=2),
        b.Concat(b.Neg(x), x, axis=2), axis=1,
    ),
    "a border that is the tensor's own": lambda b, x: b.Concat(
        _row(b, x, 1, 2), _row(b, x, 1, 4), axis=1
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", STAYS)
def test_other_parts_stay(name: str) -> None:
    Rewrite(STAYS[name], {"x": X}, PadModes()).nothing()


def test_free_tensors_and_targets_without_the_mode(monkeypatch: pytest.MonkeyPatch) -> None:
    def of_free(b: GraphBuilder, x: Value) -> Value:
        rows = free(b, x, "n", 4, 3)
        row = b.op("Slice", rows, *map(b.i64, ([0], [1], [1])),
                   types=[(x.dtype, (rows.shape[0], 1, 3))])  # fmt: skip
        return b.Concat(row, rows, axis=1)

    asked: list[str] = []
    Rewrite(of_free, {"x": X}, PadModes()).nothing()
    monkeypatch.setattr(Rewriter, "supports", lambda _, key, dtype: asked.append(key))
    Rewrite(_one_side, {"x": X}, PadModes()).nothing()
    assert set(asked) == {"Pad[edge]", "Pad[reflect]", "Pad[wrap]"}


@pytest.mark.parametrize(("opset", "fires"), [(18, False), (19, True)])
def test_the_opset_of_wrap(opset: int, fires: bool) -> None:
    build = lambda b, x: b.Concat(_row(b, x, 2, 4), x, axis=1)  # noqa: E731
    rewrite = Rewrite(build, {"x": X}, PadModes(), opset=opset)
    rewrite.gives("Pad") if fires else rewrite.nothing()


@pytest.mark.parametrize(("count", "fires"), [(DEEPEST - 1, True), (DEEPEST, False)])
def test_how_many_moves_are_followed(count: int, fires: bool) -> None:
    def build(b: GraphBuilder, x: Value) -> Value:
        row = x
        for at in range(count):
            row = _cut(b, row, [0], [max(4 - at, 1)], [1])
        return b.Concat(row, x, axis=1)

    assert bool(Rewrite(build, {"x": X}, PadModes()).fired) == fires


# -- ghost cells: a body writes the border of its state -------------------------------------------


class Body:
    """What a loop over a step becomes, with and without the rule: the same bits; as in XLA."""

    def __init__(self, ghosts: Callable[[Any], Any], x: Any) -> None:
        def function(x: Any, trips: Any) -> Any:
            return lax.fori_loop(0, trips, lambda _, x: -ghosts(x), x)

        args = (jnp.asarray(x), np.int32(3))
        lowered = jax.jit(function).lower(*args)
        program = hlo2onnx.translate(lowered)
        plain = hlo2onnx.translate(lowered, without={"scatter-to-pad"})
        assert program.verify(*args).ok
        bits = [np.asarray(run(*args)).tobytes() for run in (program, plain)]
        assert bits[0] == bits[1]
        self.fired = program.report.rules["pad-modes"]
        (loop,) = (node for node in program.model.graph if node.op_type == "Loop")
        nodes = list(loop.attributes["body"].as_graph())
        self.ops = {node.op_type for node in nodes}
        self.modes = [
            node.attributes.get_string("mode", "constant")
            for node in nodes
            if node.op_type == "Pad"
        ]


STATE = np.random.default_rng(0).normal(size=(6, 9)).astype(np.float32)
STATE[2, 3], STATE[3, 2] = np.nan, -0.0


def rim(x: Any) -> Any:
    """Borders of one cell along both axes."""
    x = x.at[0].set(x[1]).at[-1].set(x[-2])
    return x.at[:, 0].set(x[:, 1]).at[:, -1].set(x[:, -2])


GHOSTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "open-ends": (lambda x: x.at[:, :2].set(x[:, 2:3]).at[:, -2:].set(x[:, -3:-2]), "edge"),
    "one-end": (lambda x: x.at[:, -3:].set(x[:, -4:-3]), "edge"),
    "walls": (
        lambda x: x.at[:, :2].set(x[:, 4:2:-1]).at[:, -2:].set(x[:, -4:-6:-1]),
        "reflect",
    ),
    "around": (lambda x: x.at[:, :2].set(x[:, -4:-2]).at[:, -2:].set(x[:, 2:4]), "wrap"),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.float16, jnp.bfloat16, np.int8])
@pytest.mark.parametrize("name", GHOSTS)
def test_ghost_cells(name: str, dtype: Any) -> None:
    ghosts, mode = GHOSTS[name]
    with jax.enable_x64(True):
        body = Body(
            ghosts, STATE if dtype == np.float32 else np.nan_to_num(STATE * 9).astype(dtype)
        )
    if dtype == np.float32:
        assert body.modes == [mode] and not body.ops & {"ScatterND", "Expand"}


@pytest.mark.parametrize("other", [lambda x: x[:, 2:4], lambda x: jnp.sin(x[:, 2:4])])
def test_another_mode_on_the_other_side(other: Callable[[Any], Any]) -> None:
    step = lambda x: x.at[:, :2].set(x[:, 2:3]).at[:, -2:].set(other(x))  # noqa: E731
    assert Body(step, STATE).modes == ["edge"]


def test_both_axes() -> None:
    Body(rim, STATE)
    Body(lambda x: rim(x.T).T, STATE)


OTHERS: dict[str, tuple[Callable[[Any], Any], np.ndarray]] = {
    "negative": (lambda x: x.at[:, :2].set(-x[:, 2:3]).at[:, -2:].set(-x[:, -3:-2]), STATE),
    "some-rows": (
        lambda x: x.at[1:4, :2].set(x[1:4, 2:3]).at[1:4, -2:].set(x[1:4, -3:-2]),
        STATE,
    ),
    "within": (lambda x: x.at[:, 3:5].set(x[:, 2:3]), STATE),
    "of-rows-turned-round": (lambda x: x.at[:, :2].set(x[::-1, 2:3]), STATE),
    "added": (lambda x: x.at[:, :2].add(x[:, 2:3]), STATE),
    "from-the-other-end": (lambda x: x.at[:, :2].set(x[:, -1:]), STATE),
    "rolled": (lambda x: jnp.concatenate([x[:, 5:], x[:, :5]], 1), STATE),
    "empty": (lambda x: jnp.concatenate([x[:, 5:], x[:, :5]], 1), STATE[:0]),
    "large": (GHOSTS["open-ends"][0], np.zeros((60, 900), np.float32)),
}


@pytest.mark.parametrize("name", OTHERS)
def test_other_bodies_stay(name: str) -> None:
    assert Body(*OTHERS[name]).fired == 0


def test_outside_of_loops_they_stay() -> None:
    program = hlo2onnx.translate(jax.jit(GHOSTS["open-ends"][0]).lower(STATE))
    assert (program.report.rules["pad-modes"], program.verify(STATE).ok) == (0, True)


def open_ends(b: GraphBuilder, x: Value) -> Value:
    low, high = b.expand(part(b, x, 2, 3), (6, 2)), b.expand(part(b, x, 6, 7), (6, 2))
    return b.concat([low, part(b, x, 2, 7), high], 1)


def written(low: int, high: int, source: int, **options: Any) -> Callable[..., Value]:
    """Columns low to high become column `source`."""

    def step(b: GraphBuilder, x: Value) -> Value:
        rows, columns = np.meshgrid(np.arange(6), np.arange(low, high), indexing="ij")
        places = b.const(np.stack([rows, columns], -1).astype(np.int64))
        new = b.expand(part(b, x, source, source + 1), (6, high - low))
        made: Value = b.op("ScatterND", x, places, new, **options)
        return made

    return step


STEPS: dict[str, tuple[Callable[..., Value], str]] = {
    "joined": (open_ends, "edge"),
    "reshaped": (
        lambda b, x: b.concat(
            [b.reshape(b.reshape(part(b, x, 1, 2), (6,)), (6, 1)), part(b, x, 1, 9)], 1
        ),
        "edge",
    ),
    "turned": (
        lambda b, x: b.transpose(
            b.concat([(t := b.transpose(x, [1, 0])) and part(b, t, 1, 2, axis=0),
                      part(b, t, 1, 9, axis=0)], 0), [1, 0]),
        "",
    ),
    "moved-within": (
        lambda b, x: b.concat([part(b, x, 0, 3), part(b, x, 2, 3), part(b, x, 4, 9)], 1), "",
    ),
    "written": (written(0, 2, 2), "edge"),
    "written-at-the-end": (written(6, 9, 5), "edge"),
    "written-from-elsewhere": (written(0, 2, 3), ""),
    "summed": (written(0, 2, 2, reduction="add"), ""),
}  # fmt: skip


@pytest.mark.parametrize("name", STEPS)
def test_steps_of_ghost_cells(name: str) -> None:
    step, mode = STEPS[name]
    run = stepped(step, CELLS, PadModes())
    pads = [n.attributes["mode"].as_string() for n in run.model.graph.all_nodes()
            if n.op_type == "Pad"]  # fmt: skip
    assert pads == [mode] * bool(mode) and bool(run.fired) == bool(mode)
    assert not mode or +run.inside == {"Pad": 1, "Slice": 1}


@pytest.mark.parametrize(("columns", "fires"), [(128, True), (129, False)])
def test_large_tensors_have_no_ghost_cells(columns: int, fires: bool) -> None:
    x = np.arange(128 * columns, dtype=np.float32).reshape(128, columns)
    step = lambda b, x: b.concat(  # noqa: E731
        [b.Identity(part(b, x, 1, 2)), part(b, x, 1, columns)], 1
    )
    assert bool(stepped(step, x, PadModes()).fired) == fires
