"""What the help text and the completion of the command know of the package."""

from __future__ import annotations

import argparse
import json
from importlib import resources
from typing import Any

from hlo2onnx.options import Options

SHELLS = ("bash", "zsh", "tcsh")

_FILES = frozenset({"model", "output", "report", "profile_svg"})


def opset_range() -> str:
    """The opsets of the default target: "17 to 26"."""
    # The package of the targets would import numpy and onnx.
    path = resources.files("hlo2onnx").joinpath("targets", "tables", f"{Options.target}.json")
    table = json.loads(path.read_text("utf-8"))
    return f"{table['min_opset']} to {table['max_opset']}"


class PrintTargets(argparse.Action):
    """Prints the targets: the version that was measured, the opsets, what is special."""

    def __call__(
        self,
        parser: argparse.ArgumentParser,
        namespace: argparse.Namespace,
        values: Any,
        option_string: str | None = None,
    ) -> None:
        """Prints them and ends the process."""
        from hlo2onnx.targets import known_targets, load_target

        print(f"{'target':<13} {'measured':<10} {'opsets':<8} {'default':<8} what is special")
        for target in map(load_target, known_targets()):
            opsets = f"{target.min_opset}-{target.max_opset}"
            print(
                f"{target.name:<13} {target.runtime_version:<10} {opsets:<8}"
                f" {target.default_opset:<8} {target.about}"
            )
        parser.exit()


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
