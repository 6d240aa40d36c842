"""Runs models whose inputs and outputs stay in place, and times them in turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np
import onnxruntime as ort

PAUSE_SECONDS, BLOCK_SECONDS = 0.05, 0.15
KEY_VALUE = ("past_key_values.", "present.")


def session(model: Path | bytes, threads: int) -> ort.InferenceSession:
    """A session on the CPU with some threads within operators."""
    options = ort.SessionOptions()
    options.intra_op_num_threads = threads
    given = model if isinstance(model, bytes) else str(model)
    return ort.InferenceSession(given, options, ["CPUExecutionProvider"])


def feeds(
    loaded: ort.InferenceSession, tokens: np.ndarray, cache: Mapping[str, np.ndarray]
) -> dict[str, np.ndarray]:
    """Those inputs of a step that a model has, in its types, by name.

    Args:
        loaded: A session of the model.
        tokens: The new tokens, int[batch, tokens].
        cache: Keys and values by name, f32[batch, heads, past, features].
    """
    past = next(iter(cache.values())).shape[2]
    total = past + tokens.shape[1]
    positions = np.broadcast_to(np.arange(past, total), tokens.shape)
    mask = np.ones((len(tokens), total))
    given = {"input_ids": tokens, "attention_mask": mask, "position_ids": positions}
    types = {each.name: each.type for each in loaded.get_inputs() if each.name in given}
    return {n: given[n].astype(each[7:-1]) for n, each in types.items()} | dict(cache)


def bound(
    loaded: ort.InferenceSession, given: Mapping[str, np.ndarray], room: int | None = None
) -> tuple[Callable[[], None], Callable[[], np.ndarray]]:
    """A call whose inputs and outputs stay where they are, and a reader of the first output.

    Args:
        loaded: A session of the model.
        given: The inputs by name.
        room: Least positions of a buffer that a cache shares with its next value. None: they are
            apart.
    """
    binding, shared = loaded.io_binding(), {}
    for name, value in given.items():
        if room and name.startswith(KEY_VALUE[0]):
            value = np.pad(value, ((0, 0), (0, 0), (0, room - value.shape[2]), (0, 0)))
        shared[name.replace(*KEY_VALUE)] = place = ort.OrtValue.ortvalue_from_numpy(value)
        binding.bind_ortvalue_input(name, place)
    names = [each.name for each in loaded.get_outputs()]
    for name in names:
        if room is not None and name in shared:
            binding.bind_ortvalue_output(name, shared[name])
        else:
            binding.bind_output(name)
    loaded.run_with_iobinding(binding)
    places = binding.get_outputs()
    for name, place in zip(names, places, strict=True):
        binding.bind_ortvalue_output(name, place if room is None else shared.get(name, place))
    return partial(loaded.run_with_iobinding, binding), places[0].numpy


def times(calls: Sequence[Callable[[], object]], rounds: int = 9) -> tuple[np.ndarray, np.ndarray]:
    """Median milliseconds of each call, and the median over the rounds of first / each.

    The calls take turns in blocks. A pause comes before each block, because the threads of an idle
    session spin for a while.
    """
    counts, found = [], np.empty((rounds, len(calls)))
    for call in calls:
        start = time.perf_counter()
        call()
        counts.append(max(int(BLOCK_SECONDS / (time.perf_counter() - start)), 1))
    for row in found:
        for index, (call, count) in enumerate(zip(calls, counts, strict=True)):
            time.sleep(PAUSE_SECONDS)
            taken = []
            for _ in range(count):
                start = time.perf_counter()
                call()
                taken.append(time.perf_counter() - start)
            row[index] = 1e3 * np.median(taken)
    return np.median(found, axis=0), np.median(found[:, :1] / found, axis=0)
