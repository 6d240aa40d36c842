"""Threads that flush denormal floats to zero, as XLA's do on the CPU.

Whether arithmetic keeps denormals is the state of a thread. ONNX Runtime's own option,
session.set_denormal_as_zero, holds for the threads that a session makes. Of the threads that run
the session it changes one only: that which makes the first session of the process, and for good.
So a session that is to flush gets a thread of its own, and no thread of the user changes.
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
"""Where C's `fenv_t` holds the control word, in words of 32 bits, and the bits to set."""
_ENVIRONMENT_WORDS = 16
"""More than any `fenv_t` has."""


class FlushingThread:
    """A thread in which arithmetic takes denormals for zeros. It ends when nothing refers to it.

    Raises:
        VerificationError: This platform has no known way to make one.
    """

    def __init__(self) -> None:
        self._pool = ThreadPoolExecutor(1, "hlo2onnx-flushing", initializer=_flush)
        if not self(_flushes):
            raise VerificationError(
                f"denormals cannot be flushed on {platform.system()} {platform.machine()}: use"
                " denormals='keep'"
            )

    def __call__(self, function: Callable[..., T], *args: object, **kwargs: object) -> T:
        """Calls a function in the thread and waits for what it returns or raises."""
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
    """Makes the current thread flush denormals, where it is known how."""
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
    """Whether arithmetic in the current thread takes denormals for zeros."""
    with np.errstate(all="ignore"):
        products = [
            np.full(8, np.finfo(dtype).smallest_subnormal) * np.ones(8, dtype)
            for dtype in (np.float32, np.float64)
        ]
    return not any(product.any() for product in products)
