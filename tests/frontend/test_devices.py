"""Programs for several devices: the model computes what JAX computes on all of them."""

from __future__ import annotations

import pickle
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import device_programs
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from device_programs import PROGRAMS
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P
from processes import environment

from hlo2onnx import LoadError, TranslationError, UsageError, translate

SCRIPT = Path(__file__).parents[1] / "support" / "device_programs.py"
Reference = Mapping[str, Any]


def marks(count: int, partitioner: str, name: str) -> list[pytest.MarkDecorator]:
    is_op = name.startswith("op_") and partitioner != "shardy"
    return [pytest.mark.wide] if count != 4 or is_op else []


CASES = [
    pytest.param(count, partitioner, name, marks=marks(count, partitioner, name))
    for partitioner in ("shardy", "gspmd")
    for count in (2, 4, 8, 16)
    for name in PROGRAMS
]


@pytest.fixture(scope="module")
def references(tmp_path_factory: pytest.TempPathFactory) -> Callable[[int, str], Reference]:
    """Runs all programs on so many devices, in one child process, and remembers the results."""
    known: dict[tuple[int, str], Reference] = {}

    def of(count: int, partitioner: str) -> Reference:
        if (count, partitioner) not in known:
            path = tmp_path_factory.mktemp("devices") / "found"
            command = [sys.executable, str(SCRIPT), str(count), partitioner, str(path)]
            subprocess.run(command, check=True, capture_output=True, env=environment())
            known[count, partitioner] = pickle.loads(path.read_bytes())
        return known[count, partitioner]

    return of


@pytest.mark.parametrize(("count", "partitioner", "name"), CASES)
def test_the_model_is_all_devices(
    references: Callable[[int, str], Reference], count: int, partitioner: str, name: str
) -> None:
    text, arguments, expected = references(count, partitioner)[name]
    assert ("SPMDFullToShardShape" in text) == (partitioner == "gspmd")
    program = translate(text)
    found = program(*arguments)
    found = found if isinstance(found, tuple) else (found,)
    for actual, wanted in zip(found, expected, strict=True):
        assert actual.dtype == wanted.dtype
        if wanted.dtype.kind == "f":
            scale = max(float(np.abs(wanted).max()), 1e-6)
            np.testing.assert_allclose(actual / scale, wanted / scale, rtol=0, atol=1e-6)
        else:
            np.testing.assert_array_equal(actual, wanted)
    assert any(f"for {count} devices" in note for note in program.report.notes)


def line_without_devices(count: int) -> AbstractMesh:
    return AbstractMesh((count,), ("x",), axis_types=(AxisType.Auto,))


def over(count: int, body: Any, *arguments: Any, **specs: Any) -> jax.stages.Lowered:
    """A program lowered for a mesh without devices: num_partitions is 1 in its module."""
    mesh = line_without_devices(count)
    specs = {"in_specs": P("x"), "out_specs": P("x"), "check_vma": False, **specs}
    return jax.jit(jax.shard_map(body, mesh=mesh, **specs)).lower(*arguments)


NODES = {"tensor_parallel_mlp": 7, "ring_attention": 28}


