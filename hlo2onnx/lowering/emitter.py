"""The interface that handlers use: nodes, operands, regions, facts, notes."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cache
from typing import Any

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.frontend.mlir.types import TYPE_OPSETS, TensorType, parts_of, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.dependence import Draw
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.op_families import qualified
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.lowering.context import Context, Parts, Translator
from hlo2onnx.lowering.op import Op
from hlo2onnx.options import BITCAST_OPSET, Options
from hlo2onnx.report import Report
from hlo2onnx.targets import Target
from hlo2onnx.targets.builder import TargetBuilder


class NeedsOpset(Exception):  # noqa: N818  (a signal to the lowering stage, not an error)
    """The program needs a newer opset than the one being tried."""

    def __init__(self, opset: int, reason: str) -> None:
        super().__init__(opset, reason)
        self.opset = opset
        self.reason = reason

    def note(self, target: Target) -> str:
        """The note for the report."""
        return f"opset {self.opset} instead of {target.default_opset}: {self.reason}"


class Emitter(TargetBuilder):
    """The graph builder with the program around a handler.

    Attributes:
        facts: Proven facts about values (`hlo2onnx.ir.facts`).
        options: The user's switches.
        report: Where notes go.
        constants: Contents of the module's constants.
        types: `parts_of` for the types of the values.
        rows: For the loops being translated, the row written in a trip, by the placeholder of the
            buffer that becomes a stack of rows.
        has_symbols: Whether an input has a symbolic extent.
        draws: The uses of generators of random bits.
        is_generator: Whether functions of the program are generators of random bits, for those
            that were called so far.
        inner_nodes: While the handler of a plug-in runs, the nodes that handlers of other ops made.
    """

    def __init__(
        self,
        graph: oir.Graph,
        opset: int,
        options: Options,
        target: Target,
        report: Report,
        constants: Constants,
    ) -> None:
        super().__init__(graph, opset, target)
        self.options = options
        self.report = report
        self.constants = constants
        self.facts = Facts()
        self.types = cache(parts_of)  # a program has thousands of values, but few types
        self.environment: dict[MlirValue, Parts] = {}
        self.rows: dict[Parts, Parts] = {}
        self.has_symbols = False
        self.draws: list[Draw] = []
        self.is_generator: dict[ir.Operation, bool] = {}
        self.inner_nodes: set[oir.Node] | None = None
        self.translator: Translator

    # -- values of the program ----------------------------------------------------------------

    def parts(self, value: MlirValue) -> Parts:
        """The ONNX values of an MLIR value."""
        try:
            return self.environment[value]
        except KeyError:
            raise InternalError(f"{value} is used before it is translated") from None

    def operand(self, op: Op, index: int = 0) -> oir.Value:
        """The ONNX value of one real operand."""
        parts = self.parts(op.operands[index])
        if len(parts) != 1:
            raise InternalError(f"operand {index} of {op.name} is not one tensor")
        return parts[0]

    def operands(self, op: Op) -> list[oir.Value]:
        """The ONNX values of all operands, each of which must be real (int, bool or float)."""
        return [self.operand(op, index) for index in range(len(op.operands))]

    def result_type(self, op: Op, index: int = 0) -> TensorType:
        """ONNX element type and shape of a real result."""
        (part,) = self.types(op.results[index].type)
        return part

    def result_dims(self, op: Op, index: int = 0) -> tuple[int, ...]:
        """Extents of a result that must be static.

        Raises:
            UnsupportedOp: An extent is dynamic.
        """
        return self.static_dims(op.results[index].type)

    def static_dims(self, mlir_type: ir.Type) -> tuple[int, ...]:
        """Extents of a tensor type that must be static.

        Raises:
            UnsupportedOp: An extent is dynamic.
        """
        extents = shape_of(mlir_type)
        dims = tuple([dim for dim in extents if dim is not None])
        if len(dims) != len(extents):
            raise UnsupportedOp(
                f"the shape of {mlir_type} is dynamic", "lower the function for static shapes"
            )
        return dims

    # -- regions and calls --------------------------------------------------------------------

    @property
    def context(self) -> Context:
        """The surroundings of the op that is being translated."""
        return self.translator.context

    def inline(self, block: ir.Block, arguments: Sequence[Parts]) -> list[Parts]:
        """Translates a block in place with these arguments; returns what its terminator returns."""
        return self.translator.block(block, arguments)

    def call(self, symbol: str, arguments: Sequence[Parts], name: str = "") -> list[Parts]:
        """Translates the body of a function of the module in place, or emits a call of it.

        Args:
            name: Of that function; by default its symbol.
        """
        return self.translator.call(symbol, arguments, name)

    def scalar_function(
        self, block: ir.Block, results: Sequence[MlirValue] | None = None
    ) -> Callable[..., list[oir.Value]]:
        """A region over scalars (of reduce, map, ...) as a function over tensors of any shape.

        Every op such a region may hold is elementwise, so that its ONNX translation acts on
        whole tensors as it stands. An argument is a tensor, or the parts of a complex one; the
        results' parts come in one flat list.

        Args:
            block: The region's block.
            results: Values of the block to return instead of its terminator's operands. Only ops
                that they depend on are translated.
        """
        return self.translator.scalar_function(block, results)

    def expansion(self, op: Op, operands: Sequence[Parts] | None = None) -> list[Parts]:
        """Translates the op through its expansion into simpler StableHLO ops.

        Args:
            operands: Operands of an elementwise op that replace its own.
        """
        return self.translator.expansion(op, operands)

    def through_jax(
        self, function: Callable[..., Any], *arguments: oir.Value | Parts, **keywords: Any
    ) -> list[Parts]:
        """Translates a function written in JAX, applied to these values, in place.

        It is traced for their shapes and element types with 64-bit types enabled and lowered for
        the CPU. It must be pure, and must not lead to the op that is translated through it.

        Args:
            function: Takes and returns arrays, in any pytree.
            arguments: Its arguments; the two parts of a complex value are one argument.
            keywords: Its other arguments; hashable.

        Raises:
            UnsupportedOp: It cannot be traced for the symbolic extents of arguments or keywords.
        """
        parts = [item if isinstance(item, tuple) else (item,) for item in arguments]
        return self.translator.through_jax(function, parts, keywords)

    def foreign(
        self,
        domain: str,
        version: int,
        op_type: str,
        inputs: Sequence[oir.Value],
        attributes: Mapping[str, Any],
        types: Sequence[ValueType],
    ) -> list[oir.Value]:
        """Makes a node of an operator of any domain, with outputs of these types.

        Outside ONNX's own domain it has a qualified name until the model is finished (see
        `hlo2onnx.ir.op_families`).
        """
        if domain:
            self.main_graph.opset_imports[domain] = version
        return self.node(qualified(domain, op_type), inputs, attributes, types, domain)

    # -- policies -----------------------------------------------------------------------------

    @property
    def guards_nan(self) -> bool:
        """Whether reductions must let NaN win as XLA does."""
        return self.options.nan != "runtime"

    @property
    def has_bitcast(self) -> bool:
        """Whether BitCast may be emitted.

        An automatic opset is raised to the first that has it; an explicit one is obeyed.

        Raises:
            NeedsOpset: The lowering must start again with a newer opset.
        """
        if not self.target.supports("BitCast", oir.DataType.FLOAT, BITCAST_OPSET):
            return False
        if self.opset >= BITCAST_OPSET:
            return True
        if self.options.opset is not None:
            return False
        raise NeedsOpset(BITCAST_OPSET, "the program needs BitCast")

    def require_type(self, dtype: oir.DataType) -> None:
        """Makes sure that the model's opset has this element type.

        Raises:
            NeedsOpset: An automatic opset must be raised first.
            UnsupportedOp: The explicit opset does not have it, or the target no such opset.
        """
        first = TYPE_OPSETS.get(dtype, 0)
        if self.opset >= first:
            return
        if self.options.opset is None and self.target.max_opset >= first:
            raise NeedsOpset(first, f"the program holds {dtype.name.lower()} values")
        raise UnsupportedOp(
            f"opset {self.opset} has no element type {dtype.name.lower()}", f"use opset {first}"
        )
