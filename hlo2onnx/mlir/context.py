"""MLIR contexts and modules of our own, never the user's."""

from __future__ import annotations

import re
from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.passes import FROM_VHLO, run_pipeline


def new_context() -> Any:
    """A fresh MLIR context that knows every dialect JAX emits.

    JAX 0.12 hands out one shared context per thread; files and expansions get their own, so that
    no flag or diagnostic handler of ours reaches the user's lowering.
    """
    context = ir.Context()
    upstream = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(upstream)
    context.append_dialect_registry(upstream)
    context.load_all_available_dialects()
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    # jaxlib registers no quant dialect, but this pass loads it.
    run_pipeline(ir.Module.parse("module {}", context).operation, FROM_VHLO)
    return context


def parse_module(source: str | bytes, what: str) -> Any:
    """Parses MLIR text or bytecode into an `ir.Module` in a fresh context, upgrading VHLO.

    Bytes and odd text may crash the parser, and the process with it: what is not known to be
    harmless goes through `hlo2onnx.mlir.parse_in_subprocess` instead.

    Args:
        source: Text or bytecode of a StableHLO module, or of one in VHLO, its versioned form.
        what: How to name the source in an error ("model.mlir", "the given text").

    Raises:
        LoadError: The source does not parse or does not verify.
    """
    try:
        module = ir.Module.parse(source, new_context())
    except ir.MLIRError as error:
        raise LoadError(_explained(error, source, what)) from error
    if is_vhlo(module):
        upgrade_vhlo(module, what)
    return module


def is_vhlo(module: Any) -> bool:
    """Whether the module is written in VHLO, the versioned form of StableHLO."""
    return any(op.operation.name.startswith("vhlo.") for op in module.body.operations)


def upgrade_vhlo(module: Any, what: str) -> None:
    """Turns a VHLO module of any version this jaxlib knows into StableHLO, in place.

    Raises:
        LoadError: It uses something this version of StableHLO does not have.
    """
    try:
        run_pipeline(module.operation, FROM_VHLO)
    except ir.MLIRError as error:
        raise LoadError(_explained(error, b"", what)) from error


def clone_module(module: Any) -> Any:
    """A copy of `module` in the same context; constants are shared, not copied."""
    with module.context:
        return module.operation.clone()


def newer_version(content: bytes) -> str:
    """The version of StableHLO that wrote an artifact, if this jaxlib is older; else ""."""
    end = content.find(b"\0", len(BYTECODE_MAGIC), 100)
    producer = content[len(BYTECODE_MAGIC) + 1 : end].decode("latin-1")
    version = producer.removeprefix("StableHLO_v")
    if version == producer or _numbers(version) <= _numbers(stablehlo.get_current_version()):
        return ""
    return version


BYTECODE_MAGIC = b"ML\xefR"
"""How MLIR bytecode begins, StableHLO's portable artifacts included."""

_EXCERPT = 100
_POSITION = re.compile(r'loc\("-":(\d+):(\d+)\)')


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _explained(error: Any, source: str | bytes, what: str) -> str:
    """The first diagnostic, with its line and column in the source text where it has them."""
    if not error.error_diagnostics:
        return f"{what} is not valid StableHLO: {error}"
    diagnostic = error.error_diagnostics[0]
    head = f"{what} is not valid StableHLO: {diagnostic.message}"
    if isinstance(source, bytes):
        version = newer_version(source)
        advice = f"it was written by StableHLO {version}; this jaxlib reads up to"
        current = stablehlo.get_current_version()
        return f"{head}\n  next   {advice} {current}: upgrade jax and jaxlib" if version else head
    position = _POSITION.fullmatch(str(diagnostic.location))
    if position is None:
        return f"{head}\n  where  {diagnostic.location}"
    line, column = int(position.group(1)), int(position.group(2))
    start = max(0, column - 1 - _EXCERPT // 2)
    excerpt = "".join(source.split("\n")[line - 1 : line])[start : start + _EXCERPT].strip()
    return f"{head}\n  where  line {line}, column {column}: {excerpt}"
