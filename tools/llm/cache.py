"""Times the write of one position into a donated cache of 33 MB, with free sizes and without."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import onnxruntime

import hlo2onnx
from tools.llm.running import Call, ratios, times

SHAPE = (2, 8192, 8, 64)
POSITION = 4321
FREE = {"static": None, "batch": "b, ...", "length": "2, t, ...", "both": "b, t, ..."}


def write(cache: Any, k: Any, pos: Any) -> Any:
    """The cache with k[batch, 1, heads, features] at a position."""
    return jax.lax.dynamic_update_slice_in_dim(cache, k, pos, 1)


def call_of(free: str | None) -> Call:
    """A call that writes into the same memory; its first result has been compared."""
    cache, k = np.zeros(SHAPE, np.float32), np.ones((SHAPE[0], 1, *SHAPE[2:]), np.float32)
    dynamic = free and {"cache": free, "k": "b, ..." if free.startswith("b") else None}
    program = hlo2onnx.translate(
        jax.jit(write, donate_argnums=0), cache, k, np.int32(0), dynamic=dynamic
    )
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = 1
    model = program.model_proto.SerializeToString()
    loaded = onnxruntime.InferenceSession(model, options, ["CPUExecutionProvider"])
    place = onnxruntime.OrtValue.ortvalue_from_numpy(cache)
    binding = loaded.io_binding()
    binding.bind_ortvalue_input("cache", place)
    binding.bind_cpu_input("k", k)
    binding.bind_cpu_input("pos", np.array(POSITION, np.int32))
    binding.bind_ortvalue_output(loaded.get_outputs()[0].name, place)
    loaded.run_with_iobinding(binding)
    cache[:, POSITION] = 1
    np.testing.assert_array_equal(place.numpy(), cache)
    return lambda: loaded.run_with_iobinding(binding)


def measure() -> dict[str, dict[str, float]]:
    """Milliseconds of a write and its ratio to the static one, by what is free."""
    found = times([call_of(free) for free in FREE.values()], 9)
    medians = np.median(found, axis=0)
    return {
        name: {"ms": 1e3 * float(taken), "ratio": 1 / ratio}
        for name, taken, ratio in zip(FREE, medians, ratios(found), strict=True)
    }
