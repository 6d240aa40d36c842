"""Programs exported with `jax.export`: the object and its serialized form."""

from __future__ import annotations

import struct

import jax.export
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.attributes import text_of
from hlo2onnx.mlir.context import parse_module
from hlo2onnx.mlir.parse_in_subprocess import read_untrusted
from hlo2onnx.sources.signature import with_trees
from hlo2onnx.sources.source import Source, bind_added_arguments, find_function


def from_exported(exported: jax.export.Exported) -> Source:
    """Loads a `jax.export.Exported`."""
    module = parse_module(exported.mlir_module_serialized, exported.fun_name)
    return _source(exported, module, text_of(module.operation, "sym_name"))


def from_serialized(content: bytes, what: str) -> Source:
    """Loads the bytes of `jax.export.Exported.serialize`.

    Raises:
        LoadError: The bytes are something else, or damaged.
    """
    try:
        exported = jax.export.deserialize(bytearray(content))
    except _DAMAGE as error:
        raise LoadError(
            f"{what} is neither StableHLO text, nor MLIR bytecode, nor a serialized"
            " jax.export.Exported that this JAX can read\n  next   write it again with"
            " jax.export.export(...)(...).serialize() or lower(...).as_text(), or, if a newer JAX"
            " wrote it, upgrade jax"
        ) from error
    module = read_untrusted(bytes(exported.mlir_module_serialized), what)
    return _source(exported, module, what)


_DAMAGE = (
    ArithmeticError,
    AssertionError,
    AttributeError,
    LookupError,
    MemoryError,
    NotImplementedError,
    RuntimeError,
    StopIteration,
    TypeError,
    ValueError,
    struct.error,
)
"""Errors of JAX's reader on bytes that are no Exported. It does not check them first."""


def _source(exported: jax.export.Exported, module: ir.Module, what: str) -> Source:
    bound = bind_added_arguments(module, exported.platforms, ())
    signature = with_trees(
        find_function(bound.operation, "main", what),
        exported.in_tree,
        exported.in_avals,
        exported.module_kept_var_idx,
        exported.out_tree,
        exported.out_avals,
    )
    return Source(bound, "main", signature, what)
