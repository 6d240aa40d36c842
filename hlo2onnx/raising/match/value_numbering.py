"""Numbers of values: two values with one number are equal."""

from __future__ import annotations

from collections.abc import Container, Hashable, Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_of, origin, shape_of
from hlo2onnx.raising.match.views import operands

_MOST_BYTES = 1 << 12
"""Size of a constant that is compared with all others: a limit on translation time."""


def have_same_bits(one: np.ndarray, other: np.ndarray) -> bool:
    """Whether two arrays have the same dtype, shape and bits."""
    same = (one.dtype, one.shape) == (other.dtype, other.shape)
    return same and one.tobytes() == other.tobytes()


def are_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are copies of one value, or constants with the same bits."""
    if origin(x) is origin(y):
        return True
    mine, other = const_of(x), const_of(y)
    return mine is not None and other is not None and have_same_bits(mine, other)


def key_of(x: oir.Value) -> Hashable:
    """A key that two values share only if they are the same, as `are_same` says.

    Large constants with the same bits have different keys.
    """
    array = const_of(x)
    if array is None or array.nbytes > _MOST_BYTES:
        return origin(x)
    return (array.dtype, array.shape, array.tobytes())


def rough_key_of(x: oir.Value, given: Container[oir.Value], depth: int = 2) -> Hashable:
    """A key that two values share if they get the same number, whatever the given keys are.

    Args:
        depth: How many choices in choices are looked at.
    """
    if x in given:
        return "given"
    maker, choices = x.producer(), _choices(x)
    if maker is None or not choices:
        return key_of(x)
    within = choices if depth else ()
    return _chooser(maker, x), *(rough_key_of(origin(y), given, depth - 1) for y in within)


class Numbering:
    """Numbers values, through choices of branches and of Where under one condition.

    Args:
        given: Keys of values of which more is known than how they are made. They may change, see
            `forget`.
    """

    def __init__(self, given: Mapping[oir.Value, Hashable]) -> None:
        self._given = given
        self._numbers: dict[oir.Value, int] = {}
        self._known: dict[Hashable, int] = {}
        self._chosen: dict[oir.Value, dict[oir.Value, None]] = {}

    def number(self, value: oir.Value) -> int:
        """The number of a value; equal numbers mean equal values."""
        pending = [origin(value)]
        while pending:
            x = pending[-1]
            choices = () if x in self._given else tuple(map(origin, _choices(x)))
            missing = [y for y in choices if y not in self._numbers]
            if x not in self._numbers and missing:
                pending += missing
                continue
            pending.pop()
            if x not in self._numbers:
                self._numbers[x] = self._known.setdefault(self._key(x, choices), len(self._known))
                for y in choices:
                    self._chosen.setdefault(y, {})[x] = None
        return self._numbers[origin(value)]

    def forget(self, values: Iterable[oir.Value]) -> list[oir.Value]:
        """Numbers these values, whose keys have changed, and those chosen from them anew; returns
        all of them."""
        pending, found = list(values), []
        while pending:
            x = pending.pop()
            if self._numbers.pop(x, None) is not None:
                found.append(x)
                pending += self._chosen.get(x, ())
        return found

    def _key(self, x: oir.Value, choices: Iterable[oir.Value]) -> Hashable:
        if x in self._given:
            return self._given[x]
        numbers = tuple(self._numbers[y] for y in choices)
        maker = x.producer()
        if maker is None or not numbers:
            return key_of(x)
        return (_chooser(maker, x), *numbers)


def _chooser(maker: oir.Node, x: oir.Value) -> Hashable:
    """What chooses a result of an If or a Where."""
    return maker if maker.op_type == "If" else (origin(operands(maker)[0]), shape_of(x))


def _choices(x: oir.Value) -> Sequence[oir.Value]:
    """The values that a value is one of; none if it is something else."""
    maker, place = x.producer(), x.index()
    if maker is None or maker.domain or place is None:
        return ()
    if maker.op_type == "If":
        return [branch.outputs[place] for branch in subgraphs(maker)]
    return operands(maker)[1:] if maker.op_type == "Where" else ()
