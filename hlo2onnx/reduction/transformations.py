"""The transformations that make a program smaller.

Each lists its sites in a program, and applies itself to some of them. Whether the changed program
still fails is not its business: an invalid or different program is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import is_tensor, shape_of
from hlo2onnx.frontend.mlir.untaken_branches import replace_by_block
from hlo2onnx.frontend.mlir.values import MlirValue, is_used, operations_in
from hlo2onnx.reduction.draft import Draft

READABLE_BITS = 8
"""Integers of fewer bits cannot be read by the bindings."""


class Site(NamedTuple):
    """A place of a program: number of an op (or argument, or result), and a choice there."""

    number: int
    choice: int = 0


@dataclass(frozen=True)
class Transformation:
    """One way to make a program smaller.

    Attributes:
        name: For the report: "results dropped".
        sites: The places where it can be applied.
        apply: Applies it to one of them, in place. Sites are applied from the last to the first, so
            that an op is changed after those in its regions.
        all_choices: Whether several choices of one op can be applied together.
    """

    name: str
    sites: Callable[[Draft], list[Site]]
    apply: Callable[[Draft, Site], None]
    all_choices: bool = False


# -- arguments and results ------------------------------------------------------------------------


def _results(draft: Draft) -> list[Site]:
    count = len(draft.results)
    return [Site(index) for index in range(count)] if count > 1 else []


def _drop_result(draft: Draft, site: Site) -> None:
    values = draft.results
    if len(values) > 1:
        del values[site.number]
        draft.return_values(values)


def _unused_arguments(draft: Draft) -> list[Site]:
    arguments = draft.block.arguments
    return [Site(index) for index, value in enumerate(arguments) if not is_used(value)]


def _drop_argument(draft: Draft, site: Site) -> None:
    draft.drop_arguments([site.number])


# -- ops ------------------------------------------------------------------------------------------


def ops_in_main(draft: Draft) -> list[Site]:
    """The ops of `main` whose results are read, without those in regions."""
    return [
        Site(index)
        for index, op in enumerate(draft.ops)
        if op.parent is not None
        and op.parent.operation == draft.main
        and any(_used(op))
        and not _may_count_trips(draft, op)
    ]


def _ops_in_regions(draft: Draft) -> list[Site]:
    return [
        Site(index)
        for index, op in enumerate(draft.ops)
        if op.parent is not None
        and op.parent.operation != draft.main
        and draft.is_in_main(op)
        and any(_used(op))
        and not _may_count_trips(draft, op)
    ]


def _may_count_trips(draft: Draft, op: ir.Operation) -> bool:
    """Whether an op is a number that could be the step of a loop, which must not be random."""
    return _integer(op) > 0 and any(each.name == "stablehlo.while" for each in draft.ops)


def replace_by_arguments(
    draft: Draft, site: Site, arrays: Sequence[np.ndarray | None] = ()
) -> None:
    """Makes new arguments of `main` of the results that are read.

    Args:
        arrays: Values of these arguments.
    """
    for index, value in enumerate(list(_used(draft.ops[site.number]))):
        array = arrays[index] if arrays else None
        value.replace_all_uses_with(draft.add_argument(value.type, array))


def _operands(draft: Draft) -> list[Site]:
    """Ops with an operand of the type of their only result."""
    return [
        Site(index, choice)
        for index, op in enumerate(draft.ops)
        for choice in _alike(op)
        if any(_used(op))
    ]


def _alike(op: ir.Operation) -> list[int]:
    if len(op.results) != 1:
        return []
    types = {op.results[0].type}
    return [index for index, value in enumerate(op.operands) if value.type in types]


def _replace_by_operand(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    op.results[0].replace_all_uses_with(op.operands[site.choice])


def _constant_results(draft: Draft) -> list[Site]:
    """Ops whose results could be constants of ones. Zeros would hide more of what follows."""
    return [
        Site(index)
        for index, op in enumerate(draft.ops)
        if any(_used(op)) and all(map(_has_ones, _used(op))) and not _is_splat(op)
    ]


def _replace_by_constants(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    for value in list(_used(op)):
        attribute = _splat(value.type, 1)
        with op.context, op.location, ir.InsertionPoint(op):
            made = ir.Operation.create(
                "stablehlo.constant", [value.type], attributes={"value": attribute}
            )
        value.replace_all_uses_with(made.result)


def _large_integers(draft: Draft) -> list[Site]:
    """Integer scalars of more than 2: bounds of loops, for example."""
    return [
        Site(index, choice)
        for index, op in enumerate(draft.ops)
        for choice in (1, 2)
        if _integer(op) > 2
    ]


def _shrink_integer(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    op.attributes["value"] = _splat(op.results[0].type, site.choice)


# -- regions --------------------------------------------------------------------------------------


def _branches(draft: Draft) -> list[Site]:
    return [
        Site(index, region)
        for index, op in enumerate(draft.ops)
        if op.name in ("stablehlo.case", "stablehlo.if")
        for region in range(len(op.regions))
    ]


def _take_branch(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    replace_by_block(op, op.regions[site.choice].blocks[0])


def _loops(draft: Draft) -> list[Site]:
    return [Site(index) for index, op in enumerate(draft.ops) if op.name == "stablehlo.while"]


def _take_body(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    body = op.regions[1].blocks[0]
    for argument, value in zip(body.arguments, op.operands, strict=True):
        argument.replace_all_uses_with(value)
    replace_by_block(op, body)


def _states(draft: Draft) -> list[Site]:
    return [
        Site(index, state)
        for index, op in enumerate(draft.ops)
        if op.name == "stablehlo.while" and len(op.operands) > 1
        for state in range(len(op.operands))
    ]


def _drop_state(draft: Draft, site: Site) -> None:
    """Removes a state of a loop: it keeps its first value."""
    op, state = draft.ops[site.number], site.choice
    if len(op.operands) == 1:
        return
    first = op.operands[state]
    kept = [index for index in range(len(op.operands)) if index != state]
    for region in op.regions:
        region.blocks[0].arguments[state].replace_all_uses_with(first)
        region.blocks[0].erase_argument(state)
    _return_some(op.regions[1].blocks[0], kept)
    with op.context, op.location, ir.InsertionPoint(op):
        types = [op.results[index].type for index in kept]
        made = ir.Operation.create(
            op.name, types, [op.operands[index] for index in kept], regions=len(op.regions)
        )
    for region, old in zip(made.regions, op.regions, strict=True):
        old.blocks[0].append_to(region)
    op.results[state].replace_all_uses_with(first)
    for index, value in zip(kept, made.results, strict=True):
        op.results[index].replace_all_uses_with(value)
    op.erase()
    draft.ops[site.number] = made


def _return_some(block: ir.Block, kept: Sequence[int]) -> None:
    """Makes a block return some of the values that it returns."""
    end = operations_in(block)[-1]
    with end.context, end.location, ir.InsertionPoint(end):
        ir.Operation.create(end.name, operands=[end.operands[index] for index in kept])
    end.erase()


# -- values ---------------------------------------------------------------------------------------


def _used(op: ir.Operation) -> Iterator[MlirValue]:
    return (value for value in op.results if is_used(value))


def _has_ones(value: MlirValue) -> bool:
    """Whether there is a constant of ones of this type. The bindings cannot make, nor read, complex
    attributes."""
    if not is_tensor(value.type) or None in shape_of(value.type):
        return False
    element = ir.RankedTensorType(value.type).element_type
    return isinstance(element, ir.IntegerType | ir.FloatType)


def _splat(mlir_type: ir.Type, number: int) -> ir.Attribute:
    element = ir.RankedTensorType(mlir_type).element_type
    with mlir_type.context, ir.Location.unknown():
        if isinstance(element, ir.FloatType):
            attribute: ir.Attribute = ir.FloatAttr.get(element, float(number))
        else:
            attribute = ir.IntegerAttr.get(element, number)
        return ir.DenseElementsAttr.get_splat(mlir_type, attribute)


def _is_splat(op: ir.Operation) -> bool:
    if op.name != "stablehlo.constant":
        return False
    value = op.attributes["value"]
    return isinstance(value, ir.DenseElementsAttr) and value.is_splat


def _integer(op: ir.Operation) -> int:
    """The value of an integer constant of rank 0; 0 for other ops."""
    if op.name != "stablehlo.constant" or not is_tensor(op.results[0].type):
        return 0
    tensor = ir.RankedTensorType(op.results[0].type)
    element = tensor.element_type
    if tensor.rank or not isinstance(element, ir.IntegerType) or element.width < READABLE_BITS:
        return 0
    value = op.attributes["value"]
    return int(value[0]) if isinstance(value, ir.DenseIntElementsAttr) else 0


RESULTS = Transformation("results dropped", _results, _drop_result)
TRANSFORMATIONS: Sequence[Transformation] = (
    RESULTS,
    Transformation("branches taken", _branches, _take_branch),
    Transformation("loops replaced by their bodies", _loops, _take_body),
    Transformation("states of loops dropped", _states, _drop_state, all_choices=True),
    Transformation("ops replaced by arguments", ops_in_main, replace_by_arguments),
    Transformation("ops in regions replaced by arguments", _ops_in_regions, replace_by_arguments),
    Transformation("ops replaced by an operand", _operands, _replace_by_operand),
    Transformation("ops replaced by ones", _constant_results, _replace_by_constants),
    Transformation("integers made 1 or 2", _large_integers, _shrink_integer),
    Transformation("unused arguments dropped", _unused_arguments, _drop_argument),
)
"""In the order in which they are tried."""
