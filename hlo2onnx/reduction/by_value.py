"""Pickles functions of scripts and notebooks by value, so that a child process can call them.

`pickle` names a function by its module. The module `__main__` of a child process is another one,
and lambdas and inner functions have no such name. Their code is sent, with the values it reads.
"""

from __future__ import annotations

import io
import marshal
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from importlib import import_module
from types import CellType, CodeType, FunctionType, ModuleType
from typing import Any

from hlo2onnx.errors import UsageError


def dumps(value: object, what: str) -> bytes:
    """Pickles a value.

    Args:
        what: How to name the value in an error.

    Raises:
        UsageError: It holds something that cannot be sent to another process.
    """
    stream = io.BytesIO()
    try:
        _Pickler(stream, protocol=pickle.HIGHEST_PROTOCOL).dump(value)
    except (pickle.PicklingError, TypeError, AttributeError, ValueError) as error:
        raise UsageError(
            f"{what} cannot be sent to the child process that runs it: {error}\n"
            "  next   define it, and the classes that it uses, in a module that can be imported"
        ) from error
    return stream.getvalue()


class _Pickler(pickle.Pickler):
    def reducer_override(self, value: Any) -> Any:
        if isinstance(value, ModuleType):
            return import_module, (value.__name__,)
        if isinstance(value, type) and value.__module__ == "__main__":
            raise pickle.PicklingError(f"class {value.__qualname__} is in the main module")
        if not isinstance(value, FunctionType) or _is_importable(value):
            return NotImplemented
        cells = tuple(cell.cell_contents for cell in value.__closure__ or ())
        made = (marshal.dumps(value.__code__), value.__name__, len(cells))
        globals_ = {name: value.__globals__[name] for name in _globals_read(value)}
        state = (globals_, value.__defaults__, value.__kwdefaults__, cells)
        # The function is made before its values: it may be one of them.
        return _function, made, state, None, None, _complete


def _is_importable(function: Callable[..., Any]) -> bool:
    module = sys.modules.get(function.__module__ or "")
    found: object = None if function.__module__ == "__main__" else module
    for name in function.__qualname__.split("."):
        found = getattr(found, name, None)
    return found is function


def _globals_read(function: FunctionType) -> list[str]:
    names = {name for code in _codes(function.__code__) for name in code.co_names}
    return sorted(names & function.__globals__.keys())


def _codes(code: CodeType) -> Iterator[CodeType]:
    yield code
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield from _codes(constant)


def _function(code: bytes, name: str, cells: int) -> FunctionType:
    closure = tuple(CellType() for _ in range(cells))
    globals_ = {"__builtins__": __builtins__, "__name__": "hlo2onnx_sent"}
    return FunctionType(marshal.loads(code), globals_, name, None, closure)


def _complete(
    function: FunctionType,
    state: tuple[Mapping[str, Any], tuple[Any, ...] | None, dict[str, Any] | None, tuple[Any, ...]],
) -> None:
    values, function.__defaults__, function.__kwdefaults__, cells = state
    function.__globals__.update(values)
    for cell, content in zip(function.__closure__ or (), cells, strict=True):
        cell.cell_contents = content
