"""Plants failures into hlo2onnx in the child processes that test programs.

A plug-in (an entry point of hlo2onnx.handlers, in a folder that is put on the path) plants one of
them when the child imports the handlers. The process that reduces a program stays as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

from hlo2onnx.lowering.registry import registry

NAME = "hlo2onnx_planted_failure"
METADATA = "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n"
ENTRY = f"[hlo2onnx.handlers]\nplanted = {NAME}\n"
CODE = "from failing_handlers import PLANTS\nPLANTS[{kind!r}]({op!r})\n"


@contextmanager
def planted(kind: str, op: str) -> Iterator[None]:
    """Child processes that start within the block have the failure."""
    with tempfile.TemporaryDirectory() as folder:
        home = Path(folder)
        (home / "planted-1.0.dist-info").mkdir()
        (home / "planted-1.0.dist-info" / "METADATA").write_text(METADATA)
        (home / "planted-1.0.dist-info" / "entry_points.txt").write_text(ENTRY)
        (home / f"{NAME}.py").write_text(CODE.format(kind=kind, op=op))
        sys.path.insert(0, folder)
        try:
            yield
        finally:
            sys.path.remove(folder)


def _wrap(op: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces the handler of an op by one made from it."""
    for key, handler in list(registry._handlers.items()):
        if handler.op == op:
            registry._handlers[key] = replace(handler, function=make(handler.function))


def raises(op: str) -> None:
    """The handler raises an error."""

    def failing(*_: Any, **__: Any) -> Any:
        raise ValueError(f"planted into {op}")

    _wrap(op, lambda _: failing)


def aborts(op: str) -> None:
    """The handler kills the process."""
    _wrap(op, lambda _: lambda *_, **__: os.abort())


def missing(op: str) -> None:
    """The op has no handler."""
    for key in [key for key in registry._handlers if key[0] == op]:
        del registry._handlers[key]


def negates(op: str) -> None:
    """The handler gives a result of the other sign."""
    _wrap(op, lambda old: lambda em, op, **keys: em.Neg(old(em, op, **keys)))


PLANTS: dict[str, Callable[[str], None]] = {
    "raises": raises,
    "aborts": aborts,
    "missing": missing,
    "negates": negates,
}
