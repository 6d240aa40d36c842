"""MLIR contexts and modules of our own, never the user's."""

from __future__ import annotations

import re

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.passes import FROM_VHLO, run_pipeline
from hlo2onnx.frontend.mlir.values import operations_in


def new_context(loads_others: bool = True) -> ir.Context:
    """A fresh MLIR context that knows every dialect JAX emits.

    JAX 0.12 shares one context per thread. Files and expansions get their own, so that our flags
    and diagnostic handlers do not reach the user's lowering. MLIR loads a dialect when a program
    names it: to load all of them takes longer than to translate a small program.

    Args:
        loads_others: Whether the program may name dialects that jaxlib does not register: quant
            and VHLO.
    """
    context = ir.Context()
    upstream = ir.DialectRegistry()
    _jax_mlir_ext.register_dialects(upstream)
    context.append_dialect_registry(upstream)
    stablehlo.register_dialect(context)
    chlo.register_dialect(context)
    sdy.register_dialect(context)
    mhlo.register_mhlo_dialect(context)
    if loads_others:  # as this pass does
        run_pipeline(ir.Module.parse("module {}", context).operation, FROM_VHLO)
    return context


def parse_module(source: str | bytes, what: str) -> ir.Module:
    """Parses MLIR text or bytecode in a fresh context, and upgrades VHLO.

    Bytes and odd text may crash the parser and the process. `hlo2onnx.frontend.mlir.untrusted`
    reads input that is not known to be harmless.

    Args:
        source: Text or bytecode of a module in StableHLO, or in VHLO, its versioned form.
        what: How to name the source in an error ("model.mlir", "the given text").

    Raises:
        LoadError: The source does not parse or does not verify.
    """
    content = source.encode() if isinstance(source, str) else source
    loads_others = b"quant" in content or b"vhlo" in content
    try:
        module = ir.Module.parse(source, new_context(loads_others))
    except ir.MLIRError as error:
        raise LoadError(_explained(error, source, what)) from error
    if is_vhlo(module):
        upgrade_vhlo(module, what)
    return module


def is_vhlo(module: ir.Module) -> bool:
    """Whether the module is in VHLO, the versioned form of StableHLO."""
    return any(item.name.startswith("vhlo.") for item in operations_in(module.body))


def upgrade_vhlo(module: ir.Module | ir.Operation, what: str) -> None:
    """Upgrades a VHLO module of any version that this jaxlib knows to StableHLO, in place.

    Raises:
        LoadError: It uses something that this version of StableHLO does not have.
    """
    try:
        run_pipeline(module.operation, FROM_VHLO)
    except ir.MLIRError as error:
        raise LoadError(_explained(error, b"", what)) from error


def clone_module(module: ir.Module | ir.Operation) -> ir.Operation:
    """Copies a module within its context. Constants are shared."""
    with module.context:
        return module.operation.clone().operation


def newer_version(content: bytes) -> str:
    """The version of StableHLO that wrote an artifact; "" if this jaxlib reads it."""
    end = content.find(b"\0", len(BYTECODE_MAGIC), 100)
    producer = content[len(BYTECODE_MAGIC) + 1 : end].decode("latin-1")
    version = producer.removeprefix("StableHLO_v")
    if version == producer or _numbers(version) <= _numbers(stablehlo.get_current_version()):
        return ""
    return version


BYTECODE_MAGIC = b"ML\xefR"
"""The first bytes of MLIR bytecode, and so of StableHLO's portable artifacts."""

_EXCERPT = 100
_POSITION = re.compile(r'loc\("-":(\d+):(\d+)\)')


def _numbers(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in version.split(".") if part.isdecimal())


def _explained(error: ir.MLIRError, source: str | bytes, what: str) -> str:
    """The first diagnostic, with its line and column in the source text if they are known."""
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
