"""The record docs/rules.json: where rules fire, and the witness of each rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field

from tools import ROOT
from tools.rules.measure import Measured, Saving

RECORD = ROOT / "docs" / "rules.json"

Fired = dict[str, dict[str, int]]
"""How often each rule fires, by program."""


@dataclass(frozen=True)
class Witness:
    """The program in which a rule saves most.

    Attributes:
        program: Its name.
        nodes: Nodes that the rule saves there.
        runs: Node runs that it saves there, in one call.
    """

    program: str
    nodes: int
    runs: int


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
            if best is None or _worth(saved) > _worth(Saving(best.nodes, best.runs)):
                self.witnesses[rule] = Witness(program, saved.nodes, saved.runs)


def _worth(saved: Saving) -> tuple[int, int]:
    """Most nodes win; where none are saved, most node runs."""
    return max(saved.nodes, 0), saved.runs


def matters(witness: Witness | None) -> bool:
    """Whether the rule saves something there."""
    return witness is not None and (witness.nodes > 0 or witness.runs > 0)


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
        plain = {
            key: dict(sorted(value.items())) for key, value in asdict(item).items() if key != "jax"
        }
        fired = ",\n".join(f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in plain["fired"].items())
        found = ",\n".join(
            f"  {json.dumps(k)}: {json.dumps(v)}" for k, v in plain["witnesses"].items()
        )
        parts.append(
            f'"{name}": {{\n "jax": {json.dumps(item.jax)},\n "fired": {{\n{fired}\n }},\n'
            f' "witnesses": {{\n{found}\n }}\n}}'
        )
    RECORD.write_text("{" + ",\n".join(parts) + "}\n", encoding="utf-8")
