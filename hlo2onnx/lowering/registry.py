"""Which function translates which op."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib.metadata import entry_points
from typing import Any, Literal

from hlo2onnx.errors import InternalError
from hlo2onnx.lowering.op import call_key

Form = Literal["real", "complex", "parts", "any"]
"""What values a handler takes: tensors of real (int, bool, float) elements; complex ones as
(re, im) pairs; "parts": it only moves data and is applied to re and im in turn; or "any": it
hands on whole values, whatever parts they have (see `Emitter.parts`)."""

_OP_NAME = re.compile(r"[a-z_][\w]*\.[\w.-]+( @.+)?")


@dataclass(frozen=True)
class Handler:
    """A registered handler and the attributes it declares.

    Attributes:
        function: Called as `function(em, op, **attributes)`.
        reads: Names of the MLIR attributes it takes as keyword arguments.
        required: Those of them without a default.
        ignores: Attributes it leaves unread, each with the reason.
        reads_rest: Whether it takes every other attribute as well.
    """

    op: str
    form: Form
    function: Callable[..., Any]
    reads: frozenset[str]
    required: frozenset[str]
    ignores: Mapping[str, str] = field(default_factory=dict)
    reads_rest: bool = False


class Registry:
    """Handlers by op name and form. Registering one twice raises."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}

    def add(self, handler: Handler) -> None:
        """Registers a handler.

        Raises:
            InternalError: The op has a handler of an overlapping form, or the name is malformed.
        """
        if not _OP_NAME.fullmatch(handler.op):
            raise InternalError(f"{handler.op!r} is not a qualified op name")
        forms = (handler.form,) if handler.form in ("real", "complex") else ("real", "complex")
        for form in forms:
            if (handler.op, form) in self._handlers:
                raise InternalError(f"{handler.op} has two handlers for {form} values")
            self._handlers[(handler.op, form)] = handler

    def with_own(self, handlers: Iterable[Handler]) -> Registry:
        """A registry with these handlers in front of those registered here."""
        own = Registry()
        for handler in handlers:
            own.add(handler)
        own._handlers = {**self._handlers, **own._handlers}
        return own

    def find(self, op: str, complex_: bool) -> Handler | None:
        """The handler for an op on complex or on real values, None if there is none."""
        return self._handlers.get((op, "complex" if complex_ else "real"))

    def handlers(self) -> list[Handler]:
        """All handlers, by op name."""
        unique = {(handler.op, handler.form): handler for handler in self._handlers.values()}
        return [unique[key] for key in sorted(unique)]


registry = Registry()
"""The handlers of this process: the built-in ones and those of installed extensions."""


def handles(
    *ops: str, form: Form = "real", ignores: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the handler of these ops.

    The function is called as `handler(em, op, **attributes)`: its keyword-only parameters name
    the MLIR attributes it reads (as Python values, see `hlo2onnx.mlir.attributes.to_python`); a
    parameter without a default is required. An attribute of the op that is neither read nor
    listed in `ignores` (name -> reason) makes the translation fail, so none is dropped silently.

    It returns one onnx_ir value per result part: a single value, or a sequence of them.
    """

    def register(function: Callable[..., Any]) -> Callable[..., Any]:
        for op in ops:
            registry.add(_describe(op, form, function, dict(ignores or {})))
        return function

    return register


def handles_call(
    *targets: str, form: Form = "real", ignores: Mapping[str, str] | None = None
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Registers a function as the handler of `stablehlo.custom_call`s of these targets.

    As `handles`, with the entries of the call's configuration in the place of attributes; see
    `hlo2onnx.lowering.op.CustomCall`.
    """
    return handles(*map(call_key, targets), form=form, ignores=ignores)


def _describe(
    op: str, form: Form, function: Callable[..., Any], ignores: Mapping[str, str]
) -> Handler:
    keywords = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind is inspect.Parameter.KEYWORD_ONLY
    ]
    return Handler(
        op,
        form,
        function,
        frozenset(parameter.name for parameter in keywords),
        frozenset(p.name for p in keywords if p.default is inspect.Parameter.empty),
        ignores,
    )


@cache
def load_handlers() -> Registry:
    """Imports every handler package (entry points of group `hlo2onnx.handlers`), once."""
    import dialect_handlers  # noqa: F401  (the built-in ones also without installed metadata)

    for entry in sorted(entry_points(group="hlo2onnx.handlers"), key=lambda entry: entry.name):
        entry.load()
    return registry
