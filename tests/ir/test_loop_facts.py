"""Ranges in loops: the numbers of trips, counters, states that stay in a range."""

from __future__ import annotations

import onnx
import onnx_ir as oir
import pytest

from hlo2onnx.ir.loop_facts import LoopFacts
from hlo2onnx.ir.ranges import Range, range_of_type

I32, I64 = range_of_type(oir.DataType.INT32), range_of_type(oir.DataType.INT64)


def facts_of(graph: str) -> tuple[LoopFacts, oir.Graph]:
    """The facts of a graph in ONNX's text form."""
    text = f'<ir_version: 8, opset_import: ["": 18]> {graph}'
    proto = onnx.shape_inference.infer_shapes(onnx.parser.parse_model(text))
    model = oir.from_proto(proto)
    return LoopFacts(model.graph), model.graph


def result(graph: str) -> Range | None:
    """The range of the first output of a graph."""
    facts, main = facts_of(graph)
    return facts.int_range(main.outputs[0])


HEAD = "body = step (int64 i, bool c, int32 s) => (bool d, int32 t"
NUMBERS = ", ".join(f"int32 k{k} = {{{k}}}" for k in (1, 2, 3, 5, 7, 300000000))
LOOP = f"g (bool c, int32 x) => (int32 y) <int64 n = {{10}}, int32 z = {{0}}, {NUMBERS}>"


@pytest.mark.parametrize(
    "start, body, wanted",
    [
        ("z", "t = Add(s, k1)", Range(0, 10)),
        ("z", "t = Sub(s, k3)", Range(-30, 0)),
        ("z", "t = Identity(s)", Range(0, 0)),
        ("x", "t = Add(k1, s)", I32),
        ("z", "t = Mul(s, k2)", Range(0, 0)),
        ("z", "t = Add(s, k300000000)", I32),
        ("z", "a = Add(s, x) t = Clip(a, z, k7)", Range(0, 7)),
        ("z", "a = Add(s, s) t = Add(a, k5)", I32),
        ("z", "t = Cast<to = 6>(i)", Range(0, 9)),
    ],
)
def test_states(start: str, body: str, wanted: Range) -> None:
    """Counters, constant states, those that are bounded in each trip, and those that grow."""
    text = f"{LOOP} {{y = Loop <{HEAD}) {{d = Identity(c) {body}}}> (n, c, {start})}}"
    assert result(text) == wanted


def test_a_condition_bounds_a_counter() -> None:
    """Without a number of trips: the body runs again only for states below 12."""
    body = "t = Add(s, k)"
    for compare in ("Less(t, m)", "Greater(m, t)"):
        text = (
            "g (bool c, bool e) => (int32 y) <int32 z = {0}, int32 k = {1}, int32 m = {12}>"
            " {y = Loop <"
            f"{HEAD}) {{{body} q = {compare} d = And(q, e)}}> (, c, z)}}"
        )
        assert result(text) == Range(0, 12)
    text = (
        "g (bool c) => (int32 y) <int32 z = {0}, int32 k = {1}, int32 m = {12}> {y = Loop <"
        f"{HEAD}) {{{body} d = Less(m, t)}}> (, c, z)}}"
    )
    assert result(text) == I32


@pytest.mark.parametrize(
    ("first", "start", "wanted"),
    [
        ("q = Less(x, m)", "x", (Range(I32.low, I32.high), Range(I32.low, 11))),
        ("a = Max(x, z) q = Less(a, m)", "a", (Range(0, I32.high), Range(0, 11))),
        ("a = Clip(x, z, k15) q = Less(a, m)", "a", (Range(0, 15), Range(0, 11))),
        ("a = Clip(x, z, k15) q = Less(a, k13)", "a", (Range(0, 15), Range(0, 12))),
        ("a = Clip(x, z, k15) q = Less(z, a)", "a", (Range(0, 16), Range(0, 15))),
    ],
)
def test_within_trips_a_counter_has_met_the_condition(
    first: str, start: str, wanted: tuple[Range, Range]
) -> None:
    """So has the first state, if the condition before the loop says so."""
    text = (
        "g (int32 x) => (int32 y, int32[k] w) <int32 z = {0}, int32 k = {1}, int32 m = {12},"
        f" int32 k13 = {{13}}, int32 k15 = {{15}}> {{{first} y, w = Loop <{HEAD}, int32 u)"
        f" {{t = Add(s, k) d = Less(t, m) u = Identity(s)}}> (, q, {start})}}"
    )
    facts, main = facts_of(text)
    assert tuple(facts.int_range(x) for x in main.outputs) == wanted


