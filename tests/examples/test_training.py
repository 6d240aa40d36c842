"""Training in ONNX Runtime, and the quantized example: the point of each."""

from __future__ import annotations

from typing import Any

import gallery
import jax
import numpy as np
import pytest
import train_step

import hlo2onnx

(TRAIN, INT8) = (
    next(item for item in gallery.load_all() if item.name == name)
    for name in ("train_step", "int8_mlp")
)


def curves(steps: int, **keywords: Any) -> tuple[np.ndarray, np.ndarray]:
    """Losses step by step, in JAX and in ONNX Runtime, each on its own state."""
    step, (state, images, labels) = TRAIN.build(**keywords)
    compiled = jax.jit(step)
    program = hlo2onnx.translate(compiled.lower(state, images, labels))
    stream = train_step.batches(images.shape[0], seed=1)
    ours, wanted = state, []
    found = []
    for _ in range(steps):
        batch = next(stream)
        state, loss = compiled(state, *batch)
        wanted.append(float(loss))
        ours, loss = program(ours, *batch)
        found.append(float(loss))
    return np.array(wanted), np.array(found)


@pytest.mark.wide
def test_five_steps() -> None:
    wanted, found = curves(5, **TRAIN.small)
    np.testing.assert_allclose(found, wanted, rtol=1e-3)


@pytest.mark.wide
def test_a_hundred_steps_reach_jaxs_loss_curve() -> None:
    wanted, found = curves(100)
    assert wanted[-10:].mean() < 0.3 * wanted[:10].mean()
    assert np.abs(found - wanted).max() < 0.05 * wanted[0]
    np.testing.assert_allclose(found[-10:].mean(), wanted[-10:].mean(), rtol=0.05)


@pytest.mark.wide
def test_the_state_is_named_by_its_paths() -> None:
    step, args = TRAIN.build(**TRAIN.small)
    program = hlo2onnx.translate(jax.jit(step).lower(*args))
    assert "state/params/Conv_0/kernel" in program.input_names
    assert "result/0/params/Conv_0/kernel" in program.output_names
    assert len(program.output_names) == len(jax.tree.leaves(args[0])) + 1


def test_bytes_are_quantized_and_multiplied_by_operators() -> None:
    function, args = INT8.build(**INT8.small)
    program = hlo2onnx.translate(jax.jit(function).lower(*args))
    nodes = program.report.nodes
    assert (nodes["QuantizeLinear"], nodes["MatMulInteger"], nodes["MatMul"]) == (3, 3, 0)
    assert nodes["Round"] == nodes["Clip"] == 0
