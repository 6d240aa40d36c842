"""Integers in a runtime that rounds some of them to f32: exact detours, for openvino's table.

The operators are standard ones: ONNX Runtime runs them, and OpenVINO where it is installed.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import jax
import numpy as np
import onnx_ir as oir
import pytest
from edge_values import near_powers
from rewriting import model_of

from hlo2onnx import TranslationError, translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.report import Report
from hlo2onnx.runtime.adapters.installed import Name
from hlo2onnx.runtime.adapters.process import Runtime, array_of, tensor_of
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import load_target
from hlo2onnx.targets.decompositions.order import LONGEST
from hlo2onnx.targets.legalize import legalize
from tools.probe.environments import CACHE, start
from tools.probe.value_trials import trials_of

T = oir.DataType
Build = Callable[..., oir.Value]

numbers = partial(near_powers, [0, 7, 8, 15, 16, 23, 24, 25, 30, 31])


def pairs(dtype: type) -> tuple[np.ndarray, np.ndarray]:
    """Operands, many of them equal or neighbours."""
    x, y = numbers(dtype, 67, 29), numbers(dtype, 67, 29, seed=1)
    kind = np.random.default_rng(2).integers(5, size=x.shape)
    with np.errstate(over="ignore"):
        return x, np.select([kind == 0, kind == 1], [x, x + dtype(1)], y)


def quotient(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    whole = [abs(int(a)) // abs(int(b)) * (1 if (a < 0) == (b < 0) else -1)
             for a, b in zip(x.flat, y.flat, strict=True)]  # fmt: skip
    return np.array(whole, np.int64).astype(x.dtype).reshape(x.shape)


def legalized(build: Build, *arrays: np.ndarray, opset: int = 21) -> oir.Model:
    model = model_of(build, dict(zip("xyz", arrays, strict=False)), opset)
    legalize(model, load_target("openvino"), "xla", Report())
    check_model(oir.to_proto(model))
    return model


class Case:
    """A graph of one operator, its operands and its results."""

    def __init__(self, build: Build, *arrays: np.ndarray, right: np.ndarray) -> None:
        self.build, self.arrays, self.right = build, arrays, right


def cases() -> Iterator[tuple[str, Case]]:
    for dtype in (np.int32, np.uint32):
        name = np.dtype(dtype).name
        x, y = pairs(dtype)
        few = np.where(y == 0, dtype(3), y)
        yield from ((f"{op} {name}", case) for op, case in order(x, y))
        for op, divisor in (("large", few), ("small", few % dtype(97) + (few % dtype(97) == 0))):
            yield f"Div {op} {name}", Case(divide, x, divisor, right=quotient(x, divisor))
        yield f"Mod {name}", Case(lambda b, x, y: b.Mod(x, y), x, few, right=np.mod(x, few))
        rest = np.fmod(x, few)
        yield f"fmod {name}", Case(lambda b, x, y: b.Mod(x, y, fmod=1), x, few, right=rest)
        left, right = numbers(dtype, 5, 7), numbers(dtype, 7, 3, seed=5)
        product = left @ right
        yield f"MatMul {name}", Case(lambda b, x, y: b.MatMul(x, y), left, right, right=product)
        yield f"bool {name}", Case(lambda b, x: b.cast(x, T.BOOL), x, right=x != 0)
        yield f"float {name}", Case(lambda b, x: b.cast(x, T.FLOAT), x, right=x.astype(np.float32))
        fill = dtype(123456789)
        border = np.pad(x, ((1, 2), (0, 1)), constant_values=fill)
        yield (
            f"Pad {name}",
            Case(
                lambda b, x: b.Pad(x, b.i64([1, 0, 2, 1]), b.scalar_like(123456789, x)),
                x,
                right=border,
            ),
        )
    yield from scatters()
    yield from halves()
    yield from shifts(numbers(np.uint32, 67, 29))
    floats = np.array([0, 1.5, 2**24 + 2, 2**31 - 128, 2**31, 3e9, 2**32 - 256], np.float32)
    whole = floats.astype(np.int64).astype(np.uint32)
    yield "u32 of floats", Case(lambda b, x: b.cast(x, T.UINT32), floats, right=whole)
    special = np.array([0, -0.0, np.nan, np.inf, 1e-40, -3], np.float32)
    yield (
        "bool of floats",
        Case(lambda b, x: b.cast(x, T.BOOL), special, right=special.astype(np.float64) != 0),
    )
    x = numbers(np.uint32, 67)
    mask = 0xF00000F1
    yield (
        "And a large constant",
        Case(lambda b, x: b.BitwiseAnd(x, b.scalar_like(mask, x)), x, right=x & np.uint32(mask)),
    )
    yield "Where of large constants", Case(
        lambda b, x: b.Where(b.Less(x, b.scalar_like(mask, x)), b.scalar_like(mask, x), x),
        x, right=np.maximum(x, np.uint32(mask)),
    )  # fmt: skip


def halves() -> Iterator[tuple[str, Case]]:
    """Integers of 16 bits wrap around wherever they are read."""
    for dtype, kind in ((np.int16, T.INT16), (np.uint16, T.UINT16)):
        name = np.dtype(dtype).name
        x, y = numbers(dtype, 67), numbers(dtype, 67, seed=1)
        for op, function in {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract}.items():
            right = function(x, y).astype(np.int32)
            yield (
                f"{op} {name}",
                Case(lambda b, x, y, op=op: b.cast(b.op(op, x, y), T.INT32), x, y, right=right),
            )
        wide = numbers(np.int32, 67)
        yield f"{name} of i32", Case(
            lambda b, x, kind=kind: b.cast(b.cast(x, kind), T.INT32),
            wide, right=wide.astype(dtype).astype(np.int32),
        )  # fmt: skip
    other = x.astype(np.int16).astype(np.int32)
    yield "i16 of u16", Case(lambda b, x: b.cast(b.cast(x, T.INT16), T.INT32), x, right=other)
    four = np.uint16(4)
    yield "LEFT 4 u16", Case(
        lambda b, x: b.cast(b.BitShift(x, b.scalar_like(4, x), direction="LEFT"), T.INT32),
        x, right=(x << four).astype(np.int32),
    )  # fmt: skip


def scatters() -> Iterator[tuple[str, Case]]:
    x, updates = numbers(np.uint32, 67), numbers(np.uint32, 9, seed=1)
    places = np.arange(0, 63, 7)
    functions = {"add": np.add, "mul": np.multiply, "max": np.maximum, "min": np.minimum}
    for reduction, function in functions.items():
        right = x.copy()
        right[places] = function(x[places], updates)
        yield f"Scatter {reduction}", Case(
            lambda b, x, y, way=reduction: b.ScatterElements(x, b.const(places), y, reduction=way),
            x, updates, right=right,
        )  # fmt: skip


def divide(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.Div(x, y)


def order(x: np.ndarray, y: np.ndarray) -> Iterator[tuple[str, Case]]:
    """Operators that depend on the order of numbers."""
    binary = {
        "Equal": np.equal, "Less": np.less, "LessOrEqual": np.less_equal, "Greater": np.greater,
        "GreaterOrEqual": np.greater_equal, "Max": np.maximum, "Min": np.minimum,
    }  # fmt: skip
    for op, function in binary.items():
        yield op, Case(lambda b, x, y, op=op: b.op(op, x, y), x, y, right=function(x, y))
        five = function(x, x.dtype.type(5))
        yield f"{op} 5", Case(lambda b, x, op=op: b.op(op, x, b.scalar_like(5, x)), x, right=five)
    for axis in (0, 1):
        for op, fold in {"ReduceMax": np.max, "ReduceMin": np.min, "ReduceSum": np.sum}.items():
            kind = {"dtype": x.dtype} if op == "ReduceSum" else {}
            yield f"{op} {axis}", Case(
                lambda b, x, op=op, axis=axis: b.op(op, x, b.i64([axis]), keepdims=0),
                x, right=fold(x, axis, **kind),
            )  # fmt: skip
        for op, find in {"ArgMax": np.argmax, "ArgMin": np.argmin}.items():
            yield f"{op} {axis}", Case(
                lambda b, x, op=op, axis=axis: b.op(op, x, axis=axis, keepdims=0),
                x, right=find(x, axis),
            )  # fmt: skip
    yield "Sign", Case(lambda b, x: b.Sign(x), x, right=np.sign(x))
    yield "Abs", Case(lambda b, x: b.Abs(x), x, right=np.abs(x))
    low, high = x.dtype.type(100000001), x.dtype.type(2**30 + 5)
    yield "Clip", Case(
        lambda b, x: b.Clip(x, b.scalar_like(int(low), x), b.scalar_like(int(high), x)),
        x, right=np.clip(x, low, high),
    )  # fmt: skip
    for descending in (0, 1):
        ranks = np.unique(x, return_inverse=True)[1].reshape(x.shape)
        places = np.argsort(-ranks if descending else ranks, 1, kind="stable")[:, :9]
        yield f"TopK {descending}", Case(
            lambda b, x, way=descending: b.outputs(
                "TopK", x, b.i64([9]), axis=1, largest=way, n_outputs=2
            )[1],
            x, right=places,
        )  # fmt: skip


def shifts(x: np.ndarray) -> Iterator[tuple[str, Case]]:
    anything = np.random.default_rng(0).integers(0, 32, x.shape).astype(np.uint32)
    for way, function in (("RIGHT", np.right_shift), ("LEFT", np.left_shift)):
        yield f"{way} any", Case(
            lambda b, x, y, way=way: b.BitShift(x, y, direction=way),
            x, anything, right=function(x, anything),
        )  # fmt: skip
        for count in (0, 1, 7, 8, 16, 23, 24, 30, 31):
            yield f"{way} {count}", Case(
                lambda b, x, way=way, count=count: b.BitShift(
                    x, b.scalar_like(count, x), direction=way
                ),
                x, right=function(x, np.uint32(count)),
            )  # fmt: skip


CASES = dict(cases())


@pytest.mark.parametrize("name", CASES)
def test_detours(name: str) -> None:
    case = CASES[name]
    model = legalized(case.build, *case.arrays)
    content = oir.to_proto(model).SerializeToString()
    (got,) = OrtProgram(content)(dict(zip("xyz", case.arrays, strict=False)))
    assert got.dtype == case.right.dtype
    np.testing.assert_array_equal(got, case.right)


def test_top_k_in_total_order() -> None:
    """Without f64 and a stable TopK: zeros by their signs, NaN first, ties by their places."""
    x = np.array([0, -0.0, 3, np.nan, -0.0, 0, 3, -np.inf, np.inf, 1e-40, 2], np.float32)
    program = translate(lambda x: jax.lax.top_k(x, 9), x, target="openvino")
    wanted = jax.lax.top_k(x, 9)
    got = OrtProgram(program.model_proto.SerializeToString())({program.input_names[0]: x})
    for one, other in zip(got, wanted, strict=True):
        np.testing.assert_array_equal(one, other)


def test_long_rows_are_refused() -> None:
    """Ranks and places of more elements do not fit into one key."""
    x = np.zeros(LONGEST + 1, np.int32)
    with pytest.raises(TranslationError, match="TopK"):
        legalized(lambda b, x: b.outputs("TopK", x, b.i64([9]), n_outputs=2)[1], x)
    model = legalized(lambda b, x: b.outputs("TopK", x, b.i64([9]), n_outputs=2)[1], x[1:])
    assert [node.op_type for node in model.graph].count("TopK") == 2


@pytest.mark.parametrize(
    "dtype, why",
    [(np.float64, "computes f64 in f32"), (np.int64, "computes 64-bit integers in 32 bits")],
)
def test_what_cannot_be_right_is_refused(dtype: type, why: str) -> None:
    with pytest.raises(TranslationError, match=f"Mul: openvino {why}"):
        legalized(lambda b, x: b.Mul(x, x), np.ones(3, dtype))


@pytest.mark.parametrize("kind", [T.INT8, T.INT32, T.BFLOAT16])
def test_casts_of_f64_are_refused(kind: oir.DataType) -> None:
    with pytest.raises(TranslationError, match="Cast: openvino computes f64 in f32"):
        legalized(lambda b, x: b.cast(x, kind), np.ones(3))


def test_clamps_are_parted() -> None:
    """Of large constants; small ones are right in f32, too."""
    for low, high, parted in ((-(1 << 24), 5, 2), (-5, (1 << 24) - 1, 0)):
        model = legalized(
            lambda b, x, low=low, high=high: b.Min(
                b.Max(x, b.scalar_like(low, x)), b.scalar_like(high, x)
            ),
            np.ones(3, np.int32),
        )
        assert [node.op_type for node in model.graph].count("BitwiseNot") == parted


def test_trials_of_integers_as_a_runtime_may_hold_them() -> None:
    found = trials_of("Add", (T.UINT32,), varied=True)
    assert {(t.constants, t.computed, t.used) for t in found} == {
        (False, False, False), (True, False, False), (False, True, False),
    }  # fmt: skip
    halves = trials_of("Add", (T.INT16,), varied=True)
    assert {t.expected[0].dtype for t in halves if t.used} == {np.dtype(np.int32)}
    assert not any(t.computed or t.used for t in trials_of("Add", (T.FLOAT,), varied=True))


@pytest.fixture(scope="module")
def openvino() -> Iterator[Runtime]:
    folder = Path(os.environ.get("HLO2ONNX_RUNTIMES") or CACHE)
    if not (folder / "openvino-2026.4.1").exists():
        pytest.skip(f"no openvino-2026.4.1 in {folder}")
    with start(Name("openvino", "2026.4.1"), folder) as runtime:
        yield runtime


@pytest.mark.wide
@pytest.mark.parametrize("name", CASES)
def test_detours_in_openvino(name: str, openvino: Runtime) -> None:
    case = CASES[name]
    content = oir.to_proto(legalized(case.build, *case.arrays)).SerializeToString()
    given = {key: tensor_of(array) for key, array in zip("xyz", case.arrays, strict=False)}
    answer = openvino.run(content, given, name)
    assert not isinstance(answer, str), answer
    np.testing.assert_array_equal(array_of(answer.outputs[0]), case.right)
