"""Constraints of free dimensions: "s <= 64", "t >= s"."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence

import jax
import jax.export

from hlo2onnx.errors import UsageError
from hlo2onnx.sources.signature import PyTree

_NAME = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = frozenset({"floordiv", "max", "min", "mod"})


def scope_of(constraints: Sequence[str]) -> jax.export.SymbolicScope:
    """A scope for dimensions with these constraints.

    Raises:
        UsageError: A text is no constraint.
    """
    for text in constraints:
        try:
            jax.export.SymbolicScope((text,))
        except ValueError as error:
            raise UsageError(
                f"constraints= has {text!r}, which is no constraint: {error}\n"
                '  next   compare two dimensions or numbers by <=, >= or ==, as in "s <= 64"'
                ' (not s < 65), "t >= s" and "mod(s, 8) == 0"'
            ) from error
    return jax.export.SymbolicScope(constraints)


def check_constraints(constraints: Sequence[str], arguments: PyTree, texts: Iterable[str]) -> None:
    """Checks that each name in the constraints is that of a dimension.

    Args:
        arguments: The arguments with free dimensions.
        texts: The texts that name dimensions, also those that "t == 2*s" has replaced.

    Raises:
        UsageError: A name is not.
    """
    dims = {dim for leaf in jax.tree.leaves(arguments) for dim in getattr(leaf, "shape", ())}
    known = sorted({name for dim in dims for name in _NAME.findall(str(dim))} - _FUNCTIONS)
    replaced = {name for text in texts for name in _NAME.findall(text)}
    for text in constraints:
        unknown = set(_NAME.findall(text)) - _FUNCTIONS - replaced
        if unknown:
            has = f"the free dimensions are {', '.join(known)}" if known else "none is free"
            raise UsageError(
                f"constraints= has {text!r}, but no dimension is named"
                f" {', '.join(sorted(unknown))}: {has}\n"
                '  next   name it in dynamic= or in an argument, as in dynamic={"x": "s, ..."};'
                " dimensions of jax.ShapeDtypeStructs have the constraints of their SymbolicScope"
            )
