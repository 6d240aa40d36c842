"""Inputs and outputs are named by the JAX function's parameters and pytrees."""

from __future__ import annotations

import collections
from collections.abc import Callable
from typing import Any

import equinox as eqx
import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.signature import path_name

Pair = collections.namedtuple("Pair", ["left", "right"])
ONE = np.float32(1)


def _names(source: Any, *args: Any, **kwargs: Any) -> tuple[list[str], list[str]]:
    signature = load(source, args, kwargs).signature
    return [p.name for p in signature.inputs], [p.name for p in signature.outputs]


CASES: list[tuple[Callable[..., Any], tuple[Any, ...], dict[str, Any], list[str], list[str]]] = [
    (lambda x: x, (ONE,), {}, ["x"], ["result"]),
    (lambda x, y: (y, x), (ONE, ONE), {}, ["x", "y"], ["result/0", "result/1"]),
    (lambda x, *, scale: x * scale, (ONE,), {"scale": ONE}, ["x", "scale"], ["result"]),
    (lambda *xs: sum(xs), (ONE, ONE), {}, ["xs/0", "xs/1"], ["result"]),
    (lambda **kw: kw["b"]["c"], (), {"b": {"c": ONE}}, ["kw/b/c"], ["result"]),
    (
        lambda params: {"logits": params["Dense_0"]["kernel"]},
        ({"Dense_0": {"kernel": ONE}},),
        {},
        ["params/Dense_0/kernel"],
        ["logits"],
    ),
    (
        lambda p: Pair(p.right[0], [p.left]),
        (Pair(ONE, [ONE, None]),),
        {},
        ["p/left", "p/right/0"],
        ["left", "right/0"],
    ),
    # Results that have names of inputs, or no names, keep the prefix.
    (lambda p: {"p": p["w"]}, ({"w": ONE},), {}, ["p/w"], ["p"]),
    (lambda p: {"p": p}, ({"w": ONE},), {}, ["p/w"], ["result/p/w"]),
    (lambda p: {"": p, "a": p}, (ONE,), {}, ["p"], ["result/", "result/a"]),
    (lambda p: ({"y": p["w"]},), ({"w": ONE},), {}, ["p/w"], ["result/0/y"]),
    # Keys that JAX's own spelling does not tell from attributes and brackets.
    (
        lambda p: list(p.values()),
        ({"a.b": ONE, "c']d": ONE, "e/f": ONE, "g h": ONE},),
        {},
        ["p/a.b", "p/c']d", "p/e/f", "p/g h"],
        ["result/0", "result/1", "result/2", "result/3"],
    ),
    # Names that collide stay apart.
    (
        lambda p: p["a"]["b"] + p["a/b"],
        ({"a": {"b": ONE}, "a/b": ONE},),
        {},
        ["p/a/b", "p/a/b_1"],
        ["result"],
    ),
]


@pytest.mark.costly
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("kind", ["lowered", "exported", "serialized"])
def test_names(case: Any, kind: str) -> None:
    function, args, kwargs, inputs, outputs = case
    source: Any = jax.jit(function).lower(*args, **kwargs)
    if kind != "lowered":
        source = jax.export.export(jax.jit(function))(*args, **kwargs)
    if kind == "serialized":
        try:
            source = bytes(source.serialize())
        except ValueError:
            assert "Pair" in str(source.in_tree)  # an unregistered pytree has no serialized form
            return
    assert _names(source) == (inputs, outputs)


def test_exported_without_locations() -> None:
    exported = jax.export.export(jax.jit(lambda x, *, p: x + p["w"][0]))(ONE, p={"w": [ONE]})
    stripped = _without_locations(exported)
    assert _names(stripped) == (["arg0", "p/w/0"], ["result"])


def _without_locations(exported: jax.export.Exported) -> jax.export.Exported:
    import dataclasses

    from jaxlib.mlir.dialects import stablehlo

    from hlo2onnx.frontend.mlir.context import parse_module

    module = parse_module(exported.mlir_module_serialized, "it")
    module = parse_module(module.operation.get_asm(enable_debug_info=False), "it")
    content = stablehlo.serialize_portable_artifact(module, stablehlo.get_current_version())
    return dataclasses.replace(exported, mlir_module_serialized=content)


def test_pruned_arguments_do_not_shift_names() -> None:
    lowered = jax.jit(lambda a, b, c: c["y"] - a).lower(ONE, ONE, {"x": ONE, "y": ONE})
    assert _names(lowered) == (["a", "c/y"], ["result"])


def test_equinox_module_as_argument() -> None:
    layer = eqx.nn.Linear(2, 3, key=jax.random.key(0))
    lowered = jax.jit(lambda model, x: model(x)).lower(layer, jnp.ones(2))
    assert _names(lowered) == (["model/weight", "model/bias", "x"], ["result"])


@pytest.mark.parametrize("count", [1, 2])
def test_module_without_names(count: int) -> None:
    types = ", ".join(["tensor<f32>"] * count)
    text = f"""
func.func @main(%a: tensor<f32>, %b: tensor<f32>) -> ({types}) {{
  return {", ".join(["%a"] * count)} : {types}
}}"""
    outputs = ["result"] if count == 1 else ["result0", "result1"]
    assert _names(text) == (["arg0", "arg1"], outputs)


def test_tuples_and_tokens() -> None:
    signature = load("""
func.func @main(%t: !stablehlo.token, %x: tuple<tensor<f32>, tuple<tensor<2xi8>>>)
    -> (tuple<tensor<f32>, tuple<tensor<2xi8>>>, !stablehlo.token) {
  return %x, %t : tuple<tensor<f32>, tuple<tensor<2xi8>>>, !stablehlo.token
}""").signature
    assert [(p.name, p.element, p.shape, p.position) for p in signature.inputs] == [
        ("arg1/0", "f32", (), 1),
        ("arg1/1/0", "i8", (2,), 1),
    ]
    assert [(p.name, p.position) for p in signature.outputs] == [
        ("result0/0", 0),
        ("result0/1/0", 0),
    ]


@pytest.mark.parametrize(
    ("text", "name"),
    [
        ("x", "x"),
        ("params['a'][0].w", "params/a/0/w"),
        ('params["it\'s"]', "params/it's"),
        ("leaves[<flat index 3>]", "leaves/3"),
        ("result.logits", "result/logits"),
        ("xs[0]['k']", "xs/0/k"),
        ("L__self___weight", "L__self___weight"),
        ("a/b-c d", "a/b-c d"),
        ("odd[", "odd["),
        ("", ""),
    ],
)
def test_path_name(text: str, name: str) -> None:
    assert path_name(text) == name
