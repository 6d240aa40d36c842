"""The transformations that make a program smaller.

Each lists its sites in a program, and applies itself to some of them. Whether the changed program
still fails is not its business: an invalid or different program is not used.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import keys_of, text_of
from hlo2onnx.frontend.mlir.functions import CALLEES, functions_of, large_constants_as_arguments
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.types import is_tensor
from hlo2onnx.frontend.mlir.untaken_branches import replace_by_block
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    is_used,
    operands_within,
    operations_in,
    operations_of,
)
from hlo2onnx.reduction.draft import Draft

READABLE_BITS = 8
"""Integers of fewer bits cannot be read by the bindings."""

DEPTH = 16
"""Calls in functions that are called are inlined up to this depth."""

_NOTES = ("mhlo.", "jax.", "sdy.", "tf.", "xla.")
"""Prefixes of attributes that do not belong to an op."""


class Site(NamedTuple):
    """A place of a program: number of an op (or result), and a choice there."""

    number: int
    choice: int = 0


@dataclass(frozen=True)
class Transformation:
    """One way to make a program smaller.

    Attributes:
        name: For the report: "results dropped".
        apply: Applies it to sites, in place.
        sites: The places where it can be applied. Default: the program as a whole.
        is_cut: Whether what fails at a site fails at those before it: they are not tried.
    """

    name: str
    apply: Callable[[Draft, Sequence[Site]], None]
    sites: Callable[[Draft], list[Site]] = lambda _: [Site(0)]
    is_cut: bool = False


# -- the whole program ----------------------------------------------------------------------------


def return_dead(draft: Draft) -> None:
    """Makes results of `main` of the values in it that nothing reads, so that these stay."""
    values = [
        value
        for operation in operations_in(draft.block)
        for value in operation.results
        if not is_used(value)
    ]
    draft.return_values([*draft.results, *values])


def _free_weights(draft: Draft, keeps: bool) -> None:
    """Makes arguments of large constants, with or without their numbers."""
    arrays = large_constants_as_arguments(draft.main)
    draft.inputs += arrays if keeps else [None] * len(arrays)


def _inline_calls(draft: Draft) -> None:
    """Replaces calls and composites by the bodies of their functions."""
    functions = functions_of(draft.module)
    for _ in range(DEPTH):
        calls = [each for each in operations_of(draft.main) if each.name in CALLEES]
        for call in calls:
            callee = functions[text_of(call, CALLEES[call.name])]
            with call.context, ir.InsertionPoint(callee):
                copy = callee.clone().operation
            _replace_by_block(call, copy.regions[0].blocks[0], list(call.operands))
            copy.erase()


def _drop_attributes(draft: Draft) -> None:
    """Removes the attributes of frameworks: of the module, of arguments and of ops."""
    for operation in operations_of(draft.module):
        for name in keys_of(operation.attributes):
            if name.startswith(_NOTES) or name in ("arg_attrs", "res_attrs"):
                del operation.attributes[name]


def _replace_by_block(op: ir.Operation, block: ir.Block, values: Sequence[MlirValue]) -> None:
    for argument, value in zip(block.arguments, values, strict=True):
        argument.replace_all_uses_with(value)
    replace_by_block(op, block)


# -- results and ops ------------------------------------------------------------------------------


def _results(draft: Draft) -> list[Site]:
    return [Site(index) for index in range(len(draft.results))]


def _drop_results(draft: Draft, sites: Sequence[Site]) -> None:
    dropped = {site.number for site in sites}
    kept = [value for index, value in enumerate(draft.results) if index not in dropped]
    draft.return_values(kept or draft.results[:1])


def _ends(draft: Draft) -> list[Site]:
    """The ops of `main` after the first one."""
    return [Site(index) for index in range(1, len(operations_in(draft.block)) - 1)]


def _cut_end(draft: Draft, sites: Sequence[Site]) -> None:
    """Makes `main` end before these ops: it returns what they read."""
    operations = operations_in(draft.block)
    first = sites[0].number
    read = set[MlirValue]().union(*map(operands_within, operations[first:]))
    values = [value for op in operations[:first] for value in op.results if value in read]
    if values:
        draft.return_values(values)


def _ops_in_main(draft: Draft) -> list[Site]:
    """The ops of `main`, those in its regions included, whose results are read.

    Without numbers that could be the step of a loop, which must not be random.
    """
    has_loop = any(each.name == "stablehlo.while" for each in draft.ops)
    return [
        Site(index)
        for index, op in enumerate(draft.ops)
        if any(map(is_used, op.results))
        and any(each == draft.main for each in _around(op))
        and not (has_loop and _integer(op) > 0)
    ]


def _around(op: ir.Operation) -> list[ir.Operation]:
    """An operation and those around it, without the module."""
    found = [op]
    while op.parent is not None:
        op = op.parent.operation
        found.append(op)
    return found[:-1]


def _replace_by_arguments(draft: Draft, sites: Sequence[Site]) -> None:
    """Makes new arguments of `main` of the results that other ops read."""
    chosen = {draft.ops[site.number] for site in sites}
    for site in sites:
        for value in draft.ops[site.number].results:
            if any(chosen.isdisjoint(_around(use.owner.operation)) for use in value.uses):
                value.replace_all_uses_with(draft.add_argument(value.type))


def _operands(draft: Draft) -> list[Site]:
    """Ops with an operand of the type of their only result."""
    return [
        Site(index, choice)
        for index, op in enumerate(draft.ops)
        if len(op.results) == 1 and is_used(op.results[0])
        for choice, value in enumerate(op.operands)
        if value.type == op.results[0].type
    ]


def _replace_by_operand(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    op.results[0].replace_all_uses_with(op.operands[site.choice])


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


# -- regions --------------------------------------------------------------------------------------


def _regions(draft: Draft) -> list[Site]:
    """The branches of an `if` or `case`, and the bodies of loops."""
    return [
        Site(index, region)
        for index, op in enumerate(draft.ops)
        if op.name in ("stablehlo.case", "stablehlo.if", "stablehlo.while")
        for region in range(op.name == "stablehlo.while", len(op.regions))
    ]


def _take_region(draft: Draft, site: Site) -> None:
    op = draft.ops[site.number]
    block, is_direct = op.regions[site.choice].blocks[0], _around(op)[1] == draft.main
    values = list(op.operands) if op.name == "stablehlo.while" else []
    made = [value for item in operations_in(block)[:-1] for value in item.results]
    _replace_by_block(op, block, values)
    if is_direct:  # what fails may be a value that nothing reads
        draft.return_values([*draft.results, *made])


def _each(apply: Callable[[Draft, Site], None]) -> Callable[[Draft, Sequence[Site]], None]:
    """Applies to one choice for each op, from the last to the first: to ops before those around."""

    def apply_all(draft: Draft, sites: Sequence[Site]) -> None:
        chosen = {site.number: site for site in reversed(sites)}
        for site in chosen.values():
            apply(draft, site)

    return apply_all


def _whole(apply: Callable[[Draft], None]) -> Callable[[Draft, Sequence[Site]], None]:
    return lambda draft, _: apply(draft)


def _cuts() -> Iterator[Transformation]:
    yield Transformation("results dropped", _drop_results, _results)
    yield Transformation("cut after a value", _cut_end, _ends, is_cut=True)
    yield Transformation("ops replaced by arguments", _replace_by_arguments, _ops_in_main)


TRANSFORMATIONS: Sequence[Transformation] = (
    Transformation("weights made arguments", _whole(lambda draft: _free_weights(draft, False))),
    Transformation("weights made inputs", _whole(lambda draft: _free_weights(draft, True))),
    *_cuts(),
    Transformation("calls inlined", _whole(_inline_calls)),
    *_cuts(),
    Transformation("attributes dropped", _whole(_drop_attributes)),
    Transformation(
        "equal and constant ops folded",
        _whole(lambda draft: run_pipeline(draft.module, "builtin.module(canonicalize,cse)")),
    ),
    Transformation("branches and bodies of loops taken", _each(_take_region), _regions),
    Transformation("ops replaced by an operand", _each(_replace_by_operand), _operands),
)
"""In the order in which they are tried. Large programs are cut before the others."""
