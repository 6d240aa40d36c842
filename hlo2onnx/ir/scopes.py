"""The scope of a node: its named scopes and modules, or else the functions that made it."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

_STRUCTURE = re.compile(r"while|body|cond|scan|branch_\d+_fun|closed_call|call|eval_jaxpr")
"""Segments that JAX makes for control flow."""
_RULES = re.compile(r"checkpoint|remat\d*|custom_[jv]+p_call")
_WRAPPED = re.compile(r"(p?jit|vmap)\((.*)\)")
_TRANSFORM = re.compile(r"\w+\((.*)\)")
_OF_NO_NAME = re.compile(r"<.*>")


@functools.lru_cache(maxsize=4096)  # an op asks twice, and each use of a function has the same ops
def split_scope(scope: str) -> tuple[str, ...]:
    """Splits a name stack at the slashes outside of parentheses."""
    segments, depth, start = [], 0, 0
    for position, char in enumerate(scope):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "/" and depth <= 0:
            segments.append(scope[start:position])
            start = position + 1
    segments.append(scope[start:])
    return tuple(segment for segment in segments if segment)


def common_callers(nodes: Iterable[Mapping[str, str]]) -> int:
    """Count of the outermost functions that are on the call stacks of all nodes, but for the last.

    These functions called JAX; they are no part of the program.

    Args:
        nodes: The metadata of the nodes.
    """
    stacks = {stack for metadata in nodes if (stack := metadata.get("jax.stack"))}
    functions = [_functions(stack) for stack in stacks]
    # Positions at which all stacks have the same function; the first other one ends them.
    same = [len(set(places)) == 1 for places in zip(*functions, strict=False)]
    return max([*same, False].index(False) - 1, 0)


def scope_of(name: str, metadata: Mapping[str, str], callers: int = 0) -> tuple[str, ...]:
    """The scope of a node, the outermost part first.

    These are the named scopes and modules in the name of the node, without the parts that JAX adds
    for control flow, transformations and einsum. If there are none, these are the functions on the
    call stack of the node.

    Args:
        name: The name of the node ("Net/Dense_0/add").
        metadata: Its metadata, with `jax.stack` and `jax.source`.
        callers: Count of the outermost functions to leave out.
    """
    parts = [part for segment in split_scope(name)[:-1] if (part := _part(segment)).text]
    if all(part.is_jit for part in parts):
        functions = _functions(metadata.get("jax.stack", ""))[callers:]
        inner = [part.text for part in parts if part.text not in functions]
        return (*functions, *inner) or tuple(filter(None, [metadata.get("jax.source", "")]))
    return tuple(part.text for part in parts)


class _Part(NamedTuple):
    """A part of a name stack: its text, or "" if users have not named it, and whether it is the
    name of a jitted function."""

    text: str
    is_jit: bool


def _part(segment: str) -> _Part:
    is_jit, text = False, segment
    while match := _WRAPPED.fullmatch(text):
        is_jit = is_jit or match[1] != "vmap"
        text = match[2]
    inner = text
    while match := _TRANSFORM.fullmatch(inner):  # "transpose(jvp(Net))"
        inner = match[1]
    is_structure = _STRUCTURE.fullmatch(text) or _RULES.fullmatch(text) or "->" in text
    return _Part("" if is_structure or not inner else text, is_jit)


def _functions(stack: str) -> list[str]:
    """The functions of a call stack, the outermost first. Lambdas have no names."""
    found: list[str] = []
    for line in reversed(stack.splitlines()):
        _, known, function = line.partition(" in ")
        parts = [part for part in function.split(".") if not _OF_NO_NAME.fullmatch(part)]
        if not known or not parts:
            continue
        last = parts[-2] if parts[-1] == "__call__" and len(parts) > 1 else parts[-1]
        if found[-1:] != [last]:
            found.append(last)
    return found
