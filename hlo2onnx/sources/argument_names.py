"""The names by which a user can name the arguments of a call."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import jax
from jax.tree_util import KeyPath

from hlo2onnx.sources.captured import signature_of_call


def positional_names(function: object) -> list[str]:
    """The names of the parameters that positional arguments fill, without `*args`.

    Empty if they are not known, and for sources that are no functions.
    """
    signature = signature_of_call(function) if callable(function) else None
    parameters = [] if signature is None else signature.parameters.values()
    return [
        item.name
        for item in parameters
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
    ]


def argument_names(
    names: Sequence[str], args: Sequence[object], kwargs: Iterable[str]
) -> list[str | int]:
    """The name of each argument of a call; the position of one without a name.

    Args:
        names: Names of the positional parameters, if known.
        args, kwargs: The arguments, and the names of keywords.
    """
    positional = [names[i] if i < len(names) else i for i in range(len(args))]
    return [*positional, *kwargs]


def listed(names: Iterable[str | int]) -> str:
    """ "the arguments are x, y", for errors."""
    found = ", ".join(map(str, names))
    return f"the arguments are {found}" if found else "there are no arguments"


def leaf_name(path: KeyPath, names: Sequence[str]) -> str:
    """The name of a leaf of `(args, kwargs)`, such as "x['w']".

    Args:
        names: Names of the positional parameters, if known.
    """
    kind, parameter, *rest = path
    if kind.idx == 1:
        head = str(parameter.key)
    elif parameter.idx < len(names):
        head = names[parameter.idx]
    else:
        head = f"args[{parameter.idx}]"
    return f"{head}{jax.tree_util.keystr(tuple(rest))}"
