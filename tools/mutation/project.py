"""The repository that is mutated, the known equivalents, and the verdicts there are."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from tools.mutation.mutant import Mutant

SURVIVED = frozenset({"survived", "within limit", "not covered"})


@dataclass(frozen=True)
class Project:
    """A repository to mutate.

    Attributes:
        root: Where it lies; paths of files are relative to it.
        cache: The folder of the recorded coverage and of the verdicts.
        packages: The packages whose files are mutated.
        equivalent: The list of the mutants known to be equivalent.
    """

    root: Path
    cache: Path
    packages: Sequence[str] = ("dialect_handlers", "hlo2onnx")
    equivalent: str = "tools/mutation/equivalent.json"

    def files(self) -> list[str]:
        """Every file that is mutated."""
        found = [path for package in self.packages for path in (self.root / package).rglob("*.py")]
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def text(self, file: str) -> str:
        """The content of a file."""
        return (self.root / file).read_text(encoding="utf-8")


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant.

    Attributes:
        kind: "killed", "survived", "within limit" (it survived, and not all of its tests ran) or
            "not covered" (no test runs the line).
        test: The test that killed it; "" of one that was killed by a timeout or a crash.
        ran: How many tests were chosen.
    """

    kind: str
    test: str = ""
    ran: int = 0
    seconds: float = 0.0


class Verdicts:
    """The latest verdict on each mutant; kept in a file, to which each new one is appended."""

    def __init__(self, path: Path) -> None:
        self._path = path
        lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
        entries = map(json.loads, lines)
        self._by_key = {entry["key"]: Verdict(**entry["verdict"]) for entry in entries}

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
