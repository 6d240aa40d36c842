"""Runs models with inputs and outputs that stay in place, and times them in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime

Array = np.ndarray
Call = Callable[[], None]
PAUSE_SECONDS = 0.05
BLOCK_SECONDS = 0.15
KEY_VALUE = ("past_key_values.", "present.")


def session(path: Path, threads: int) -> onnxruntime.InferenceSession:
    """A session on the CPU with some threads within operators."""
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = threads
    options.log_severity_level = 3
    return onnxruntime.InferenceSession(str(path), options, ["CPUExecutionProvider"])


def feeds(
    loaded: onnxruntime.InferenceSession, tokens: Array, cache: Mapping[str, Array]
) -> dict[str, Array]:
    """The inputs of a step that a model has, in its types.

    Args:
        loaded: A session of the model.
        tokens: The new tokens, int[batch, tokens].
        cache: Keys and values by the names of inputs, f32[batch, heads, past, features].
    """
    past = next(iter(cache.values())).shape[2]
    total = past + tokens.shape[1]
    given = {
        "input_ids": tokens,
        "attention_mask": np.ones((len(tokens), total)),
        "position_ids": np.broadcast_to(np.arange(past, total), tokens.shape),
    }
    types = {value.name: value.type for value in loaded.get_inputs()}
    integers = {"tensor(int32)": np.int32, "tensor(int64)": np.int64}
    chosen = {n: value.astype(integers[types[n]]) for n, value in given.items() if n in types}
    return {**chosen, **cache}


def bound(
    loaded: onnxruntime.InferenceSession, given: Mapping[str, Array], room: int = 0
) -> tuple[Call, Callable[[], Array]]:
    """A call whose inputs and outputs stay where they are, and a reader of the first output.

    Args:
        loaded: A session of the model.
        given: The inputs.
        room: Positions of a buffer that a cache shares with its next value. 0: they are apart.
    """
    binding, outputs = loaded.io_binding(), [value.name for value in loaded.get_outputs()]
    shared = {}
    for name, value in given.items():
        if room and name.startswith(KEY_VALUE[0]):
            pad = (0, room - value.shape[2])
            value = np.pad(value, ((0, 0), (0, 0), pad, (0, 0)))
        place = onnxruntime.OrtValue.ortvalue_from_numpy(np.ascontiguousarray(value))
        shared[name.replace(*KEY_VALUE)] = place
        binding.bind_ortvalue_input(name, place)
    for name in outputs:
        if room and name in shared:
            binding.bind_ortvalue_output(name, shared[name])
        else:
            binding.bind_output(name)
    loaded.run_with_iobinding(binding)
    places = dict(zip(outputs, binding.get_outputs(), strict=True))
    for name, place in places.items():
        binding.bind_ortvalue_output(name, shared[name] if room and name in shared else place)
    return partial(loaded.run_with_iobinding, binding), places[outputs[0]].numpy


def times(calls: Sequence[Call], rounds: int) -> Array:
    """Seconds of each call in each round, f64[rounds, calls]: the median of a block of calls.

    A pause comes before each block, because the threads of an idle session spin for a while.
    """
    counts = []
    for call in calls:
        start = time.perf_counter()
        call()
        counts.append(max(int(BLOCK_SECONDS / (time.perf_counter() - start)), 1))
    found = np.empty((rounds, len(calls)))
    for row in found:
        for index, (call, count) in enumerate(zip(calls, counts, strict=True)):
            time.sleep(PAUSE_SECONDS)
            taken = []
            for _ in range(count):
                start = time.perf_counter()
                call()
                taken.append(time.perf_counter() - start)
            row[index] = np.median(taken)
    return found


def ratios(found: Array) -> list[float]:
    """The median over the rounds of the first call's time by that of each."""
    return [float(each) for each in np.median(found[:, :1] / found, axis=0)]
