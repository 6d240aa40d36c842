"""Memoized answers about values that follow from answers about other values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import onnx_ir as oir

_Answer = TypeVar("_Answer")

_DEEPEST = 32
"""Most questions that may be open at a time. Programs have chains of thousands of ops, but Python's
stack has a thousand frames."""


class _TooDeep(Exception):  # noqa: N818  (a detour, not an error)
    """A question must be answered before the one that led to it."""

    def __init__(self, question: _Question) -> None:
        super().__init__()
        self.question = question


class Memo:
    """Computes every answer once, however long the chain of questions is.

    If the chain gets too long, all open questions are dropped. The last one is answered first and
    then the first one again; its chain now ends there.
    """

    def __init__(self) -> None:
        self._open = 0

    def ask(
        self,
        table: dict[oir.Value, _Answer],
        value: oir.Value,
        compute: Callable[[oir.Value], _Answer],
    ) -> _Answer:
        """The answer about a value.

        Args:
            table: The answers so far.
            value: What is asked about.
            compute: Computes the answer and asks about other values through this method. It may be
                called more than once.
        """
        if value in table:
            return table[value]
        question = (table, value, compute)
        if self._open == _DEEPEST:
            raise _TooDeep(question)
        if self._open:
            self._answer(question)
            return table[value]
        pending: list[_Question] = [question]
        while pending:
            try:
                self._answer(pending[-1])
                pending.pop()
            except _TooDeep as deeper:
                pending.append(deeper.question)
        return table[value]

    def _answer(self, question: _Question) -> None:
        table, value, compute = question
        self._open += 1
        try:
            table[value] = compute(value)
        finally:
            self._open -= 1


_Question = tuple[dict[oir.Value, Any], oir.Value, Callable[[oir.Value], Any]]
