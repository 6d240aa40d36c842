"""The command `hlo2onnx`: a StableHLO file in, an ONNX model out.

JAX is imported only when there is something to translate, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import os
import shlex
import sys
import zlib
from collections.abc import Iterator, Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any, TextIO, cast
from zipfile import BadZipFile

from hlo2onnx.command.arguments import parser
from hlo2onnx.command.output import Console, Results, port_types, summary, write_model, write_report
from hlo2onnx.command.paths import STANDARD, Outputs, check_file, checked_outputs
from hlo2onnx.errors import (
    Hlo2OnnxError,
    InternalError,
    NotInstalledError,
    TranslationError,
    UsageError,
)
from hlo2onnx.options import DUMP_VARIABLE
from hlo2onnx.report import begin_stage, listening

if TYPE_CHECKING:
    import numpy as np

    from hlo2onnx.api import Keywords
    from hlo2onnx.program import OnnxProgram
    from hlo2onnx.runtime.profiling import Profile
    from hlo2onnx.verify.compare import Verification

FAILED, USAGE, NOT_INSTALLED, INTERRUPTED = 1, 2, 3, 130

_PACKAGES = {name: name for name in ("jax", "jaxlib", "ml_dtypes", "numpy", "onnx", "sympy")} | {
    "onnx_ir": "onnx-ir"
}
"""What hlo2onnx needs, by module, with the names to install."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 1 (cannot translate, verification failed), 2
    (usage) or 3 (a package is not installed)."""
    given = sys.argv[1:] if argv is None else argv
    arguments = parser().parse_args(given)
    results = Results(arguments.model, shlex.join(["hlo2onnx", *given]))
    try:
        return _run(arguments, results)
    except KeyboardInterrupt:
        return _failure("interrupted", INTERRUPTED)
    except BrokenPipeError:
        # The reader of the summary has gone. Python would complain again when it flushes at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return FAILED
    except Exception as error:  # the boundary: users see a message, no traceback
        if arguments.debug:
            raise
        return _explained(error)


def _explained(error: Exception) -> int:
    if isinstance(error, UsageError):
        return _failure(str(error), USAGE)
    if isinstance(error, NotInstalledError):
        return _failure(str(error), NOT_INSTALLED)
    if isinstance(error, ModuleNotFoundError) and error.name in _PACKAGES:
        return _failure(
            f"{error.name} is not installed: pip install {_PACKAGES[error.name]}", NOT_INSTALLED
        )
    if isinstance(error, Hlo2OnnxError) and not isinstance(error, InternalError):
        return _failure(str(error), FAILED)
    if isinstance(error, OSError):  # a full disk, a folder without permission
        where = f"{error.filename}: " if error.filename else ""
        return _failure(f"{where}{error.strerror or error}", FAILED)
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    return _failure(
        f"internal error: {kind}{error}\n"
        "  This is a bug in hlo2onnx. Please report it with the output of the same command with"
        " --debug.",
        FAILED,
    )


def _failure(text: str, code: int) -> int:
    print(f"hlo2onnx: {text}", file=sys.stderr)
    return code


def _run(arguments: argparse.Namespace, results: Results) -> int:
    _check_options(arguments)
    outputs = _outputs(arguments)
    source = _source(arguments.model)
    stdout = sys.stdout
    with (
        Console(
            quiet=arguments.quiet, verbose=arguments.verbose, to_stderr=bool(outputs.stdout)
        ) as console,
        redirect_stdout(sys.stderr if outputs.stdout else sys.stdout),
        listening(console.begin),
    ):
        try:
            return _translate(arguments, source, outputs, results, console, stdout)
        except Hlo2OnnxError as error:
            results.facts["error"] = str(error)
            if isinstance(error, TranslationError):
                results.facts["refusals"] = [asdict(refusal) for refusal in error.refusals]
            raise
        finally:
            write_report(outputs, results, stdout)


def _translate(
    arguments: argparse.Namespace,
    source: Path | bytes,
    outputs: Outputs,
    results: Results,
    console: Console,
    stdout: TextIO,
) -> int:
    # The reference is XLA on the CPU. Do not start other devices.
    os.environ["JAX_PLATFORMS"] = "cpu"
    begin_stage("import")
    from hlo2onnx.api import translate
    from hlo2onnx.frontend.specialize import check_names, symbols_of
    from hlo2onnx.raising.rule_names import rules_named

    rules_named(arguments.explain)
    if arguments.check:
        return _check(arguments, source, results, console)
    if outputs.reduced is not None:
        return _reduce(arguments, source, outputs.reduced, results, console)
    begin_stage("load")
    program = results.program = translate(source, **_keywords(arguments))
    results.facts["report"] = program.report.as_dict()
    results.facts["inputs"] = port_types(program.model.graph.inputs)
    results.facts["outputs"] = port_types(program.model.graph.outputs)
    for sizes in arguments.sizes or ():
        check_names(symbols_of(program._source.signature), sizes)
    write_model(program, outputs, stdout, strip=arguments.strip)
    if not arguments.quiet:
        console.show(summary(program, outputs.model, verbose=arguments.verbose))
    for rule in arguments.explain:
        console.show(f"\n{program.explain(rule)}")
    if arguments.profile or outputs.picture:
        results.profile = _profile(arguments, program, outputs, console)
    if not (arguments.verify or arguments.bisect):
        return 0
    return _verify(arguments, program, results, console)


def _profile(
    arguments: argparse.Namespace, program: OnnxProgram, outputs: Outputs, console: Console
) -> Profile:
    """Measures the model; prints and draws the profile."""
    begin_stage("profile")
    found = program.profile()
    if arguments.profile:
        console.show(f"\n{found}")
    if outputs.picture:
        found.save(outputs.picture)
    return found


def _keywords(arguments: argparse.Namespace) -> Keywords:
    """The options of `translate`."""
    from hlo2onnx.api import Keywords

    sizes = {name: size for sizes in arguments.specialize for name, size in sizes.items()}
    given: Any = {**vars(arguments), "specialize": sizes, "metadata": dict(arguments.metadata)}
    names = Keywords.__annotations__
    return cast("Keywords", {name: given[name] for name in names if name in given})


def _check(
    arguments: argparse.Namespace, source: Path | bytes, results: Results, console: Console
) -> int:
    """Prints what cannot be translated, and what may be slow; returns the exit code."""
    from hlo2onnx.command.check import check

    found = check(source, **_keywords(arguments))
    results.facts["check"] = found.as_dict()
    if not (arguments.quiet and found.ok):
        console.show(str(found))
    return 0 if found.ok else FAILED


def _reduce(
    arguments: argparse.Namespace,
    source: Path | bytes,
    output: Path,
    results: Results,
    console: Console,
) -> int:
    """Writes the smallest program that fails in the same way, and its report."""
    from hlo2onnx.reduction.reduce import TIMEOUT, reduce

    limit = TIMEOUT if arguments.timeout is None else arguments.timeout
    found = reduce(source, seed=arguments.seed, timeout=limit, **_keywords(arguments))
    files = list(map(str, found.save(output)))
    results.facts["reduction"] = {
        "failure": found.failure,
        "ops": [found.ops_before, found.ops_after],
        "tests": found.tests,
        "steps": dict(found.steps),
        "files": files,
    }
    if not arguments.quiet:
        console.show(f"{found}\nwritten  {', '.join(files)}")
    return 0


def _verify(
    arguments: argparse.Namespace,
    program: OnnxProgram,
    results: Results,
    console: Console,
) -> int:
    """Compares with XLA, and prints the outcome; returns the exit code."""
    begin_stage("verify")
    options = _verify_options(arguments, program.input_names)
    verification = program.verify(**options, intermediates=arguments.bisect)
    results.verification = verification
    results.facts["verification"] = {"ok": verification.ok, **asdict(verification)}
    if not (arguments.quiet and verification.ok):
        console.show(f"\n{verification}")
    for warning in _warnings(verification):
        console.warn(f"hlo2onnx: {warning}")
    if verification.ok:
        return 0
    if not verification.differing:
        console.warn("hlo2onnx: verification failed: some outputs cannot be judged")
    else:
        console.warn(f"hlo2onnx: verification failed: {verification.runtime} and XLA disagree")
    return FAILED


def _outputs(arguments: argparse.Namespace) -> Outputs:
    """Where to write; no model is written if it is only verified, for example.

    Raises:
        UsageError: A path cannot be written.
    """
    model, is_stdin = arguments.output, arguments.model == STANDARD
    is_only_diagnosed = arguments.check or arguments.reduce is not None
    option = "--check" if arguments.check else "--reduce"
    if arguments.timeout is not None and arguments.reduce is None:
        raise UsageError("--timeout is the limit of --reduce: add it, or omit --timeout")
    if model is not None and is_only_diagnosed:
        raise UsageError(f"{option} writes no model: omit -o")
    if is_only_diagnosed and (arguments.report or "").lower().endswith((".html", ".htm")):
        raise UsageError(f"the report of {option} is JSON: name another file, such as report.json")
    if model is None and not is_stdin and not is_only_diagnosed:
        if arguments.model.lower().endswith(".onnx"):
            raise UsageError(
                f"{arguments.model} is an ONNX model already: name a StableHLO program, such as"
                " model.mlir"
            )
        model = f"{Path(arguments.model).stem}.onnx"
    runs = arguments.verify or arguments.bisect or arguments.explain or arguments.profile
    if model is None and not (runs or is_only_diagnosed):
        raise UsageError("a model from standard input needs -o FILE (or --verify or --explain)")
    inputs = [] if is_stdin else [Path(arguments.model)]
    if arguments.target.endswith(".json"):
        inputs.append(Path(arguments.target))
    dump = arguments.dump or os.environ.get(DUMP_VARIABLE)
    outputs = checked_outputs(
        inputs,
        model=model,
        report=arguments.report,
        picture=arguments.profile_svg,
        reduced=arguments.reduce,
        dump=Path(dump) if dump else None,
    )
    if outputs.stdout == "-o" and sys.stdout.isatty():
        raise UsageError("-o - would write a binary file to the terminal: redirect it")
    return outputs


def _source(model: str) -> Path | bytes:
    """The program to translate: a path, or the bytes of standard input.

    Raises:
        UsageError: There is no such file.
    """
    if model == STANDARD:
        return sys.stdin.buffer.read()
    path = Path(model)
    check_file(path)
    return path


_OF_VERIFY = ("runtime", "samples", "sizes", "rtol", "atol", "inputs", "seconds")
"""Options that only a verification reads. --reduce reads the seed too."""


def _verify_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of `OnnxProgram.verify`.

    Args:
        arguments: The arguments of the command.
        names: The names of the model's inputs.

    Raises:
        UsageError: The file of inputs cannot be read, or lacks an input.
    """
    given = {name: getattr(arguments, name) for name in ("seed", *_OF_VERIFY)}
    options = {name: value for name, value in given.items() if value is not None}
    if arguments.inputs is not None:
        options["inputs"] = _arrays(arguments.inputs, names)
    return options


