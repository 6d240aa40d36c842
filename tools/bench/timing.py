"""Medians of calls that take turns."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

import numpy as np

THREADS = 2
PAUSE_SECONDS = 0.06
BLOCKS = 9
BLOCK_SECONDS = 0.1

Call = Callable[[], object]


def medians(
    calls: Sequence[Call],
    *,
    blocks: int = BLOCKS,
    block_seconds: float = BLOCK_SECONDS,
    least: int = 3,
) -> list[float]:
    """Median seconds of each call, timed in alternating blocks with a pause before each.

    Args:
        blocks: How many blocks each call gets.
        block_seconds: How long a block of fast calls takes.
        least: Calls in a block of slow ones.
    """
    counts = []
    for call in calls:
        call()
        start = time.perf_counter()
        call()
        taken = max(time.perf_counter() - start, 1e-6)
        counts.append(max(int(block_seconds / taken), least))
    times: list[list[float]] = [[] for _ in calls]
    for _ in range(blocks):
        for call, count, found in zip(calls, counts, times, strict=True):
            time.sleep(PAUSE_SECONDS)
            for _ in range(count):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
    return [float(np.median(found)) for found in times]
