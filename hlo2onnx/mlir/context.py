"""MLIR contexts and modules of our own, never the user's."""

from __future__ import annotations

from typing import Any

from jaxlib.mlir import ir
from jaxlib.mlir._mlir_libs import _jax_mlir_ext
from jaxlib.mlir.dialects import chlo, mhlo, sdy, stablehlo

from hlo2onnx.errors import LoadError


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
    return context


def parse_module(source: str | bytes, what: str) -> Any:
    """Parses MLIR text or bytecode into an `ir.Module` in a fresh context.

    Args:
        source: StableHLO text or MLIR bytecode (StableHLO, or VHLO already upgraded).
        what: How to name the source in an error ("model.mlir", "the given text").

    Raises:
        LoadError: The text does not parse or does not verify.
    """
    context = new_context()
    try:
        return ir.Module.parse(source, context)
    except ir.MLIRError as error:
        raise LoadError(f"{what} is not valid StableHLO: {_first_line(error)}") from error


def clone_module(module: Any) -> Any:
    """A copy of `module` in the same context; constants are shared, not copied."""
    with module.context:
        clone = module.operation.clone()
    return clone


def _first_line(error: Exception) -> str:
    diagnostics = getattr(error, "error_diagnostics", None)
    if diagnostics:
        first = diagnostics[0]
        return f"{first.message} at {first.location}"
    return str(error).strip().splitlines()[0]
