"""Paths that hlo2onnx writes to, checked before the work and explained after a failure."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from hlo2onnx.errors import UsageError, WriteError


def output_file(path: Any, example: str) -> Path:
    """A path as the name of a file to write.

    Args:
        example: What such a file is called, "model.onnx".

    Raises:
        UsageError: It is no path, or that of a folder, or in a folder that does not exist.
    """
    checked = _path(path, example)
    if not os.fspath(path) or checked.is_dir():
        name = os.fspath(path) or "the empty path"
        raise UsageError(f"cannot write to {name}: it is a folder; name a file, such as {example}")
    if not checked.parent.is_dir():
        raise UsageError(f"cannot write {checked}: there is no folder {checked.parent}")
    return checked


def output_folder(path: Any) -> Path:
    """A path as the name of a folder to write files in; it may not exist yet.

    Raises:
        UsageError: It is no path, or that of a file.
    """
    checked = _path(path, "folder")
    if checked.exists() and not checked.is_dir():
        raise UsageError(f"cannot write files in {checked}: it is a file; name a folder")
    return checked


def check_writable(path: Path) -> None:
    """Checks that this process may write a file, as far as the system says so beforehand.

    Raises:
        UsageError: It may not.
    """
    folder = path.parent
    while not folder.exists():
        folder = folder.parent
    if path.exists() and not os.access(path, os.W_OK):
        raise UsageError(f"cannot write {path}: no permission")
    if not (path.exists() and not path.is_file()) and not os.access(folder, os.W_OK | os.X_OK):
        raise UsageError(f"cannot write {path}: no permission for the folder {folder}")


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Says of an error of the operating system what was to be written.

    Raises:
        WriteError: In place of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error


def _path(path: Any, example: str) -> Path:
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise UsageError(f"{path!r} is no path: pass a str or pathlib.Path, such as {example!r}")
    if "\0" in os.fspath(path):
        raise UsageError(f"{path!r} is no path: it holds a NUL character")
    try:
        Path(path).exists()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{path!r} is no path: {error.strerror}") from None
    return Path(path)
