"""Memoized questions about values: chains of any length are answered."""

from __future__ import annotations

import onnx_ir as oir
import pytest

from hlo2onnx.ir.facts import Memo

LONG = 100
"""Questions in a row, more than may be open at a time."""


def chain(count: int) -> list[oir.Value]:
    return [oir.Value(name=f"v{index}") for index in range(count)]


class Lengths:
    """How many values lie before one in a chain, asked one by one."""

    def __init__(self, values: list[oir.Value]) -> None:
        self.memo = Memo()
        self.table: dict[oir.Value, int] = {}
        self.depths: list[int] = []
        self.calls = self._open = 0
        self._before = dict(zip(values[1:], values, strict=False))

    def ask(self, value: oir.Value) -> int:
        return self.memo.ask(self.table, value, self._compute)

    def _compute(self, value: oir.Value) -> int:
        self.calls += 1
        self._open += 1
        self.depths.append(self._open)
        try:
            before = self._before.get(value)
            return 0 if before is None else 1 + self.ask(before)
        finally:
            self._open -= 1


@pytest.mark.parametrize("count", [1, 2, 31, 32, 33, 34, LONG, 5 * LONG])
def test_chains(count: int) -> None:
    values = chain(count)
    lengths = Lengths(values)
    assert lengths.ask(values[-1]) == count - 1
    assert lengths.table == {value: index for index, value in enumerate(values)}
    assert max(lengths.depths) == min(count, 32)
    assert lengths.calls <= 2 * count
    calls = lengths.calls
    assert lengths.ask(values[0]) == 0
    assert lengths.calls == calls


def test_as_many_questions_may_be_open_after_an_answer() -> None:
    lengths = Lengths(chain(1))
    for values in (chain(40), chain(40)):
        own = Lengths(values)
        own.memo = lengths.memo
        assert own.ask(values[-1]) == 39
        assert max(own.depths) == 32


def test_as_many_questions_may_be_open_after_an_error() -> None:
    memo = Memo()
    table: dict[oir.Value, int] = {}
    values = chain(40)

    def fail(value: oir.Value) -> int:
        raise ZeroDivisionError

    for value in values:
        with pytest.raises(ZeroDivisionError):
            memo.ask(table, value, fail)
    lengths = Lengths(values)
    lengths.memo = memo
    assert lengths.ask(values[-1]) == 39
    assert not table


def test_one_chain_through_two_tables() -> None:
    """Each answer is filed where it was asked for."""
    memo, values = Memo(), chain(LONG)
    even: dict[oir.Value, str] = {}
    odd: dict[oir.Value, str] = {}
    before = dict(zip(values[1:], values, strict=False))

    def of_even(value: oir.Value) -> str:
        return "even" if value not in before else memo.ask(odd, before[value], of_odd)

    def of_odd(value: oir.Value) -> str:
        return "odd" if value not in before else memo.ask(even, before[value], of_even)

    assert memo.ask(even, values[-1], of_even) == "odd"
    assert even.keys() == set(values[1::2])
    assert odd.keys() == set(values[::2])
