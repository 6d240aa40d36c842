"""Failures to plant into hlo2onnx, in the child process that tests programs.

A plug-in (an entry point of hlo2onnx.handlers, in a folder that is put on the path) plants one of
them when the child imports the handlers. The process that reduces a program stays as it is.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

NAME = "hlo2onnx_planted_failure"
METADATA = "Metadata-Version: 2.1\nName: planted\nVersion: 1.0\n"
ENTRY = f"[hlo2onnx.handlers]\nplanted = {NAME}\n"
CODE = """
from tools.reduction.plants import PLANTS
PLANTS[{kind!r}]({op!r})
"""


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


# -- handlers -------------------------------------------------------------------------------------


def _wrap(op: str, make: Callable[[Callable[..., Any]], Callable[..., Any]]) -> None:
    """Replaces the handler of an op by one made from it."""
    from hlo2onnx.lowering.registry import registry

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


def hangs(op: str) -> None:
    """The handler never returns."""
    _wrap(op, lambda _: lambda *_, **__: time.sleep(3600))


def missing(op: str) -> None:
    """The op has no handler."""
    from hlo2onnx.lowering.registry import registry

    for key in [key for key in registry._handlers if key[0] == op]:
        del registry._handlers[key]


def wrong_type(op: str) -> None:
    """The handler returns a value of another type."""
    import onnx_ir as oir

    def make(old: Callable[..., Any]) -> Callable[..., Any]:
        return lambda em, op, **keys: em.cast(old(em, op, **keys), oir.DataType.INT8)

    _wrap(op, make)


def invalid(op: str) -> None:
    """The handler makes a node that no runtime has."""

    def make(old: Callable[..., Any]) -> Callable[..., Any]:
        def handler(em: Any, op: Any, **keys: Any) -> Any:
            found = old(em, op, **keys)
            (value,) = [found] if hasattr(found, "dtype") else found
            types = [(value.dtype, tuple(value.shape))]
            return em.op("Nonexistent", value, domain="planted", types=types)

        return handler

    _wrap(op, make)


def negates(op: str) -> None:
    """The handler gives a result of the other sign."""

    def make(old: Callable[..., Any]) -> Callable[..., Any]:
        return lambda em, op, **keys: em.Neg(old(em, op, **keys))

    _wrap(op, make)


def swaps(op: str) -> None:
    """The handler swaps its operands."""

    def make(old: Callable[..., Any]) -> Callable[..., Any]:
        def handler(em: Any, op: Any, **keys: Any) -> Any:
            environment, (first, second) = em.environment, op.operands[:2]
            saved = environment[first], environment[second]
            environment[first], environment[second] = saved[::-1]
            try:
                return old(em, op, **keys)
            finally:
                environment[first], environment[second] = saved

        return handler

    _wrap(op, make)


# -- rules and models -----------------------------------------------------------------------------


def _after_raising(change: Callable[[Any], None]) -> None:
    from hlo2onnx import pipeline

    old = pipeline.raise_model

    def raise_model(model: Any, *args: Any, **keys: Any) -> None:
        old(model, *args, **keys)
        for node in model.graph.all_nodes():
            change(node)

    pipeline.raise_model = raise_model  # type: ignore[assignment]


def wrong_rule(attribute: str) -> None:
    """Rules give an attribute of an operator another value: "Softmax.axis"."""
    import onnx_ir as oir

    op_type, _, name = attribute.partition(".")

    def change(node: Any) -> None:
        if node.op_type != op_type:
            return
        new: Any = {
            "axis": oir.AttrInt64("axis", 0),
            "epsilon": oir.AttrFloat32("epsilon", 1.0),
            "approximate": oir.AttrString("approximate", "tanh"),
        }[name]
        node.attributes[name] = new

    _after_raising(change)


def aborts_in_runtime(op_type: str) -> None:
    """The runtime kills the process when it loads a model with an operator."""
    import onnx

    from hlo2onnx.runtime import sessions

    old = sessions.OrtProgram.__init__

    def init(self: Any, model: bytes | str, *args: Any, **keys: Any) -> None:
        loaded = onnx.load_model_from_string(model) if isinstance(model, bytes) else model
        if any(node.op_type == op_type for node in _nodes(loaded.graph)):
            os.abort()
        old(self, model, *args, **keys)

    sessions.OrtProgram.__init__ = init  # type: ignore[method-assign]


def _nodes(graph: Any) -> Iterator[Any]:
    for node in graph.node:
        yield node
        for attribute in node.attribute:
            if attribute.HasField("g"):
                yield from _nodes(attribute.g)


def without_kernel(op_type: str) -> None:
    """The target has no kernel for an operator in any type."""
    from hlo2onnx.targets.target import Target

    old = Target.supports

    def supports(self: Target, op_key: str, *args: Any) -> bool:
        return not op_key.startswith(op_type) and old(self, op_key, *args)

    Target.supports = supports  # type: ignore[method-assign]


PLANTS: dict[str, Callable[[str], None]] = {
    "raises": raises,
    "aborts": aborts,
    "hangs": hangs,
    "missing": missing,
    "wrong type": wrong_type,
    "invalid node": invalid,
    "negates": negates,
    "swaps": swaps,
    "wrong rule": wrong_rule,
    "aborts in runtime": aborts_in_runtime,
    "without kernel": without_kernel,
}
