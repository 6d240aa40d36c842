"""The record docs/rules.json: where rules fire, and the witness of each rule.

Examples are measured in this process, and the zoo's programs in processes of their own.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import jaxlib

from hlo2onnx.raising.rules import RULES
from tools import ROOT, result_of
from tools.rules.measure import Measured, Saving, measure
from tools.zoo.program import load_all

SECONDS = 900
RECORD = ROOT / "docs" / "rules.json"

Fired = dict[str, dict[str, int]]
"""How often each rule fires, by program."""


LEAST_PERCENT = 10
"""Of the time: smaller differences may be noise."""


@dataclass(frozen=True)
class Witness(Saving):
    """What a rule saves in the program in which it saves most.

    Attributes:
        program: Its name.
    """

    program: str = ""


@dataclass
class Collection:
    """What rules do to the examples, or to the zoo.

    Attributes:
        jax: The version of jaxlib that it was measured with.
        fired: How often each rule fires, by program.
        witnesses: The witness of each rule that was asked for.
    """

    jax: str = ""
    fired: Fired = field(default_factory=dict)
    witnesses: dict[str, Witness] = field(default_factory=dict)

    def add(self, program: str, found: Measured) -> None:
        """Puts in the measurements of a program, in place of older ones."""
        self.fired[program] = found.fired
        for rule in [rule for rule, item in self.witnesses.items() if item.program == program]:
            del self.witnesses[rule]
        for rule, saved in found.saved.items():
            best = self.witnesses.get(rule)
            if best is None or _worth(saved) > _worth(best):
                self.witnesses[rule] = Witness(**asdict(saved), program=program)


def _worth(saved: Saving) -> tuple[int, ...]:
    """Most nodes win; where none are saved, most node runs, and so on."""
    percent = saved.percent if saved.percent >= LEAST_PERCENT else 0
    counts = (saved.nodes, saved.runs, saved.kernels, percent, saved.exact)
    return tuple(max(count, 0) for count in counts)


def matters(witness: Witness | None) -> bool:
    """Whether the rule saves something there."""
    return witness is not None and (
        max(witness.nodes, witness.runs, witness.kernels, witness.exact) > 0
        or witness.percent >= LEAST_PERCENT
    )


def load() -> dict[str, Collection]:
    """The record: "examples" and "zoo"."""
    known = json.loads(RECORD.read_text(encoding="utf-8")) if RECORD.exists() else {}
    record = {"examples": Collection(), "zoo": Collection()}
    for name, item in known.items():
        witnesses = {rule: Witness(**found) for rule, found in item["witnesses"].items()}
        record[name] = Collection(item["jax"], item["fired"], witnesses)
    return record


def save(record: Mapping[str, Collection]) -> None:
    """Writes the record, a program or a witness a line."""
    parts = []
    for name, item in record.items():
        found = {rule: _counts(asdict(witness)) for rule, witness in item.witnesses.items()}
        fired, witnesses = (
            ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in sorted(table.items()))
            for table in (item.fired, found)
        )
        parts.append(
            f'"{name}": {{\n "jax": {json.dumps(item.jax)},\n "fired": {{\n{fired}\n }},\n'
            f' "witnesses": {{\n{witnesses}\n }}\n}}'
        )
    RECORD.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")


def _counts(witness: dict[str, Any]) -> dict[str, Any]:
    """A witness without counts of 0, the program first."""
    program = witness.pop("program")
    return {"program": program} | {key: count for key, count in witness.items() if count}


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
    found = result_of("tools.rules.measure", name, rules, seconds=SECONDS, python=python)
    data, problem, log = found
    if data is None:
        print(f"{name}: left out: {problem or log.strip().rpartition(chr(10))[2]}", file=sys.stderr)
        return None
    saved = {rule: Saving(**item) for rule, item in data["saved"].items()}
    return data["jax"], Measured(data["nodes"], data["fired"], saved)


def _progress(name: str, found: Measured) -> None:
    print(f"{name}: {found.nodes} nodes, {len(found.fired)} rules", file=sys.stderr, flush=True)
