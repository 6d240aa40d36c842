"""The record docs/rules.json: where rules fire, and the witness of each rule."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from tools import ROOT
from tools.rules.measure import Measured, Saving

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
