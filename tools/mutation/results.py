"""Verdicts on mutants, one a line in a JSON-lines file, and the list of equivalent mutants."""

from __future__ import annotations

import json
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tools.mutation.mutant import Mutant
from tools.mutation.project import Project
from tools.mutation.server import Verdict

SURVIVED = frozenset({"survived", "within budget", "not covered"})


class Results:
    """The latest verdict on each mutant; kept in a file, to which each new one is appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._by_key: dict[str, Verdict] = {}
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                entry = json.loads(line)
                self._by_key[entry["key"]] = Verdict(**entry["verdict"])

    def get(self, mutant: Mutant) -> Verdict | None:
        """The verdict on a mutant, None if it never ran."""
        return self._by_key.get(mutant.key)

    def add(self, mutant: Mutant, verdict: Verdict) -> None:
        """Keeps a verdict."""
        self._by_key[mutant.key] = verdict
        place = f"{mutant.file}:{mutant.line}"
        entry = {"key": mutant.key, "place": place, "verdict": asdict(verdict)}
        with self._path.open("a", encoding="utf-8") as file:
            file.write(json.dumps(entry) + "\n")


class Equivalents:
    """The mutants that behave as the original does, each with the reason.

    A list of groups, each with a `reason` and its `mutants`. Each mutant names its `file` and
    `function` and gives the changed lines, with single blanks, as `original` and `mutant`, so that
    it is found wherever the lines move.
    """

    def __init__(self, project: Project) -> None:
        path = project.root / project.equivalent
        groups = json.loads(path.read_text(encoding="utf-8")) if path.exists() else []
        self._reasons = {
            _identity(entry): group["reason"] for group in groups for entry in group["mutants"]
        }

    @property
    def files(self) -> list[str]:
        """The files that have known equivalents."""
        return sorted({file for file, *_ in self._reasons})

    def reason(self, mutant: Mutant) -> str | None:
        """Why a mutant is equivalent, None if it is not known to be."""
        return self._reasons.get(_identity(asdict(mutant)))

    def unknown(self, mutants: list[Mutant]) -> list[str]:
        """The entries that name no mutant any more."""
        made = {_identity(asdict(mutant)) for mutant in mutants}
        return [" | ".join(identity) for identity in self._reasons if identity not in made]


def _identity(entry: dict[str, Any]) -> tuple[str, ...]:
    return tuple(str(entry[name]) for name in ("file", "function", "original", "mutant"))
