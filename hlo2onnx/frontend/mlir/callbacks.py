"""Calls with effects: Python callbacks, prints, assertions, and the branches that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo

from hlo2onnx.frontend.mlir.attributes import text_of, to_python
from hlo2onnx.frontend.mlir.functions import enclosing_function, functions_of
from hlo2onnx.frontend.mlir.locations import Frame, frames_of, origin_of
from hlo2onnx.frontend.mlir.types import is_token
from hlo2onnx.frontend.mlir.values import (
    MlirValue,
    is_used,
    module_of,
    operations_in,
    operations_of,
    replace_by_block,
)
from hlo2onnx.limitations import CALLBACK_TARGETS

_BRANCHING = ("stablehlo.case", "stablehlo.if")
_CHECKS = re.compile(r"(^|[\\/])equinox[\\/]_errors\.py$")
_CHECKING_FUNCTION = re.compile(r"branched_error_if_impl(_\d+)?")


@dataclass(frozen=True)
class Untaken:
    """A branch that counts as not taken.

    Attributes:
        operation: The `case` or `if` that has the branch.
        region: Index of the branch's region.
        call: The callback that makes it count as not taken.
    """

    operation: ir.Operation
    region: int
    call: ir.Operation


def is_callback(operation: ir.Operation) -> bool:
    """Whether an operation calls a Python function whose results are read."""
    if operation.name != "stablehlo.custom_call":
        return False
    target = text_of(operation, "call_target_name")
    return target in CALLBACK_TARGETS and any(map(is_read, operation.results))


def has_callbacks(module_operation: ir.Operation) -> bool:
    """Whether there is a callback in a module."""
    return any(map(is_callback, operations_of(module_operation)))


def is_frame_of_check(frame: Frame) -> bool:
    """Whether a frame is in the file of `equinox.error_if`."""
    return _CHECKS.search(frame.filename) is not None


def is_check(call: ir.Operation) -> bool:
    """Whether a callback raises an error of `equinox.error_if`.

    Its frames are in equinox's own file, which calls no user code. JAX loses source lines within
    functions with custom derivatives (`jax.custom_jvp`). There, the name of equinox's function
    counts, unless the program has no locations at all.
    """
    frames = frames_of(call.location)
    if any(map(is_frame_of_check, frames)):
        return True
    symbol = enclosing_function(call)
    return has_origin(call) and _CHECKING_FUNCTION.fullmatch(symbol) is not None


def has_origin(operation: ir.Operation) -> bool:
    """Whether an operation has a scope or a source line of a Python program."""
    origin = origin_of(operation.location)
    return bool(origin.scope) or any(f.filename != "-" for f in frames_of(operation.location))


_COUNTS: Mapping[str, Callable[[ir.Operation], bool]] = {
    "drop-checks": is_check,
    "unreachable": lambda call: True,
    "refuse": lambda call: False,
}
"""By policy, whether a callback makes its branch count as not taken."""


class Callbacks:
    """The callbacks of a module under a policy.

    A branch with a callback that counts is not taken if another branch of the same operation has no
    such callback. Of nested branches, the innermost one is left out.

    Args:
        module_operation: The module. It does not change.
        policy: See `hlo2onnx.options.Options.callbacks`.

    Attributes:
        untaken: The branches that count as not taken, inner ones before outer ones.
        remaining: The callbacks outside of these branches.
    """

    def __init__(self, module_operation: ir.Operation, policy: str) -> None:
        self._counts = _COUNTS[policy]
        self._functions = functions_of(module_operation)
        self._of_functions: dict[str, set[ir.Operation]] = {}
        self._called: set[str] = set()
        self.untaken: list[Untaken] = []
        held = {symbol: self._of_function(symbol) for symbol in self._functions}
        roots = held.keys() - self._called
        self.remaining: set[ir.Operation] = set().union(*(held[symbol] for symbol in roots))

    def _of_function(self, symbol: str) -> set[ir.Operation]:
        if symbol not in self._of_functions:
            self._of_functions[symbol] = set()  # for recursive calls
            if symbol in self._functions:
                calls = self._of_regions(self._functions[symbol].regions)
                self._of_functions[symbol] = calls
        return self._of_functions[symbol]

    def _of_regions(self, regions: Iterable[ir.Region]) -> set[ir.Operation]:
        operations = (op for region in regions for block in region for op in operations_in(block))
        return set().union(*map(self._of_operation, operations))

    def _of_operation(self, operation: ir.Operation) -> set[ir.Operation]:
        if is_callback(operation):
            return {operation}
        if operation.name in _BRANCHING:
            return self._of_branches(operation)
        calls = self._of_regions(operation.regions)
        for symbol in called_functions(operation):
            self._called.add(symbol)
            calls |= self._of_function(symbol)
        return calls

    def _of_branches(self, operation: ir.Operation) -> set[ir.Operation]:
        held = [self._of_regions([region]) for region in operation.regions]
        counted = [[call for call in calls if self._counts(call)] for calls in held]
        if all(counted):
            return set().union(*held)
        for region, calls in enumerate(counted):
            if calls:
                self.untaken.append(Untaken(operation, region, calls[0]))
        return set().union(
            *(calls for calls, found in zip(held, counted, strict=True) if not found)
        )


def called_functions(operation: ir.Operation) -> Iterator[str]:
    """The symbols of the functions that an operation calls."""
    for name in ("callee", "decomposition"):
        if name in operation.attributes:
            yield text_of(operation, name)
    if "called_computations" in operation.attributes:
        yield from map(str, to_python(operation.attributes["called_computations"]))


def way_out(call: ir.Operation, policy: str) -> str:
    """Advice on a policy that leaves out this callback; "" if none does."""
    module = module_of(call)
    if policy == "refuse" and call not in Callbacks(module, "drop-checks").remaining:
        return (
            'translate(..., callbacks="drop-checks"), the default, leaves out this check of equinox'
        )
    if policy == "unreachable" or call in Callbacks(module, "unreachable").remaining:
        return ""
    advice = (
        'where its branch is never taken, translate(..., callbacks="unreachable") (--callbacks'
        " unreachable) leaves the branch out"
    )
    if not has_origin(call):
        advice += "; the program has no source locations, by which checks of equinox are known"
    return advice


ASSERTION = "shape_assertion"
_OF_DIMENSIONS = "Input shapes do not match the polymorphic shapes specification."
"""The beginning of JAX's errors for a dimension that is 0, or 2*b that is odd."""
_CONSTRAINT = re.compile(r"symbolic shape constraint (.*?)\. Expected")


