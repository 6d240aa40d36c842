"""Expansion of ops without ONNX counterpart into simpler StableHLO, by MLIR's own passes."""

from __future__ import annotations

from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.block_functions import add_function
from hlo2onnx.frontend.mlir.passes import EXPAND_CHLO, EXPAND_COMPLEX, run_pipeline
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.lowering.op import Op

_ON_WHOLE_TENSORS = frozenset(
    {"chlo.constant", "chlo.constant_like", "chlo.ragged_dot", "chlo.scan", "chlo.top_k"}
)
"""The CHLO ops that are not elementwise."""


_COMPLEX = frozenset(
    {"stablehlo.exponential", "stablehlo.log", "stablehlo.log_plus_one", "stablehlo.sqrt"}
)
"""The StableHLO ops whose complex form MLIR expands, as XLA does."""


def is_elementwise(op: Op) -> bool:
    """Whether the expansion is over scalars and is applied to tensors of any shape.

    Then its constants stay scalars, and operands may broadcast.
    """
    return op.name not in _ON_WHOLE_TENSORS


class Expansions:
    """One expanded function per (op, element or operand types, attributes)."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, ...], ir.Operation] = {}
        self._modules: list[ir.Module] = []

    def knows(self, op: Op) -> bool:
        """Whether there is an expansion: every CHLO op without regions has one, and some
        StableHLO ops on complex numbers."""
        if op.touches_complex and op.name in _COMPLEX:
            return True
        return op.name.startswith("chlo.") and not op.block_count

    def function(self, op: Op) -> ir.Operation:
        """The expansion as a func.func operation whose arguments are the op's operands.

        Raises:
            UnsupportedOp: MLIR has none for these types.
        """
        attributes = {name: op.operation.attributes[name] for name in op.attribute_names}
        types = [value.type for value in (*op.operands, *op.results)]
        if is_elementwise(op):
            attributes.pop("broadcast_dimensions", None)
            types = [_scalar(mlir_type) for mlir_type in types]
        key = (op.name, *map(str, types), *(f"{name}={attributes[name]}" for name in attributes))
        if key not in self._functions:
            module = _module_of(
                op, types[: len(op.operands)], types[len(op.operands) :], attributes
            )
            try:
                run_pipeline(
                    module.operation, EXPAND_COMPLEX if op.name in _COMPLEX else EXPAND_CHLO
                )
            except ir.MLIRError as error:
                raise UnsupportedOp(
                    "ONNX has no such operator, and MLIR cannot expand it for these types"
                ) from error
            self._modules.append(module)
            self._functions[key] = module.body.operations[0].operation
        return self._functions[key]


def _scalar(mlir_type: ir.Type) -> ir.Type:
    with mlir_type.context, ir.Location.unknown():
        return ir.RankedTensorType.get([], ir.RankedTensorType(mlir_type).element_type)


def _module_of(
    op: Op,
    operand_types: list[ir.Type],
    result_types: list[ir.Type],
    attributes: dict[str, ir.Attribute],
) -> ir.Module:
    """A module whose main applies the op, on these types, to its arguments."""

    def body(arguments: list[MlirValue]) -> list[MlirValue]:
        return list(ir.Operation.create(op.name, result_types, arguments, attributes).results)

    with op.operation.context, ir.Location.unknown():
        module = ir.Module.create()
    add_function(module.operation, operand_types, body, "main")
    return module
