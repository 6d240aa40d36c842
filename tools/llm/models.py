"""Makes the models: ours from JAX, and each twin in its own environment."""

from __future__ import annotations

import functools
import json
import logging
from pathlib import Path
from typing import Literal

import jax
import numpy as np
import onnx
from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer

import hlo2onnx
from tools import run_module
from tools.examples import load
from tools.llm import hub
from tools.llm.export import NAMES, PARTS
from tools.llm.folder import settings, weights

LLAMA = load("llm/llama")
CONFIG = LLAMA.Config()
OURS = {"ours": "gqa", "exact": "exact"}
"""Our models, and the option `attention` of each."""

MODELS = (*OURS, "optimum", "dynamo", "builder")
PRECISIONS = ("fp32", "int4")


def make(envs: Path) -> None:
    """Makes ENVS/models/NAME-PRECISION/model.onnx: ours anew, those of twins if they are missing.

    Raises:
        RuntimeError: An exporter fails.
    """
    logging.getLogger().setLevel(logging.WARNING)  # the quantizer's import lets all tell all
    folder, params = envs / "models", LLAMA.create_params(CONFIG)

    def run(name: str, module: str, *arguments: str) -> None:
        python = envs.absolute() / name / "bin" / "python"
        done = run_module(module, arguments, folder=folder, seconds=1200, python=python)
        if done.returncode:
            raise RuntimeError(f"{module} {' '.join(arguments)}:\n{done.stderr}")

    for name, attention in OURS.items():
        (folder / f"{name}-fp32").mkdir(parents=True, exist_ok=True)
        program = translated(params, attention)
        program.save(folder / f"{name}-fp32" / "model.onnx", external_data=True)
        quantize(folder, name)
    if not (folder / "saved").exists():
        np.savez(folder / "weights.npz", **weights(params))
        (folder / "config.json").write_text(json.dumps(settings(CONFIG)))
        run("optimum", "tools.llm.folder", "weights.npz", "config.json", "saved")
    for name in ("optimum", "dynamo"):
        if not (folder / f"{name}-int4").exists():
            run("optimum", "tools.llm.export", name, "saved", f"{name}-fp32")
            quantize(folder, name)
    for precision in PRECISIONS:
        if not (folder / f"builder-{precision}").exists():
            options = ["-o", f"builder-{precision}", "-p", precision, "-e", "cpu"]
            run("builder", "onnxruntime_genai.models.builder", "-i", "saved", *options)
    if (envs / "hub").exists():
        hub.make(folder, run)
    if (envs / "tunix").exists():
        run("tunix", "tools.llm.tunix", "tunix-ours")


def translated(params: object, attention: Literal["exact", "gqa"]) -> hlo2onnx.OnnxProgram:
    """Our model: batch, tokens and past are free."""
    layers = range(CONFIG.layers)
    batch, tokens, past = jax.export.symbolic_shape("batch, tokens, past")
    shapes = [(batch, tokens), (batch, past + tokens), (batch, tokens)]
    shape = (batch, CONFIG.kv_heads, past, CONFIG.head_dim)
    cache = jax.ShapeDtypeStruct(shape, np.float32)
    return hlo2onnx.translate(
        jax.jit(functools.partial(LLAMA.step, CONFIG)),
        params,
        *(jax.ShapeDtypeStruct(each, np.int32) for each in shapes),
        [(cache, cache)] * len(layers),
        bind=0,
        attention=attention,
        input_names=NAMES + [f"past_key_values.{i}.{part}" for i in layers for part in PARTS],
        output_names=["logits"] + [f"present.{i}.{part}" for i in layers for part in PARTS],
    )


def quantize(folder: Path, name: str) -> None:
    """Writes NAME-int4 of NAME-fp32 with the builder's settings for the CPU."""
    model, out = onnx.load(folder / f"{name}-fp32" / "model.onnx"), folder / f"{name}-int4"
    quantizer = MatMulNBitsQuantizer(model, block_size=32, is_symmetric=True, accuracy_level=4)
    quantizer.process()
    out.mkdir(exist_ok=True)
    for old in out.iterdir():  # the weights would be added to those of the last run
        old.unlink()
    quantizer.model.save_model_to_file(str(out / "model.onnx"), use_external_data_format=True)
