"""Programs that come as text or bytes."""

from __future__ import annotations

from hlo2onnx.mlir.context import parse_module
from hlo2onnx.sources.signature import signature_of
from hlo2onnx.sources.source import Source, find_function


def from_text(text: str | bytes, what: str, function: str | None) -> Source:
    """Loads StableHLO text.

    Raises:
        LoadError: It does not parse, or has no function to translate.
    """
    return from_module(parse_module(text, what), what, function)


def from_module(module: object, what: str, function: str | None) -> Source:
    """Loads an `ir.Module`."""
    found = find_function(module.operation, function, what)  # type: ignore[attr-defined]
    return Source(module, found.attributes["sym_name"].value, signature_of(found), what)
