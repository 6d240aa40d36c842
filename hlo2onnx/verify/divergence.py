"""The result of a bisection: the op from which on the model computes other numbers."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np

from hlo2onnx.verify.compare import Comparison

_MANY = 12
"""Up to this many ops or nodes are listed."""


@dataclass(frozen=True)
class Tensor:
    """A tensor in one run.

    Attributes:
        dtype: NumPy's name of its element type.
        low, high: Its smallest and largest finite element; None if it has none, or they are not
            ordered.
        nonfinite: Count of NaN and infinite elements.
    """

    dtype: str
    shape: tuple[int, ...]
    low: float | None = None
    high: float | None = None
    nonfinite: int = 0

    @classmethod
    def of(cls, array: np.ndarray) -> Tensor:
        """The description of an array."""
        numbers = np.abs(array) if array.dtype.kind == "c" else array
        wide = numbers.astype(np.float64)
        finite = wide[np.isfinite(wide)]
        low, high = (float(finite.min()), float(finite.max())) if finite.size else (None, None)
        return cls(array.dtype.name, array.shape, low, high, wide.size - finite.size)

    def __str__(self) -> str:
        text = f"{self.dtype}[{'x'.join(map(str, self.shape))}]"
        if self.low is not None:
            what = "magnitudes " if self.dtype.startswith("complex") else ""
            text += f" {what}in [{self.low:.6g}, {self.high:.6g}]"
        return text + (f", {self.nonfinite} NaN or inf" if self.nonfinite else "")


@dataclass(frozen=True)
class ProgramOp:
    """An op of the program.

    Attributes:
        name: Its name, as "stablehlo.add".
        text: The op in StableHLO.
        source: Line of the user's code, as "model.py:12"; "" if it is unknown.
        stack: The calls that led there, the innermost first.
        scope: JAX's name stack.
    """

    name: str
    text: str
    source: str = ""
    stack: tuple[str, ...] = ()
    scope: str = ""

    def __str__(self) -> str:
        return "  ".join(filter(None, (self.name, self.source, self.scope)))


@dataclass(frozen=True)
class ModelNode:
    """A node of the model.

    Attributes:
        rewrites: Rules, and parts of the legalization, that led to it.
    """

    operator: str
    name: str
    source: str = ""
    rewrites: tuple[str, ...] = ()

    def __str__(self) -> str:
        by = f"  (by {', '.join(self.rewrites)})" if self.rewrites else ""
        return f"{self.operator} {self.name}{by}"


@dataclass(frozen=True)
class RuleTest:
    """The comparison of a model that was translated again without some rules.

    Attributes:
        without: The rules. None are switched off if it is empty.
        agrees: Whether its outputs agree with XLA's.
        note: Why it was not compared.
    """

    without: tuple[str, ...]
    agrees: bool
    note: str = ""

    def __str__(self) -> str:
        how = f"without {', '.join(self.without)}" if self.without else "with the same options"
        verdict = self.note or ("the outputs agree" if self.agrees else "the outputs differ")
        return f"translated again {how}: {verdict}"


@dataclass(frozen=True)
class Divergence:
    """Where the numbers of a model and of its program part.

    Attributes:
        op: The first op that the model computes differently from XLA, from the same operands. None
            if no compared value differs.
        error: The comparison of its result.
        trips: The trips of the loops around the op, the outermost first. Trips count from 0.
        operands: XLA's operands; None for unknown ones.
        expected: XLA's result.
        actual: The result of the model.
        fused: Other ops that the same nodes compute, if the model has no values between them.
        nodes: The nodes of the model that compute the result.
        rewrites: Rules, and parts of the legalization, that led to these nodes.
        tests: What happened without these rules.
        others: Other ops that the model computes differently.
        compared: Count of the compared values.
        notes: Notes for the user.
        errors: Errors of values outside of loops and branches by their names in the model, relative
            to the largest magnitude of each value. `program.save_report(errors=...)` shows them.
    """

    op: ProgramOp | None = None
    error: Comparison | None = None
    trips: tuple[int, ...] = ()
    operands: tuple[Tensor | None, ...] = ()
    expected: Tensor | None = None
    actual: Tensor | None = None
    fused: tuple[ProgramOp, ...] = ()
    nodes: tuple[ModelNode, ...] = ()
    rewrites: tuple[str, ...] = ()
    tests: tuple[RuleTest, ...] = ()
    others: tuple[ProgramOp, ...] = ()
    compared: int = 0
    notes: tuple[str, ...] = ()
    errors: dict[str, float] = field(default_factory=dict)

    def __bool__(self) -> bool:
        """Whether an op differs."""
        return self.op is not None

    def as_dict(self) -> dict[str, Any]:
        """The same as JSON."""
        return asdict(self)

    def __str__(self) -> str:
        return "\n".join(self._lines())

    def _lines(self) -> Iterator[str]:
        if self.op is None:
            yield f"no intermediate value differs; {self.compared} were compared"
            yield from (f"note     {note}" for note in self.notes)
            return
        yield f"the first op that differs: {self.op.name}"
        yield from _row("op", self.op.text.splitlines())
        yield from _row("source", [self.op.source, *self.op.stack[1:]])
        yield from _row("scope", [self.op.scope])
        yield from _row("trip", [", in each loop from the outermost: ".join(_trips(self.trips))])
        for index, operand in enumerate(self.operands):
            yield from _row(f"operand {index}", [str(operand or "unknown")])
        yield from _row("XLA", [str(self.expected or "")])
        yield from _row("model", [str(self.actual or "")])
        if (error := self.error) is not None:
            found = f"max abs {error.max_abs:.3g}, max rel {error.max_rel:.3g}"
            found += f", {error.max_ulp:.3g} ULP" if error.tolerance else ""
            found += f", {error.nonfinite} NaN/inf disagree" if error.nonfinite else ""
            yield from _row("error", [found])
        yield from _row("with", _listed(self.fused))
        yield from _row("nodes", _listed(self.nodes))
        yield from _row("rewrites", [", ".join(self.rewrites)])
        yield from _row("tests", list(map(str, self.tests)))
        yield from _row("also", _listed(self.others))
        yield from _row("compared", [f"{self.compared} values"])
        yield from _row("note", list(self.notes))


def _trips(trips: Sequence[int]) -> list[str]:
    return [", ".join(map(str, trips))] if trips else [""]


def _listed(items: Sequence[object]) -> list[str]:
    more = [f"and {len(items) - _MANY} more"] if len(items) > _MANY else []
    return [*map(str, items[:_MANY]), *more]


def _row(head: str, lines: Sequence[str]) -> Iterator[str]:
    for line in filter(None, lines):
        yield f"  {head:<10} {line}"
        head = ""
