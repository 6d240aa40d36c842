"""Programs in text, bytes or files."""

from __future__ import annotations

import codecs
import io
import os
import zipfile
from pathlib import Path

import jax.export
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.attributes import text_of
from hlo2onnx.frontend.mlir.context import (
    BYTECODE_MAGIC,
    clone_module,
    is_vhlo,
    parse_module,
    upgrade_vhlo,
)
from hlo2onnx.frontend.mlir.shape_dialects import has_shape_dialects, shapes_in_stablehlo
from hlo2onnx.frontend.mlir.untrusted import read_untrusted
from hlo2onnx.frontend.signature import signature_of, with_trees
from hlo2onnx.frontend.source import Source, bind_added_arguments, find_function

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


_HDF5 = "an HDF5 file (of Keras, for example), which holds weights and no StableHLO"
_FROM_PYTHON = "pass the function itself to hlo2onnx.translate in Python, with example arguments"
_FROM_JAX = "export the function with jax.export, or save lower(...).as_text()"

_BEGINNINGS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x89HDF\r\n\x1a\n", _HDF5, "load the model in Python and translate its function"),
    (4, b"TFL3", "a TensorFlow Lite model", "start from the JAX or TensorFlow function"),
    (0, b"\x93NUMPY", "a NumPy array", _FROM_JAX),
    (0, b"\x1f\x8b", "compressed with gzip", "decompress it first"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it first"),
)
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))


def binary_format(content: bytes) -> tuple[str, str] | None:
    """The format of binary content, and advice; None if it is unknown."""
    for offset, beginning, kind, advice in _BEGINNINGS:
        if content.startswith(beginning, offset):
            return kind, advice
    if content.startswith(b"PK\x03\x04"):
        return _archive(content)
    if content[8:10] == b'{"' and int.from_bytes(content[:8], "little") < 1 << 40:
        return "a safetensors file, which holds weights and no program", _FROM_JAX
    if content.startswith(_PICKLES):
        return "a Python pickle", "load it in Python and translate its function"
    if _is_onnx(content):
        return "an ONNX model already", "use it directly; hlo2onnx reads StableHLO and writes ONNX"
    if content.startswith(b"\x08\x01\x12"):
        return "a TensorFlow SavedModel", "convert its function to StableHLO in TensorFlow first"
    return None


def text_format(text: str) -> tuple[str, str] | None:
    """The format of text that is not MLIR, and advice; None if it is unknown."""
    start = text.lstrip()
    for beginnings, kind, advice in _TEXTS:
        if start.startswith(beginnings):
            return kind, advice
    return None


_TEXTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("HloModule",), "XLA's HLO text", "lower(...).as_text() gives StableHLO"),
    (("<",), "a web page, or XML", "check whether the download was redirected"),
    (("version https://git-lfs",), "a Git LFS pointer", "`git lfs pull` fetches the file itself"),
    (('{"', "{\n", "[{"), "JSON", _FROM_JAX),
    (("{ lambda",), "a jaxpr", "pass the function itself, or lower(...).as_text()"),
    (("import ", "from ", "def ", "#!/", '"""'), "a Python program", _FROM_PYTHON),
)


def _archive(content: bytes) -> tuple[str, str]:
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        names = []
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive (.npz), which holds arrays and no program", _FROM_JAX
    if any(name.endswith("data.pkl") for name in names):
        return "a PyTorch file", "export the module to StableHLO with torch_xla or torchax first"
    if "model.weights.h5" in names:
        return "a Keras model", "load it with keras.saving.load_model and translate its call"
    return "a zip archive", "unpack it and pass the StableHLO file in it"


def _is_onnx(content: bytes) -> bool:
    """Whether the content begins like a ModelProto in protobuf.

    First is the IR version, and then the name of the producer, the opsets or the graph.
    """
    if content[:1] != b"\x08" or len(content) < 4 or not 3 <= content[1] < 64:
        return False
    return content[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42) and (
        content[2] not in (0x12, 0x1A, 0x22) or content[4 : 4 + content[3]].isascii()
    )


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
    except Exception as error:  # JAX does not check the bytes first
        raise LoadError(
            f"{what} is neither StableHLO text, nor MLIR bytecode, nor a serialized"
            " jax.export.Exported that this JAX can read\n  next   write it again with"
            " jax.export.export(...)(...).serialize() or lower(...).as_text(), or, if a newer JAX"
            " wrote it, upgrade jax"
        ) from error
    module = read_untrusted(bytes(exported.mlir_module_serialized), what)
    return _source(exported, module, what)


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