@pytest.mark.parametrize(
    ("change", "most"), [("Sub(n, k)", I32.high), ("Identity(n)", 9), ("Add(n, s)", I32.high)]
)
def test_a_limit_that_is_a_state(change: str, most: int) -> None:
    """Two states that meet: the limit of one depends on the other."""
    text = (
        "g (bool c) => (int32 y, int32 w) <int32 z = {0}, int32 k = {1}, int32 m = {9}>"
        " {y, w = Loop <body = step (int64 i, bool e, int32 s, int32 n)"
        " => (bool d, int32 t, int32 u)"
        f" {{t = Add(s, k) u = {change} d = Less(t, u)}}> (, c, z, m)}}"
    )
    assert result(text) == Range(0, most)


def test_stacked_outputs_and_branches() -> None:
    text = (
        "g (bool c) => (int32[k] w) <int64 n = {4}, int32 z = {0}, int32 k = {2}> {y, w = Loop <"
        f"{HEAD}, int32 u) {{d = Identity(c) t = Add(s, k)"
        " u = Mul(s, k)}> (n, c, z)}"
    )
    assert result(text) == Range(0, 12)
    text = (
        "g (bool c) => (int32 y) <int32 m = {3}, int32 n = {2}> {y = If (c) <then_branch"
        " = a () => (int32 p) {p = Neg(m)}, else_branch = b () => (int32 q) {q = Abs(n)}>}"
    )
    assert result(text) == Range(-3, 2)


def test_rows_of_a_scan() -> None:
    text = (
        "g (int32 x) => (int32 y, int32[3] w) <int32[3] r = {5, 9, 7}, int32 z = {0}>"
        " {y, w = Scan <num_scan_inputs = 1, body = step (int32 s, int32 v)"
        " => (int32 t, int32 u) {t = Max(s, v) u = Neg(v)}> (z, r)}"
    )
    facts, main = facts_of(text)
    assert [facts.int_range(x) for x in main.outputs] == [Range(0, 9), Range(-9, -5)]


def test_loops_in_loops() -> None:
    """A counter of the inner loop that starts from one of the outer loop."""
    inner = (
        "v = Loop <body = inner (int64 j, bool e, int32 a) => (bool f, int32 b)"
        " {f = Identity(e) b = Add(a, one)}> (n, c, s)"
    )
    text = (
        "g (bool c) => (int32 y, int32[k] w) <int64 n = {4}, int32 z = {0}, int32 one = {1}>"
        f" {{y, w = Loop <{HEAD}, int32 u) {{d = Identity(c) t = Add(s, one) {inner}"
        " u = Identity(v)}> (n, c, z)}"
    )
    facts, main = facts_of(text)
    assert [facts.int_range(x) for x in main.outputs] == [Range(0, 4), Range(0, 7)]


def test_counters_of_a_scan() -> None:
    """Rows that are read count its trips, also along another axis."""
    for attribute, extents in (("", "3, 7"), (", scan_input_axes = [1]", "7, 3")):
        text = (
            f"g (float[{extents}] r) => (int32 y) <int32 z = {{5}}, int32 k = {{2}}>"
            f" {{y = Scan <num_scan_inputs = 1{attribute}, body = step (int32 s, float[7] v)"
            " => (int32 t) {t = Add(s, k)}> (z, r)}"
        )
        assert result(text) == Range(5, 11)
