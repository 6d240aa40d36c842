"""The registry of handlers."""

from __future__ import annotations

import functools
import inspect
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from importlib import metadata
from importlib.metadata import EntryPoint, entry_points
from pathlib import Path
from traceback import extract_tb
from types import CodeType
from typing import Any, Literal, get_args

from hlo2onnx.custom_calls import CustomOp
from hlo2onnx.errors import Hlo2OnnxError, InternalError, PluginError, UnsupportedOp
from hlo2onnx.frontend.mlir.locations import Frame
from hlo2onnx.lowering.op import Op, call_key

ENTRY_POINTS = "hlo2onnx.handlers"
"""The group of entry points under which packages register handlers: each names a module."""

Form = Literal["real", "complex", "parts", "any"]
"""The values that a handler takes. "real": tensors of int, bool or float. "complex": complex
tensors as (re, im) pairs. "parts": it only moves data and is applied to re and im in turn. "any":
it passes on whole values with all their parts (see `Emitter.parts`)."""

_OP_NAME = re.compile(r"[a-z_][\w]*\.[\w.-]+( @.+)?")


_OWN = frozenset({"hlo2onnx", "dialect_handlers"})
"""The packages whose handlers are part of hlo2onnx."""

_TO_FUNCTIONS = "return one array for each result of the call, of its shape and element type"


@dataclass(frozen=True)
class Plugin:
    """The origin of a handler outside hlo2onnx.

    Attributes:
        title: The beginning of its errors: "the handler acme.handlers.swish (acme/handlers.py:12)".
        filename: The file of its code; "" if there is none.
        advice: Advice about wrong results, if it differs from the default.
    """

    title: str
    filename: str
    advice: str = ""


@dataclass(frozen=True)
class Handler:
    """A registered handler and the attributes it declares.

    Attributes:
        function: Called as `function(em, op, **attributes)`.
        reads: Names of the MLIR attributes it takes as keyword arguments.
        required: Those of them without a default.
        ignores: Attributes it leaves unread, each with the reason.
        reads_rest: Whether it takes every other attribute as well.
        plugin: Its origin, if it is not part of hlo2onnx.
    """

    op: str
    form: Form
    function: Callable[..., Any]
    reads: frozenset[str]
    required: frozenset[str]
    ignores: Mapping[str, str] = field(default_factory=dict)
    reads_rest: bool = False
    plugin: Plugin | None = None


