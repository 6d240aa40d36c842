"""The command `hlo2onnx`: a StableHLO file in, an ONNX model out.

JAX is imported only when there is something to translate, so that `--help` is quick.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2onnx import __version__
from hlo2onnx.errors import Hlo2OnnxError, InternalError, TranslationError, UsageError
from hlo2onnx.options import (
    CALLBACK_POLICIES,
    DUMP_VARIABLE,
    FUNCTION_POLICIES,
    HALF_POLICIES,
    NAN_POLICIES,
)

if TYPE_CHECKING:
    import onnx_ir as oir

    from hlo2onnx.program import OnnxProgram

STDIN = "-"
FAILED, USAGE, INTERRUPTED = 1, 2, 130


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
        "  This is a bug in hlo2onnx. Please report it with what the same command prints under"
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
    _add_model_options(parser.add_argument_group("the model"))
    _add_policies(parser.add_argument_group("the translation"))
    _add_checks(parser.add_argument_group("running the model"))
    _add_diagnostics(parser.add_argument_group("diagnostics"))
    return parser


def _add_model_options(group: argparse._ArgumentGroup) -> None:
    """Options of the model that is written."""
    add = group.add_argument
    add(
        "-o",
        "--output",
        type=Path,
        metavar="FILE",
        help="file to write (default: <input>.onnx here)",
    )
    add("--opset", type=int, metavar="N", help="ONNX opset (default: 23, or 26 if needed)")
    add(
        "--target",
        default="ort-cpu",
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
    add("--weights-dtype", choices=["bfloat16", "float16"], help="store f32 weights in this type")


def _add_policies(group: argparse._ArgumentGroup) -> None:
    """Options that choose between several correct translations."""
    add = group.add_argument
    add(
        "--nan",
        choices=NAN_POLICIES,
        default="default",
        help="NaN semantics of max, min and pooling: XLA's where that is cheap (default), XLA's"
        " everywhere, or the runtime's",
    )
    add(
        "--half",
        choices=HALF_POLICIES,
        default="xla",
        help="f16 arithmetic: round after every op as XLA does (default), or use the runtime's"
        " own kernels",
    )
    add(
        "--functions",
        choices=FUNCTION_POLICIES,
        default="inline",
        help="inline private functions and composites (default), or keep them as functions",
    )
    add(
        "--callbacks",
        choices=CALLBACK_POLICIES,
        default="drop-checks",
        help="leave out branches with Python callbacks: those of equinox's checks (default), all"
        " of them, or none",
    )
    add(
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
    add(
        "--profile",
        nargs="?",
        const=Path(),
        type=Path,
        metavar="FILE.svg",
        help="show the time of a run by operator and JAX scope, and draw it in FILE",
    )


def _add_diagnostics(group: argparse._ArgumentGroup) -> None:
    """Options that show what the translation did."""
    add = group.add_argument
    add("--report", type=Path, metavar="FILE", help="write report and verification as JSON")
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


def _run(arguments: argparse.Namespace) -> int:
    output = _output(arguments)
    source = _source(arguments.model)
    facts: dict[str, Any] = {"report": None, "verification": None, "error": None, "refusals": []}
    try:
        return _translate(arguments, source, output, facts)
    except Hlo2OnnxError as error:
        facts["error"] = str(error)
        if isinstance(error, TranslationError):
            facts["refusals"] = [asdict(refusal) for refusal in error.refusals]
        raise
    finally:
        if arguments.report:
            _write_report(arguments.report, facts)


def _translate(
    arguments: argparse.Namespace, source: Path | bytes, output: Path | None, facts: dict[str, Any]
) -> int:
    # The reference is XLA on the CPU. Do not start other devices.
    os.environ["JAX_PLATFORMS"] = "cpu"
    from hlo2onnx.api import translate
    from hlo2onnx.raising.rule_names import rules_named

    rules_named(arguments.explain)
    _progress(f"translating {arguments.model}")
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
        dump=arguments.dump,
    )
    facts["report"] = program.report.as_dict()
    if output is not None:
        program.save(output)
    print(_summary(program, output), flush=True)
    for rule in arguments.explain:
        print(f"\n{program.explain(rule)}", flush=True)
    if arguments.profile is not None:
        found = program.profile()
        print(f"\n{found}", flush=True)
        if arguments.profile.name:
            found.save(arguments.profile)
    return _verify(arguments, program, facts) if arguments.verify else 0


def _verify(arguments: argparse.Namespace, program: OnnxProgram, facts: dict[str, Any]) -> int:
    """Compares with XLA, and says what came of it; returns the exit code."""
    _progress("verifying")
    verification = program.verify(seed=arguments.seed)
    facts["verification"] = {"ok": verification.ok, **asdict(verification)}
    print(f"\n{verification}", flush=True)
    if verification.ok:
        return 0
    if not verification.differing:
        return _failure("verification failed: some outputs cannot be judged", FAILED)
    return _failure("verification failed: ONNX Runtime and XLA disagree", FAILED)


def _output(arguments: argparse.Namespace) -> Path | None:
    """Path of the model to write; None if it is only verified.

    Raises:
        UsageError: The path cannot be written.
    """
    if arguments.output is None and arguments.model == STDIN:
        if arguments.verify or arguments.explain:
            return None
        raise UsageError("a model from standard input needs -o FILE (or --verify or --explain)")
    source = Path(arguments.model)
    output: Path = arguments.output or Path(f"{source.stem}.onnx")
    if output == Path("-"):
        raise UsageError("a model cannot be written to standard output: give -o a file")
    for path in filter(None, (output, arguments.report)):
        if path.is_dir():
            raise UsageError(f"{path} is a folder")
        if not path.parent.is_dir():
            raise UsageError(f"cannot write {path}: there is no folder {path.parent}")
        if arguments.model != STDIN and path.exists() and source.exists() and path.samefile(source):
            raise UsageError(f"{path} is the input itself")
    return output


def _source(model: str) -> Path | bytes:
    """The program to translate: a path, or the bytes of standard input.

    Raises:
        UsageError: There is no such file.
    """
    if model == STDIN:
        return sys.stdin.buffer.read()
    path = Path(model)
    if not path.exists():
        raise UsageError(f"no such file: {path}")
    if path.is_dir():
        raise UsageError(f"{path} is a folder")
    return path


def _write_report(path: Path, facts: dict[str, Any]) -> None:
    from hlo2onnx.report import to_json
    from hlo2onnx.runtime.output_paths import writing

    with writing(path):
        path.write_text(to_json(facts) + "\n", encoding="utf-8")


def _progress(text: str) -> None:
    if sys.stderr.isatty():
        print(f"{text} ...", file=sys.stderr)


def _summary(program: OnnxProgram, output: Path | None) -> str:
    graph = program.model.graph
    width = max((len(str(value.name)) for value in (*graph.inputs, *graph.outputs)), default=0)
    lines = ["inputs", *(f"  {value.name!s:<{width}}  {_type(value)}" for value in graph.inputs)]
    lines += ["outputs", *(f"  {value.name!s:<{width}}  {_type(value)}" for value in graph.outputs)]
    lines.append(str(program.report))
    if output is not None:
        lines.append(f"written  {output}, {_size(output.stat().st_size)}")
    return "\n".join(lines)


def _type(value: oir.Value) -> str:
    assert value.dtype is not None and value.shape is not None
    return f"{value.dtype.numpy()}[{', '.join(str(dim) for dim in value.shape)}]"


def _size(count: float) -> str:
    for unit in ("bytes", "kB", "MB"):
        if count < 1000:
            return f"{count:.3g} {unit}"
        count /= 1000
    return f"{count:.3g} GB"
