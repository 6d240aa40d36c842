"""A row of a benchmark's table: a program, how to make it, and what it is to keep."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

Built = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and its arguments."""
Maker = Callable[[], Any]
"""Makes an argument."""


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


def row(title: str, goal: float | None, function: Callable[..., Any], *makers: Maker) -> Benchmark:
    """A function of arguments that are made when it is measured."""
    return Benchmark(title, lambda: (function, tuple(make() for make in makers)), goal)


def floats(*shape: int, seed: int = 0) -> Maker:
    """Makes normal f32 numbers."""
    return lambda: np.random.default_rng(seed).normal(size=shape).astype(np.float32)


def uniform(high: float, *shape: int, seed: int = 3) -> Maker:
    """Makes f32 numbers between 0 and another one."""
    return lambda: np.random.default_rng(seed).uniform(0, high, shape).astype(np.float32)


def integers(low: int, high: int, *shape: int, seed: int = 1) -> Maker:
    """Makes i32 numbers in [low, high)."""
    return lambda: np.random.default_rng(seed).integers(low, high, shape).astype(np.int32)
