"""Values that are made when they are first needed, in whichever thread."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Generic, TypeVar

T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that the first call makes.

    Threads that call at once get the same value: one makes it, the others wait. If `make` raises
    an error, the next call tries again.
    """

    def __init__(self) -> None:
        self._made: tuple[T] | None = None
        self._lock = threading.Lock()

    def __call__(self, make: Callable[[], T]) -> T:
        """Returns the value, made by `make` if there is none yet."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = (make(),)
        return self._made[0]
