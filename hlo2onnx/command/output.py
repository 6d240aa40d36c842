"""What the command shows and writes: a short summary, the stage, the model and the report."""

from __future__ import annotations

import os
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Self, TextIO

from hlo2onnx.command.paths import Outputs
from hlo2onnx.errors import WriteError
from hlo2onnx.report import begin_stage, entry, shortened, to_json
from hlo2onnx.runtime.paths import writing

if TYPE_CHECKING:
    import onnx_ir as oir

    from hlo2onnx.program import OnnxProgram
    from hlo2onnx.runtime.profiling import Profile
    from hlo2onnx.verify.compare import Verification

PORT_LINES = 4
"""Lines of the inputs in a summary, and of the outputs."""

LIST_LINES = 2
"""Lines of a list in a summary, such as the rules."""

NOTES = 3
"""Notes in a summary."""


class Console:
    """Where the command prints.

    Use it in a `with` block. On a terminal, the last line of standard error shows the stage.

    Args:
        quiet: Whether to show only what was asked for.
        verbose: Whether to show all of the lists, and the time of each stage.
        to_stderr: Whether standard output has other content.
    """

    def __init__(self, *, quiet: bool, verbose: bool, to_stderr: bool) -> None:
        self.verbose = verbose
        self._out: TextIO = sys.stderr if to_stderr else sys.stdout
        is_terminal = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
        self._shows_stage = is_terminal and not quiet
        self._stage = ""
        self._began = time.monotonic()

    def show(self, text: str) -> None:
        """Prints text."""
        self._rewrite("")
        print(text, file=self._out, flush=True)
        self._rewrite(self._stage)

    def warn(self, text: str) -> None:
        """Prints text on standard error."""
        self._rewrite("")
        print(text, file=sys.stderr, flush=True)
        self._rewrite(self._stage)

    def begin(self, stage: str) -> None:
        """Notes that a stage begins."""
        self._rewrite("")
        now = time.monotonic()
        if self.verbose and self._stage:
            print(f"{self._stage:10} {now - self._began:6.2f} s", file=sys.stderr)
        self._stage, self._began = stage, now
        self._rewrite(stage)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.begin("")

    def _rewrite(self, text: str) -> None:
        """Replaces the line of the stage."""
        if self._shows_stage:
            sys.stderr.write(f"\r{' ' * len(self._stage)}\r{text}")
            sys.stderr.flush()


def summary(program: OnnxProgram, output: Path | None, *, verbose: bool) -> str:
    """What was translated, in a text that fits a screen; with `verbose`, all of it."""
    graph, width = program.model.graph, shutil.get_terminal_size().columns
    lines = []
    inputs, outputs = port_types(graph.inputs), port_types(graph.outputs)
    names = max(map(len, (*inputs, *outputs)), default=0)
    for title, types in (("inputs", inputs), ("outputs", outputs)):
        ports = [f"  {name:<{names}}  {text}" for name, text in types.items()]
        lines += [title, *shortened(ports, None if verbose else PORT_LINES, "  ")]
    limits = (None, None) if verbose else (LIST_LINES, NOTES)
    lines += program.report.lines(width, *limits)
    if output is not None:
        lines += entry("written", [str(output), _size(output.stat().st_size)], width)
    return "\n".join(lines)


def port_types(values: Iterable[oir.Value]) -> dict[str, str]:
    """The types of inputs or outputs, by name: "float32[b, 3]"."""
    found = {}
    for value in values:
        assert value.dtype is not None and value.shape is not None
        found[str(value.name)] = f"{value.dtype.numpy()}[{', '.join(map(str, value.shape))}]"
    return found


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"


def write_model(
    program: OnnxProgram, outputs: Outputs, stdout: TextIO, *, strip: bool = False
) -> None:
    """Writes the model to its file, or to standard output.

    Raises:
        BrokenPipeError: The reader of standard output has gone.
        UsageError: The model is larger than 2 GB and goes to standard output.
        WriteError: The file cannot be written.
    """
    if outputs.model is not None:
        begin_stage("save")
        program.save(outputs.model, strip=strip)
    elif outputs.stdout == "-o":
        from hlo2onnx.runtime import serializing

        path = Path("standard output")
        try:
            serializing.write_model(program.model, path, stdout.buffer, {}, strip)
            stdout.buffer.flush()
        except BrokenPipeError:
            raise
        except OSError as error:
            raise WriteError(f"cannot write {path}: {error.strerror}") from error


@dataclass
class Results:
    """What the command has made so far, for its report.

    Attributes:
        source: The program, as given.
        command: The command itself.
        program: The translated program.
        verification: The outcome of --verify.
        profile: The outcome of --profile.
        facts: What the report has as JSON.
    """

    source: str
    command: str
    program: OnnxProgram | None = None
    verification: Verification | None = None
    profile: Profile | None = None
    facts: dict[str, object] = field(
        default_factory=lambda: {
            **dict.fromkeys(("report", "verification", "error")),
            "refusals": [],
        }
    )


def write_report(outputs: Outputs, results: Results, stdout: TextIO) -> None:
    """Writes the report, if there is to be one, to its file or to standard output.

    Raises:
        WriteError: The file cannot be written.
    """
    if outputs.report is None and outputs.stdout != "--report":
        return
    if outputs.report is not None and outputs.report.suffix.lower() in (".html", ".htm"):
        _write_page(outputs.report, results)
        return
    text = to_json(results.facts) + "\n"
    if outputs.report is None:
        stdout.write(text)
        stdout.flush()
        return
    with writing(outputs.report):
        outputs.report.write_text(text, encoding="utf-8")


def _write_page(path: Path, results: Results) -> None:
    if results.program is not None:
        results.program.save_report(
            path,
            verification=results.verification,
            profile=results.profile,
            command=results.command,
        )
        return
    from hlo2onnx.verify.page import failure_page, save_page

    refusals = results.facts["refusals"]
    assert isinstance(refusals, list)
    text = failure_page(
        results.source, str(results.facts["error"] or ""), refusals, results.command
    )
    save_page(path, text)
