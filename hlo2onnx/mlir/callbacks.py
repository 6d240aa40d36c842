"""Python callbacks of a program, and the branches that hold them."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.limitations import CALLBACK_TARGETS
from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.effects import is_read
from hlo2onnx.mlir.locations import Frame, frames_of, origin_of
from hlo2onnx.mlir.normalize import functions_of

_BRANCHING = ("stablehlo.case", "stablehlo.if")
_CHECKS = re.compile(r"(^|[\\/])equinox[\\/]_errors\.py$")
_CHECKING_FUNCTION = re.compile(r"branched_error_if_impl(_\d+)?")


@dataclass(frozen=True)
class Untaken:
    """A branch that counts as not taken.

    Attributes:
        operation: The `case` or `if` that has the branch.
        region: Its region of this operation.
        call: The callback because of which it counts as not taken.
    """

    operation: Any
    region: int
    call: Any


def is_callback(operation: Any) -> bool:
    """Whether an operation calls a Python function, and something reads what it returns."""
    if operation.name != "stablehlo.custom_call":
        return False
    target = to_python(operation.attributes["call_target_name"])
    return target in CALLBACK_TARGETS and any(map(is_read, operation.results))


def has_callbacks(module_operation: Any) -> bool:
    """Whether there is a callback in a module."""
    found = False

    def visit(operation: Any) -> Any:
        nonlocal found
        found = is_callback(operation)
        return ir.WalkResult.INTERRUPT if found else ir.WalkResult.ADVANCE

    module_operation.walk(visit)
    return found


def is_frame_of_check(frame: Frame) -> bool:
    """Whether a frame stands in the file of `equinox.error_if`."""
    return _CHECKS.search(frame.filename) is not None


def is_check(call: Any) -> bool:
    """Whether a callback raises an error of `equinox.error_if`.

    Such a call was made in equinox's own file, which calls no code of users. Where JAX lost its
    source lines, as within functions with derivatives of their own (`jax.custom_jvp`), the name of
    equinox's function is left. In a program without any locations that name is not enough.
    """
    frames = frames_of(call.location)
    if any(map(is_frame_of_check, frames)):
        return True
    symbol = enclosing_function(call)
    return has_origin(call) and _CHECKING_FUNCTION.fullmatch(symbol) is not None


def has_origin(operation: Any) -> bool:
    """Whether an operation has a name or a source line of the Python program that made it."""
    origin = origin_of(operation.location)
    return bool(origin.scope) or any(f.filename != "-" for f in frames_of(operation.location))


def enclosing_function(operation: Any) -> str:
    """The symbol of the function that an operation stands in."""
    while operation.name != "func.func":
        operation = operation.parent.operation
    return str(to_python(operation.attributes["sym_name"]))


_COUNTS: Mapping[str, Callable[[Any], bool]] = {
    "drop-checks": is_check,
    "unreachable": lambda call: True,
    "refuse": lambda call: False,
}
"""By policy, the callbacks because of which a branch counts as not taken."""


class Callbacks:
    """The callbacks of a module under a policy.

    A branch counts as not taken where another branch of the same operation holds no callback
    that counts. Of nested branches the innermost is the one that is left out.

    Args:
        module_operation: The module; it is only read.
        policy: See `hlo2onnx.options.Options.callbacks`.

    Attributes:
        untaken: The branches that count as not taken, inner ones before outer ones.
        remaining: The callbacks that are left without these branches.
    """

    def __init__(self, module_operation: Any, policy: str) -> None:
        self._counts = _COUNTS[policy]
        self._functions = functions_of(module_operation)
        self._of_functions: dict[str, set[Any]] = {}
        self._called: set[str] = set()
        self.untaken: list[Untaken] = []
        held = {symbol: self._of_function(symbol) for symbol in self._functions}
        roots = held.keys() - self._called
        self.remaining: set[Any] = set().union(*(held[symbol] for symbol in roots))

    def _of_function(self, symbol: str) -> set[Any]:
        if symbol not in self._of_functions:
            self._of_functions[symbol] = set()  # what a call of itself adds
            if symbol in self._functions:
                calls = self._of_regions(self._functions[symbol].regions)
                self._of_functions[symbol] = calls
        return self._of_functions[symbol]

    def _of_regions(self, regions: Iterable[Any]) -> set[Any]:
        operations = (op.operation for region in regions for block in region for op in block)
        return set().union(*map(self._of_operation, operations))

    def _of_operation(self, operation: Any) -> set[Any]:
        if is_callback(operation):
            return {operation}
        if operation.name in _BRANCHING:
            return self._of_branches(operation)
        calls = self._of_regions(operation.regions)
        for symbol in called_functions(operation):
            self._called.add(symbol)
            calls |= self._of_function(symbol)
        return calls

    def _of_branches(self, operation: Any) -> set[Any]:
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


def called_functions(operation: Any) -> Iterator[str]:
    """The symbols of the functions that an operation calls."""
    for name in ("callee", "decomposition"):
        if name in operation.attributes:
            yield str(to_python(operation.attributes[name]))
    if "called_computations" in operation.attributes:
        yield from map(str, to_python(operation.attributes["called_computations"]))


def way_out(call: Any, policy: str) -> str:
    """Which other policy leaves out a callback that cannot be translated; "" if none does."""
    module = call
    while module.parent is not None:
        module = module.parent.operation
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
