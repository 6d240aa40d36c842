"""A row of a benchmark's table: a program, how to make it, and what it is to keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Built = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


@dataclass(frozen=True)
class Benchmark:
    """A program that is measured.

    Attributes:
        title: What is computed, and the sizes; the first cell of its row.
        build: Gives the function and its arguments.
        goal: The ratio of our time to XLA's that the project wants to keep; None for none.
        binds: Whether the first argument holds parameters, which become part of the model.
    """

    title: str
    build: Callable[[], Any]
    goal: float | None = None
    binds: bool = False
