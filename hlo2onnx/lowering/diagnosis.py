"""What a lowering finds out for a check, which continues where a translation ends."""

from __future__ import annotations

from dataclasses import dataclass, field

from hlo2onnx.errors import Refusal


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
