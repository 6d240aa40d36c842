"""The examples of simulations, filters and loops: the operators that each one is about."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping
from functools import partial
from typing import Any

import jax
import numpy as np
import onnx_ir as oir
import pytest
from example_graphs import (
    EXAMPLES,
    GUARDS,
    body,
    in_body,
    loops,
    nodes,
    stacks,
    states,
    translated,
)

from hlo2onnx.ir.values import const_of, shape_of
from hlo2onnx.runtime.sessions import OrtProgram


def trips(loop: oir.Node) -> int | None:
    """The number of trips, where it is a constant and no condition is evaluated."""
    count = const_of(loop.inputs[0])
    return int(count.item()) if count is not None and loop.inputs[1] is None else None


LONGER: list[tuple[str, Mapping[str, int]]] = [
    ("rk4", {"steps": 37}),
    ("kalman", {"steps": 41}),
    ("sod", {"frames": 5, "steps": 17}),
    ("euler_2d", {"steps": 9}),
    ("nested_scans", {"sentences": 7, "words": 9}),
    ("lax_map", {"queries": 30}),
    ("lax_map_batched", {"queries": 31}),
    ("game_of_life", {"generations": 25}),
]


def rows_read(loop: oir.Node) -> list[oir.Node]:
    """The Gathers of a trip whose indices are computed."""
    gathers = (node for node in body(loop) if node.op_type == "Gather")
    return [node for node in gathers if const_of(node.inputs[1]) is None]


@pytest.mark.costly
@pytest.mark.parametrize("gradient", [False, True])
@pytest.mark.parametrize(("name", "sizes"), LONGER, ids=[name for name, _ in LONGER])
def test_no_node_for_a_trip(name: str, sizes: Mapping[str, int], gradient: bool) -> None:
    if not gradient or EXAMPLES[name].gradient:
        assert nodes(name, gradient, **sizes) == nodes(name, gradient)


@pytest.mark.costly
@pytest.mark.parametrize(
    "name", [name for name, _ in LONGER if EXAMPLES[name].gradient and name != "sod_f64"]
)
def test_gradients_carry_no_trajectory(name: str) -> None:
    """Forwards the residuals are stacked; backwards they are gathered, and only cotangents are
    carried: of the states, and of the arguments that every trip uses."""
    found = loops(name, gradient=True)
    primal = loops(name)
    forwards, backwards = found[: len(primal)], found[len(primal) :]
    assert list(map(states, forwards)) == list(map(states, primal))
    for loop in backwards:
        count = trips(loop)
        assert count is not None
        (index,) = {node.inputs[1] for node in rows_read(loop)}
        (made,) = (node for node in body(loop) if index in node.outputs)
        assert made.op_type == "Sub" and made.inputs[1] is body(loop).inputs[0], "last - trip"
        assert not any(in_body(loop)[op_type] for op_type in ("Cast", "Clip", "Less", "Min"))


# -- simulations and filters ------------------------------------------------------------------


def test_rk4_is_one_loop_that_stacks_its_states() -> None:
    assert nodes("rk4")["Loop"] == 1
    (loop,) = loops("rk4")
    assert (trips(loop), states(loop), stacks(loop)) == (20, [(4, 3)], [(20, 4, 3)])
    assert sum(nodes("rk4").values()) == 1 + sum(in_body(loop).values())
    arithmetic = in_body(loop)["Add"] + in_body(loop)["Mul"] + in_body(loop)["Sub"]
    assert arithmetic == 4 * 8 + 13, "four times the field, and the weighted sums"


@pytest.mark.wide
def test_rk4_takes_time_in_proportion_to_its_steps() -> None:
    """Four times the steps take four times as long; copied states would make it 16 times. The best
    of alternating calls counts, as many as a busy machine needs."""
    _, (states_at_start,) = EXAMPLES["rk4"].build()
    calls = []
    for steps in (1000, 4000):
        program = translated("rk4", steps=steps, members=64)
        session = OrtProgram(program.model_proto.SerializeToString(), threads=1)
        calls.append(partial(session, {program.input_names[0]: np.asarray(states_at_start)}))
    best = [math.inf, math.inf]
    for _ in range(60):
        for index, call in enumerate(calls):
            start = time.perf_counter()
            call()
            best[index] = min(best[index], time.perf_counter() - start)
        if best[1] <= 8 * best[0]:
            return
    pytest.fail(f"4,000 steps took {best[1] / best[0]:.2f} times as long as 1,000")


def test_kalman_carries_a_mean_and_a_covariance() -> None:
    """The covariance does not depend on the measurements: vmap leaves one for all targets."""
    (loop,) = loops("kalman")
    assert states(loop) == [(3, 4), (4, 4)]
    assert stacks(loop) == [(12, 3, 4), (12, 4, 4), (12, 3)]
    (gather,) = rows_read(loop)
    assert gather.inputs[1] is body(loop).inputs[0], "a row is taken by the trip's own number"
    assert not any(in_body(loop)[op_type] for op_type in (*GUARDS, "Cast", "Exp"))


@pytest.mark.parametrize("name", ["sod", "sod_f64"])
def test_sod_writes_ghosts_and_cells_without_guards(name: str) -> None:
    """Steps in frames: each end's ghosts are one ScatterND to constant places, the cells' changes
    a Pad, and rows of the state keep their axis."""
    frames, steps = loops(name)
    assert (trips(frames), states(frames), stacks(frames)) == (2, [(3, 36)], [(2, 3, 32)])
    assert (trips(steps), states(steps), stacks(steps)) == (3, [(3, 36)], [])
    found = in_body(steps)
    assert (found["ScatterND"], found["Cast"]) == (2, 0)
    assert not rows_read(steps)
    for node in body(steps):
        if node.op_type == "ScatterND":
            assert const_of(node.inputs[1]) is not None
    assert found["Where"] == 3, "two of the limiter, one for NaN in the maximum"
    assert (found["Reshape"], found["Clip"]) == (0, 0)
    assert sum(found.values()) <= 104


@pytest.mark.wide
def test_sod_f64_computes_in_f64() -> None:
    for gradient in (False, True):
        graph = translated("sod_f64", gradient).model.graph
        dtypes = {value.dtype for node in graph.all_nodes() for value in node.outputs}
        assert oir.DataType.DOUBLE in dtypes and oir.DataType.FLOAT not in dtypes


def test_euler_2d_scatters_windows_to_known_places() -> None:
    """Four walls, each mirrored and turned round, are ScatterND; H x W cells are padded."""
    (loop,) = loops("euler_2d")
    assert (trips(loop), states(loop), stacks(loop)) == (5, [(4, 14, 14)], [])
    found = in_body(loop)
    assert found["ScatterND"] == 8
    places = [node.inputs[1] for node in body(loop) if node.op_type == "ScatterND"]
    assert all(const_of(place) is not None for place in places)
    assert found["Where"] == 2, "NaN wins each maximum"


# -- captured values, nested loops ------------------------------------------------------------


def test_captured_values_are_not_carried() -> None:
    """Both bodies read the data outside of them, and the inner one the slope of the outer one."""
    outer, inner = loops("captured")
    assert (states(outer), states(inner)) == ([(4,), ()], [()])
    assert outer.inputs[1] is not None and inner.inputs[1] is not None
    features = translated("captured").model.graph.inputs[0]
    turned = [y for node in features.consumers() for y in node.outputs]
    for loop in (outer, inner):
        read = [node.inputs[1] for node in body(loop) if node.op_type == "MatMul"]
        assert read and set(read) <= {features, *turned}
    made_outside = {value for node in body(outer) for value in node.outputs}
    read_inside = {value for node in body(inner) for value in node.inputs}
    assert made_outside & read_inside


@pytest.mark.costly
@pytest.mark.parametrize("samples", [7, 30])
def test_captured_ends_by_its_condition(samples: int) -> None:
    function, args = EXAMPLES["captured"].build(samples=samples, width=3)
    program = translated("captured", samples=samples, width=3)
    (weights, count), (expected, steps) = program(*args), jax.jit(function)(*args)
    assert 0 < count < 100 and count == steps
    np.testing.assert_allclose(weights, expected, rtol=1e-5, atol=1e-6)


def test_nested_stacks_are_broadcast_joined_and_squeezed() -> None:
    outer, inner = loops("nested_scans")
    assert (trips(outer), states(outer)) == (3, [(8,)])
    assert (trips(inner), states(inner)) == (4, [(8,)])
    assert stacks(outer) == [(3, 4, 8), (3, 8), (3, 1, 1)]
    assert stacks(inner) == [(4, 8)]
    graph = translated("nested_scans").model.graph
    (joined,) = (node for node in graph if node.op_type == "Concat")
    assert [shape_of(x) for x in joined.inputs if x is not None] == [(3, 4, 8), (3, 4, 8)]
    assert sum(nodes("nested_scans").values()) <= 25


@pytest.mark.skipif(jax.__version_info__ < (0, 11), reason="JAX 0.10 returns them twice")
def test_nested_residuals_are_stacked_once() -> None:
    """The words' states are results and residuals."""
    outer, inner, *_ = loops("nested_scans", gradient=True)
    assert stacks(inner) == [(4, 8), (4, 8)]
    assert len(stacks(outer)) == 5