class Registry:
    """Handlers by op name and form. Registering one twice raises."""

    def __init__(self) -> None:
        self._handlers: dict[tuple[str, str], Handler] = {}

    def add(self, handler: Handler) -> None:
        """Registers a handler.

        Raises:
            PluginError: The op has a handler of an overlapping form, or the name or the form is
                malformed; an InternalError for handlers of hlo2onnx.
        """
        if not _OP_NAME.fullmatch(handler.op):
            raise _fault(handler, f"{handler.op!r} is not an op name", "such as 'stablehlo.add'")
        if handler.form not in get_args(Form):
            raise _fault(handler, f"form={handler.form!r}", f"one of {', '.join(get_args(Form))}")
        forms = (handler.form,) if handler.form in ("real", "complex") else ("real", "complex")
        for form in forms:
            other = self._handlers.get((handler.op, form))
            if other is not None:
                raise _fault(
                    handler,
                    f"{handler.op} has a handler for {form} values already,"
                    f" {name_of(other.function)}",
                    "translate(custom_calls=...) can replace the handler of a custom call for one"
                    " translation; other handlers cannot be replaced",
                )
            self._handlers[(handler.op, form)] = handler

    def with_own(self, handlers: Iterable[Handler]) -> Registry:
        """A registry that prefers these handlers to its own."""
        own = Registry()
        for handler in handlers:
            own.add(handler)
        own._handlers = {**self._handlers, **own._handlers}
        return own

    def find(self, op: str, complex_: bool) -> Handler | None:
        """The handler for an op on complex or on real values, None if there is none."""
        return self._handlers.get((op, "complex" if complex_ else "real"))

    def become(self, other: Registry) -> None:
        """Replaces its handlers by those of another registry."""
        self._handlers = dict(other._handlers)

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
    the MLIR attributes it reads (as Python values, see `frontend.mlir.attributes.to_python`); a
    parameter without a default is required. An attribute of the op that is neither read nor
    listed in `ignores` (name -> reason) makes the translation fail, so none is dropped silently.

    It returns one onnx_ir value per result part: a single value, or a sequence of them.

    Raises:
        PluginError: The function cannot be called so, or the op has a handler already.
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

    Like `handles`, with the entries of the call's configuration instead of attributes; see
    `hlo2onnx.lowering.op.CustomCall`.
    """
    return handles(*map(call_key, targets), form=form, ignores=ignores)


def _describe(
    op: str, form: Form, function: Callable[..., Any], ignores: Mapping[str, str]
) -> Handler:
    parameters = inspect.signature(function).parameters.values()
    keywords = [item for item in parameters if item.kind is inspect.Parameter.KEYWORD_ONLY]
    handler = Handler(
        op,
        form,
        function,
        frozenset(parameter.name for parameter in keywords),
        frozenset(p.name for p in keywords if p.default is inspect.Parameter.empty),
        ignores,
        plugin=plugin_of(function),
    )
    others = [item.kind for item in parameters if item not in keywords]
    is_callable = len(others) == 2 and inspect.Parameter.VAR_KEYWORD not in others
    if not is_callable and inspect.Parameter.VAR_POSITIONAL not in others:
        raise _fault(
            handler,
            f"it takes {inspect.signature(function)}",
            "define it as f(em, op, *, name, other=default), with the names of the attributes",
        )
    return handler


def _fault(handler: Handler, what: str, advice: str) -> Hlo2OnnxError:
    """The error about a handler that is being registered."""
    if handler.plugin is None:
        return InternalError(f"{name_of(handler.function)}: {what}; {advice}")
    return PluginError(f"{handler.plugin.title} cannot be registered: {what}\n  next   {advice}")


_OF_NO_MEANING = frozenset({"result_layout", "xla_shape"})
"""Attributes that XLA's exporters add to any op: the memory layout of its result and XLA's name of
its type."""


def read_attributes(handler: Handler, op: Op) -> dict[str, Any]:
    """The attributes the handler reads, as Python values.

    Raises:
        UnsupportedOp: The op has an attribute that the handler does not know, or lacks one that it
            needs.
    """
    values = {}
    for name in op.attribute_names:
        if name in handler.reads or (handler.reads_rest and name not in handler.ignores):
            values[name] = op.attribute(name)
        elif name not in handler.ignores and name not in _OF_NO_MEANING:
            raise UnsupportedOp(f"unknown attribute {name} = {op.attribute(name)}")
    if not handler.required.issubset(values):
        missing = handler.required - values.keys()
        raise UnsupportedOp(f"attribute {', '.join(sorted(missing))} is missing")
    return values


# -- the origin of handlers ---


def plugin_of(author: Any, target: str = "") -> Plugin | None:
    """The plug-in of a handler; None for a handler of hlo2onnx.

    Args:
        author: The handler's function, or the JAX function or `CustomOp` that a user gave.
        target: The target of the user's custom call.
    """
    if isinstance(author, CustomOp):
        title = f"the CustomOp({author.domain!r}, {author.op_type!r}) for @{target}"
        place = place_of(author.attributes) if callable(author.attributes) else None
        return Plugin(title, place.filename if place else "")
    function = _plain(author)
    module = getattr(function, "__module__", None) or "?"
    if not target and module.partition(".")[0] in _OWN:
        return None
    place = place_of(function)
    filename = place.filename if place else ""
    if target:
        return Plugin(f"the function {name_of(function)} for @{target}", filename, _TO_FUNCTIONS)
    return Plugin(f"the handler {name_of(function)}", filename)


def name_of(function: Callable[..., Any]) -> str:
    """A function's module, name and place: "acme.handlers.swish (acme/handlers.py:12)"."""
    function = _plain(function)
    module = getattr(function, "__module__", None) or "?"
    name = getattr(function, "__qualname__", type(function).__qualname__)
    place = place_of(function)
    return f"{module}.{name}" + (f" ({place.source})" if place else "")


def place_of(function: Callable[..., Any]) -> Frame | None:
    """Where a function begins; None where Python does not know."""
    code = _code(_plain(function))
    return None if code is None else Frame(code.co_filename, code.co_firstlineno)


def _plain(function: Callable[..., Any]) -> Any:
    """The function under decorators and `functools.partial`."""
    function = inspect.unwrap(function)
    while isinstance(function, functools.partial):
        function = inspect.unwrap(function.func)
    return function


def _code(function: object) -> CodeType | None:
    if not hasattr(function, "__code__") and callable(function):
        function = type(function).__call__
    code = getattr(function, "__code__", None)
    return code if isinstance(code, CodeType) else None


# -- installed handlers ---


@cache
def load_handlers() -> Registry:
    """Imports every handler package (entry points of group `hlo2onnx.handlers`), once."""
    import dialect_handlers  # noqa: F401  (the built-in ones also without installed metadata)

    for entry in sorted(entry_points(group=ENTRY_POINTS), key=lambda entry: entry.name):
        _load(entry)
    return registry


def _load(entry: EntryPoint) -> None:
    """Imports one package of handlers. If it fails, none of its handlers stays registered.

    Raises:
        PluginError: It cannot be imported, or registers an invalid handler.
    """
    before = registry.with_own(())
    try:
        entry.load()
    except Exception as error:
        registry.become(before)
        package = f"{entry.dist.name} {entry.dist.version}" if entry.dist else "?"
        told = isinstance(error, PluginError)
        why = str(error) if told else f"{type(error).__name__}: {error}{_place(error)}"
        raise PluginError(
            f"the plug-in {entry.name} = {entry.value!r} of the package {package} cannot be"
            f" loaded: {why}\n  next   correct the plug-in, or uninstall {package}"
        ) from error


def _place(error: Exception) -> str:
    """The place of a failed import: " at file:line", if it is in a file."""
    frames = [Frame(item.filename, item.lineno or 0) for item in extract_tb(error.__traceback__)]
    files = [frame for frame in frames if not frame.filename.startswith("<")]
    of_others = [frame for frame in files if frame.filename not in (__file__, metadata.__file__)]
    own = [frame for frame in of_others if "importlib" not in Path(frame.filename).parts]
    return f" at {own[-1].source}" if own else ""
