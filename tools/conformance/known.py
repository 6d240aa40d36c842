"""The known failures: a file with one line per case. It may only shrink.

name<TAB>reason              fails in every JAX version
name<TAB>reason<TAB>jax<0.11     fails there; passes, or does not exist, elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import quote, unquote

from tools.conformance.outcome import Outcome, one_line

SIDES = ("jax<0.11", "jax>=0.11")
"""The JAX versions that differ, as a line's third column says."""

_PLAIN = "!\"#$&'()*+,/:;<=>?@[\\]^`{|} "
"""Characters that a name may hold as they are: all printable ASCII ones but the percent sign."""

_HEADER = """\
# Harness cases that fail, and why; may only shrink.
# Written by `python -m tools.conformance --update-known`.
# Columns, with tabs between: name, reason, and the JAX versions if not all.
"""


class KnownFailuresError(Exception):
    """A line of the file is wrong."""


def side_of(jax_version: str) -> str:
    """The side a JAX version ("0.10.2") is on."""
    major, minor = jax_version.split(".")[:2]
    return SIDES[(int(major), int(minor)) >= (0, 11)]


@dataclass
class KnownFailures:
    """Reasons by case name, for each side."""

    reasons: dict[str, dict[str, str]] = field(default_factory=lambda: {side: {} for side in SIDES})

    @classmethod
    def read(cls, path: Path) -> KnownFailures:
        """Reads a file; an absent one is empty.

        Raises:
            KnownFailuresError: A line has no name and reason, an unknown third column, or says
                again what another line said.
        """
        known = cls()
        if not path.exists():
            return known
        for number, line in enumerate(path.read_text(encoding="utf-8").split("\n"), 1):
            if line.strip() and not line.startswith("#"):
                known._add(line, f"{path}:{number}")
        return known

    def _add(self, line: str, where: str) -> None:
        name, *rest = line.split("\t")
        if len(rest) not in (1, 2) or not all((name, *rest)):
            raise KnownFailuresError(f"{where}: not 'name<TAB>reason[<TAB>versions]'")
        if rest[1:] and rest[1] not in SIDES:
            raise KnownFailuresError(f"{where}: {rest[1]!r} is none of {', '.join(SIDES)}")
        for side in rest[1:] or SIDES:
            if unquote(name) in self.reasons[side]:
                raise KnownFailuresError(f"{where}: {name} stands in the file twice")
            self.reasons[side][unquote(name)] = rest[0]

    def write(self, path: Path) -> None:
        """Writes the file, sorted by name."""
        path.write_text(_HEADER + "".join(f"{line}\n" for line in self.lines()), encoding="utf-8")

    def lines(self) -> list[str]:
        """The lines of the file."""
        old, new = (self.reasons[side] for side in SIDES)
        lines = []
        for name in sorted({*old, *new}):
            if name in old and name in new:
                # One line for both, whose reason is the newer version's.
                lines.append(f"{_quoted(name)}\t{new[name]}")
            else:
                side = SIDES[name in new]
                lines.append(f"{_quoted(name)}\t{self.reasons[side][name]}\t{side}")
        return lines

    def update(self, side: str, outcomes: Iterable[Outcome], existing: Iterable[str]) -> None:
        """Makes one side say what was found; cases that were not run stay as they are, those that
        do not exist go.
        """
        reasons, names = self.reasons[side], set(existing)
        for outcome in outcomes:
            if outcome.failed:
                reasons[outcome.name] = one_line(outcome.line)
            else:
                reasons.pop(outcome.name, None)
        self.reasons[side] = {name: why for name, why in reasons.items() if name in names}


def judge(known: Mapping[str, str], outcomes: Iterable[Outcome]) -> list[str]:
    """What is wrong with outcomes, given one side's reasons by name: new failures, and listed
    cases that do not fail any more.
    """
    problems = []
    for outcome in outcomes:
        if outcome.failed and outcome.name not in known:
            problems.append(f"new failure  {outcome.name}\n    {outcome.line}")
        if not outcome.failed and outcome.name in known:
            problems.append(
                f"{outcome.status}, though listed  {outcome.name}\n    delete its line in"
                " known_failures.txt, or name in a third column the versions where it fails"
            )
    return problems


def vanished(known: Mapping[str, str], existing: Iterable[str]) -> list[str]:
    """Listed cases that this JAX version does not have: their lines must go, or name the version
    that has them.
    """
    return sorted(set(known) - set(existing))


def _quoted(name: str) -> str:
    """A name without tabs and line breaks, which does not look like a comment."""
    text = quote(name, safe=_PLAIN)
    return "%23" + text[1:] if text.startswith("#") else text
