"""The surroundings of an op, the interface of the walk, and what a check learns."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple, Protocol

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import Refusal
from hlo2onnx.frontend.mlir.locations import Callers, Origin
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.notes import Path
from hlo2onnx.lowering.op import Op

Parts = tuple[oir.Value, ...]
"""The ONNX values of one StableHLO value: one, two for complex (re, im), none for a token."""


class Context(NamedTuple):
    """The surroundings of an op.

    Attributes:
        functions: The functions that calls refer to, by symbol.
        calls: The functions around the op, the outermost first.
        scope: The scope of the innermost call or expansion around the op.
        origin: The source location of the op, or of the op it is an expansion of.
        callers: The call stack of the innermost call around the op.
        in_expansion: Whether the op belongs to a function that hlo2onnx wrote in JAX. Such an op
            has no source location.
        in_scalar_region: Whether a scalar region is applied to whole tensors. Results then have the
            tensors' shape, not the one in the program.
        path: The place of the op in the program; within a block, of the op or function around it.
            None if its results are not values of the program, as in an expansion.
    """

    functions: Mapping[str, ir.Operation]
    calls: tuple[ir.Operation, ...] = ()
    scope: str = ""
    origin: Origin = Origin()
    callers: Callers = Callers()
    in_expansion: bool = False
    in_scalar_region: bool = False
    path: Path | None = ()

    def at(self, origin: Origin, path: Path | None) -> Context:
        """The context of an op with this origin and path, in a third of the time of `_replace`."""
        return Context(*self[:3], origin, *self[4:7], path)


class Translator(Protocol):
    """Translates blocks, calls and expansions. `Walker` implements it."""

    context: Context

    def block(self, block: ir.Block, arguments: Sequence[Parts]) -> list[Parts]:
        """See `Emitter.inline`."""

    def call(self, symbol: str, arguments: Sequence[Parts], name: str = "") -> list[Parts]:
        """See `Emitter.call`."""

    def scalar_function(
        self, block: ir.Block, results: Sequence[MlirValue] | None = None
    ) -> Callable[..., list[oir.Value]]:
        """See `Emitter.scalar_function`."""

    def expansion(self, op: Op, operands: Sequence[Parts] | None = None) -> list[Parts]:
        """See `Emitter.expansion`."""

    def through_jax(
        self, function: Callable[..., Any], arguments: Sequence[Parts], keywords: Mapping[str, Any]
    ) -> list[Parts]:
        """See `Emitter.through_jax`."""


@dataclass(frozen=True)
class Expansion:
    """An op that became many nodes.

    Attributes:
        op: Name of the op; for a custom call with its target.
        types: Types of its operands and results.
        where: Source line and JAX scope.
        nodes: How many nodes it became, those in subgraphs included.
        scope: The scope of these nodes: their names begin with it.
    """

    op: str
    types: str
    where: str
    nodes: int
    scope: str


@dataclass
class Diagnosis:
    """Findings of a lowering. With one, the lowering does not raise an error for refused ops.

    Attributes:
        refusals: The ops that cannot be translated.
        expansions: The ops without regions that became at least `fewest` nodes.
        fewest: See there.
    """

    fewest: float
    refusals: list[Refusal] = field(default_factory=list)
    expansions: list[Expansion] = field(default_factory=list)
