"""Reports the stages of a translation to a listener.

A listener belongs to the context (`contextvars`) that sets it. So translations in other threads do
not report to it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

Listener = Callable[[str], None]
"""Takes the name of the stage that begins."""

_LISTENER: ContextVar[Listener | None] = ContextVar("hlo2onnx_progress", default=None)


@contextmanager
def listening(listener: Listener) -> Iterator[None]:
    """Reports the stages that begin within the block to a listener."""
    token = _LISTENER.set(listener)
    try:
        yield
    finally:
        _LISTENER.reset(token)


def begin(stage: str) -> None:
    """Tells the listener that a stage begins."""
    listener = _LISTENER.get()
    if listener is not None:
        listener(stage)
