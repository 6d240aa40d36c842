"""How many bytes the weights of a program have, and where translation added some."""

from __future__ import annotations

from collections import Counter, defaultdict

import onnx_ir as oir

from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.weights import SMALL_ELEMENTS, Weight, weight_of

_MOST_REASONS = 3
"""Limit of the additions that are reported, the largest first."""


class WeightLedger:
    """The constants of a model before the rewrite rules, to compare with those after them."""

    def __init__(self, model: oir.Model) -> None:
        self._before = {id(value.const_value) for value in _large(model)}
        self._bytes = sum(map(_bytes, _large(model)))
        self._kept = _large(model)  # so that no other constant gets its id

    def sizes(self, model: oir.Model) -> tuple[int, int, list[str]]:
        """Bytes before and after, and what was added where there are more."""
        values = _large(model)
        after = sum(map(_bytes, values))
        return self._bytes, after, self._reasons(values) if after > self._bytes else []

    def _reasons(self, values: list[oir.Value]) -> list[str]:
        grown: Counter[str] = Counter()
        copies = defaultdict(list)
        for value in values:
            weight = weight_of(value)
            if weight is not None:
                copies[weight.parameters()[0]].append(value)
            elif id(value.const_value) not in self._before:
                grown[f"{value.name} was computed from constants"] = _bytes(value)
        for parameter, its in copies.items():
            added = sum(map(_bytes, its)) - self._size(parameter)
            names = ", ".join(str(value.name) for value in its)
            times = f" is stored {len(its)} times" if len(its) > 1 else " is stored"
            grown[f"{parameter.names[0]}{times}: {names}"] = added
        return [
            f"{reason} (+{count:,} bytes)"
            for reason, count in grown.most_common(_MOST_REASONS)
            if count > 0
        ]

    def _size(self, parameter: Weight) -> int:
        return next((_bytes(x) for x in self._kept if weight_of(x) is parameter), 0)


def _large(model: oir.Model) -> list[oir.Value]:
    """The constants that are more than single numbers."""
    return [
        value
        for graph in each_graph(model)
        for value in graph.initializers.values()
        if value.const_value is not None and value.const_value.size > SMALL_ELEMENTS
    ]


def _bytes(value: oir.Value) -> int:
    return 0 if value.const_value is None else int(value.const_value.nbytes)
