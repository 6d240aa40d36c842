"""Small models that show the properties of a runtime: `Flags` of its target.

Each trial has a model, inputs, and the outputs that are right. A runtime that gives others, or
none, has the flag.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx

from hlo2onnx.runtime.adapters.process import Runtime, array_of, lacks_kernel, tensor_of

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class FlagTrial:
    """A model that shows whether a runtime has a property.

    Attributes:
        flag: The name of the property in `Flags`.
        shows: What the model does.
        graph: The model, in ONNX's text form.
        feeds: Its inputs.
        right: Its outputs.
        tolerance: How far, relative to the right numbers, others may be off.
        optimize: Whether the graph is optimized, as in use.
        is_about_kernel: Whether a runtime that has no kernel for it lacks the property.
    """

    flag: str
    shows: str
    graph: str
    feeds: Mapping[str, Array]
    right: tuple[Array, ...]
    tolerance: float = 0.0
    optimize: bool = True
    is_about_kernel: bool = False

    def model(self) -> bytes:
        """The model, of opset 18."""
        head = '<ir_version: 8, opset_import: ["": 18]> '
        content: bytes = onnx.parser.parse_model(head + self.graph).SerializeToString()
        return content

    def fault(self, runtime: Runtime) -> str:
        """What a runtime does instead; "" if it gives the right outputs."""
        feeds = {name: tensor_of(array) for name, array in self.feeds.items()}
        answer = runtime.run(self.model(), feeds, self.flag, optimize=self.optimize)
        if isinstance(answer, str):
            if self.is_about_kernel and lacks_kernel(answer):
                return ""
            return answer.strip() or "an error without a text"
        for output, right in zip(map(array_of, answer.outputs), self.right, strict=True):
            if output.shape != right.shape or output.dtype != right.dtype:
                return f"gives {output.dtype}{output.shape}, not {right.dtype}{right.shape}"
            same = (output == right) | ((output != output) & (right != right))
            if self.tolerance:
                same |= np.abs(output - right) <= self.tolerance * np.abs(right)
            if not same.all():
                return f"gives {output[~same][0]}, not {right[~same][0]}"
        return ""


def _f(*numbers: float) -> Array:
    return np.array(numbers, np.float32)


def _i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)


_YES = np.array(True)
_ROWS = np.arange(20, dtype=np.float32).reshape(5, 4)
_X = _f(1, 2, 3, 4)
_ROW_SUMS = np.cumsum(_ROWS, 0)
_DOUBLED = _X * (2.0 ** np.arange(5, dtype=np.float32))[:, None]


def _scan(flag: str, shows: str, right: Array, outer: str) -> FlagTrial:
    """A Scan over rows v, whose state grows by v * o, a value of the outer graph."""
    graph = (
        f"g (float[4] x, float[5,4] r) => (float[4] y) {{{outer} y = Scan <num_scan_inputs = 1,"
        " body = step (float[4] s, float[4] v) => (float[4] t) {m = Mul(v, o) t = Add(s, m)}>"
        " (x, r)}"
    )
    return FlagTrial(flag, shows, graph, {"x": _X, "r": _ROWS}, (right,))


def _sums(shows: str, directions: str, stacked: Array) -> FlagTrial:
    """A Scan of sums of rows, with their negatives stacked."""
    graph = (
        "g (float[4] x, float[5,4] r) => (float[4] y, float[5,4] z) {y, z = Scan"
        f" <num_scan_inputs = 1,{directions} body = step (float[4] s, float[4] v)"
        " => (float[4] t, float[4] u) {t = Add(s, v) u = Neg(t)}> (x, r)}"
    )
    return FlagTrial("no_scan", shows, graph, {"x": _X, "r": _ROWS}, (_X + _ROWS.sum(0), stacked))


LOOPS = (
    FlagTrial(
        "no_loop", "a Loop of 5 trips, with a state and a stacked output",
        "g (int64 n, bool c, float[4] x) => (float[4] y, float[k,4] z) {y, z = Loop <body = step"
        " (int64 i, bool c, float[4] s) => (bool d, float[4] t, float[4] u)"
        " {d = Identity(c) t = Add(s, s) u = Neg(s)}> (n, c, x)}",
        {"n": np.array(5), "c": _YES, "x": _X}, (32 * _X, -_DOUBLED),
    ),
    FlagTrial(
        "no_loop", "a Loop until a condition of its state",
        "g (bool c, float[4] x, float m) => (float[4] y) {"
        " y = Loop <body = step (int64 i, bool c, float[4] s) => (bool d, float[4] t)"
        " {t = Add(s, s) f = ReduceMax<keepdims=0>(t) d = Less(f, m)}> (, c, x)}",
        {"c": _YES, "x": _X, "m": np.array(100, np.float32)}, (32 * _X,),
    ),
    _sums("a Scan with a state, rows, and a stacked output", "", -(_X + _ROW_SUMS)),
    _sums("a Scan from the last row to the first",
          " scan_input_directions = [1], scan_output_directions = [1],",
          -(_X + np.cumsum(_ROWS[::-1], 0))[::-1]),
    FlagTrial(
        "no_if", "an If with a condition that is an input",
        "g (bool c, float[4] x) => (float[4] y) {y = If (c)"
        " <then_branch = a () => (float[4] p) {p = Neg(x)},"
        " else_branch = b () => (float[4] q) {q = Abs(x)}>}",
        {"c": _YES, "x": _X}, (-_X,),
    ),
    _scan("no_outer_values_in_scans", "a Scan whose body reads a value of the outer graph",
          _X - _X * _ROWS.sum(0), "o = Neg(x)"),
    _scan("no_outer_values_in_scans", "a Scan whose body reads a constant of the outer graph",
          _X + _X * _ROWS.sum(0), "o = Constant<value = float[4] {1, 2, 3, 4}>()"),
    FlagTrial(  # some end the process when they load it
        "inlines_branches", "Ifs in Ifs, two of them with a condition that follows from a constant",
        "g (float[4] x, bool p) => (float[4] a) <bool no = {0}> {a = If (p)"
        " <else_branch = a2 () => (float[4] a3) {a3 = Neg (x)},"
        " then_branch = known () => (float[4] b) {known = Not(no) b = If (known)"
        " <else_branch = b2 () => (float[4] b3) {b3 = Neg (x)},"
        " then_branch = inner () => (float[4] c) {c = If (known)"
        " <else_branch = c2 () => (float[4] c3) {c3 = Neg (x)},"
        " then_branch = then () => (float[4] d) {unread = Identity(x) d = If (p)"
        " <else_branch = d2 () => (float[4] d3) {d3 = Neg (x)},"
        " then_branch = abs () => (float[4] e) {e = Abs(x)}>}>}>}>}",
        {"x": _X, "p": _YES}, (_X,),
    ),
)  # fmt: skip
"""Trials of control flow."""

_MANY = np.zeros(67, np.float32)
_DENORMAL = _f(1e-40, -3e-39, 1.0, 0.0)
_HALVES = np.full((100_000, 4), 0.1, np.float32)
_SHIFTED = (
    np.random.default_rng(0).choice([2998.2, 2998.7, 3001.1, 3001.9], (2, 32)).astype(np.float32)
)
_CENTERED = _SHIFTED.astype(np.float64) - _SHIFTED.astype(np.float64).mean(1, keepdims=True)
_NORMALIZED = (_CENTERED / np.sqrt((_CENTERED**2).mean(1, keepdims=True) + 1e-5)).astype(np.float32)
_WITH_NAN = np.array([[1.0, np.nan], [np.nan, 1.0]], np.float32)
_CLAMPED = np.array([0, 150000001, 200000003, -(2**31)], np.int32)

NUMBERS = (
    FlagTrial(
        "unstable_top_k", "TopK of equal elements",
        "g (float[67] x, int64[1] k) => (float[67] y, int64[67] i) {y, i = TopK(x, k)}",
        {"x": _MANY, "k": _i64(67)}, (_MANY, np.arange(67)),
    ),
    FlagTrial(
        "pads_top_k", "TopK of three elements, -inf among them",
        "g (float[3] x, int64[1] k) => (float[3] y, int64[3] i) {y, i = TopK(x, k)}",
        {"x": _f(1, -np.inf, 2), "k": _i64(3)}, (_f(2, 1, -np.inf), np.array([2, 0, 1])),
    ),
    FlagTrial(
        "flushes_denormals", "products with denormal numbers",
        "g (float[4] x, float[4] o) => (float[4] y) {y = Mul(x, o)}",
        {"x": _DENORMAL, "o": np.ones(4, np.float32)}, (_DENORMAL,),
    ),
    FlagTrial(
        "flattens_empty_constants", "a constant without elements as an output",
        "g (float[2] x) => (float[2,0] y, float[2] z) {y = Constant<value = float[2,0] {}>()"
        " z = Neg(x)}",
        {"x": _f(1, 2)}, (np.zeros((2, 0), np.float32), _f(-1, -2)),
    ),
    FlagTrial(
        "clamps_in_f32", "Min of Max, and Max of Min, with constants above 2^24",
        "g (int32[4] x) => (int32[4] y, int32[4] z)"
        " <int32 low = {100000001}, int32 high = {200000001}> {a = Max(x, low) y = Min(a, high)"
        " b = Min(x, high) z = Max(b, low)}",
        {"x": _CLAMPED}, (np.clip(_CLAMPED, 100000001, 200000001),) * 2,
    ),
    FlagTrial(
        "fuses_comparisons", "Where of large integers behind Less",
        "g (int32[4] s, int32[4] t, int32[4] x, int32[4] o) => (int32[4] y)"
        " {c = Less(s, t) y = Where(c, x, o)}",
        {"s": _CLAMPED % 3, "t": np.ones(4, np.int32), "x": _CLAMPED, "o": _CLAMPED + 2},
        (np.where(_CLAMPED % 3 < 1, _CLAMPED, _CLAMPED + 2),),
    ),
    FlagTrial(
        "fuses_comparisons", "Where of large integers behind IsNaN",
        "g (float[2] s, int32[2] x, int32[2] o) => (int32[2] y) {c = IsNaN(s) y = Where(c, x, o)}",
        {"s": _f(0, np.nan), "x": _CLAMPED[1:3], "o": _CLAMPED[2:4]}, (_CLAMPED[[2, 2]],),
    ),
    FlagTrial(
        "narrows_i64", "2^40 + 1",
        "g (int64[1] x, int64[1] o) => (int64[1] y) {y = Add(x, o)}",
        {"x": _i64(2**40), "o": _i64(1)}, (_i64(2**40 + 1),),
        is_about_kernel=True,
    ),
    FlagTrial(
        "narrows_f64", "1 + 1e-12",
        "g (double[1] x, double[1] o) => (double[1] y) {y = Add(x, o)}",
        {"x": np.array([1.0]), "o": np.array([1e-12])}, (np.array([1 + 1e-12]),),
        is_about_kernel=True,
    ),
    FlagTrial(
        "misorders_nan", "0 > NaN and NaN > 0",
        "g (float[2] x, float[2] o) => (bool[2] y) {y = Greater(x, o)}",
        {"x": _f(0, np.nan), "o": _f(np.nan, 0)}, (np.array([False, False]),),
    ),
    FlagTrial(
        "misorders_nan", "Max and Min of NaN and 0, both ways",
        "g (float[2] x, float[2] o) => (float[2] y, float[2] z) {y = Max(x, o) z = Min(x, o)}",
        {"x": _f(0, np.nan), "o": _f(np.nan, 0)}, (_f(np.nan, np.nan),) * 2,
    ),
    FlagTrial(
        "naive_sums", "ReduceSum of 100,000 rows of 0.1",
        "g (float[100000,4] x, int64[1] a) => (float[4] y) {y = ReduceSum<keepdims=0>(x, a)}",
        {"x": _HALVES, "a": _i64(0)}, (_HALVES.astype(np.float64).sum(0).astype(np.float32),),
        tolerance=1e-5,
    ),
    FlagTrial(
        "naive_variance", "LayerNormalization of rows with the mean 3000",
        "g (float[2,32] x, float[32] s) => (float[2,32] y) {y = LayerNormalization(x, s)}",
        {"x": _SHIFTED, "s": np.ones(32, np.float32)}, (_NORMALIZED,), tolerance=0.05,
    ),
    FlagTrial(
        "naive_variance", "InstanceNormalization of rows with the mean 3000",
        "g (float[1,2,32] x, float[2] s, float[2] b) => (float[1,2,32] y)"
        " {y = InstanceNormalization(x, s, b)}",
        {"x": _SHIFTED[None], "s": np.ones(2, np.float32), "b": np.zeros(2, np.float32)},
        (_NORMALIZED[None],), tolerance=0.05,
    ),
    FlagTrial(
        "ignores_domains", "Exp of NaN",
        "g (float[2] x) => (float[2] y) {y = Exp(x)}",
        {"x": _f(np.nan, 0)}, (_f(np.nan, 1),),
    ),
    FlagTrial(
        "ignores_domains", "Log of NaN, 0 and -1",
        "g (float[4] x) => (float[4] y) {y = Log(x)}",
        {"x": _f(np.nan, 0, -1, 1)}, (_f(np.nan, -np.inf, np.nan, 0),),
    ),
    FlagTrial(
        "loses_nan", "ReduceMax of rows with a NaN",
        "g (float[2,2] x, int64[1] a) => (float[2] y) {y = ReduceMax<keepdims=0>(x, a)}",
        {"x": _WITH_NAN, "a": _i64(1)}, (_f(np.nan, np.nan),),
    ),
)  # fmt: skip
"""Trials of numbers."""

FLAG_TRIALS = (*LOOPS, *NUMBERS)


def has_flag(runtime: Runtime, flag: str) -> bool:
    """Whether a runtime has a property."""
    return any(trial.fault(runtime) for trial in FLAG_TRIALS if trial.flag == flag)


def measured_flags(runtime: Runtime) -> Iterator[tuple[str, str]]:
    """Each flag with the fault that shows it; with "" if there is none."""
    faults: dict[str, str] = {}
    for trial in FLAG_TRIALS:
        fault = trial.fault(runtime)
        known = faults.get(trial.flag, "")
        faults[trial.flag] = known or (f"{trial.shows}: {fault}" if fault else "")
    yield from faults.items()
