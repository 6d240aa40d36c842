"""The options of the command, in groups as `--help` shows them."""

from __future__ import annotations

import argparse
import json
import math
from collections.abc import Callable
from importlib import resources
from pathlib import Path
from typing import Any, NoReturn

from hlo2onnx import __version__
from hlo2onnx.options import CHOICES, DUMP_VARIABLE, Options

SHELLS = ("bash", "zsh", "tcsh")

_FILES = frozenset({"model", "output", "report", "profile_svg"})


def opset_range() -> str:
    """The opsets of the default target: "17 to 26"."""
    # The package of the targets would import numpy and onnx.
    path = resources.files("hlo2onnx").joinpath("targets", "tables", f"{Options.target}.json")
    table = json.loads(path.read_text("utf-8"))
    return f"{table['min_opset']} to {table['max_opset']}"


class PrintTargets(argparse.Action):
    """Prints a table of the targets: `target_rows`."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Prints them and ends the process."""
        rows = target_rows()
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        for row in rows:
            cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
            print("  ".join(cells).rstrip())
        parser.exit()


def target_rows() -> list[tuple[str, ...]]:
    """A row of titles, and one for each target: its runtime, the opsets and the default one, the
    control flow that it runs, whether it computes in f64, how that is known, what is special."""
    import onnx_ir as oir

    from hlo2onnx.targets import known_targets, load_target

    rows: list[tuple[str, ...]] = [
        (
            "target",
            "runtime",
            "opsets",
            "default",
            "control flow",
            "f64",
            "known",
            "what is special",
        )
    ]
    for target in map(load_target, known_targets()):
        flags = target.flags
        lacks = {"Loop": flags.no_loop, "If": flags.no_if}
        lacks["Scan"] = flags.no_scan or flags.no_outer_values_in_scans
        opset = target.default_opset
        has_f64 = target.supports("Add", oir.DataType.DOUBLE, opset) and not flags.narrows_f64
        rows.append(
            (
                target.name,
                f"{target.runtime or 'any'} {target.runtime_version}",
                f"{target.min_opset}-{target.max_opset}",
                str(opset),
                " ".join(name for name, is_missing in lacks.items() if not is_missing) or "none",
                "yes" if has_f64 else "no",
                target.known,
                target.about,
            )
        )
    return rows


class PrintCompletion(argparse.Action):
    """Prints a script that completes options, their choices, rule names and files."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Prints the script and ends the process."""
        try:
            import shtab
        except ImportError:
            parser.error(f"{option_string} needs shtab: pip install 'hlo2onnx[completion]'")
        from hlo2onnx.raising.rules import RULES

        for action in parser._actions:
            if action.dest in _FILES:
                action.complete = shtab.FILE  # type: ignore[attr-defined]
            elif action.dest == "dump":
                action.complete = shtab.DIRECTORY  # type: ignore[attr-defined]
            elif action.dest in ("without", "explain"):
                action.choices = sorted(rule.name for rule in RULES)
        print(shtab.complete(parser, values))
        parser.exit()


POLICIES = {
    "nan": "NaN semantics of max, min, pooling, LSTM and GRU: XLA's where that is cheap"
    " (default), XLA's everywhere, or the runtime's",
    "half": "f16 and bf16: round after every op as XLA does (default), or only what is stored,"
    " compared or made an integer",
    "placement": "nodes that the target's device has no kernel for: run on the CPU (default), or"
    " refused",
    "attention": "attention to a cache: XLA's numbers (default), or ONNX Runtime's"
    " GroupQueryAttention, with other numbers for padding",
    "functions": "inline private functions and composites (default), or keep them as functions",
    "callbacks": "leave out branches with Python callbacks: those of equinox's checks (default),"
    " all of them, or none",
}
"""Help texts of the options that choose between several correct translations."""

_EPILOG = """\
examples:
  hlo2onnx model.mlir -o model.onnx --verify     translate, and compare with XLA
  hlo2onnx model.mlir --specialize b=8           fix the free dimension b
  hlo2onnx model.mlir --check                    list what cannot be translated

exit code:
  0  success
  1  the program cannot be translated, or the verification fails
  2  a mistake in the command (or nothing to reduce)
  3  a package is not installed, such as onnxruntime for --verify

How to make the file: docs/guides/mlir_files.md. StableHLO: https://openxla.org/stablehlo
"""


class _Parser(argparse.ArgumentParser):
    """Says a mistake in one line; argparse would print all options before it."""

    def error(self, message: str) -> NoReturn:
        """Prints the mistake and ends the process with 2."""
        self.exit(2, f"{self.prog}: {message}; see {self.prog} --help\n")