# -- other loops ------------------------------------------------------------------------------


def test_lax_map_carries_nothing() -> None:
    (one_by_one,) = loops("lax_map")
    assert (trips(one_by_one), states(one_by_one), stacks(one_by_one)) == (7, [], [(7, 2)])
    (batches,) = loops("lax_map_batched")
    assert (trips(batches), states(batches), stacks(batches)) == (2, [], [(2, 3, 2)])


@pytest.mark.parametrize("steps", [-3, 0, 1, 255, 256, 300])
def test_fori_loop_runs_to_its_argument(steps: int) -> None:
    """Past the end of the history nothing is written."""
    function, (plate, _) = EXAMPLES["fori_loop"].build(**EXAMPLES["fori_loop"].small)
    expected = jax.jit(function)(plate, np.int32(steps))
    actual: Any = translated("fori_loop")(plate, np.int32(steps))
    for one, other in zip(actual, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-5, atol=1e-5)


def test_fori_loop_computes_its_trips_before() -> None:
    (loop,) = loops("fori_loop")
    assert loop.inputs[0] is not None and loop.inputs[1] is None
    assert states(loop) == [(12, 12), (256,)]
    found = in_body(loop)
    assert (found["Less"], found["Where"]) == (0, 1), "no index is negative; some are too large"


def test_game_of_life_stays_in_bits() -> None:
    (loop,) = loops("game_of_life")
    assert [value.dtype for value in body(loop).inputs[2:]] == [oir.DataType.BOOL]
    assert stacks(loop) == [(6, 12, 12), (6,)]
    assert in_body(loop)["Where"] == 0
