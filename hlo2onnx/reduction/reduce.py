"""`reduce`: the smallest program that fails as a given one does."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Any, Unpack

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.api import Keywords, Program, options_from
from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.load import prepared
from hlo2onnx.frontend.mlir.constants import densify
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.functions import functions_of, make_main
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.reduction.draft import Case, Draft
from hlo2onnx.reduction.search import Search
from hlo2onnx.reduction.testing import TITLES, Outcome, Request, tested
from hlo2onnx.report import begin_stage, versions
from hlo2onnx.runtime.adapters.installed import module_process
from hlo2onnx.runtime.paths import check_list, is_whole, output_file, writing

TIMEOUT = 60.0
"""Seconds for one test of a program."""

SHORTEST, LONGER = 5.0, 5.0
"""Smaller programs get at most these seconds, or so many times the seconds of the whole program."""

SHOWN_TEXT, SHOWN_MESSAGE = 30_000, 6_000
"""Characters in the report. GitHub takes 65,536 in an issue."""


@dataclass(frozen=True)
class Reduction:
    """A reduced program.

    Attributes:
        text: The program, as StableHLO text.
        inputs: Arrays on which it fails, by position of the argument. Arguments that are not in it
            take random numbers.
        failure: How it fails: one line.
        ops_before, ops_after: Counts of ops, without functions and terminators.
        tests: Count of programs that were tested.
        steps: How often each transformation made the program smaller.
        markdown: A report for an issue.
    """

    text: str
    inputs: Mapping[int, np.ndarray]
    failure: str
    ops_before: int
    ops_after: int
    tests: int
    steps: Mapping[str, int]
    markdown: str

    def save(self, path: str | Path) -> list[Path]:
        """Writes the program, the report beside it (.md), and the inputs (.npz) if there are any.

        Returns:
            The files.

        Raises:
            UsageError: The path is a folder, or its folder does not exist.
            WriteError: A file cannot be written.
        """
        path = output_file(path, "reduced.mlir")
        written = [path, path.with_suffix(".md")]
        for file, text in zip(written, (self.text, self.markdown), strict=True):
            with writing(file):
                file.write_text(text, encoding="utf-8")
        if self.inputs:
            file = path.with_suffix(".npz")
            with writing(file), file.open("wb") as stream:
                arrays: dict[str, Any] = {f"arg{i}": array for i, array in self.inputs.items()}
                np.savez(stream, **arrays)
            written.append(file)
        return written

    def __str__(self) -> str:
        return (
            f"{self.ops_before} ops -> {self.ops_after} ops in {self.tests} tests\n"
            f"failure  {self.failure}"
        )


def reduce(
    program: Program,
    fails: Callable[[str], bool] | None = None,
    *,
    inputs: Sequence[object] | None = None,
    seed: int = 0,
    timeout: float = TIMEOUT,
    **options: Unpack[Keywords],
) -> Reduction:
    """Shrinks a program that fails to a few ops that fail in the same way.

    Without `fails`, a program fails if it cannot be translated, if an error occurs, if the
    verification differs, if the process dies, or if the time limit is reached. The reduced program
    fails in the same way as the whole one: the same refusal of the same op, the same class of
    error at the same op or place, NaN or numbers that differ as much, the same signal. These tests
    run in child processes.

    Args:
        program: A program that `hlo2onnx.translate` takes without example arguments: a path, text,
            bytes, an MLIR module, a `jax.stages.Lowered` or a `jax.export.Exported`.
        fails: A function of StableHLO text. It returns whether the program fails. It runs in this
            process, without a time limit. An exception counts as False.
        inputs: Arrays for the inputs of the program. Default: random ones.
        seed: Seed of the random inputs.
        timeout: Seconds for one test.
        options: Options of `hlo2onnx.translate`.

    Returns:
        The reduced program and its report.

    Raises:
        LoadError: The source is not a readable program.
        UsageError: The program does not fail, or an argument is wrong.
    """
    if fails is not None and not callable(fails):
        raise UsageError(
            f"fails= is not a function, but a {type(fails).__name__}: to reduce a function, pass"
            " jax.jit(f).lower(x)"
        )
    _check_seconds(timeout)
    if not is_whole(seed, 0):
        raise UsageError(f"seed={seed!r} is not a whole number of at least 0")
    if inputs is not None:
        check_list("inputs", inputs, "arrays")
    given = options_from(**options)
    source = prepared(program, (), {}, given)
    case = _case(source, inputs)
    if fails is not None:
        search, failure = _search_of_function(case, fails), Outcome("true")
    else:
        without_data = replace(given, dump=None, bind=())
        search, failure = _search(case, Request("", (), without_data, seed, timeout))
    ops = case.ops, search.case.ops
    return Reduction(
        search.case.text,
        {index: x for index, x in enumerate(search.case.inputs) if x is not None},
        str(failure),
        *ops,
        len(search.known),
        dict(search.steps),
        _markdown(search.case.text, failure, ops, search.steps, given),
    )


def _search_of_function(case: Case, fails: Callable[[str], bool]) -> Search:
    """The search with the criterion of the user, at its end."""
    try:
        if not fails(case.text):
            raise UsageError("the program does not fail, so it cannot be reduced: fails -> False")
    except Exception as error:
        if isinstance(error, UsageError):
            raise
        text = f"{type(error).__name__}: {error}"
        raise UsageError(f"the given function raises an error: {text}") from error

    def holds(other: Case) -> bool:
        with suppress(Exception):  # which counts as False
            return fails(other.text)
        return False

    search = Search(case, holds)
    search.run()
    return search


def _search(case: Case, request: Request) -> tuple[Search, Outcome]:
    """The search for the smallest program that fails in the same way, and how it fails.

    Raises:
        UsageError: The program does not fail.
    """
    with module_process(tested.__module__) as process:

        def outcome(other: Case) -> Outcome:
            begin_stage(f"reduce: {other.ops} ops")
            return tested(process, replace(request, text=other.text, inputs=other.inputs))

        start = time.monotonic()
        wanted = outcome(case)
        if wanted.kind == "none":
            raise UsageError(
                "the program does not fail, so it cannot be reduced: it translates and verifies"
            )
        seconds = request.seconds
        if wanted.kind != "timeout":
            seconds = min(seconds, max(SHORTEST, LONGER * (time.monotonic() - start)))
        request = replace(request, seconds=seconds, verify=wanted.stage == "verify")
        search = Search(case, lambda other: outcome(other).is_like(wanted))
        search.run()
        return search, outcome(search.case)


def _check_seconds(timeout: object) -> None:
    is_number = isinstance(timeout, int | float) and not isinstance(timeout, bool)
    if not is_number or not 0 < timeout < math.inf:  # type: ignore[operator]
        raise UsageError(f"timeout={timeout!r} is not a number of seconds above 0")


def _case(source: Source, inputs: Sequence[object] | None) -> Case:
    """The program with bound weights as arguments."""
    module = clone_module(source.module)
    densify(module)
    make_main(module, source.function)
    signature = source.signature
    main = functions_of(module)["main"]
    arrays: list[np.ndarray | None] = [None] * len(main.regions[0].blocks[0].arguments)
    for item in signature.bound:
        arrays[item.port.position] = np.asarray(item.array)
    if inputs is not None:
        if len(inputs) != len(signature.inputs):
            raise UsageError(
                f"the program has {len(signature.inputs)} inputs; inputs= has {len(inputs)}"
            )
        for port, array in zip(signature.inputs, inputs, strict=True):
            arrays[port.position] = np.asarray(array)
    with module.context:  # so that unused functions can be removed
        for name, function in functions_of(module).items():
            if name != "main":
                function.attributes["sym_visibility"] = ir.StringAttr.get("private")
    case = Draft(module, tuple(arrays)).case()
    if case is None:
        raise UsageError("the program is not valid StableHLO")
    return case


def _markdown(
    text: str,
    failure: Outcome,
    ops: tuple[int, int],
    steps: Mapping[str, int],
    options: Options,
) -> str:
    """The report, which can be pasted into an issue.

    Args:
        ops: Counts of ops before and after.
    """
    cause = f": {failure.causes[0]}" if failure.causes else ""
    default = Options()
    given = [
        f"`{item.name}={getattr(options, item.name)!r}`"
        for item in fields(Options)
        if getattr(options, item.name) != getattr(default, item.name)
    ]
    parts = [
        f"# {TITLES[failure.kind].capitalize()}{cause}",
        f"Reduced from {ops[0]:,} ops to {ops[1]:,} by `hlo2onnx --reduce`.",
        "## Program",
        _fenced(_shortened(text.strip(), SHOWN_TEXT), "mlir"),
        "## Failure",
        _fenced(_shortened(failure.message or str(failure), SHOWN_MESSAGE)),
        *([f"Options: {', '.join(given)}."] if given else []),
        "## Versions",
        "| package | version |\n| --- | --- |\n"
        + "\n".join(f"| {name} | {version} |" for name, version in versions().items()),
        "## Reduction",
        "\n".join(f"* {name}: {count}" for name, count in steps.items() if count)
        or "No step made the program smaller.",
    ]
    return "\n\n".join(parts) + "\n"


def _fenced(text: str, language: str = "text") -> str:
    return f"```{language}\n{text}\n```"


def _shortened(text: str, most: int) -> str:
    return text if len(text) <= most else f"{text[: most // 2]}\n...\n{text[-most // 2 :]}"
