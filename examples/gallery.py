"""The parts that all examples share: declaration, command line and weights.

An example names a function, the arguments to trace it with and the tolerance of the translation.
A test needs no more, so each example is also a test case (see :func:`load_all`).
"""

from __future__ import annotations

import argparse
import importlib
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

FOLDER = Path(__file__).resolve().parent


@dataclass(frozen=True)
class Example:
    """One entry of the gallery."""

    name: str
    summary: str
    build: Callable[..., tuple[Callable[..., Any], tuple[Any, ...]]]
    """Returns ``(function, args)``, always the same ones. Every keyword has a default."""
    tolerance: float = 1e-5
    """Largest error allowed in an output, relative to the largest magnitude in that output."""
    small: Mapping[str, Any] = field(default_factory=dict)
    """Keywords for ``build`` that make a model small enough to be stored as text."""
    dynamic: Mapping[int | str, str] = field(default_factory=dict)
    """Dimensions that stay free, by argument, as ``translate(..., dynamic=)`` takes them."""
    gradient: tuple[int, ...] = ()
    """Positions of the arguments that its gradient is taken by; the tests translate that too."""
    x64: bool = False
    """Whether it is made of 64-bit types, which JAX has only while they are enabled."""

    def types(self) -> AbstractContextManager[Any]:
        """Return the context in which to build, lower and run the example, here and in JAX."""
        context: AbstractContextManager[Any] = jax.enable_x64(self.x64)
        return context

    def build_gradient(self, **keywords: Any) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        """Return the gradient of a scalar function of all float outputs, and its arguments."""
        function, args = self.build(**keywords)

        def loss(*args: Any) -> jax.Array:
            outputs = [jnp.asarray(leaf) for leaf in jax.tree.leaves(function(*args))]
            floats = [leaf for leaf in outputs if jnp.issubdtype(leaf.dtype, jnp.floating)]
            # The sine makes the cotangents differ from element to element.
            return jnp.sum(jnp.stack([jnp.sum(jnp.sin(leaf)) for leaf in floats]))

        return jax.grad(loss, self.gradient), args


def load_all() -> list[Example]:
    """Import every example in this folder and return them sorted by file name."""
    examples: list[Example] = []
    for path in sorted(FOLDER.glob("*.py")):
        if path.stem == Path(__file__).stem:
            continue
        module = importlib.import_module(path.stem)
        if hasattr(module, "EXAMPLES"):
            examples.extend(module.EXAMPLES)
        elif hasattr(module, "EXAMPLE"):
            examples.append(module.EXAMPLE)
        else:
            raise AttributeError(f"{path.name} defines neither EXAMPLE nor EXAMPLES")
    return examples


def relative_error(expected: Any, actual: Any) -> float:
    """Return the largest error of any output, relative to that output's largest magnitude."""
    worst = 0.0
    for want, got in zip(jax.tree.leaves(expected), jax.tree.leaves(actual), strict=True):
        want64, got64 = np.asarray(want, np.float64), np.asarray(got, np.float64)
        if want64.shape != got64.shape:
            raise ValueError(f"expected an output of shape {want64.shape}, got {got64.shape}")
        if want64.size == 0:
            continue
        error = np.max(np.abs(want64 - got64)) / max(np.max(np.abs(want64)), 1e-30)
        # A NaN compares false with everything, so it must not reach max() below.
        worst = max(worst, math.inf if np.isnan(error) else float(error))
    return worst


def main(example: Example, argv: Sequence[str] | None = None) -> int:
    """Translate one example, check it against JAX and return the exit code."""
    # Imported here so that the examples themselves need nothing but JAX.
    import hlo2onnx

    parser = argparse.ArgumentParser(description=example.summary)
    parser.add_argument("--save", type=Path, metavar="FILE", help="write the ONNX model to FILE")
    options = parser.parse_args(argv)

    with example.types():
        function, args = example.build()
        compiled = jax.jit(function)
        program = hlo2onnx.translate(compiled.lower(*args))
        verification = program.verify(*args)
        error = relative_error(compiled(*args), program(*args))
    exact = error <= example.tolerance
    print(program.report)
    print(verification)
    print(
        f"{example.name}: relative error {error:.1e}, "
        f"{'within' if exact else 'ABOVE'} the tolerance of {example.tolerance:.0e}"
    )
    if options.save is not None:
        program.save(options.save)
        print(f"saved {options.save}")
    return 0 if verification.ok and exact else 1


def trained(shapes: Any, seed: int = 0) -> Any:
    """Fill a tree of flax parameter shapes with values that could come from training.

    This stands in for loading a checkpoint. The initial values of a fresh model would make a poor
    test: with zero biases, unit scales and zero means, a translation may ignore them and still be
    right. It is also much faster than ``model.init`` and does not depend on the version of JAX.
    """
    rng = np.random.default_rng(seed)

    def draw(path: tuple[Any, ...], leaf: Any) -> jax.Array:
        names = [str(getattr(entry, "key", entry)) for entry in path]
        shape = leaf.shape
        match names[-1]:
            case "kernel":
                # A projection to attention heads is [inputs, heads, head width], all other
                # kernels end with the one dimension that counts the outputs.
                is_head = len(names) > 1 and names[-2] in ("query", "key", "value")
                inputs = shape[0] if is_head else math.prod(shape[:-1])
                value = rng.normal(0.0, 1.0 / math.sqrt(inputs), shape)
            case "scale" | "var":
                value = rng.uniform(0.5, 1.5, shape)
            case _:
                value = rng.normal(0.0, 0.2, shape)
        return jnp.asarray(value, leaf.dtype)

    return jax.tree_util.tree_map_with_path(draw, shapes)
