"""Threads that flush denormal floats to zero, as XLA does on the CPU.

Each thread has a state that keeps or flushes denormals. ONNX Runtime's option
session.set_denormal_as_zero sets it in the threads that a session makes. It also sets it, for good,
in the thread that makes the first session of the process, but in no other thread that runs a
session. So a session that flushes gets its own thread, and the user's threads do not change.
"""

from __future__ import annotations

import ctypes
import platform
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from functools import cache
from typing import TypeVar

import numpy as np

from hlo2onnx.errors import VerificationError

T = TypeVar("T")

_X86 = 1 << 15 | 1 << 6
"""MXCSR: flush to zero, denormals are zero."""
_ARM = 1 << 24
"""FPCR: flush to zero, operands as well."""
_CONTROL_WORDS = {
    ("Linux", "x86_64"): (7, _X86),
    ("Linux", "aarch64"): (0, _ARM),
    ("Darwin", "x86_64"): (1, _X86),
    ("Darwin", "arm64"): (2, _ARM),
}
"""The index of the control word in C's `fenv_t`, in words of 32 bits, and the bits to set."""
_ENVIRONMENT_WORDS = 16
"""More than any `fenv_t` has."""


class FlushingThread:
    """A thread whose arithmetic treats denormals as zeros. It ends without references to it.

    Raises:
        VerificationError: There is no known way to make one on this platform.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "hlo2onnx-flushing", initializer=_flush)
        if not self(_flushes):
            raise VerificationError(
                f"denormals cannot be flushed on {platform.system()} {platform.machine()}: use"
                " denormals='keep'"
            )

    def __call__(self, function: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Calls a function in the thread, and returns its result."""
        return self._pool.submit(function, *args, **kwargs).result()


@cache
def can_flush() -> bool:
    """Whether this platform has flushing threads."""
    try:
        FlushingThread()
    except VerificationError:
        return False
    return True


def _flush() -> None:
    """Makes the current thread flush denormals, on known platforms."""
    known = _CONTROL_WORDS.get((platform.system(), platform.machine()))
    if known is None:
        return
    place, bits = known
    c = ctypes.CDLL(None)
    environment = (ctypes.c_uint32 * _ENVIRONMENT_WORDS)()
    if c.fegetenv(environment) == 0:
        environment[place] |= bits
        c.fesetenv(environment)


def _flushes() -> bool:
    """Whether arithmetic in the current thread treats denormals as zeros."""
    with np.errstate(all="ignore"):
        products = [
            np.full(8, np.finfo(dtype).smallest_subnormal) * np.ones(8, dtype)
            for dtype in (np.float32, np.float64)
        ]
    return not any(product.any() for product in products)
