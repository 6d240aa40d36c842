"""How many ops a program has when calls are replaced by what they call, without doing it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from hlo2onnx.mlir.walk import operations_of

INLINED_OPS = 1_000_000
"""How many ops a program may have after inlining; one that has more to begin with may double them.
Translating so many takes some ten minutes; functions that call the next one twice need twenty
levels to get there, and would never end with forty."""

_CALLEES = {"func.call": "callee", "stablehlo.composite": "decomposition"}


@dataclass(frozen=True)
class Inlined:
    """A program after inlining.

    Attributes:
        own: Ops of its functions as they are.
        ops: Ops after inlining.
        largest: The function whose copies have the most ops.
        copies: How many copies of that there are.
    """

    own: int
    ops: int
    largest: str
    copies: int

    @property
    def is_too_large(self) -> bool:
        """Whether the program should not be inlined."""
        return self.ops > max(INLINED_OPS, 2 * self.own)

    def __str__(self) -> str:
        return (
            f"with all calls inlined it has {self.ops:,} ops, of which"
            f" {self.copies:,} copies of @{self.largest}; the limit is {INLINED_OPS:,}"
        )


def inlined(
    functions: Mapping[str, Any], root: str, is_kept: Callable[[str], bool] = lambda _: False
) -> Inlined:
    """Counts the ops of a function with all that it calls; a function that calls itself counts as
    if it did not.

    Args:
        functions: The functions of a module by symbol.
        root: The one to begin with.
        is_kept: Whether calls of a function stay calls.
    """
    own: dict[str, int] = {}
    calls: dict[str, Counter[str]] = {}
    copies = Counter({root: 1})
    for symbol in reversed(_callees_first(functions, root, own, calls)):
        for callee, count in calls[symbol].items():
            if callee not in own:
                continue
            copies[callee] = 1 if is_kept(callee) else copies[callee] + count * copies[symbol]
    totals = {symbol: own[symbol] * copies[symbol] for symbol in own}
    largest = max(totals, key=lambda symbol: totals[symbol])
    return Inlined(sum(own.values()), sum(totals.values()), largest, copies[largest])


def _callees_first(
    functions: Mapping[str, Any], root: str, own: dict[str, int], calls: dict[str, Counter[str]]
) -> list[str]:
    """The functions that are reached, each after what it calls; fills in how many ops each has of
    its own, and how often it calls which others."""
    order: list[str] = []
    pending = [(root, False)]
    while pending:
        symbol, is_done = pending.pop()
        if is_done:
            order.append(symbol)
            continue
        if symbol in own or symbol not in functions:
            continue
        operations = operations_of(functions[symbol])
        own[symbol] = len(operations)
        calls[symbol] = Counter(map(_callee, filter(_is_call, operations)))
        pending.append((symbol, True))
        pending += [(callee, False) for callee in calls[symbol]]
    return order


def _is_call(operation: Any) -> bool:
    return operation.name in _CALLEES


def _callee(operation: Any) -> str:
    return str(operation.attributes[_CALLEES[operation.name]].value)
