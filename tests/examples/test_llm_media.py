"""Sound and images in examples/llm: JAX's tokens and pictures, with attention as one node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import guided
import jax
import numpy as np
import onnxruntime
import pytest
import vision
import whisper
from flax import nnx
from lowered_loops import body
from small_llama import PAD, PARAMS, SIZES

import hlo2onnx

RNG = np.random.default_rng(0)
SOUND = RNG.normal(size=(3, 60, 20)).astype(np.float32)
PROMPTS = np.array([[PAD, 10, 3, 3, 3, 3, 11], [8, 9, 3, 3, 3, 3, 20]], np.int32)
PICTURES = RNG.normal(size=(2, 16, 16, 3)).astype(np.float32)
NOISE = RNG.normal(size=(2, 8, 8, 3)).astype(np.float32)
WORDS = np.array([[5, 6, 7], [8, 9, 10]], np.int32)
EARS = whisper.Whisper(nnx.Rngs(3), vocab=100, width=32, bands=20)
EYES = vision.VisionTransformer(nnx.Rngs(0), size=16, width=32, out=SIZES.width)
PAINTER = guided.Painter(nnx.Rngs(0), vocab=100, size=8, width=32)
IDS = ["int32[b, s]", "int32[b, s]"]
STATIC = pytest.param(False, marks=pytest.mark.wide, id="static")
FREE = pytest.mark.parametrize("free", [STATIC, pytest.param(True, id="free")])


def transcribe(features: Any) -> Any:
    return EARS.transcribe(features, length=16)


def describe(*inputs: Any) -> Any:
    params = jax.tree.map(jax.numpy.asarray, PARAMS)
    return vision.describe(SIZES, params, EYES, *inputs, length=24)


def operators(nodes: Any) -> Counter[str]:
    return Counter(node.op_type for node in nodes)


def loop_of(program: hlo2onnx.OnnxProgram) -> Any:
    (loop,) = (node for node in program.model.graph.all_nodes() if node.op_type in ("Loop", "Scan"))
    return loop


@FREE
def test_whisper(free: bool) -> None:
    """The encoder and the keys and values of sound are outside of the loop."""
    given = "float32[b, t, 20]" if free else SOUND
    program = hlo2onnx.translate(transcribe, given, opset=24)
    tokens = np.asarray(program(SOUND))
    np.testing.assert_array_equal(tokens, jax.jit(transcribe)(SOUND))
    assert (tokens[:, 0] == whisper.START).all() and len(np.unique(tokens)) > 8
    assert len(np.unique(tokens, axis=0)) == 3
    whole, trip = (
        operators(nodes) for nodes in (program.model.graph.all_nodes(), body(loop_of(program)))
    )
    assert (whole["Attention"], trip["Attention"]) == (6, 4)
    assert whole["LayerNormalization"] == 12 and whole["Softmax"] == 0
    assert trip["MatMul"] == 2 * (4 + 2 + 2) + 1 and trip["Transpose"] == 0


@pytest.mark.wide
def test_whisper_stops() -> None:
    """Rows end by themselves, and so does the loop."""
    model = whisper.Whisper(nnx.Rngs(7), vocab=100, width=32, bands=20)
    kernel = model.head.layers[1].kernel
    kernel[...] = kernel[...].at[:, whisper.STOP].multiply(3)
    program = hlo2onnx.translate(model.transcribe, SOUND, opset=24)
    tokens = np.asarray(program(SOUND))
    np.testing.assert_array_equal(tokens, jax.jit(model.transcribe)(SOUND))
    assert (tokens != whisper.STOP).sum(axis=1).tolist() == [32, 3, 32]
    assert (tokens[1, 3:] == whisper.STOP).all()


@FREE
@pytest.mark.wide
def test_vision(free: bool) -> None:
    """Two inputs, and patches in the place of tokens; other images give other tokens."""
    mask = (PROMPTS != PAD).astype(np.int32)
    given = ["float32[b, 16, 16, 3]", *IDS] if free else [PICTURES, PROMPTS, mask]
    options: Any = {"constraints": ["s <= 23"]} if free else {}
    program = hlo2onnx.translate(describe, *given, opset=24, **options)
    found = []
    for pictures in (PICTURES, -PICTURES):
        found.append(np.asarray(program(pictures, PROMPTS, mask)))
        np.testing.assert_array_equal(found[-1], jax.jit(describe)(pictures, PROMPTS, mask))
    assert (found[0] != found[1]).any(axis=1).all()
    whole, trip = (
        operators(nodes) for nodes in (program.model.graph.all_nodes(), body(loop_of(program)))
    )
    assert (whole["Attention"], trip["Attention"]) == (6, 2)
    assert (whole["LayerNormalization"], whole["RMSNormalization"]) == (4, 10)
    assert not {"Transpose", "Softmax"} & trip.keys()


@FREE
def test_guidance(free: bool) -> None:
    """Both predictions of a step are one batch, and the loop is one node."""
    given = ["int32[b, s]", "float32[b, 8, 8, 3]", "float32[]"]
    inputs = [WORDS, NOISE, np.float32(4)]
    program = hlo2onnx.translate(PAINTER.paint, *(given if free else inputs), opset=24)
    paint = jax.jit(PAINTER.paint)
    for guidance in (0, 1, 4):
        inputs[2] = np.float32(guidance)
        np.testing.assert_allclose(program(*inputs), paint(*inputs), rtol=1e-4, atol=1e-4)
    plain, unguided = paint(WORDS, NOISE, 1), paint(np.zeros_like(WORDS), NOISE, 4)
    assert min(np.abs(plain - other).max() for other in (paint(*inputs), unguided)) > 0.1
    found = operators(body(loop_of(program)))
    assert (found["Attention"], found["LayerNormalization"], found["Softmax"]) == (4, 6, 0)


@pytest.mark.wide
@pytest.mark.parametrize(
    ("module", "shape"),
    [(whisper, ["b", 32]), (vision, ["b", 64]), (guided, ["b", 16, 16, 3])],
    ids=lambda x: getattr(x, "__name__", ""),
)
def test_the_example(module: Any, shape: list[Any], tmp_path: Path) -> None:
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run(
        [sys.executable, module.__file__], cwd=tmp_path, env=os.environ | path, check=True
    )
    session = onnxruntime.InferenceSession(tmp_path / f"{module.__name__}.onnx")
    assert [value.shape for value in session.get_outputs()] == [shape]
