"""Measures the examples in this process, and the zoo's programs in processes of their own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Sequence
from pathlib import Path

import jaxlib

from hlo2onnx.raising.rules import RULES
from tools import ROOT, result_of
from tools.rules.measure import Measured, Saving, measure
from tools.rules.record import Collection, matters
from tools.zoo.program import load_all

SECONDS = 900


FOLDERS = ("examples/mlir", "tests/producers")


def examples() -> dict[str, Path]:
    """The programs of `FOLDERS` that have a main function, by name."""
    found = (path for folder in FOLDERS for path in sorted((ROOT / folder).glob("*.mlir")))
    return {path.stem: path for path in found if "@main" in path.read_text(encoding="utf-8")}


def measure_examples(collection: Collection) -> None:
    """Measures every example, and the model without each of its rules."""
    collection.jax = jaxlib.__version__
    collection.fired.clear()
    collection.witnesses.clear()
    for name, path in examples().items():
        found = measure(path)
        collection.add(name, found)
        _progress(name, found)


def measure_zoo(
    collection: Collection, python: Path, examples: Collection, names: Sequence[str] = ()
) -> Iterator[None]:
    """Measures programs of the zoo, and the models without the rules that save nothing in the
    examples. Yields after each program, as a run takes long.

    Args:
        python: An interpreter that has the packages. Programs that do not run there are left out.
        examples: What is known of the examples.
        names: The programs; all by default.

    Raises:
        KeyError: There is no such program.
    """
    programs = load_all()
    wanted = [rule.name for rule in RULES if not matters(examples.witnesses.get(rule.name))]
    for name in names or sorted(programs):
        result = _run(python, programs[name].name, wanted)
        if result is not None:
            collection.jax, found = result
            collection.add(name, found)
            _progress(name, found)
            yield


def _run(python: Path, name: str, rules: Sequence[str]) -> tuple[str, Measured] | None:
    """One program in a process of its own; None, and a line on stderr, if it does not run."""
    found = result_of("tools.rules.zoo_worker", name, rules, seconds=SECONDS, python=python)
    data, problem, log = found
    if data is None:
        print(f"{name}: left out: {problem or log.strip().rpartition(chr(10))[2]}", file=sys.stderr)
        return None
    saved = {rule: Saving(**item) for rule, item in data["saved"].items()}
    return data["jax"], Measured(data["nodes"], data["fired"], saved)


def _progress(name: str, found: Measured) -> None:
    print(f"{name}: {found.nodes} nodes, {len(found.fired)} rules", file=sys.stderr, flush=True)
