"""Ops that ONNX has no counterpart for, expanded into simpler StableHLO by MLIR's own passes."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.lowering.op import Op
from hlo2onnx.mlir.passes import EXPAND_CHLO, run_pipeline


class Expansions:
    """One expanded function per (op, operand types, attributes), kept for the translation."""

    def __init__(self) -> None:
        self._functions: dict[tuple[str, ...], Any] = {}
        self._modules: list[Any] = []

    def knows(self, op: Op) -> bool:
        """Whether there is an expansion: every CHLO op without regions has one."""
        return op.name.startswith("chlo.") and not op.block_count

    def function(self, op: Op) -> Any:
        """The expansion as a func.func operation whose arguments are the op's operands."""
        key = (op.name, op.types(), str(op.operation.attributes))
        if key not in self._functions:
            module = _module_of(op)
            run_pipeline(module.operation, EXPAND_CHLO)
            self._modules.append(module)
            self._functions[key] = module.body.operations[0].operation
        return self._functions[key]


def _module_of(op: Op) -> Any:
    """A module whose main applies a copy of the op to its arguments."""
    operand_types = [value.type for value in op.operands]
    result_types = [value.type for value in op.results]
    context = op.operation.context
    with context, ir.Location.unknown():
        module = ir.Module.create()
        function_type = ir.FunctionType.get(operand_types, result_types)
        with ir.InsertionPoint(module.body):
            function = ir.Operation.create(
                "func.func",
                attributes={
                    "sym_name": ir.StringAttr.get("main"),
                    "function_type": ir.TypeAttr.get(function_type),
                },
                regions=1,
            )
        unknown = ir.Location.unknown()
        block = function.regions[0].blocks.append(
            *operand_types, arg_locs=[unknown] * len(operand_types)
        )
        names = [a if isinstance(a, str) else a.name for a in op.operation.attributes]
        with ir.InsertionPoint(block):
            copy = ir.Operation.create(
                op.name,
                results=result_types,
                operands=list(block.arguments),
                attributes={name: op.operation.attributes[name] for name in names},
            )
            ir.Operation.create("func.return", operands=list(copy.results))
    return module