def _arrays(path: Path, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """The arrays of a file of `numpy.savez`, by the names of inputs."""
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file) as found:
            if missing := [name for name in names if name not in found]:
                raise UsageError(f"{path} has no array {', '.join(missing)}")
            return tuple(found[name] for name in names)
    except (OSError, ValueError, EOFError, TypeError, BadZipFile, zlib.error) as error:
        raise UsageError(
            f"--inputs {path} is not a file of numpy.savez with arrays of numbers: {error}"
        ) from None


def _check_options(arguments: argparse.Namespace) -> None:
    """Checks the options of --verify before there is work.

    Raises:
        UsageError: Nothing is verified, there is no such runtime, or no such file of inputs.
    """
    if not (arguments.verify or arguments.bisect):
        for name in _OF_VERIFY:
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} has no meaning without --verify or --bisect")
    if arguments.inputs is not None:
        check_file(arguments.inputs)
    if arguments.runtime is None:
        return
    from hlo2onnx.runtime.adapters.installed import named

    _, place = named(arguments.runtime)
    if place and not Path(place).expanduser().exists():
        raise UsageError(f"--runtime {arguments.runtime}: no such file or folder: {place}")


def _warnings(found: Verification) -> Iterator[str]:
    """Says that the runtime of the target did not run the model, and which outputs tell little."""
    if found.fallback:
        yield f"verified in {found.runtime}, not in the target's runtime: {found.fallback}"
    if names := dict.fromkeys(item.name for item in found.says_little):
        yield f"the verification says little of {', '.join(names)}: pass other inputs"
