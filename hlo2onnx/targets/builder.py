"""A graph builder for one target."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager

import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import INTEGERS, const_of, dtype_of
from hlo2onnx.targets.costs import Costs
from hlo2onnx.targets.target import Target


class TargetBuilder(GraphBuilder):
    """Makes nodes for a target, and answers what the target runs and what that costs.

    Attributes:
        target: The runtime that the model is for.
    """

    def __init__(self, graph: oir.Graph, opset: int, target: Target) -> None:
        super().__init__(graph, opset)
        self.target = target

    @contextmanager
    def on(self, target: Target) -> Iterator[None]:
        """Makes nodes for another target within the block."""
        own, self.target = self.target, target
        try:
            yield
        finally:
            self.target = own

    def cast(self, x: oir.Value, dtype: oir.DataType) -> oir.Value:
        """Cast, or x itself when it has that type. A constant becomes another one where the target
        might hold its integers in a narrower type first."""
        array = const_of(x) if self.target.flags.narrows_i64 and dtype in INTEGERS else None
        if array is None or dtype_of(x) not in INTEGERS or dtype.bitwidth < 8:
            return super().cast(x, dtype)
        return self.const(array.astype(dtype.numpy()))

    @property
    def costs(self) -> Costs:
        """What operators cost in the target."""
        return self.target.costs

    @property
    def has_f64(self) -> bool:
        """Whether the target computes in f64: there, f32 arithmetic may use it for more digits."""
        if self.target.flags.narrows_f64:
            return False
        single, double = oir.DataType.FLOAT, oir.DataType.DOUBLE
        casts = ((single, double), (double, single))
        return all(self.supports(op_type, double) for op_type in ("Add", "Mul")) and all(
            self.target.supports_cast(*pair, self.opset) for pair in casts
        )

    def supports(self, op_type: str, dtype: oir.DataType) -> bool:
        """Whether the target runs this operator on this element type."""
        return self.target.supports(op_type, dtype, self.opset)


Outputs = oir.Value | Sequence[oir.Value] | None
"""What replaces the outputs of a node; None where nothing does."""
Decompose = Callable[[TargetBuilder, oir.Node], Outputs]
"""Makes other nodes in place of a node, which it does not change."""
