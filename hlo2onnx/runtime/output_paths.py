"""Checks the paths that hlo2onnx writes to, and explains failures."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from hlo2onnx.errors import UsageError, WriteError
from hlo2onnx.runtime.arguments import path_of


def output_file(path: object, example: str) -> Path:
    """Checks the path of a file to write.

    Args:
        example: The name of such a file, "model.onnx".

    Raises:
        UsageError: It is no path or the path of a folder, or its folder does not exist.
    """
    checked = path_of(path, example)
    if path == "" or checked.is_dir():
        name = str(path) or "the empty path"
        raise UsageError(f"cannot write to {name}: it is a folder; name a file, such as {example}")
    if not checked.parent.is_dir():
        raise UsageError(f"cannot write {checked}: there is no folder {checked.parent}")
    return checked


def output_folder(path: object) -> Path:
    """Checks the path of a folder to write files in. The folder may not exist yet.

    Raises:
        UsageError: It is no path, or the path of a file.
    """
    checked = path_of(path, "folder")
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
    """Adds the path to errors of the operating system.

    Raises:
        WriteError: Instead of an OSError.
    """
    try:
        yield
    except OSError as error:
        raise WriteError(f"cannot write {path}: {error.strerror or error}") from error
