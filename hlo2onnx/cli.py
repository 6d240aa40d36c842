"""The command `hlo2onnx`: a StableHLO file in, an ONNX model out.

JAX is imported only when there is something to translate, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from hlo2onnx import __version__, progress
from hlo2onnx.command.help import SHELLS, PrintCompletion, opset_range
from hlo2onnx.command.output import Console, port_types, summary, write_model, write_report
from hlo2onnx.command.paths import STANDARD, Outputs, checked_outputs
from hlo2onnx.errors import Hlo2OnnxError, InternalError, TranslationError, UsageError
from hlo2onnx.options import CHOICES, DUMP_VARIABLE, Options

if TYPE_CHECKING:
    from hlo2onnx.program import OnnxProgram

FAILED, USAGE, INTERRUPTED = 1, 2, 130
POLICIES = {
    "nan": "NaN semantics of max, min and pooling: XLA's where that is cheap (default), XLA's"
    " everywhere, or the runtime's",
    "half": "f16 arithmetic: round after every op as XLA does (default), or use the runtime's own"
    " kernels",
    "functions": "inline private functions and composites (default), or keep them as functions",
    "callbacks": "leave out branches with Python callbacks: those of equinox's checks (default),"
    " all of them, or none",
}
"""Help texts of the options that choose between several correct translations."""


def main(argv: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code: 0, 1 (cannot translate, verification failed) or 2
    (usage)."""
    arguments = _parser().parse_args(argv)
    try:
        return _run(arguments)
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


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="hlo2onnx",
        description="Translates a StableHLO program to ONNX.",
        epilog="exit code: 0 for success; 1 if the program cannot be translated, or if the"
        " verification fails; 2 for a mistake in the command",
    )
    parser.add_argument(
        "model",
        help="StableHLO text, MLIR bytecode, a portable artifact or a serialized"
        " jax.export.Exported; - reads standard input",
    )
    parser.add_argument("--version", action="version", version=f"hlo2onnx {__version__}")
    parser.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print a script that completes this command in a shell (needs shtab)",
    )
    _add_output(parser.add_argument_group("what it writes"))
    _add_model_options(parser.add_argument_group("the model"))
    _add_policies(parser.add_argument_group("the translation"))
    _add_checks(parser.add_argument_group("running the model"))
    _add_diagnostics(parser.add_argument_group("diagnostics"))
    return parser


def _add_output(group: argparse._ArgumentGroup) -> None:
    """Options about the output of the command."""
    add = group.add_argument
    add(
        "-o",
        "--output",
        metavar="FILE",
        help="file of the model; - is standard output (default: <input>.onnx here)",
    )
    add(
        "--strip",
        action="store_true",
        help="leave out metadata and doc strings, such as source lines (names stay)",
    )
    add(
        "--report",
        metavar="FILE",
        help="write report and verification as JSON; - is standard output",
    )
    loud = group.add_mutually_exclusive_group()
    loud.add_argument("-q", "--quiet", action="store_true", help="show no summary, only failures")
    loud.add_argument(
        "-v", "--verbose", action="store_true", help="show complete lists and the time of stages"
    )


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    """Options of the model that is written."""
    add = group.add_argument
    add(
        "--opset",
        type=int,
        metavar="N",
        help=f"ONNX opset, {opset_range()} (default: 23, or 26 if needed)",
    )
    add(
        "--target",
        default=Options.target,
        help="runtime to fit: ort-cpu (default), onnx, or a table FILE.json",
    )
    add("--function", metavar="NAME", help="function to translate (default: main)")
    add(
        "--specialize",
        type=_sizes,
        action="append",
        default=[],
        metavar="b=8,s=128",
        help="fix the size of every free dimension (may be repeated)",
    )
    for kind in ("inputs", "outputs"):
        add(
            f"--{kind}-as-nchw",
            type=lambda text: text.split(","),
            default=[],
            metavar="NAMES",
            help=f"move the channels of these {kind} from the last axis to the second",
        )
        add(
            f"--{kind[:-1]}-names",
            type=_port_names,
            metavar="NAMES",
            help=f"new names of the {kind}: all of them, as in x,y, or some, as in arg0=x,arg1=y",
        )
    add(
        "--weights-dtype",
        choices=CHOICES["weights_dtype"],
        help="store f32 weights in this type (default: f32)",
    )


def _add_policies(group: argparse._ArgumentGroup) -> None:
    """Options that choose between several correct translations."""
    for name, text in POLICIES.items():
        group.add_argument(
            f"--{name}", choices=CHOICES[name], default=getattr(Options, name), help=text
        )
    group.add_argument(
        "--no-raise",
        "--without",
        dest="without",
        action="append",
        default=[],
        metavar="RULE",
        help="switch a rewrite rule off (may be repeated)",
    )


def _add_checks(group: argparse._ArgumentGroup) -> None:
    """Options that run the model."""
    add = group.add_argument
    add("--verify", action="store_true", help="compare ONNX Runtime with XLA on random inputs")
    add("--seed", type=int, default=0, metavar="N", help="seed of the random inputs (default: 0)")
    add("--profile", action="store_true", help="show the time of a run by operator and JAX scope")
    add("--profile-svg", metavar="FILE", help="draw the profile in this file")


