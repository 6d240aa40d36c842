"""The known failures: a file with one line per case. It may only shrink.

name<TAB>reason              fails in every JAX version
name<TAB>reason<TAB>jax<0.11     fails there; passes, or does not exist, elsewhere
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from pathlib import Path

from tools.conformance.outcome import Outcome

SIDES = ("jax<0.11", "jax>=0.11")
"""The JAX versions that differ, as a line's third column says."""


def side_of(jax_version: str) -> str:
    """The side a JAX version ("0.10.2") is on."""
    major, minor = jax_version.split(".")[:2]
    return SIDES[(int(major), int(minor)) >= (0, 11)]


def read_known(path: Path, side: str) -> dict[str, str]:
    """The reasons by case name on one side.

    Raises:
        ValueError: A line has no name and reason, or an unknown third column.
    """
    reasons = {}
    for line in path.read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            name, reason, *sides = line.split("\t")
            if not set(sides) <= set(SIDES):
                raise ValueError(f"{path}: {sides} are none of {', '.join(SIDES)}")
            if side in (sides or SIDES):
                reasons[name] = reason
    return reasons


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
