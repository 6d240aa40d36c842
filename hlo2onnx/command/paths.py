"""The files that the command reads and writes, checked before it works.

No output may be an input, or another output, under any name: symbolic links, `..`, hard links, and
files that the shell has opened as standard input or output.
"""

from __future__ import annotations

import itertools
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path

from hlo2onnx.errors import UsageError
from hlo2onnx.runtime.files import is_data_of
from hlo2onnx.runtime.paths import check_writable, output_file, output_folder

STANDARD = "-"
"""Standard input or output, as an argument."""

_STDOUT = frozenset({STANDARD, "/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"})
_DUMPED = re.compile(r"\d\d_\w+\.(mlir|txt)|rules\.txt")
"""The files in a dump folder."""


@dataclass(frozen=True)
class Outputs:
    """Where the command writes.

    Attributes:
        model: The model; None if no file is written.
        report: The report; None if no file is written.
        picture: The drawn profile; None if there is none.
        reduced: The reduced program; None if there is none.
        stdout: "-o" or "--report" if standard output is to get this, or "".
    """

    model: Path | None
    report: Path | None
    picture: Path | None
    reduced: Path | None
    stdout: str


def check_file(path: Path) -> None:
    """Checks the path of a file to read.

    Raises:
        UsageError: There is no such file, or it is a folder.
    """
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")


def checked_outputs(
    inputs: list[Path],
    *,
    model: str | None,
    report: str | None,
    picture: str | None,
    reduced: str | None = None,
    dump: Path | None,
) -> Outputs:
    """Checks all output paths.

    Args:
        inputs: Files that the command reads.
        model, report, picture, reduced, dump: The arguments of -o, --report, --profile-svg,
            --reduce and --dump.

    Raises:
        UsageError: An output cannot be written, is an input, or is the same as another one.
    """
    given = {"-o": model, "--report": report, "--profile-svg": picture, "--reduce": reduced}
    to_stdout = [option for option, text in given.items() if text in _STDOUT]
    if len(to_stdout) > 1 or {"--profile-svg", "--reduce"}.intersection(to_stdout):
        raise UsageError(f"{' and '.join(to_stdout)} cannot be written to standard output")
    examples = {"-o": "model.onnx", "--report": "report.json", "--profile-svg": "profile.svg"}
    examples["--reduce"] = "reduced.mlir"
    files = {
        option: output_file(text, examples[option])
        for option, text in given.items()
        if text is not None and option not in to_stdout
    }
    for path in files.values():
        check_writable(path)
    _check_names(inputs, files)
    if dump is not None:
        check_writable(output_folder(dump) / "rules.txt")
        for path in (*inputs, *files.values()):
            if _DUMPED.fullmatch(path.name) and _is_same(path.parent, dump):
                raise UsageError(f"--dump {dump} could overwrite {path}: name another folder")
    return Outputs(
        files.get("-o"),
        files.get("--report"),
        files.get("--profile-svg"),
        files.get("--reduce"),
        "".join(to_stdout),
    )


def _check_names(inputs: list[Path], files: dict[str, Path]) -> None:
    for option, path in files.items():
        if _is_stream(path, 0) or any(_is_same(path, item) for item in inputs):
            raise UsageError(f"{option} {path} is the input itself")
        if _is_stream(path, 1):
            raise UsageError(
                f"{option} {path} is also standard output: name another file, or write {option} -"
            )
    for (option, path), (other, second) in itertools.combinations(files.items(), 2):
        if _is_same(path, second) and not _is_device(path):
            raise UsageError(f"{option} and {other} name the same file: {path}")
        if option == "-o" and _is_same(path.parent, second.parent) and is_data_of(path, second):
            raise UsageError(f"{other} {second} has the name of a file with weights of {path}")


def _is_same(path: Path, other: Path) -> bool:
    if path.exists() and other.exists():
        return path.samefile(other)
    return os.path.normcase(os.path.realpath(path)) == os.path.normcase(os.path.realpath(other))


def _is_device(path: Path) -> bool:
    """Whether a path is a device or a pipe, such as /dev/null."""
    return path.exists() and not path.is_file()


def _is_stream(path: Path, descriptor: int) -> bool:
    """Whether a path is the regular file behind standard input or output."""
    try:
        opened = os.fstat(descriptor)
        return stat.S_ISREG(opened.st_mode) and os.path.samestat(opened, path.stat())
    except OSError:
        return False
