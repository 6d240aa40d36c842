"""Programs in text, bytes or files."""

from __future__ import annotations

import codecs
import os
from pathlib import Path

from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.attributes import text_of
from hlo2onnx.mlir.context import BYTECODE_MAGIC, clone_module, is_vhlo, upgrade_vhlo
from hlo2onnx.mlir.parse_in_subprocess import read_untrusted
from hlo2onnx.mlir.shape_dialects import has_shape_dialects, shapes_in_stablehlo
from hlo2onnx.sources.exported import from_serialized
from hlo2onnx.sources.signature import signature_of
from hlo2onnx.sources.source import Source, find_function
from hlo2onnx.sources.wrong_formats import binary_format, text_format

SUFFIXES = frozenset({".mlir", ".mlirbc", ".bc", ".stablehlo", ".vhlo", ".txt", ".jax_export"})
"""Suffixes of file names of programs."""


def from_path(path: Path, function: str | None) -> Source:
    """Loads a file of any kind: text, MLIR bytecode, portable artifact, serialized Exported.

    Raises:
        LoadError: The file or its content cannot be read.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        raise LoadError(f"no such file: {path}") from None
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror}") from error
    return from_bytes(content, path.name, function)


def from_string(text: str, function: str | None) -> Source:
    """Loads the file that a string names, or the string as StableHLO text.

    Raises:
        LoadError: It names no file, or is not valid text.
    """
    single_line = text.strip() and "\n" not in text
    if single_line and (_exists(text) or _looks_like_path(text)):
        return from_path(Path(text), function)
    return from_text(text, "the input", function)


def from_bytes(content: bytes, what: str, function: str | None) -> Source:
    """Loads StableHLO text, MLIR bytecode, a portable artifact or a serialized Exported.

    Raises:
        LoadError: It is none of these, or damaged.
    """
    if content.startswith(BYTECODE_MAGIC):
        return from_module(read_untrusted(content, what), what, function)
    text = _decoded(content)
    if text is not None:
        return from_text(text, what, function)
    try:
        return from_serialized(content, what)
    except LoadError:
        _refuse_other_format(what, binary_format(content))
        raise


def _refuse_other_format(what: str, found: tuple[str, str] | None) -> None:
    if found is not None:
        kind, advice = found
        raise LoadError(f"{what} is not StableHLO: it is {kind}\n  next   {advice}")


def from_text(text: str, what: str, function: str | None) -> Source:
    """Loads StableHLO text.

    Raises:
        LoadError: It does not parse, or has no function to translate.
    """
    start = text.lstrip()
    if not start:
        raise LoadError(f"{what} is empty")
    # MLIR silently stops reading at a NUL.
    if "\0" in text:
        raise LoadError(f"{what} is damaged: it holds NUL characters")
    _refuse_other_format(what, text_format(text))
    try:
        text.encode()
    except UnicodeEncodeError as error:  # half of a surrogate pair
        raise LoadError(f"{what} is damaged: {error}") from error
    return from_module(read_untrusted(text, what), what, function)


def from_module(module: ir.Module, what: str, function: str | None) -> Source:
    """Loads an `ir.Module`.

    Raises:
        LoadError: It has no function to translate.
    """
    changed: ir.Module | ir.Operation = module
    if is_vhlo(module):
        changed = clone_module(module)
        upgrade_vhlo(changed, what)
    if has_shape_dialects(changed.operation):
        changed = clone_module(changed)
        shapes_in_stablehlo(changed)
    found = find_function(changed.operation, function, what)
    return Source(changed, text_of(found, "sym_name"), signature_of(found), what)


def _decoded(content: bytes) -> str | None:
    """The content as text, if it is text: UTF-8, or UTF-16 as PowerShell redirects it."""
    marked = content.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE))
    try:
        text = content.decode("utf-16" if marked else "utf-8-sig")
    except UnicodeDecodeError:
        return None
    return None if "\0" in text else text


def _exists(text: str) -> bool:
    try:
        return Path(text).exists()
    except (OSError, ValueError):  # too long or odd for a path
        return False


def _looks_like_path(text: str) -> bool:
    """Whether a single line is the path of a file. Programs have braces and blanks."""
    if Path(text).suffix in SUFFIXES:
        return True
    if any(char in text for char in "{}()"):
        return False
    separators = [os.sep, *([os.altsep] if os.altsep else [])]
    return any(char in text for char in separators) or not any(map(str.isspace, text))
