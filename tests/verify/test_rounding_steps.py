"""Integers that come from floats with a rounding error."""

from __future__ import annotations

from collections.abc import Callable

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Candidate
from hlo2onnx.verify.sensitivity import differences

WINDOW = np.outer(np.hanning(7)[1:-1], np.hanning(7)[1:-1])
KERNEL = (WINDOW / WINDOW.sum()).astype(np.float32)
IMAGES = np.random.default_rng(0).integers(0, 256, (4, 1, 64, 64)).astype(np.uint8)


def blurred(images: jax.Array, bias: float = 0) -> jax.Array:
    x = images.astype(jnp.float32)
    y = jax.lax.conv_general_dilated(x, KERNEL[None, None], (1, 1), "SAME")
    return jnp.clip(y + bias, 0, 255).astype(jnp.uint8)


def test_truncated_images() -> None:
    found = hlo2onnx.translate(jax.jit(blurred), IMAGES).verify(IMAGES)
    assert found.ok, found


def test_faults_of_truncated_images_are_found() -> None:
    """Few bytes change, and none of their floats is at a step."""
    program = hlo2onnx.translate(jax.jit(blurred), IMAGES)
    wrong = hlo2onnx.translate(jax.jit(lambda x: blurred(x, 2e-2)), IMAGES)
    judge = Judge(program._source, [([IMAGES], "")])
    content = wrong.model_proto.SerializeToString()
    assert judge(Candidate(content, wrong.input_names)).differing


def moved(function: Callable[..., jax.Array], x: np.ndarray) -> np.ndarray | None:
    reference = Reference(load(jax.jit(function).lower(x), (), {}, None))
    found = differences(reference.at([x]).steps, [x], reference([x]))
    return None if found is None else found[0].limit


X = np.array([0.25, 2.9999998, 1.4, np.inf, 7.0000005], np.float32)


def test_only_floats_at_a_step_move() -> None:
    found = moved(lambda x: jnp.minimum(x * 3 / 3, 100.0).astype(jnp.int32), X)
    assert found is not None
    assert (found > 0).tolist() == [False, True, False, False, True]
    assert found.max() < 1.01


@pytest.mark.parametrize(
    "function",
    [jnp.floor, lambda x: jax.lax.clamp(-8.0, -x, 8.0).astype(jnp.int8), lambda x: x * 2],
)
def test_exact_floats_do_not_move(function: Callable[..., jax.Array]) -> None:
    assert moved(function, X) is None


def test_multiples_of_an_eighth_are_exact() -> None:
    found = moved(lambda x: jnp.round(x / 2).astype(jnp.int32), np.arange(9, dtype=np.float32))
    assert found is not None and not found.any()
