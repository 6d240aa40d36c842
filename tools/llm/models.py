"""Makes the models: ours from JAX, and each twin in its own environment."""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Any

import jax
import numpy as np
import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

import hlo2onnx
from tools import run_module
from tools.examples import load
from tools.llm.folder import settings, weights

LLAMA = load("llm/llama")
CONFIG = LLAMA.Config()
TWINS = ("optimum", "dynamo", "builder")
MODELS = ("ours", *TWINS)
PRECISIONS = ("fp32", "int4")
LOGGER = "onnxruntime.quantization.matmul_nbits_quantizer"


def make(envs: Path, folder: Path) -> None:
    """Makes the models that FOLDER lacks: FOLDER/NAME-PRECISION/model.onnx; ours always.

    Args:
        envs: The folder of the environments `optimum` (for torch.onnx as well) and `builder`.
        folder: The folder of the models, which need not exist.

    Raises:
        RuntimeError: An exporter fails.
    """
    folder.mkdir(parents=True, exist_ok=True)
    params = LLAMA.create_params(CONFIG)
    for precision in PRECISIONS:
        (folder / f"ours-{precision}").mkdir(exist_ok=True)
    program(params).save(folder / "ours-fp32" / "model.onnx", external_data=True)
    quantize(folder, "ours")
    if not (folder / "torch").exists():
        np.savez(folder / "weights.npz", **weights(params))
        (folder / "config.json").write_text(json.dumps(settings(CONFIG)))
        _run(envs / "optimum", folder, "tools.llm.folder", "weights.npz", "config.json", "torch")
    for name in ("optimum", "dynamo"):
        if not (folder / f"{name}-fp32" / "model.onnx").exists():
            _run(envs / "optimum", folder, "tools.llm.export", name, "torch", f"{name}-fp32")
            quantize(folder, name)
    for precision in PRECISIONS:
        if not (out := folder / f"builder-{precision}" / "model.onnx").exists():
            builder = "onnxruntime_genai.models.builder"
            options = ["-i", "torch", "-o", str(out.parent), "-p", precision, "-e", "cpu"]
            _run(envs / "builder", folder, builder, *options)


def program(params: Any) -> hlo2onnx.OnnxProgram:
    """Our model: batch, tokens and past are free."""
    layers, shape = CONFIG.layers, jax.ShapeDtypeStruct
    batch, tokens, past = jax.export.symbolic_shape("batch, tokens, past")
    cache = shape((batch, CONFIG.kv_heads, past, CONFIG.head_dim), np.float32)
    names = [f"{{}}.{index}.{part}" for index in range(layers) for part in ("key", "value")]
    return hlo2onnx.translate(
        jax.jit(functools.partial(LLAMA.step, CONFIG)),
        params,
        shape((batch, tokens), np.int32),
        shape((batch, past + tokens), np.int32),
        shape((batch, tokens), np.int32),
        [(cache, cache)] * layers,
        bind=0,
        input_names=["input_ids", "attention_mask", "position_ids"]
        + [name.format("past_key_values") for name in names],
        output_names=["logits"] + [name.format("present") for name in names],
    )


def quantize(folder: Path, name: str) -> None:
    """Writes NAME-int4 of NAME-fp32 with the builder's settings on the CPU."""
    model = onnx.load(folder / f"{name}-fp32" / "model.onnx")
    logging.getLogger(LOGGER).setLevel(logging.WARNING)
    quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    out = folder / f"{name}-int4"
    out.mkdir(exist_ok=True)
    for old in out.iterdir():
        old.unlink()
    quantizer.model.save_model_to_file(str(out / "model.onnx"), use_external_data_format=True)


def _run(environment: Path, folder: Path, module: str, *arguments: str) -> None:
    python = environment.absolute() / "bin" / "python"
    done = run_module(module, arguments, folder=folder, seconds=1200, python=python)
    if done.returncode:
        raise RuntimeError(f"{module} {' '.join(arguments)}:\n{done.stderr}")