def assertions(module_operation: ir.Operation) -> list[str]:
    """The assertions of a program: constraints such as "b >= 8", and messages of other producers.

    Assertions that the dimensions of inputs fit their names are left out.
    """
    found = []
    for operation in operations_of(module_operation):
        is_call = operation.name == "stablehlo.custom_call"
        if not is_call or "error_message" not in operation.attributes:
            continue
        if text_of(operation, "call_target_name") != ASSERTION:
            continue
        text = text_of(operation, "error_message")
        constraint = _CONSTRAINT.search(text)
        if constraint is not None:
            found.append(constraint[1])
        elif not text.startswith(_OF_DIMENSIONS):
            found.append(text)
    return found


def drop_effects(module_operation: ir.Operation) -> list[str]:
    """Removes, in place, custom calls whose data nothing reads. Returns their targets, each once.

    JAX lowers `jax.debug.print`, and callbacks that return nothing, to such calls. XLA crashes on
    callbacks of another process, or of another executable of this process.
    """
    targets = []
    calls = [op for op in operations_of(module_operation) if op.name == "stablehlo.custom_call"]
    # From the end: a call that only dropped calls read is dropped, too.
    for call in reversed(calls):
        if any(map(is_read, call.results)):
            continue
        targets.append(text_of(call, "call_target_name"))
        for token in filter(is_used, call.results):
            token.replace_all_uses_with(_earlier_token(call, token.type))
        call.erase()
    return list(dict.fromkeys(reversed(targets)))


def is_read(result: MlirValue) -> bool:
    """Whether an operation reads the data of a result."""
    return is_used(result) and not is_token(result.type)


def _earlier_token(call: ir.Operation, token: ir.Type) -> MlirValue:
    tokens = [operand for operand in call.operands if is_token(operand.type)]
    if tokens:
        return tokens[0]
    with call.context, call.location, ir.InsertionPoint(call):
        return ir.Operation.create("stablehlo.after_all", results=[token]).result


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