@pytest.mark.parametrize("count", [4, 8, 64])
@pytest.mark.parametrize("name", NODES)
def test_nodes_do_not_depend_on_the_count_of_devices(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    monkeypatch.setattr(device_programs, "line", line_without_devices)
    function, arguments = PROGRAMS[name](count)
    program = translate(function, *arguments)
    assert sum(program.report.nodes.values()) == NODES[name]


def test_what_is_the_same_on_all_devices_is_made_once() -> None:
    def run(x: jax.Array, w: jax.Array) -> jax.Array:
        return x * jnp.exp(jnp.sin(w) @ w).sum()

    x, w = jnp.ones((8, 3)), jnp.ones((4, 4))
    program = translate(over(4, run, x, w, in_specs=(P("x"), P())))
    assert program.report.nodes["Sin"] == program.report.nodes["MatMul"] == 1
    (note,) = program.report.notes
    assert re.search(
        r"for 4 devices.*: \d+ ops for all devices alike, 1 with an axis of devices$", note
    )
    np.testing.assert_allclose(program(x, w), run(x, w), rtol=1e-6)


# -- the count of devices -------------------------------------------------------------------------


def psum(x: jax.Array) -> jax.Array:
    return lax.psum(x, "x")


def own_trips(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, x[0].astype(int), lambda i, y: y * 2, x)


def test_the_limit_is_one_of_copies() -> None:
    """An op without a form for all devices is made for each of them."""
    x = np.arange(20, dtype=np.float32)
    np.testing.assert_array_equal(translate(over(20, psum, x, out_specs=P()))(x), x.sum(0)[None])
    lowered = over(20, own_trips, x)
    reason = r"stablehlo\.while: the model would have it 20 times, .* the limit is 16"
    with pytest.raises(TranslationError, match=reason) as caught:
        translate(lowered)
    assert "next   pass devices=20" in str(caught.value)
    program = translate(lowered, devices=20)
    np.testing.assert_array_equal(program(x), x * 2**x)
    assert "and 1 one device after another (stablehlo.while 1)" in program.report.notes[0]


@pytest.mark.parametrize("devices", [0, -1, 2.5, "4", True])
def test_a_wrong_limit(devices: Any) -> None:
    with pytest.raises(UsageError, match=r"devices=.* is not a count"):
        translate(over(2, psum, jnp.ones(4)), devices=devices)


# -- refusals -------------------------------------------------------------------------------------


def branch_by_device(x: jax.Array) -> jax.Array:
    first = lax.axis_index("x") == 0
    return lax.cond(first, lambda y: lax.psum(y, "x"), lambda y: lax.psum(y * 2, "x"), x)


def loop_by_device(x: jax.Array) -> jax.Array:
    return lax.while_loop(lambda y: y.sum() < 9, lambda y: lax.psum(y, "x"), x)


def ragged(x: jax.Array) -> jax.Array:
    sizes = jnp.ones(2, jnp.int32)
    offsets = jnp.arange(2, dtype=jnp.int32)
    return lax.ragged_all_to_all(x, x, offsets, sizes, offsets, sizes, axis_name="x")


REFUSED = {
    "a branch": (branch_by_device, r"stablehlo\.case: .* its condition differs"),
    "a loop": (loop_by_device, r"stablehlo\.while: .* its condition differs"),
    "ragged": (ragged, r"@ragged_all_to_all: .* sizes are known only when the program runs"),
}


@pytest.mark.parametrize("name", REFUSED)
def test_refusals_say_why_and_where(name: str) -> None:
    body, reason = REFUSED[name]
    with pytest.raises(TranslationError, match=reason) as caught:
        translate(over(2, body, jnp.arange(4.0)))
    refusal = caught.value.refusals[0]
    assert "test_devices.py:" in refusal.where
    assert "tensor<2xf32>" in refusal.types
    assert refusal.next


MODULE = """
module attributes {mhlo.num_replicas = REPLICAS : i32, mhlo.num_partitions = PARTITIONS : i32} {
  func.func public @main(%arg0: tensor<2xf32>) -> tensor<2xf32> {
    BODY
    return %0 : tensor<2xf32>
  }
}
"""
SUM = """%0 = "stablehlo.all_reduce"(%arg0) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.add %a, %b : tensor<f32>
      stablehlo.return %c : tensor<f32> }) {replica_groups = dense<GROUPSATTRIBUTES}
      : (tensor<2xf32>) -> tensor<2xf32>"""
EVERY = "> : tensor<0x0xi64>"
CHANNEL = ", channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>"


def module(body: str, replicas: int = 1, partitions: int = 1) -> str:
    text = MODULE.replace("BODY", body)
    return text.replace("REPLICAS", str(replicas)).replace("PARTITIONS", str(partitions))


def reduced(groups: str, attributes: str = "", replicas: int = 2, partitions: int = 3) -> Any:
    body = SUM.replace("GROUPS", groups).replace("ATTRIBUTES", attributes)
    x = np.array([1, 2], np.float32)
    return translate(module(body, replicas, partitions))(x) / x


OWN = """%id = stablehlo.replica_id : tensor<ui32>
    %f = stablehlo.convert %id : (tensor<ui32>) -> tensor<f32>
    %all = stablehlo.broadcast_in_dim %f, dims = [] : (tensor<f32>) -> tensor<2xf32>
    %own = stablehlo.add %arg0, %all : tensor<2xf32>
    """
"""A value of each replica."""
ALONE = {
    "send": (
        """%t = stablehlo.create_token : !stablehlo.token
    %s = "stablehlo.send"(%own, %t) <{channel_handle = #stablehlo.channel_handle<handle = 5,
      type = 1>}> : (tensor<2xf32>, !stablehlo.token) -> !stablehlo.token
    %0 = stablehlo.negate %arg0 : tensor<2xf32>""",
        r"stablehlo\.send: it exchanges data with the host or another device",
    ),
    "recv": (
        """%t = stablehlo.create_token : !stablehlo.token
    %0, %s = "stablehlo.recv"(%t) <{channel_handle = #stablehlo.channel_handle<handle = 5,
      type = 1>}> : (!stablehlo.token) -> (tensor<2xf32>, !stablehlo.token)""",
        r"stablehlo\.recv: it exchanges data with the host or another device",
    ),
    "pallas": (
        """%k = stablehlo.custom_call @tpu_custom_call(%own) : (tensor<2xf32>) -> tensor<2xf32>
    """
        + SUM.replace("%arg0", "%k").replace("GROUPSATTRIBUTES", EVERY),
        "@tpu_custom_call: it is machine code for an accelerator",
    ),
}


@pytest.mark.parametrize("replicas", [2, 32])
@pytest.mark.parametrize("name", ALONE)
def test_what_no_model_does(name: str, replicas: int) -> None:
    """The reason is not the limit of copies."""
    text, reason = ALONE[name]
    with pytest.raises(TranslationError, match=reason):
        translate(module(OWN + text, replicas))


def test_a_function_that_calls_itself() -> None:
    text = "%s = stablehlo.replica_id : tensor<ui32>\n    %0 = func.call @main(%arg0)"
    with pytest.raises(TranslationError, match=r"func\.call: the function calls itself"):
        translate(module(text + " : (tensor<2xf32>) -> tensor<2xf32>", 2))


def test_the_last_axis_is_sorted() -> None:
    """Without `dimension`, which JAX always gives."""
    text = (
        OWN
        + """%0 = "stablehlo.sort"(%own) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %c = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      stablehlo.return %c : tensor<i1> }) DIMENSION : (tensor<2xf32>) -> tensor<2xf32>
    """
    )
    total = SUM.replace("%0", "%sum").replace("%arg0", "%s").replace("GROUPSATTRIBUTES", EVERY)
    text = text.replace("%0", "%s") + total + "\n    %0 = stablehlo.negate %sum : tensor<2xf32>"
    x = np.array([2, 1], np.float32)
    for given in ("", "{dimension = -1 : i64}"):
        found = translate(module(text.replace("DIMENSION", given), 2))(x)
        np.testing.assert_array_equal(found, [-3, -5])


def test_a_region_that_reads_a_value_per_device() -> None:
    """Replica 0 sorts in rising order."""
    text = """%zero = stablehlo.constant dense<0> : tensor<ui32>
    %first = stablehlo.compare EQ, %id, %zero : (tensor<ui32>, tensor<ui32>) -> tensor<i1>
    %s = "stablehlo.sort"(%own) ({ ^bb0(%a: tensor<f32>, %b: tensor<f32>):
      %less = stablehlo.compare LT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %more = stablehlo.compare GT, %a, %b : (tensor<f32>, tensor<f32>) -> tensor<i1>
      %c = stablehlo.select %first, %less, %more : tensor<i1>, tensor<i1>
      stablehlo.return %c : tensor<i1> }) : (tensor<2xf32>) -> tensor<2xf32>
    """
    total = SUM.replace("%arg0", "%s").replace("GROUPSATTRIBUTES", EVERY)
    found = translate(module(OWN + text + total, 2))(np.array([2, 1], np.float32))
    np.testing.assert_array_equal(found, [1 + 3, 2 + 2])


def test_a_root_that_depends_on_inputs() -> None:
    """StableHLO of JAX 0.10 has no such root."""
    text = """%root = stablehlo.constant dense<1> : tensor<1xi32>
    %0 = "stablehlo.collective_broadcast"(%arg0, %root) <{has_dynamic_root, replica_groups =
      dense<[[0, 1]]> : tensor<1x2xi64>}> : (tensor<2xf32>, tensor<1xi32>) -> tensor<2xf32>"""
    with pytest.raises((TranslationError, LoadError), match=r"its root is known|single operand"):
        translate(module(text, 2))


def test_calls_that_print_are_left_out() -> None:
    def body(x: jax.Array) -> jax.Array:
        jax.debug.print("{}", x.sum())
        return psum(x)

    program = translate(over(20, body, jnp.ones(20), out_specs=P()))
    assert any("jax.debug.print, are left out" in note for note in program.report.notes)


def test_groups_of_replicas_and_of_partitions() -> None:
    """The three ways of StableHLO to number the members of a group, for replicas by partitions."""
    assert (reduced("[[0, 1]]> : tensor<1x2xi64>") == 2).all()
    assert (reduced("[[0, 1]]> : tensor<1x2xi64>", CHANNEL) == 6).all()
    assert (reduced("[[0], [1]]> : tensor<2x1xi64>", CHANNEL) == 3).all()
    flat = CHANNEL + ", use_global_device_ids"
    assert (reduced("[[0, 3, 4], [1, 2, 5]]> : tensor<2x3xi64>", flat) == 3).all()
    assert (reduced("> : tensor<0x0xi64>") == 2).all()


def test_results_that_differ_between_devices() -> None:
    uneven = "[[0, 1, 2], [3, -1, -1]]> : tensor<2x3xi64>"
    with pytest.raises(TranslationError, match=r"differ between devices.* \(4 devices\)"):
        reduced(uneven, replicas=4, partitions=1)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        ("[[0, 1, 2], [3, 4, 5]]> : tensor<2x3xi64>", "one has number 5, and there are 4"),
        ("[[0, 1]]> : tensor<1x2xi64>", "a device is in no group"),
    ],
)
def test_groups_of_other_devices(groups: str, reason: str) -> None:
    with pytest.raises(TranslationError, match=reason):
        reduced(groups, replicas=4, partitions=1)
