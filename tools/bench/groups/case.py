"""A program that is timed beside XLA."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Built = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""


@dataclass(frozen=True)
class Case:
    """A row of a group's table.

    Attributes:
        title: What is computed, and the sizes.
        build: Gives the function and its arguments.
        goal: The ratio of our time to XLA's that the project wants to keep; None for none.
        x64: Whether JAX has 64-bit types while it is built and run.
    """

    title: str
    build: Callable[[], Built]
    goal: float | None = None
    x64: bool = False


def of(function: Callable[..., Any], *args: Any) -> Callable[[], Built]:
    """The builder of a program whose arguments exist already."""
    return lambda: (function, args)
