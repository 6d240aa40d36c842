"""Branches that count as not taken: their notes for the user, and their removal."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.frontend.mlir.callbacks import (
    Untaken,
    called_functions,
    is_check,
    is_frame_of_check,
)
from hlo2onnx.frontend.mlir.functions import enclosing_function
from hlo2onnx.frontend.mlir.locations import Frame, frames_of
from hlo2onnx.frontend.mlir.values import operations_of, replace_by_block

# -- notes ----------------------------------------------------------------------------------------


def notes_of(module_operation: ir.Operation, untaken: Sequence[Untaken]) -> list[str]:
    """Notes on branches that will be left out: the place of each.

    A branch in a function has one note for each call of the function.
    """
    sites: dict[str, list[ir.Operation]] = {}
    for operation in operations_of(module_operation):
        for symbol in called_functions(operation):
            sites.setdefault(symbol, []).append(operation)
    notes = [_note(branch, calls) for branch in untaken for calls in _paths(branch, sites)]
    return list(dict.fromkeys(notes))


def _paths(
    branch: Untaken, sites: Mapping[str, Sequence[ir.Operation]]
) -> Iterator[list[ir.Operation]]:
    """For each call of the branch's function: the chain of calls from `main`, innermost first.

    Of the outer functions, only the first call counts.
    """
    calls: Sequence[ir.Operation | None] = sites.get(enclosing_function(branch.operation), [None])
    for call in calls:
        path: list[ir.Operation] = []
        while call is not None and call not in path:
            path.append(call)
            call = next(iter(sites.get(enclosing_function(call), [])), None)
        yield path


def _note(branch: Untaken, path: list[ir.Operation]) -> str:
    frames = frames_of(branch.call.location)
    for call in path:
        frames += frames_of(call.location)
    if is_check(branch.call):
        place = _place(_callers(frames))
        return f"a check of equinox{place} is left out: if it fails, the model continues"
    return f"a branch with a Python callback{_place(frames)} is left out, as if it were never taken"


def _callers(frames: list[Frame]) -> list[Frame]:
    """The frames of a check, from the caller of equinox outwards."""
    checking = [index for index, frame in enumerate(frames) if is_frame_of_check(frame)]
    return frames[checking[-1] + 1 :] if checking else frames


def _place(frames: list[Frame]) -> str:
    """The innermost frame, and the innermost one of the user's own code."""
    if not frames:
        return ""
    users = [frame for frame in frames if not frame.is_of_library]
    of_user = f" (from {users[0].source})" if users and users[0] is not frames[0] else ""
    return f" at {frames[0].source}{of_user}"


# -- removal --------------------------------------------------------------------------------------


def drop_branches(untaken: Sequence[Untaken]) -> None:
    """Removes branches in place.

    Args:
        untaken: Inner ones before outer ones.
    """
    regions: dict[ir.Operation, list[int]] = {}
    for branch in untaken:
        regions.setdefault(branch.operation, []).append(branch.region)
    for operation, dropped in regions.items():
        kept = [r for index, r in enumerate(operation.regions) if index not in dropped]
        if len(kept) == 1:
            replace_by_block(operation, kept[0].blocks[0])
        else:
            _keep_regions(operation, kept, dropped)


def _keep_regions(
    operation: ir.Operation, kept: Sequence[ir.Region], dropped: Sequence[int]
) -> None:
    """Replaces a `case` by one with fewer branches.

    An index decreases by the number of dropped branches before it. An index out of range stays so,
    and takes the last branch. If the last branch is dropped, no index is out of range.
    """
    with operation.context, operation.location, ir.InsertionPoint(operation):
        index = shifted = operation.operands[0]
        for number in dropped:
            bound = ir.DenseElementsAttr.get(np.array(number, np.int32))
            greater = stablehlo.compare(
                index,
                stablehlo.constant(bound),
                stablehlo.ComparisonDirectionAttr.get("GT"),
            )
            shifted = stablehlo.subtract(shifted, stablehlo.convert(index.type, greater))
        types = [result.type for result in operation.results]
        made = ir.Operation.create(operation.name, types, [shifted], regions=len(kept))
        for region, old in zip(made.regions, kept, strict=True):
            old.blocks[0].append_to(region)
    for result, value in zip(operation.results, made.results, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()
