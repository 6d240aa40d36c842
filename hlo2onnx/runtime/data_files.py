"""Names of files with weights, and removal of those that no model needs any more.

The name of such a file has a hash of its content: `model.onnx-1f3a5c7e9b2d.data`. So files with
other weights have other names, and a save never changes weights that a model refers to.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import re
from collections.abc import Collection
from contextlib import suppress
from pathlib import Path

from hlo2onnx.runtime.replacing import TEMPORARY

HASH_DIGITS = 12

MODEL_BYTES = (1 << 31) - 1
"""Protobuf reads no larger files, so larger ones are no models."""

SEARCHED_BYTES = 1 << 32
"""If the other files of a folder are larger in total, no old weights are removed from it."""


def data_name(data: Path, digest: str) -> str:
    """The name of a file with weights: "model.onnx.data" -> "model.onnx-1f3a5c7e9b2d.data"."""
    return f"{data.stem}-{digest[:HASH_DIGITS]}{data.suffix}"


def default_data(model: Path) -> Path:
    """The file for the weights of one model, without the hash."""
    return model.with_name(f"{model.name}.data")


def is_data_of(model: Path, path: Path) -> bool:
    """Whether a path has the name of a file with weights of a model."""
    return re.fullmatch(_pattern(default_data(model)), path.name) is not None


def _pattern(data: Path) -> str:
    """A regular expression of the names that a file of weights has with any hash."""
    return f"{re.escape(data.stem)}-[0-9a-f]{{{HASH_DIGITS}}}{re.escape(data.suffix)}"


def has_content(path: Path, digest: str) -> bool:
    """Whether a file exists and has this SHA-256 digest."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest() == digest
    except OSError:
        return False


def earlier_data(folder: Path, models: Collection[Path], data: Collection[Path]) -> set[Path]:
    """Files with weights of earlier saves that models refer to.

    Args:
        folder: Their folder.
        models: Paths of models. They may not exist.
        data: Names that the files would have without hashes, such as "model.onnx.data".
    """
    pattern = "|".join(
        f"{re.escape(item.stem)}-[0-9a-f]{{{HASH_DIGITS}}}{re.escape(item.suffix)}" for item in data
    )
    names = {name for name in _sizes(folder) if re.fullmatch(pattern, name)}
    found = [_mentioned(model, names) or () for model in models]
    return {folder / name for name in set().union(*found)}


def remove_unused(candidates: Collection[Path]) -> None:
    """Removes files with weights that no other file in their folder mentions.

    A file stays if another one mentions its name or cannot be read, or if the others are more than
    `SEARCHED_BYTES`. It also stays if the system does not remove it, as Windows does not while a
    session reads it.
    """
    if not candidates:
        return
    (folder,) = {path.parent for path in candidates}
    unused = {path.name for path in candidates}
    others = {
        name: size
        for name, size in _sizes(folder).items()
        if name not in unused and not name.startswith(TEMPORARY) and size <= MODEL_BYTES
    }
    if sum(others.values()) > SEARCHED_BYTES:
        return
    for name in others:
        mentioned = _mentioned(folder / name, unused)
        unused = unused - mentioned if mentioned is not None else set()
    for name in unused:
        with suppress(OSError):
            (folder / name).unlink()


def _sizes(folder: Path) -> dict[str, int]:
    """The sizes of the files in a folder, by name; none if it cannot be listed."""
    try:
        with os.scandir(folder) as entries:
            return {entry.name: entry.stat().st_size for entry in entries if entry.is_file()}
    except OSError:
        return {}


def _mentioned(path: Path, names: set[str]) -> set[str] | None:
    """Those of some names that are somewhere in a file; None if it cannot be read."""
    if not names:
        return set()
    try:
        if not path.stat().st_size:
            return set()  # cannot be mapped
        with (
            path.open("rb") as file,
            mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content,
        ):
            return {name for name in names if content.find(os.fsencode(name)) >= 0}
    except (OSError, ValueError):
        return None
