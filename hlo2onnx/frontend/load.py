"""Loads programs of every accepted kind."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import jax
import jax.export
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.frontend.files import from_bytes, from_exported, from_module, from_path, from_string
from hlo2onnx.frontend.jax_lowered import from_function, from_lowered, unwrapped
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Dynamic

__all__ = ["Source", "load"]


def load(
    source: object,
    args: Sequence[PyTree] = (),
    kwargs: Mapping[str, PyTree] | None = None,
    function: str | None = None,
    dynamic: Dynamic | None = None,
    constraints: Sequence[str] = (),
) -> Source:
    """Loads a program of any kind that `hlo2onnx.translate` lists.

    Args:
        source: The program.
        args, kwargs: Example arguments of a function.
        function: Name of the function, for a module with several.
        dynamic: Dimensions of a function's arguments that stay free.
        constraints: What holds for them.

    Raises:
        LoadError: It is not a program.
        UsageError: This kind of source does not take these arguments.
    """
    if str(type(source).__module__).partition(".")[0] in ("onnx", "onnx_ir", "hlo2onnx"):
        name = type(source).__name__
        raise LoadError(f"this {name} is ONNX already; hlo2onnx reads StableHLO: {_ADVICE}")
    if constraints and (not callable(source) or isinstance(source, jax.export.Exported)):
        raise UsageError(
            "constraints= needs a function and example arguments; other programs have the"
            " constraints of their jax.export.SymbolicScope"
        )
    made_here = _from_jax(source, args, kwargs or {}, dynamic, constraints)
    if made_here is not None:
        if function not in (None, "main"):
            raise UsageError("function= chooses a function of a module; this source has one")
        return made_here
    if dynamic is not None:
        raise UsageError("dynamic= needs a function and example arguments")
    if args or kwargs:
        raise UsageError(
            f"example arguments need a function; a {type(source).__name__} has its own types"
        )
    if isinstance(source, str):
        return from_string(source, function)
    if isinstance(source, os.PathLike):
        return from_path(Path(source), function)
    if isinstance(source, bytes | bytearray | memoryview):
        return from_bytes(bytes(source), "the input", function)
    if isinstance(source, ir.Module):
        return from_module(source, "the given module", function)
    raise LoadError(f"cannot translate a {type(source).__name__}: {_ADVICE}")


def _from_jax(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic | None,
    constraints: Sequence[str],
) -> Source | None:
    """The program of a JAX object with a calling convention; None for other sources."""
    if isinstance(source, jax.stages.Traced):
        source = source.lower()
    lowered = unwrapped(source)
    if isinstance(source, jax.export.Exported) or lowered is not None:
        if args or kwargs or dynamic is not None:
            raise UsageError("example arguments need a function; this program has its own types")
        return from_exported(source) if lowered is None else from_lowered(lowered)
    if isinstance(source, jax.stages.Compiled):
        raise LoadError("XLA has compiled this program: pass the result of jit(f).lower(...)")
    if callable(source):
        return from_function(source, args, kwargs, dynamic, constraints)
    return None


_ADVICE = (
    "pass a jax.stages.Lowered, a jax.export.Exported, a path, StableHLO text or bytecode, an MLIR"
    " module of jaxlib, or a function with example arguments"
)
