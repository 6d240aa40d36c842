"""What the checks of clients share."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any


def microseconds(call: Callable[[], Any], count: int = 300) -> float:
    """The time of one call: the median of some."""
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(median(times) * 1e6, 1)