def parser() -> argparse.ArgumentParser:
    """The parser of the command line."""
    made = _Parser(
        prog="hlo2onnx",
        description="Translates a StableHLO program to ONNX.",
        formatter_class=argparse.RawDescriptionHelpFormatter,
        epilog=_EPILOG,
    )
    made.add_argument(
        "model",
        help="StableHLO text, MLIR bytecode, a portable artifact or a serialized"
        " jax.export.Exported; - reads standard input",
    )
    made.add_argument("--version", action="version", version=f"hlo2onnx {__version__}")
    made.add_argument(
        "--print-completion",
        action=PrintCompletion,
        choices=SHELLS,
        help="print a script that completes this command in a shell (needs shtab)",
    )
    made.add_argument(
        "--targets", action=PrintTargets, nargs=0, help="list the runtimes that have a table"
    )
    _add_output(made.add_argument_group("what it writes"))
    _add_model_options(made.add_argument_group("the model"))
    _add_policies(made.add_argument_group("the translation"))
    _add_checks(made.add_argument_group("running the model"))
    _add_diagnostics(made.add_argument_group("diagnostics"))
    return made


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
        help="leave out doc strings and metadata, such as source lines (names and --metadata stay)",
    )
    add(
        "--report",
        metavar="FILE",
        help="write report, verification and profile as a page if FILE ends in .html, else as JSON;"
        " - is standard output",
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
        help=f"ONNX opset, {opset_range()} (default: the target's, or a newer one if needed)",
    )
    add(
        "--devices",
        type=int,
        default=Options.devices,
        metavar="N",
        help=f"limit of copies of an op for several devices (default: {Options.devices})",
    )
    add(
        "--target",
        default=Options.target,
        help="runtime to fit: ort-cpu (default), another of --targets, or a table FILE.json",
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
        type=_weights_dtype,
        metavar="TYPE",
        help=f"store f32 weights as {', '.join(CHOICES['weights_dtype'])}, or by patterns of names,"
        " as in *=int4,*head*=f32 (default: f32)",
    )
    add(
        "--metadata",
        type=_text_by_key,
        action="append",
        default=[],
        metavar="KEY=VALUE",
        help="put a text into the metadata of the model (may be repeated)",
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
    add(
        "--verify",
        action="store_true",
        help="compare the model with XLA, on inputs made for the program",
    )
    add(
        "--runtime",
        metavar="NAME",
        help="runtime for --verify, such as ort-web, openvino or ort-cpu@1.20=VENV (default: the"
        " target's where it is installed, else ONNX Runtime)",
    )
    add(
        "--bisect",
        action="store_true",
        help="verify; if an output differs, name the op from which on the numbers differ",
    )
    add(
        "--seed",
        type=_number(int),
        default=0,
        metavar="N",
        help="seed of the random inputs (default: 0)",
    )
    add(
        "--samples",
        type=_number(int, 1),
        metavar="N",
        help="count of inputs (default: up to 24, by time)",
    )
    add(
        "--sizes",
        type=_sizes,
        action="append",
        metavar="b=8,s=128",
        help="sizes of the free dimensions for --verify (may be repeated)",
    )
    for name, kind in (("--rtol", "relative"), ("--atol", "absolute")):
        text = f"{kind} tolerance (default: by element type)"
        add(name, type=_number(float), metavar="X", help=text)
    add(
        "--seconds",
        type=_number(float),
        metavar="X",
        help="time for --verify beyond one run of each side (default: 60)",
    )
    add("--inputs", type=Path, metavar="FILE.npz", help="verify on these arrays, by input name")
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
    work = group.add_mutually_exclusive_group()
    work.add_argument(
        "--check",
        action="store_true",
        help="only say what cannot be translated (exit code 1), and what may be slow",
    )
    work.add_argument(
        "--reduce",
        metavar="FILE.mlir",
        help="only shrink a program that fails to a few ops that fail in the same way; a report for"
        " an issue is written to FILE.md",
    )
    add(
        "--timeout",
        type=_number(float),
        metavar="SECONDS",
        help="with --reduce: limit for one test of a program (default: 60)",
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


def _text_by_key(text: str) -> tuple[str, str]:
    """Parses "key=value"; the value may have "=", too."""
    key, equals, value = text.partition("=")
    if not (key and equals):
        raise argparse.ArgumentTypeError(f"{text!r} is not KEY=VALUE")
    return key, value


def _number(kind: type[int | float], least: int = 0) -> Callable[[str], float]:
    """Parses a number; argparse turns the error into a usage error."""

    def number(text: str) -> float:
        try:
            found = kind(text)
        except ValueError:
            found = math.nan
        if not found >= least:
            name = "whole number" if kind is int else "number"
            raise argparse.ArgumentTypeError(f"{text} is not a {name} of at least {least}")
        return found

    return number


def _weights_dtype(text: str) -> str | dict[str, str | None]:
    """Parses "int4" and "*=int4,*head*=f32"."""
    if "=" not in text:
        return text
    pairs = (part.rpartition("=") for part in text.split(","))
    return {name: None if kind == "f32" else kind for name, _, kind in pairs}


def _port_names(text: str) -> list[str] | dict[str, str]:
    """Parses "x,y" and "arg0=x,arg1=y"."""
    items = [item.strip() for item in text.split(",")]
    if not any("=" in item for item in items):
        return items
    if not all("=" in item for item in items):
        raise argparse.ArgumentTypeError(f"{text!r} mixes new names with pairs OLD=NEW")
    pairs = (item.partition("=") for item in items)
    return {old.strip(): new.strip() for old, _, new in pairs}
