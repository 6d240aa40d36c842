"""Collectives among groups of one device, and the refusal of larger groups."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_xla
from jax.sharding import PartitionSpec

from hlo2onnx import TranslationError, translate
from hlo2onnx.frontend.mlir.context import parse_module

TYPE = "tensor<2x3xELEMENT>"
ONE = "dense<[[0]]> : tensor<1x1xi64>"
TWO = "dense<[[0, 1]]> : tensor<1x2xi64>"
UNEVEN = "dense<[[0, -1], [1, 2]]> : tensor<2x2xi64>"
EACH = "dense<[[0], [1]]> : tensor<2x1xi64>"
MESH = (
    "#stablehlo.replica_group_mesh_axes<mesh = #stablehlo.mesh<axes = [#stablehlo.mesh_axis<name ="
    ' "a", size = {a}>, #stablehlo.mesh_axis<name = "b", size = {b}>]>, axes = ['
    '#stablehlo.axis_ref<name = "a">{more}]>'
)
NAMED = '#stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = [#stablehlo.axis_ref<name = "x">]>'

ADD = """({{ ^bb0(%a: tensor<ELEMENT>, %b: tensor<ELEMENT>):
    %c = stablehlo.add %a, %b : tensor<ELEMENT>
    stablehlo.return %c : tensor<ELEMENT> }})"""
BODIES = {
    "all_gather": "{{all_gather_dim = 1 : i64, replica_groups = {groups}, use_global_device_ids,"
    " channel_handle = #stablehlo.channel_handle<handle = 1, type = 1>}}",
    "all_reduce": ADD + " {{replica_groups = {groups}}}",
    "all_to_all": "{{split_dimension = 1 : i64, concat_dimension = 0 : i64, split_count = 1 : i64,"
    " replica_groups = {groups}}}",
    "reduce_scatter": ADD + " {{scatter_dimension = 0 : i64, replica_groups = {groups}}}",
    "collective_broadcast": "{{replica_groups = {groups}}}",
}
IN_XLA = [name for name in BODIES if name != "collective_broadcast"]


def module(body: str, element: str = "f32", result: str = TYPE, attributes: str = "") -> str:
    text = f"""
    module attributes {{{attributes}}} {{
      sdy.mesh @mesh = <["x"=1]>
      func.func public @main(%arg0: {TYPE}) -> {result} {{
        {body}
        return %0 : {result}
    }} }}
    """
    return text.replace("ELEMENT", element)


def collective(name: str, groups: str) -> str:
    body = BODIES[name].format(groups=groups)
    return f'%0 = "stablehlo.{name}"(%arg0) {body} : ({TYPE}) -> {TYPE}'


X = np.arange(6, dtype=np.float32).reshape(2, 3)


@pytest.mark.parametrize("name", IN_XLA)
@pytest.mark.parametrize("element", ["f32", "ui8", "complex<f32>"])
def test_a_group_of_one(name: str, element: str) -> None:
    run = against_xla(module(collective(name, ONE), element)).bit_exact()
    assert set(run.nodes) <= {"Identity", "Gather", "Unsqueeze", "Concat"}


@pytest.mark.parametrize("groups", [MESH.format(a=1, b=1, more=""), NAMED])
@pytest.mark.parametrize("name", BODIES)
def test_a_group_along_mesh_axes(name: str, groups: str) -> None:
    np.testing.assert_array_equal(translate(module(collective(name, groups)))(X), X)


@pytest.mark.parametrize("name", ["all_reduce", "reduce_scatter"])
def test_no_groups_are_all_devices(name: str) -> None:
    """XLA takes them so, where StableHLO does not say."""
    text = collective(name, "dense<> : tensor<0x0xi64>")
    against_xla(module(text)).bit_exact()


def test_every_device_for_itself() -> None:
    text = collective("all_reduce", EACH)
    np.testing.assert_array_equal(translate(module(text, attributes="mhlo.num_replicas = 2"))(X), X)


@pytest.mark.parametrize(
    ("groups", "reason"),
    [
        (TWO, "one has number 1, and there are 1"),
        (UNEVEN, "one has number 2, and"),
        (MESH.format(a=3, b=6, more=""), "one has number 17, and"),
        (MESH.format(a=2, b=6, more=', #stablehlo.axis_ref<name = "b">'), "one has number 11, and"),
        (
            MESH.format(a=1, b=6, more=', #stablehlo.axis_ref<name = "b", sub_axis_info = (2)3>'),
            "one has number 5, and",
        ),
    ],
)
def test_larger_groups_are_refused(groups: str, reason: str) -> None:
    text = module(collective("all_reduce", groups))
    with pytest.raises(TranslationError, match=reason):
        translate(text)


@pytest.mark.parametrize("name", ["collective_broadcast", "collective_reduce"])
def test_the_root_of_one(name: str) -> None:
    """has_dynamic_root adds an operand that names the root: newer versions of StableHLO only."""
    region = "" if name == "collective_broadcast" else ADD.replace("{{", "{").replace("}}", "}")
    body = f"""%r = stablehlo.constant dense<0> : tensor<1xi32>
      %0 = "stablehlo.{name}"(%arg0, %r) {region}
        {{replica_groups = {ONE}, has_dynamic_root}} : ({TYPE}, tensor<1xi32>) -> {TYPE}"""
    try:
        parse_module(module(body), "it")
    except Exception:  # noqa: BLE001  (this StableHLO does not have it)
        pytest.skip("this jaxlib has no such op or attribute")
    np.testing.assert_array_equal(translate(module(body))(X), X)


@pytest.mark.parametrize("element", ["f32", "ui8", "complex<f32>", "i1"])
@pytest.mark.parametrize(
    "pairs", ["dense<[[0, 0]]> : tensor<1x2xi64>", "dense<> : tensor<0x2xi64>"]
)
def test_collective_permute(pairs: str, element: str) -> None:
    body = f'%0 = "stablehlo.collective_permute"(%arg0) {{source_target_pairs = {pairs}}}'
    against_xla(module(f"{body} : ({TYPE}) -> {TYPE}", element)).bit_exact()


@pytest.mark.parametrize(
    ("pairs", "devices", "reason"),
    [
        ("[[0, 1]]", 1, "one has number 1, and there are 1"),
        ("[[0, 3]]", 2, "one has number 3, and there are 2"),
        ("[[0, 0]]", 2, "results differ between devices"),
    ],
)
def test_permutations_that_are_refused(pairs: str, devices: int, reason: str) -> None:
    body = f"""%0 = "stablehlo.collective_permute"(%arg0)
      {{source_target_pairs = dense<{pairs}> : tensor<1x2xi64>}} : ({TYPE}) -> {TYPE}"""
    text = module(body, attributes=f"mhlo.num_replicas = {devices}")
    with pytest.raises(TranslationError, match=reason):
        translate(text)


@pytest.mark.parametrize("devices", [2, 4])
@pytest.mark.parametrize("name", ["partition_id", "replica_id"])
def test_device_number(name: str, devices: int) -> None:
    body = f"""%1 = stablehlo.{name} : tensor<ui32>
      %2 = stablehlo.broadcast_in_dim %1, dims = [] : (tensor<ui32>) -> {TYPE}
      %0 = stablehlo.add %arg0, %2 : {TYPE}"""
    against_xla(module(body, "ui32")).bit_exact()
    kind = "partitions" if name == "partition_id" else "replicas"
    with pytest.raises(TranslationError, match=rf"differ between devices.* \({devices} devices\)"):
        translate(module(body, "ui32", attributes=f"mhlo.num_{kind} = {devices}"))


@pytest.mark.parametrize("element", ["f32", "complex<f32>"])
def test_async(element: str) -> None:
    body = f"""
      %f = "stablehlo.async_start"(%arg0) ({{ ^bb0(%b: {TYPE}):
        %1 = "stablehlo.all_gather"(%b) {{all_gather_dim = 1 : i64, replica_groups = {ONE}}}
          : ({TYPE}) -> {TYPE}
        stablehlo.return %1 : {TYPE}
      }}) : ({TYPE}) -> !stablehlo.future<{TYPE}>
      %0 = "stablehlo.async_done"(%f) : (!stablehlo.future<{TYPE}>) -> {TYPE}"""
    x = X.astype("f4" if element == "f32" else "c8")
    np.testing.assert_array_equal(translate(module(body, element))(x), x)


def test_shard_map_over_one_device() -> None:
    mesh = jax.make_mesh((1,), ("x",), axis_types=(jax.sharding.AxisType.Auto,))

    def step(x: jax.Array) -> jax.Array:
        x = jax.lax.psum(x, "x") + jax.lax.axis_index("x")
        x = jax.lax.all_gather(x, "x", tiled=True) * jax.lax.ppermute(x, "x", [(0, 0)])
        return jax.lax.psum_scatter(x, "x", tiled=True)

    spec = PartitionSpec("x")
    function = jax.jit(jax.shard_map(step, mesh=mesh, in_specs=spec, out_specs=spec))
    program = translate(function.lower(jnp.asarray(X)))
    np.testing.assert_array_equal(program(X), function(X))
    assert program.verify(X)


HOST = {
    "infeed": '%0:2 = "stablehlo.infeed"(%t) : (!stablehlo.token) -> (TYPE, !stablehlo.token)',
    "outfeed": """%1 = "stablehlo.outfeed"(%arg0, %t) : (TYPE, !stablehlo.token)
      -> !stablehlo.token""",
    "send": """%1 = "stablehlo.send"(%arg0, %t) {channel_handle =
      #stablehlo.channel_handle<handle = 1, type = 2>, is_host_transfer = true}
      : (TYPE, !stablehlo.token) -> !stablehlo.token""",
    "recv": """%0:2 = "stablehlo.recv"(%t) {channel_handle =
      #stablehlo.channel_handle<handle = 1, type = 3>, is_host_transfer = true}
      : (!stablehlo.token) -> (TYPE, !stablehlo.token)""",
}


@pytest.mark.parametrize("name", HOST)
def test_transfers_are_refused(name: str) -> None:
    given = "arg0" if name in ("outfeed", "send") else "0#0"
    text = f"""
    module {{ func.func public @main(%arg0: TYPE) -> TYPE {{
      %t = stablehlo.create_token : !stablehlo.token
      {HOST[name]}
      return %{given} : TYPE
    }} }}
    """.replace("TYPE", "tensor<3xf32>")
    with pytest.raises(TranslationError, match=rf"stablehlo\.{name}: it exchanges data") as caught:
        translate(text)
    assert "make the received data an argument" in str(caught.value)
