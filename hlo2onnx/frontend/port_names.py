"""New names for the inputs and outputs of a program."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import jax
from jax.tree_util import KeyPath

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.captured import signature_of_call
from hlo2onnx.frontend.signature import Leaf, Port, Signature
from hlo2onnx.options import PortNames


def with_names(
    signature: Signature, inputs: PortNames | None, outputs: PortNames | None
) -> Signature:
    """The signature with new names; None keeps the present ones.

    Raises:
        UsageError: The names are no names, of other ports, too few or too many, or not unique.
    """
    trees = signature.trees
    renamed = replace(
        signature,
        inputs=_renamed("input", signature.inputs, inputs, trees.in_leaves if trees else ()),
        outputs=_renamed("output", signature.outputs, outputs, ()),
    )
    clashes = _clashes(renamed).items() - _clashes(signature).items()
    for name, things in sorted(clashes):
        raise UsageError(f"{name!r} would be the name of {things}")
    return renamed


def _clashes(signature: Signature) -> dict[str, str]:
    """Names of several things: a weight, an input or an output."""
    kinds: dict[str, list[str]] = {}
    weights = [item.port for item in signature.bound]
    for kind, ports in (
        ("a weight", weights),
        ("an input", signature.inputs),
        ("an output", signature.outputs),
    ):
        for port in ports:
            kinds.setdefault(port.name, []).append(kind)
    return {name: " and ".join(found) for name, found in kinds.items() if len(found) > 1}


def _renamed(
    kind: str, ports: Sequence[Port], names: PortNames | None, leaves: Sequence[Leaf]
) -> tuple[Port, ...]:
    if names is None:
        return tuple(ports)
    old = [port.name for port in ports]
    new = _mapped(kind, old, names) if isinstance(names, Mapping) else _listed(kind, names)
    if len(new) != len(old) and len(new) == len(leaves):  # jit pruned some arguments
        new = [name for name, leaf in zip(new, leaves, strict=True) if leaf.port is not None]
    if len(new) != len(old):
        known = ", ".join(old) or "none"
        raise UsageError(f"{kind}_names has {len(new)} names for {len(old)} {kind}s: {known}")
    twice = [name for name in new if new.count(name) > 1]
    if twice:
        raise UsageError(f"{kind}_names gives the name {twice[0]} to several {kind}s")
    return tuple(replace(port, name=name) for port, name in zip(ports, new, strict=True))


def _listed(kind: str, names: object) -> list[str]:
    """The names of a list.

    Raises:
        UsageError: It is none, or holds something else than names.
    """
    if isinstance(names, str):
        return _checked(kind, [names])
    if not isinstance(names, Sequence):
        raise UsageError(f"{kind}_names={names!r} is neither a list of names nor a mapping")
    return _checked(kind, list(names))


def _mapped(kind: str, old: Sequence[str], names: Mapping[str, str]) -> list[str]:
    for name in names:
        if name not in old:
            known = ", ".join(old) or "none"
            raise UsageError(f"{kind}_names: no {kind} is named {name!r}; there is {known}")
    return _checked(kind, [names.get(name, name) for name in old])


def _checked(kind: str, names: list[str]) -> list[str]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{kind}_names: {name!r} is not a name")
    return names


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
