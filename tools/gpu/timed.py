"""Times a benchmark in ONNX Runtime on a device, with its inputs and outputs there, and in JAX."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import open_session, to_ort
from tools.bench.__main__ import module_of
from tools.bench.timing import Call, medians

PROGRAMS = ("vit", "resnet18", "gpt2_prefill", "gpt2_decode", "unet", "lstm", "rk4", "sod")
"""Benchmarks of tools.bench: networks and loops."""
TYPES = ("float32", "float16", "bfloat16")
GRAPHS = {"enable_cuda_graph": 1}


def times_of(
    name: str, dtype: str, kind: str, providers: Sequence[tuple[str, Mapping[str, Any]]]
) -> dict[str, float]:
    """Milliseconds of a call of ours, with a CUDA graph where the provider has them, and of JAX.

    Args:
        name: One of `PROGRAMS`.
        dtype: The type that takes the place of float32 in the arguments.
        kind: The target.
        providers: Execution providers, the device's first.
    """
    import jax

    function, args = module_of("dense").BENCHMARKS[name].build()
    args = jax.tree.map(lambda x: x.astype(dtype) if x.dtype == np.float32 else x, args)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered, target=kind)
    compiled, placed = lowered.compile(), jax.device_put(args)
    calls = {"JAX": lambda: jax.block_until_ready(compiled(*placed))}
    calls["ours"] = _bound(program, args, providers)
    (first, options), *rest = providers
    if first.startswith("CUDA") and not program.report.fallback:
        calls["ours, CUDA graph"] = _bound(program, args, [(first, {**options, **GRAPHS}), *rest])
    found = medians([*calls.values()], blocks=3)
    return {title: 1e3 * seconds for title, seconds in zip(calls, found, strict=True)}


def _bound(program: hlo2onnx.OnnxProgram, args: Any, providers: Sequence[Any]) -> Call:
    """A call of a new session whose inputs and outputs stay in the memory of the device, but for
    inputs in bf16, which the Python API puts into that of the CPU."""
    import onnxruntime as ort

    session = open_session(program.model_proto.SerializeToString(), providers)
    device = "cpu" if providers[0][0].startswith("CPU") else "cuda"
    binding = session.io_binding()
    for name, value in to_model(program.input_names, program.flatten(*args)).items():
        is_bf16 = value.dtype.name == "bfloat16"  # ONNX Runtime copies these in each call
        bound = to_ort(value) if is_bf16 else ort.OrtValue.ortvalue_from_numpy(value, device, 0)
        binding.bind_ortvalue_input(name, bound)
    outputs = [output.name for output in session.get_outputs()]
    for name in outputs:
        binding.bind_output(name, device)
    session.run_with_iobinding(binding)
    # The same memory in each call, as CUDA graphs need it.
    for name, value in zip(outputs, binding.get_outputs(), strict=True):
        binding.bind_ortvalue_output(name, value)

    def call() -> None:
        session.run_with_iobinding(binding)
        binding.synchronize_outputs()

    return call
