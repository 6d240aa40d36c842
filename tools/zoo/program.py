"""A program of the zoo, and the table of all of them."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Built = tuple[Callable[..., Any], tuple[Any, ...]]
"""A function and the arguments it is traced, verified and timed with."""


@dataclass(frozen=True)
class Program:
    """A program that runs a package's own code, with random weights.

    Attributes:
        name: Unique name, that of the function which builds it.
        package: Distribution whose code it is.
        needs: Distributions that it imports besides.
        build: Makes the program; imports the packages.
        x64: Whether JAX has 64-bit types while it is built and run.
        tolerance: Largest error that is right besides what `OnnxProgram.verify` takes as right,
            relative to the scale of an output.
        reason: Why `tolerance` is needed.
        fault: Why the program fails for a reason of the package or of JAX; empty otherwise.
        sample: Whether it is one of the few that the wide tests run.
    """

    name: str
    package: str
    build: Callable[[], Built]
    needs: Sequence[str] = ()
    x64: bool = False
    tolerance: float = 0.0
    reason: str = ""
    fault: str = ""
    sample: bool = False

    @property
    def summary(self) -> str:
        """What the program is, in a line."""
        return (self.build.__doc__ or "").strip().partition("\n")[0].rstrip(".")

    @property
    def packages(self) -> tuple[str, ...]:
        """Every distribution that it imports."""
        return (self.package, *self.needs)


PROGRAMS: dict[str, Program] = {}


def program(package: str, **fields: Any) -> Callable[[Callable[[], Built]], Callable[[], Built]]:
    """Decorates a function that builds a program of a package; `fields` are those of `Program`.

    Raises:
        ValueError: Another program has that name, or a tolerance has no reason.
    """

    def register(build: Callable[[], Built]) -> Callable[[], Built]:
        found = Program(build.__name__, package, build, **fields)
        if found.name in PROGRAMS:
            raise ValueError(f"there are two programs {found.name}")
        if bool(found.tolerance) != bool(found.reason):
            raise ValueError(f"{found.name}: a tolerance goes with a reason")
        PROGRAMS[found.name] = found
        return build

    return register


def load_all() -> dict[str, Program]:
    """Every program by name; needs none of the packages."""
    for module in pkgutil.iter_modules([str(Path(__file__).parent / "programs")]):
        importlib.import_module(f"tools.zoo.programs.{module.name}")
    return PROGRAMS


def lowered(name: str) -> tuple[Any, tuple[Any, ...]]:
    """A program as a lowered function of JAX, and its arguments; its packages must be installed."""
    import jax

    item = load_all()[name]
    jax.config.update("jax_enable_x64", item.x64)
    function, args = item.build()
    jitted: Any = function if hasattr(function, "lower") else jax.jit(function)
    return jitted.lower(*args), args
