"""Verification of programs for several devices: the reference is the original one, on all of them.

Programs of free sizes, exported ones and those from files are here as well: the meshes have no
devices, so that this process needs one.
"""

from __future__ import annotations

import pickle
import re
from collections.abc import Sequence
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax
from jax.sharding import AbstractMesh, AxisType
from jax.sharding import PartitionSpec as P

from hlo2onnx import TranslationError, translate
from hlo2onnx.frontend.mlir.devices import lockstep

AUTO = AxisType.Auto


def over(count: int, body: Any, **specs: Any) -> Any:
    mesh = AbstractMesh((count,), ("x",), axis_types=(AUTO,))
    specs = {"in_specs": P("x"), "out_specs": P("x"), "check_vma": False, **specs}
    return jax.jit(jax.shard_map(body, mesh=mesh, **specs))


def normalized(x: jax.Array) -> jax.Array:
    return x / lax.psum(jnp.abs(x).sum(), "x") + lax.axis_index("x")


def expected(x: np.ndarray, count: int) -> np.ndarray:
    index = np.repeat(np.arange(count), len(x) // count)
    return x / np.abs(x).sum() + index[:, None]


def psum(x: jax.Array) -> jax.Array:
    return lax.psum(x, "x")


X = np.random.default_rng(0).standard_normal((8, 3)).astype(np.float32)


def test_the_reference_is_the_original_program() -> None:
    program = translate(over(4, normalized), X)
    np.testing.assert_allclose(program(X), expected(X, 4), rtol=1e-6)
    found = program.verify(samples=3)
    said = "the reference is the original program on 4 devices of XLA, in a process of its own"
    assert found
    assert said in found.notes
    assert pickle.loads(pickle.dumps(program)).verify(X)


def test_a_wrong_rewrite_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """A check against the rewritten program would pass."""

    def exchange(operation: Any, operands: Sequence[Any], devices: Any) -> list[Any]:
        return list(operands)

    monkeypatch.setattr(lockstep, "exchange", exchange)
    assert not translate(over(4, normalized), X).verify(samples=2)


def test_a_loop_that_depends_on_inputs() -> None:
    def body(x: jax.Array) -> jax.Array:
        return lax.while_loop(lambda y: lax.psum(y.sum(), "x") < 99, lambda y: y * 2 + 1, x)

    program = translate(over(2, body), jnp.ones((4, 3)))
    assert program.verify(np.ones((4, 3), np.float32))


def test_exported_programs_and_files() -> None:
    exported = jax.export.export(over(4, normalized))(jax.ShapeDtypeStruct(X.shape, X.dtype))
    for source in (exported, exported.serialize(), exported.mlir_module()):
        program = translate(source)
        np.testing.assert_allclose(program(X), expected(X, 4), rtol=1e-6)
    assert program.verify(samples=2)


def test_weights_are_bound() -> None:
    def layer(x: jax.Array, w: jax.Array) -> jax.Array:
        return lax.psum(jnp.tanh(x @ w), "x")

    w = X.T[:, :4].copy()
    function = over(4, layer, in_specs=(P(), P(None, "x")), out_specs=P())
    program = translate(function, X, w, bind="w")
    np.testing.assert_allclose(program(X), np.tanh(X @ w).sum(1, keepdims=True), rtol=1e-5)
    assert program.verify(X)
    assert "no intermediate value differs" in str(program.bisect(X))


# -- free sizes -----------------------------------------------------------------------------------

W = np.arange(6, dtype=np.float32).reshape(3, 2)
SPLIT: dict[str, tuple[Any, Any, str]] = {
    "the axis of the shards": (normalized, P("x"), "4*b, 3"),
    "another axis": (normalized, P(None, "x"), "b, 8"),
    "received zeros": (
        lambda x: x + lax.ppermute(x, "x", [(0, 1), (1, 2)]),
        P(None, "x"),
        "b, 8",
    ),
    "gathered": (lambda x: jnp.sin(lax.all_gather(x, "x", tiled=True))[:1] * x, P("x"), "4*b, 3"),
    "scattered": (
        lambda x: lax.psum_scatter(jnp.exp(x), "x", scatter_dimension=1, tiled=True),
        P("x"),
        "4*b, 4",
    ),
    "in groups": (
        lambda x: lax.psum(x, "x", axis_index_groups=[[0, 2], [1, 3]]) * x.sum(),
        P("x"),
        "4*b, 3",
    ),
    "exchanged": (
        lambda x: lax.all_to_all(jnp.tile(x, (1, 4)), "x", 1, 0, tiled=True)[: x.shape[0]],
        P("x"),
        "4*b, 3",
    ),
    "products": (lambda x: (x @ x.T) @ (x @ jnp.ones((3, 5))), P("x"), "4*b, 3"),
    "joins": (
        lambda x: (
            jnp.concatenate([x, jnp.ones_like(x)], 1)[:, 1:4] + jnp.pad(x, ((0, 0), (1, 0)))[:, 1:]
        ),
        P("x"),
        "4*b, 3",
    ),
    "slices of rows": (
        lambda x: jnp.pad(x, ((1, 1), (0, 0)))[1:-1] * x[:1] + x[::-1],
        P("x"),
        "4*b, 3",
    ),
    "sorted": (lambda x: jnp.sort(x, 0) + jnp.cumsum(x, 1) + x.shape[0], P("x"), "4*b, 3"),
    "places": (
        lambda x: (
            jnp.take_along_axis(x, jnp.argsort(x, 1), 1) + x[:, lax.axis_index("x") % 3][:, None]
        ),
        P("x"),
        "4*b, 3",
    ),
    "kernels": (
        lambda x: lax.conv_general_dilated(x[:, None], jnp.ones((2, 1, 2)), (1,), "SAME").sum(1),
        P("x"),
        "4*b, 3",
    ),
    "in a loop": (
        lambda x: lax.fori_loop(0, 4, lambda i, s: lax.ppermute(s, "x", RING) * x + i, x),
        P("x"),
        "4*b, 3",
    ),
}
RING = [(0, 1), (1, 2), (2, 3), (3, 0)]


@pytest.mark.costly
@pytest.mark.parametrize("name", SPLIT)
def test_free_sizes(name: str) -> None:
    body, spec, shape = SPLIT[name]
    program = translate(over(4, body, in_specs=spec, out_specs=spec), shape)
    (output,) = program.model.graph.outputs
    assert output.shape is not None
    assert str(output.shape[0]) == shape.partition(",")[0]
    found = program.verify(samples=2, sizes=[{"b": 3}, {"b": 1}])
    assert found, found


def test_sizes_are_fixed() -> None:
    """The function is lowered again: MLIR infers no shapes within shard_map."""
    program = translate(over(4, normalized), "4*b, 3", specialize={"b": 2})
    (given,) = program.model.graph.inputs
    assert list(given.shape or ()) == [8, 3]
    np.testing.assert_allclose(program(X), expected(X, 4), rtol=1e-6)
    assert program.verify(samples=2)


def test_sizes_are_fixed_and_weights_bound() -> None:
    function = over(4, lambda x, w: x @ w, in_specs=(P("x"), P()))
    program = translate(function, "4*b, 3", W, bind="w", specialize={"b": 2})
    np.testing.assert_allclose(program(X), X @ W, rtol=1e-5)


def test_a_free_size_that_may_not_be_cut() -> None:
    """JAX itself refuses it: 4*b or a constraint says that it is a multiple."""
    with pytest.raises(Exception, match="divisible"):
        translate(over(4, normalized), "b, 3")


# -- meshes ---------------------------------------------------------------------------------------


def test_many_devices_of_axes_that_are_not_manual() -> None:
    """The limit counts the devices that may have different values."""
    mesh = AbstractMesh((2, 512), ("x", "y"), axis_types=(AUTO, AUTO))
    function = jax.jit(
        jax.shard_map(psum, mesh=mesh, in_specs=P("x"), out_specs=P(), axis_names={"x"})
    )
    np.testing.assert_array_equal(translate(function, X)(X), X[:4] + X[4:])


def test_numbers_of_devices_in_a_mesh() -> None:
    """`device_ids` says which device has which place."""
    text = over(4, normalized).lower(X).as_text()
    moved = text.replace('<["x"=4]>', '<["x"=4], device_ids=[2, 0, 3, 1]>')
    assert moved != text
    places = np.array([1, 3, 0, 2])  # of the devices
    index = np.empty(4)
    index[places] = np.arange(4)
    wanted = X / np.abs(X).sum() + np.repeat(index, 2)[:, None]
    np.testing.assert_allclose(translate(moved)(X), wanted, rtol=1e-6)


PARTS = {
    "the minor half": (", sub_axis_info = (4)2", '"x"'),
    "the major half": (", sub_axis_info = (1)2", '"x"'),
    "two parts": (
        ', sub_axis_info = (4)2>, #stablehlo.axis_ref<name = "x", sub_axis_info = (1)2',
        '"x"',
    ),
    "shards along a part": ("", '"x":(2)4'),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", PARTS)
def test_parts_of_a_mesh_axis(name: str) -> None:
    """Groups and shards along a part of an axis of size 8, in text: JAX names whole axes."""
    part, shards = PARTS[name]
    text = over(8, lambda x: lax.psum(x * x, "x") * x).lower(X).as_text()
    axes = f'[#stablehlo.axis_ref<name = "x"{part}>]'
    groups = f"replica_groups = #stablehlo.replica_group_mesh_axes<mesh = @mesh, axes = {axes}>,"
    text, count = re.subn(
        r"replica_groups = .*?>,(?= use_global)|replica_groups = .*?xi64>,", groups, text
    )
    assert count == 1
    if ":" in shards:
        text = text.replace('[{"x"}, {}]', f"[{{{shards}}}, {{}}]").replace("<1x3x", "<2x3x")
    assert translate(text).verify(samples=2)


def test_shards_of_an_unknown_mesh() -> None:
    text = over(4, normalized).lower(X).as_text()
    other = text.replace("mhlo.num_partitions = 1", "mhlo.num_partitions = 3")
    with pytest.raises(TranslationError, match="4 devices in a program for 3"):
        translate(other)
