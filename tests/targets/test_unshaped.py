"""Long bodies over small tensors are Loops that say nothing of shapes; all others are Scans."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as oir
import pytest
from jax import lax

import hlo2onnx

RNG = np.random.default_rng(0)
X = RNG.normal(size=(3, 4)).astype(np.float32)
LARGE = RNG.normal(size=(100, 100)).astype(np.float32)
W = RNG.normal(size=(4, 4)).astype(np.float32)


def repeated(times: int, also: Callable[[Any], Any] = lambda x: x) -> Callable[[Any], Any]:
    """A scan over a step of about 2 * times nodes."""

    def step(x: Any, _: None) -> Any:
        for k in range(times):
            x = jnp.sin(x * (0.9 + 0.001 * k))
        x = also(x)
        return x, x

    return lambda x: lax.scan(step, x, length=9)


def translated(function: Callable[..., Any], *args: Any, **options: Any) -> oir.Node:
    """The loop; its numbers are those of XLA, and it passes the checker."""
    program = hlo2onnx.translate(jax.jit(function).lower(*args), **options)
    if options.get("target") != "onnx":
        assert program.verify(*args).ok, program.verify(*args)
    onnx.checker.check_model(program.model_proto, full_check=True)
    (loop,) = (node for node in program.model.graph if node.op_type in ("Loop", "Scan"))
    return loop


def test_a_long_body_has_no_shapes() -> None:
    loop = translated(repeated(25), X)
    assert loop.op_type == "Loop"
    body = loop.attributes["body"].as_graph()
    assert body.inputs[2].shape is None
    assert all(x.shape is None for node in body for x in node.outputs if x not in body.outputs)
    assert [tuple(x.shape or ()) for x in body.outputs] == [(), (3, 4), (3, 4)]
    assert [tuple(x.shape or ()) for x in loop.outputs] == [(3, 4), (9, 3, 4)]


def test_a_loop_that_ends_by_its_state() -> None:
    def run(x: Any) -> Any:
        step = repeated(25)
        return lax.while_loop(lambda x: jnp.abs(x).max() > 1e-3, lambda x: step(x)[1][0], x)

    loop = translated(run, X)
    assert loop.op_type == "Loop"


OTHERS: dict[str, tuple[Callable[[Any], Any], Any, dict[str, Any]]] = {
    "short": (repeated(8), X, {}),
    "large": (repeated(25), LARGE, {}),
    "products": (repeated(25, lambda x: x @ W), X, {}),
    "branches": (repeated(25, lambda x: lax.cond(x[0, 0] > 0, jnp.sin, jnp.cos, x)), X, {}),
    "another-target": (repeated(25), X, {"target": "onnx"}),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_are_scans_with_shapes(name: str) -> None:
    function, x, options = OTHERS[name]
    loop = translated(function, x, **options)
    assert loop.op_type == "Scan"
    body = loop.attributes["body"].as_graph()
    assert all(x.shape is not None for x in body.inputs)


def test_saved_and_loaded(tmp_path: Any) -> None:
    program = hlo2onnx.translate(jax.jit(repeated(25)).lower(X))
    path = tmp_path / "model.onnx"
    program.save(path)
    onnx.checker.check_model(path, full_check=True)
    inferred = onnx.shape_inference.infer_shapes(onnx.load(path), strict_mode=True)
    shape = inferred.graph.output[1].type.tensor_type.shape
    assert [dim.dim_value for dim in shape.dim] == [9, 3, 4]
