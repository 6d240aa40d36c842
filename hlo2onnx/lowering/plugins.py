"""Origin of the handlers of plug-ins and users: author and place.

A mistake in such a handler is not a bug of hlo2onnx. It becomes a refusal of the op that names the
handler and says what to change (`hlo2onnx.lowering.plugin_errors`).
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType
from typing import Any

from hlo2onnx.custom_calls import CustomOp
from hlo2onnx.frontend.mlir.locations import Frame

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
