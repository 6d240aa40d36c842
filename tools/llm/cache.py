"""Times the write of one position into a donated cache of 33 MB, with free sizes and without."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import numpy as np
import onnxruntime as ort

import hlo2onnx
from tools.llm.running import session, times

SHAPE, POSITION = (2, 8192, 8, 64), 4321
FREE = {"none": None, "batch": "b, ...", "length": "2, t, ...", "both": "b, t, ..."}


def write(cache: Any, k: Any, pos: Any) -> Any:
    """The cache with k[batch, 1, heads, features] at a position."""
    return jax.lax.dynamic_update_slice_in_dim(cache, k, pos, 1)


def call_of(free: str | None) -> Callable[[], object]:
    """A call that writes into the same memory; its first result has been compared."""
    cache, k = np.zeros(SHAPE, np.float32), np.ones((SHAPE[0], 1, *SHAPE[2:]), np.float32)
    dynamic = {"cache": free, "k": "b, ..." if free.startswith("b") else None} if free else None
    step = jax.jit(write, donate_argnums=0)
    program = hlo2onnx.translate(step, cache, k, np.int32(0), dynamic=dynamic)
    loaded = session(program.model_proto.SerializeToString(), 1)
    place, binding = ort.OrtValue.ortvalue_from_numpy(cache), loaded.io_binding()
    binding.bind_ortvalue_input("cache", place)
    binding.bind_cpu_input("k", k)
    binding.bind_cpu_input("pos", np.array(POSITION, np.int32))
    binding.bind_ortvalue_output(loaded.get_outputs()[0].name, place)
    loaded.run_with_iobinding(binding)
    cache[:, POSITION] = 1
    np.testing.assert_array_equal(place.numpy(), cache)
    return lambda: loaded.run_with_iobinding(binding)


def measure() -> dict[str, list[float]]:
    """Milliseconds of a write and its time by that of the static one, by what is free."""
    middle, ratios = times([call_of(free) for free in FREE.values()])
    return dict(zip(FREE, zip(middle.tolist(), (1 / ratios).tolist(), strict=True), strict=True))
