"""Why a rule does not apply."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from threading import get_ident
from typing import TypeVar

import onnx_ir as oir

T = TypeVar("T")


class Progress:
    """How many conditions of a rule hold in one attempt on a node.

    Attributes:
        held: How many conditions (`need`) have held so far.
        reached: How many had held before `refusal`.
        refusal: The refusal after the most conditions, the first of several. An attempt that tries
            alternatives raises several.
    """

    def __init__(self) -> None:
        self.held, self.reached = 0, -1
        self.refusal: Refusal | None = None

    def refused(self, refusal: Refusal) -> None:
        """Keeps the refusal if more conditions held before it than before earlier ones."""
        if self.held > self.reached:
            self.reached, self.refusal = self.held, refusal


_counted: dict[int, Progress] = {}
"""The attempts whose conditions are counted, by thread."""


@contextmanager
def counting() -> Iterator[Progress]:
    """Counts the conditions that this thread checks within the block."""
    thread = get_ident()
    _counted[thread] = Progress()
    try:
        yield _counted[thread]
    finally:
        del _counted[thread]


class Refusal(Exception):  # noqa: N818  (a rule's verdict, not an error)
    """A rule does not apply; says why and to which value or node.

    Whoever tries alternatives keeps `args` and raises a new one at the end. A variable with an
    exception that its own function raises is a cycle: it holds all frames, and with them the graph,
    until Python collects cycles.
    """

    def __init__(self, reason: str, culprit: oir.Value | oir.Node | None = None) -> None:
        # A large program raises hundreds of thousands. `args` already holds the arguments.
        self.reason = reason
        self.culprit = culprit
        if _counted and (progress := _counted.get(get_ident())) is not None:
            progress.refused(self)

    def __str__(self) -> str:
        return self.reason


def need(condition: object, reason: str, culprit: oir.Value | oir.Node | None = None) -> None:
    """Refuses the rewrite unless the condition holds."""
    if not condition:
        raise Refusal(reason, culprit)
    if _counted and (progress := _counted.get(get_ident())) is not None:
        progress.held += 1


def needed(value: T | None, reason: str, culprit: oir.Value | oir.Node | None = None) -> T:
    """Returns a value; refuses the rewrite if it is None."""
    need(value is not None, reason, culprit)
    assert value is not None
    return value
