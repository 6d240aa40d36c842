"""The scope of a node: its named scopes and modules, or else the functions that made it."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

_STRUCTURE = re.compile(r"while|body|cond|scan|branch_\d+_fun|closed_call|call|eval_jaxpr")
"""Segments that JAX makes for control flow."""
_RULES = re.compile(r"checkpoint|remat\d*|custom_[jv]+p_call")
_JIT = re.compile(r"p?jit\((.*)\)")
_TRANSFORM = re.compile(r"\w+\((.*)\)")
_OF_NO_NAME = re.compile(r"<.*>")


def split_scope(scope: str) -> list[str]:
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
    return [segment for segment in segments if segment]


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
    segments = split_scope(name)[:-1]
    named = [each for each in segments if _is_named(each)]
    jitted = [match[1] for each in segments if (match := _JIT.fullmatch(each)) and match[1]]
    if named:
        return tuple(
            match[1] if (match := _JIT.fullmatch(each)) else each
            for each in segments
            if each in named or _JIT.fullmatch(each)
        )
    functions = _functions(metadata.get("jax.stack", ""))[callers:]
    inner = [each for each in jitted if each not in functions]
    if functions or inner:
        return (*functions, *inner)
    return tuple(filter(None, [metadata.get("jax.source", "")]))


def _is_named(segment: str) -> bool:
    """Whether a segment of a name stack is a named scope or a module."""
    if _STRUCTURE.fullmatch(segment) or _RULES.fullmatch(segment) or "->" in segment:
        return False
    if _JIT.fullmatch(segment):
        return False
    inner = segment
    while match := _TRANSFORM.fullmatch(inner):  # "transpose(jvp(Net))"
        inner = match[1]
    return bool(inner)


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