def _add_diagnostics(group: argparse._ArgumentGroup) -> None:
    """Options that show what the translation did."""
    add = group.add_argument
    add(
        "--dump",
        type=Path,
        metavar="DIR",
        help="write the program after each stage, and a log of the rules, into this folder"
        f" (default: ${DUMP_VARIABLE})",
    )
    add(
        "--explain",
        action="append",
        default=[],
        metavar="RULE",
        help="say where a raising rule fired, and why it did not fire elsewhere (may be repeated)",
    )
    add("--debug", action="store_true", help="show a traceback when something fails")


def _sizes(text: str) -> dict[str, int]:
    """Parses "b=8,s=128"; argparse turns the error into a usage error."""
    sizes = {}
    for item in text.split(","):
        name, _, size = (part.strip() for part in item.partition("="))
        if not name or not size.isdecimal():
            raise argparse.ArgumentTypeError(
                f"{item.strip()!r} is not NAME=SIZE: give every dimension a size, as in b=8,s=128"
            )
        sizes[name] = int(size)
    return sizes


def _port_names(text: str) -> list[str] | dict[str, str]:
    """Parses "x,y" and "arg0=x,arg1=y"."""
    items = [item.strip() for item in text.split(",")]
    if not any("=" in item for item in items):
        return items
    if not all("=" in item for item in items):
        raise argparse.ArgumentTypeError(f"{text!r} has new names with and without old ones")
    pairs = (item.partition("=") for item in items)
    return {old.strip(): new.strip() for old, _, new in pairs}


def _run(arguments: argparse.Namespace) -> int:
    outputs = _outputs(arguments)
    source = _source(arguments.model)
    facts: dict[str, object] = {"report": None, "verification": None, "error": None, "refusals": []}
    stdout = sys.stdout
    with (
        Console(
            quiet=arguments.quiet, verbose=arguments.verbose, to_stderr=bool(outputs.stdout)
        ) as console,
        redirect_stdout(sys.stderr if outputs.stdout else sys.stdout),
        progress.listening(console.begin),
    ):
        try:
            return _translate(arguments, source, outputs, facts, console, stdout)
        except Hlo2OnnxError as error:
            facts["error"] = str(error)
            if isinstance(error, TranslationError):
                facts["refusals"] = [asdict(refusal) for refusal in error.refusals]
            raise
        finally:
            write_report(outputs, facts, stdout)


def _translate(
    arguments: argparse.Namespace,
    source: Path | bytes,
    outputs: Outputs,
    facts: dict[str, object],
    console: Console,
    stdout: TextIO,
) -> int:
    # The reference is XLA on the CPU. Do not start other devices.
    os.environ["JAX_PLATFORMS"] = "cpu"
    progress.begin("import")
    from hlo2onnx.api import translate
    from hlo2onnx.raising.rule_names import rules_named

    rules_named(arguments.explain)
    progress.begin("load")
    program = translate(
        source,
        opset=arguments.opset,
        target=arguments.target,
        function=arguments.function,
        nan=arguments.nan,
        half=arguments.half,
        functions=arguments.functions,
        callbacks=arguments.callbacks,
        without=arguments.without,
        specialize={name: size for sizes in arguments.specialize for name, size in sizes.items()},
        weights_dtype=arguments.weights_dtype,
        inputs_as_nchw=arguments.inputs_as_nchw,
        outputs_as_nchw=arguments.outputs_as_nchw,
        input_names=arguments.input_names,
        output_names=arguments.output_names,
        dump=arguments.dump,
    )
    facts["report"] = program.report.as_dict()
    facts["inputs"] = port_types(program.model.graph.inputs)
    facts["outputs"] = port_types(program.model.graph.outputs)
    write_model(program, outputs, stdout, strip=arguments.strip)
    if not arguments.quiet:
        console.show(summary(program, outputs.model, verbose=arguments.verbose))
    for rule in arguments.explain:
        console.show(f"\n{program.explain(rule)}")
    if arguments.profile or outputs.picture:
        progress.begin("profile")
        found = program.profile()
        if arguments.profile:
            console.show(f"\n{found}")
        if outputs.picture:
            found.save(outputs.picture)
    return _verify(arguments, program, facts, console) if arguments.verify else 0


def _verify(
    arguments: argparse.Namespace, program: OnnxProgram, facts: dict[str, object], console: Console
) -> int:
    """Compares with XLA, and prints the outcome; returns the exit code."""
    progress.begin("verify")
    verification = program.verify(seed=arguments.seed)
    facts["verification"] = {"ok": verification.ok, **asdict(verification)}
    if not (arguments.quiet and verification.ok):
        console.show(f"\n{verification}")
    if verification.ok:
        return 0
    if not verification.differing:
        console.warn("hlo2onnx: verification failed: some outputs cannot be judged")
    else:
        console.warn("hlo2onnx: verification failed: ONNX Runtime and XLA disagree")
    return FAILED


def _outputs(arguments: argparse.Namespace) -> Outputs:
    """Where to write; no model is written if it is only verified, for example.

    Raises:
        UsageError: A path cannot be written.
    """
    model, is_stdin = arguments.output, arguments.model == STANDARD
    if model is None and not is_stdin:
        model = f"{Path(arguments.model).stem}.onnx"
    if model is None and not (arguments.verify or arguments.explain or arguments.profile):
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
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    return path
