"""Checks of arguments and paths that several functions take, and errors of files."""

from __future__ import annotations

import os
import reprlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

from hlo2onnx.errors import LoadError, UsageError, WriteError

LARGEST_COUNT = 2**31 - 1
"""ONNX Runtime takes counts as int32."""


def is_whole(value: object, least: int) -> bool:
    """Whether a value is a whole number, of Python or numpy, that is not less than another one."""
    return isinstance(value, Integral) and not isinstance(value, bool) and int(value) >= least


def check_count(name: str, value: object, least: int) -> int:
    """Checks a count, such as that of threads.

    Raises:
        UsageError: It is not a whole number, or too small or large.
    """
    if not is_whole(value, least):
        raise UsageError(f"{name}={value!r} is not a whole number of at least {least}")
    count: int = int(value)  # type: ignore[call-overload]
    if count > LARGEST_COUNT:
        raise UsageError(f"{name}={value!r} is too many: {LARGEST_COUNT} are the most")
    return count


def check_list(name: str, value: object, items: str) -> Sequence[Any]:
    """Checks a list of something; a string is none.

    Raises:
        UsageError: It is none.
    """
    if isinstance(value, str | bytes) or not isinstance(value, Sequence):
        raise UsageError(f"{name}={value!r} is not a list of {items}")
    return value


def check_libraries(libraries: object) -> Sequence[str]:
    """Checks the paths of libraries.

    Raises:
        UsageError: It is not a list of paths.
    """
    paths = check_list("libraries", libraries, "paths, such as ['ops.so']")
    return tuple(str(path_of(item, "ops.so")) for item in paths)


def path_of(path: object, example: str) -> Path:
    """A path that a user gives.

    Args:
        example: A path for the error.

    Raises:
        UsageError: It is not a path.
    """
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise UsageError(
            f"{_shown(path)} is not a path: pass a str or pathlib.Path, such as {example!r}"
        )
    if "\0" in os.fspath(path):
        raise UsageError(f"{path!r} is not a path: it holds a NUL character")
    try:
        os.fsencode(path)
        Path(path).exists()
    except OSError as error:  # a name that is too long
        raise UsageError(f"{reprlib.repr(path)} is not a path: {error.strerror}") from None
    except UnicodeEncodeError as error:
        raise UsageError(f"{reprlib.repr(path)} is not a path: {error.reason}") from None
    return Path(path)


def _shown(value: object) -> str:
    """A value as text: a number or None itself, the type of others, which may be long."""
    is_short = value is None or isinstance(value, int | float)
    return repr(value) if is_short else f"a {type(value).__name__}"


def output_file(path: object, example: str) -> Path:
    """Checks the path of a file to write.

    Args:
        example: The name of such a file, "model.onnx".

    Raises:
        UsageError: It is not a path or the path of a folder, or its folder does not exist.
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
        UsageError: It is not a path, or the path of a file.
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


@contextmanager
def reading_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Says in errors of reading a model which file it is.

    Raises:
        LoadError: Instead of any exception in the block.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise LoadError(f"no such file: {error.filename or path}") from None
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # protobuf has no base class of its errors
        raise LoadError(f"{path} is not an ONNX model: {error}") from error
