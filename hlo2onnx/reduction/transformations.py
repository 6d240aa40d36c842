"""The transformations that make a program smaller.

Each lists its sites in a program, and applies itself to some of them. Whether the changed program
still fails is not its business: an invalid or different program is not used.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import keys_of
from hlo2onnx.frontend.mlir.functions import inline_calls, large_constants_as_arguments
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    is_used,
    operands_within,
    operations_in,
    operations_of,
    replace_by_block,
)
from hlo2onnx.reduction.draft import Draft

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


def _free_weights(draft: Draft, keeps: bool) -> None:
    """Makes arguments of large constants, with or without their numbers."""
    arrays = large_constants_as_arguments(draft.main)
    draft.inputs += arrays if keeps else [None] * len(arrays)


def _drop_attributes(draft: Draft) -> None:
    """Removes the attributes of frameworks: of the module, of arguments and of ops."""
    for operation in operations_of(draft.module):
        for name in keys_of(operation.attributes):
            if name.startswith(_NOTES) or name in ("arg_attrs", "res_attrs"):
                del operation.attributes[name]


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

    Not integers that could be the step of a loop: with random ones, it might not end.
    """
    has_loop = any(each.name == "stablehlo.while" for each in draft.ops)
    return [
        Site(index)
        for index, op in enumerate(draft.ops)
        if any(map(is_used, op.results))
        and any(each == draft.main for each in _around(op))
        and not (has_loop and _is_integer(op))
    ]


def _is_integer(op: ir.Operation) -> bool:
    """Whether an op is an integer constant of rank 0."""
    return op.name == "stablehlo.constant" and bool(_INTEGER.fullmatch(str(op.results[0].type)))


_INTEGER = re.compile(r"tensor<u?i\d+>")


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
    replace_by_block(op, block, values)
    if is_direct:  # what fails may be a value that nothing reads
        draft.return_values([*draft.results, *made])


def _take_regions(draft: Draft, sites: Sequence[Site]) -> None:
    """Takes one region of each op, from the last to the first: of ops before those around."""
    for site in {site.number: site for site in reversed(sites)}.values():
        _take_region(draft, site)


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
    Transformation("calls inlined", _whole(lambda draft: inline_calls(draft.module, draft.main))),
    *_cuts(),
    Transformation("attributes dropped", _whole(_drop_attributes)),
    Transformation(
        "equal and constant ops folded",
        _whole(lambda draft: run_pipeline(draft.module, "builtin.module(canonicalize,cse)")),
    ),
    Transformation("branches and bodies of loops taken", _take_regions, _regions),
)
"""In the order in which they are tried. Large programs are cut before the others."""
