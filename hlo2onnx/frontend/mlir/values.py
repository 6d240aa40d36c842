"""MLIR values, the operations that make them, and walks over a module."""

from __future__ import annotations

import io
from collections.abc import Collection, Iterator, Sequence
from typing import TYPE_CHECKING, TypeAlias

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.values import INTEGERS


def defining_operation(value: MlirValue) -> ir.Operation | None:
    """The operation whose result the value is; None for the argument of a block."""
    owner = value.owner
    return None if isinstance(owner, ir.Block) else owner.operation


def constant_operation(value: MlirValue) -> ir.Operation | None:
    """The `stablehlo.constant` whose result the value is; None if there is none."""
    maker = defining_operation(value)
    return maker if maker is not None and maker.name == "stablehlo.constant" else None


def integers_of(constant: ir.Operation) -> np.ndarray:
    """The content of a `stablehlo.constant` of integers that numpy has."""
    return np.array(constant.attributes["value"])


def dense(array: np.ndarray, mlir_type: ir.Type) -> ir.Attribute:
    """An array as a dense attribute of this static type. numpy types of ml_dtypes give bits."""
    tensor = ir.RankedTensorType(mlir_type)
    bits = array.view(f"u{array.dtype.itemsize}") if array.dtype.kind == "V" else array
    with mlir_type.context:
        return ir.DenseElementsAttr.get(
            np.ascontiguousarray(bits), type=tensor.element_type, shape=tensor.shape
        )


def made(
    name: str, mlir_type: ir.Type, *operands: MlirValue, **attributes: ir.Attribute
) -> MlirValue:
    """The result of a new op of StableHLO at the insertion point."""
    return ir.Operation.create(f"stablehlo.{name}", [mlir_type], operands, attributes).result


def made_call(target: str, mlir_type: ir.Type, x: MlirValue, **config: ir.Attribute) -> MlirValue:
    """The result of a new custom call with a backend_config, at the insertion point."""
    return made(
        "custom_call",
        mlir_type,
        x,
        call_target_name=ir.StringAttr.get(target),
        api_version=ir.IntegerAttr.get(ir.IntegerType.get_signless(32), 4),
        backend_config=ir.DictAttr.get(config),
    )


def replace_uses_but(value: MlirValue, reader: MlirValue) -> None:
    """Replaces a value by another one, except in the operation that makes the other from it."""
    maker = defining_operation(reader)
    assert maker is not None
    value.replace_all_uses_except(reader, maker)


def leading_to(block: ir.Block, values: Collection[MlirValue]) -> list[ir.Operation]:
    """The operations of a block that some of its values depend on, in order."""
    read, found = set(values), []
    for operation in reversed(operations_in(block)):
        if not read.isdisjoint(operation.results):
            found.append(operation)
            read |= operands_within(operation)
    return found[::-1]


def operands_within(operation: ir.Operation) -> set[MlirValue]:
    """The operands of an operation, and of the operations in its regions."""
    return {value for inner in operations_of(operation) for value in inner.operands}


_MOST_MAKERS = 64
"""Operations that are looked at for one divisor: a limit on compile time."""


def is_made_of_iota(value: MlirValue) -> bool:
    """Whether an iota and constants alone, and no argument of the block, lead to the value."""
    pending, seen, has_iota = [value], {value}, False
    while pending:
        maker = defining_operation(pending.pop())
        if maker is None or len(seen) > _MOST_MAKERS:
            return False
        has_iota |= maker.name == "stablehlo.iota"
        read = operands_within(maker) - seen
        seen |= read
        pending += read
    return has_iota


_EXTENT_BITS = 32
"""An integer type of this width holds any extent."""


def counts_along(value: MlirValue, axis: int) -> bool:
    """Whether a tensor holds 0, 1, 2, ... along the axis, in an integer type that holds them."""
    operation = defining_operation(value)
    if operation is None or operation.name not in ("stablehlo.iota", "stablehlo.dynamic_iota"):
        return False
    (part, *_) = parts_of(value.type)
    extent = part.shape[axis]
    counted = to_python(operation.attributes["iota_dimension"])
    if counted != axis or part.dtype not in INTEGERS:
        return False
    if extent is None:
        return part.dtype.bitwidth >= _EXTENT_BITS
    return extent - 1 <= int(ml_dtypes.iinfo(part.dtype.numpy()).max)


if TYPE_CHECKING:
    MlirValue: TypeAlias = ir.Value[ir.Type]
else:
    MlirValue = ir.Value


def operations_in(block: ir.Block) -> list[ir.Operation]:
    """The operations of a block in order, without those in their regions."""
    return [item.operation for item in block.operations]


def return_from(block: ir.Block, values: Sequence[MlirValue]) -> None:
    """Makes a block return these values."""
    last = operations_in(block)[-1]
    with last.context, last.location, ir.InsertionPoint(last):
        ir.Operation.create(last.name, operands=list(values))
    last.erase()


def replace_by_block(
    operation: ir.Operation, block: ir.Block, arguments: Sequence[MlirValue] = ()
) -> None:
    """Replaces an operation by a block. Without values for its arguments, nothing reads them."""
    for argument, value in zip(block.arguments, arguments, strict=False):
        argument.replace_all_uses_with(value)
    *body, terminator = operations_in(block)
    returned = list(terminator.operands)
    for item in body:
        item.move_before(operation)
    for result, value in zip(operation.results, returned, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def returned_by(block: ir.Block) -> list[MlirValue]:
    """What a block returns."""
    return list(operations_in(block)[-1].operands)


def operations_of(module_operation: ir.Operation) -> list[ir.Operation]:
    """Every operation of the module in order. The module may change afterwards."""
    found: list[ir.Operation] = []

    def visit(operation: ir.Operation) -> ir.WalkResult:
        found.append(operation)
        return ir.WalkResult.ADVANCE

    module_operation.walk(visit, ir.WalkOrder.PRE_ORDER)
    return found


def values_of(module_operation: ir.Operation) -> Iterator[MlirValue]:
    """Every result of an operation and every argument of a block."""
    for operation in operations_of(module_operation):
        yield from operation.results
        for region in operation.regions:
            for block in region.blocks:
                yield from block.arguments


def types_in(module_operation: ir.Operation) -> set[ir.Type]:
    """The types of all results and arguments of blocks. A module has far fewer types than
    values."""
    return {value.type for value in values_of(module_operation)}


def module_bytecode(operation: ir.Operation) -> bytes:
    """MLIR bytecode of a module operation."""
    stream = io.BytesIO()
    operation.write_bytecode(stream)
    return stream.getvalue()


def module_of(operation: ir.Operation) -> ir.Operation:
    """The outermost operation around an operation: its module."""
    while operation.parent is not None:
        operation = operation.parent.operation
    return operation


def is_used(value: MlirValue) -> bool:
    """Whether an operation has the value as an operand."""
    return any(True for _ in value.uses)
