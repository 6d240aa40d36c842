"""Branches that count as not taken: what to tell the user of them, and how they are left out."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.callbacks import (
    Untaken,
    called_functions,
    enclosing_function,
    is_check,
    is_frame_of_check,
)
from hlo2onnx.mlir.locations import Frame, frames_of
from hlo2onnx.mlir.values import defining_operation
from hlo2onnx.mlir.walk import operations_of

_PASSING_ON = ("stablehlo.broadcast_in_dim", "stablehlo.convert", "stablehlo.reshape")

# -- notes ----------------------------------------------------------------------------------------


def notes_of(module_operation: Any, untaken: Sequence[Untaken]) -> list[str]:
    """What to tell the user of branches that are to be left out: where each stands, and its
    condition. One in a function has a note for each call of the function."""
    sites: dict[str, list[Any]] = {}
    for operation in operations_of(module_operation):
        for symbol in called_functions(operation):
            sites.setdefault(symbol, []).append(operation)
    notes = [_note(branch, calls) for branch in untaken for calls in _paths(branch, sites)]
    return list(dict.fromkeys(notes))


def _paths(branch: Untaken, sites: Mapping[str, list[Any]]) -> Iterator[list[Any]]:
    """For each call of the function with the branch, the calls that lead to it from the program's
    main function, the innermost first; of functions further out the first call."""
    for call in sites.get(enclosing_function(branch.operation), [None]):
        path = []
        while call is not None and call not in path:
            path.append(call)
            call = next(iter(sites.get(enclosing_function(call), [])), None)
        yield path


def _note(branch: Untaken, path: list[Any]) -> str:
    frames = frames_of(branch.call.location)
    for call in path:
        frames += frames_of(call.location)
    condition = _condition(branch, path)
    if is_check(branch.call):
        return (
            f"a check of equinox{_place(_callers(frames))} is left out: where it would raise, the"
            f" model goes on; its condition: {condition}"
        )
    return (
        f"a branch with a Python callback{_place(frames)} is left out, as if it were never taken;"
        f" its condition: {condition}"
    )


def _callers(frames: list[Frame]) -> list[Frame]:
    """The frames of a check from the one on that calls equinox."""
    checking = [index for index, frame in enumerate(frames) if is_frame_of_check(frame)]
    return frames[checking[-1] + 1 :] if checking else frames


def _place(frames: list[Frame]) -> str:
    """The innermost frame, and the innermost one of the user's own code."""
    if not frames:
        return ""
    users = [frame for frame in frames if not frame.is_of_library]
    of_user = f" (from {users[0].source})" if users and users[0] is not frames[0] else ""
    return f" at {frames[0].source}{of_user}"


def _condition(branch: Untaken, path: list[Any]) -> str:
    """What decides whether a branch is taken: the operation that makes its condition."""
    calls = iter(path)
    value, negated = branch.operation.operands[0], False
    while True:
        maker = defining_operation(value)
        if maker is None:
            owner = value.owner.owner.operation
            call = next(calls, None) if owner.name == "func.func" else None
            if call is None:
                text, frames = f"an argument of {_title(owner)}", frames_of(owner.location)
                break
            value = call.operands[value.arg_number]
        elif maker.name in _PASSING_ON or _is_reduction_of_booleans(maker):
            value = maker.operands[0]
        elif maker.name == "stablehlo.not":
            value, negated = maker.operands[0], not negated
        else:
            text, frames = _title(maker), frames_of(maker.location)
            break
    text = f"not {text}" if negated else text
    text = f"{text} at {frames[0].source}" if frames else text
    count = len(branch.operation.regions)
    return text if count == 2 else f"{text} chooses branch {branch.region} of {count}"


def _is_reduction_of_booleans(operation: Any) -> bool:
    return operation.name == "stablehlo.reduce" and (
        str(ir.ShapedType(operation.results[0].type).element_type) == "i1"
    )


def _title(operation: Any) -> str:
    """The name of an operation, with its direction or what it calls."""
    if operation.name == "func.func":
        return f"@{to_python(operation.attributes['sym_name'])}"
    if operation.name == "stablehlo.compare":
        return f"{operation.name} {to_python(operation.attributes['comparison_direction'])}"
    called = next(called_functions(operation), "")
    return f"{operation.name} @{called}" if called else str(operation.name)


# -- leaving out ----------------------------------------------------------------------------------


def drop_branches(untaken: Sequence[Untaken]) -> None:
    """Leaves out branches in place.

    Args:
        untaken: Inner ones before outer ones.
    """
    regions: dict[Any, list[int]] = {}
    for branch in untaken:
        regions.setdefault(branch.operation, []).append(branch.region)
    for operation, dropped in regions.items():
        kept = [r for index, r in enumerate(operation.regions) if index not in dropped]
        if len(kept) == 1:
            _replace_by_block(operation, kept[0].blocks[0])
        else:
            _keep_regions(operation, kept, dropped)


def _replace_by_block(operation: Any, block: Any) -> None:
    """Replaces an operation by what one of its blocks, without arguments, computes."""
    *body, terminator = [item.operation for item in block.operations]
    returned = list(terminator.operands)
    for item in body:
        item.move_before(operation)
    for result, value in zip(operation.results, returned, strict=True):
        result.replace_all_uses_with(value)
    operation.erase()


def _keep_regions(operation: Any, kept: list[Any], dropped: list[int]) -> None:
    """Replaces a `case` by one of fewer branches: an index is less by the number of dropped
    branches before it. An index out of range stays so, and takes the last branch; where that one
    is dropped, it is never taken."""
    with operation.context, operation.location, ir.InsertionPoint(operation):
        index = shifted = operation.operands[0]
        for place in dropped:
            bound = ir.DenseElementsAttr.get(np.array(place, np.int32))
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
    for old, new in zip(operation.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()
