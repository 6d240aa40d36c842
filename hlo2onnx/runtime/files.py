"""Replace files in one step, and remove files of weights that no model needs any more.

A new file is written under a temporary name in the folder of the old one, brought to the disk, and
renamed. Until then the old file is whole. A process that is killed leaves at most the temporary
file `.hlo2onnx-<random>.tmp`.

The name of a file of weights has a hash of its content: `model.onnx-1f3a5c7e9b2d.data`. So files
with other weights have other names, and a save never changes weights that a model refers to. Only a
name that the user chooses has no hash.
"""

from __future__ import annotations

import errno
import hashlib
import mmap
import os
import re
import secrets
import stat
import threading
import time
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import BinaryIO, Self

try:
    import fcntl
except ImportError:  # Windows
    fcntl = None  # type: ignore[assignment]

TEMPORARY = ".hlo2onnx-"
"""The names of files that are not yet in their place begin with this."""

LOCK_SECONDS = 10.0
"""Wait this long for the lock of a folder."""


class NewFile:
    """A file that gets its name when it is whole.

    Use it in a `with` block. The end of the block removes the file if it has no name yet.

    Args:
        folder: The folder of the file.
        like: A file whose permissions it gets from the start, if that exists. Otherwise it has
            those of `open()`.

    Attributes:
        file: The open file.

    Raises:
        OSError: The file cannot be created.
    """

    def __init__(self, folder: Path, like: Path | None) -> None:
        self._path = folder / f"{TEMPORARY}{secrets.token_hex(8)}.tmp"
        self.file: BinaryIO = self._path.open("xb")
        if like is not None and like.exists():
            _keep_permissions(self._path, like.stat())

    def finish(self) -> None:
        """Brings the content to the disk and closes the file.

        Raises:
            OSError: The disk is full, for example.
        """
        self.file.flush()
        os.fsync(self.file.fileno())
        self.file.close()

    def put(self, target: Path) -> None:
        """Names the finished file, in place of a file of that name.

        Raises:
            OSError: The folder does not allow it. On Windows: another process has the old file
                open.
        """
        self._path.replace(target)
        _sync_folder(target.parent)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        with suppress(OSError):  # what is left to write may not fit on the disk
            self.file.close()
        with suppress(OSError):
            self._path.unlink(missing_ok=True)


def target_of(path: Path) -> Path:
    """The file that a path names, behind symbolic links.

    Raises:
        PermissionError: `open()` would not write the file.
    """
    target = Path(os.path.realpath(path))
    if target.exists() and not os.access(target, os.W_OK):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(target))
    return target


def _keep_permissions(path: Path, old: os.stat_result) -> None:
    """Gives a file the owner of an old one, if this process may, and its permissions."""
    new = path.stat()
    if hasattr(os, "chown") and (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with suppress(OSError):
            os.chown(path, old.st_uid, old.st_gid)
    path.chmod(stat.S_IMODE(old.st_mode))


def _sync_folder(folder: Path) -> None:
    """Brings renames in a folder to the disk, where the system can."""
    if os.name != "posix":
        return
    with suppress(OSError):
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)


_LOCK = threading.Lock()


@contextmanager
def folder_lock(folder: Path) -> Iterator[bool]:
    """Waits until no other save of hlo2onnx puts files in a folder.

    Gives up after `LOCK_SECONDS`, because other programs may hold such a lock for hours. Without
    `fcntl` the lock holds for the threads of this process only.

    Yields:
        Whether the lock was obtained.
    """
    if fcntl is None:
        with _LOCK:
            yield True
        return
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        yield False
        return
    try:
        yield _locked(descriptor)
    finally:
        with suppress(OSError):  # a fork of this process may have the folder open, too
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        os.close(descriptor)


def _locked(descriptor: int) -> bool:
    """Locks an open folder. The lock of a process that is killed ends."""
    end = time.monotonic() + LOCK_SECONDS
    while True:
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            if time.monotonic() > end:
                return False
            time.sleep(0.01)
        except OSError:  # some network file systems have no locks
            return False
        else:
            return True


HASH_DIGITS = 12

MODEL_BYTES = (1 << 31) - 1
"""Protobuf reads no larger files, so larger ones are not models."""

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
    pattern = "|".join(map(_pattern, data))
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
