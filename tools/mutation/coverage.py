"""Which tests run a line: recorded once for each test file, kept in the cache."""

from __future__ import annotations

import difflib
import hashlib
import json
import time
from collections.abc import Iterable
from functools import cached_property
from pathlib import Path
from typing import Any

from tools.mutation.forking import Child
from tools.mutation.project import Project
from tools.mutation.recorder import IMPORT, record

LONGEST_FILE = 1800
"""Seconds after which the tests of a file are given up."""


class Coverage:
    """The recorded coverage of a project.

    Attributes:
        seconds: How long each test takes.
    """

    def __init__(self, project: Project) -> None:
        self._project = project
        self._folder = project.cache / "coverage"
        self.seconds: dict[str, float] = {}
        self._records: list[dict[str, Any]] = []
        for file in project.test_files():
            path = self._path(file)
            if path.exists():
                self._add(json.loads(path.read_text()))

    def _add(self, recorded: dict[str, Any]) -> None:
        failed = set(recorded["failed"])
        self.seconds |= {t: s for t, s in recorded["seconds"].items() if t not in failed}
        self._records.append(recorded)

    def tests_of(self, file: str, lines: Iterable[int]) -> set[str]:
        """The tests that run one of these lines; `IMPORT` among them if an import does."""
        found: set[str] = set()
        for recorded in self._records:
            of_file = recorded["lines"].get(file)
            if not of_file:
                continue
            moved = self._moved(file, recorded["digests"][file])
            bits = 0
            for line in lines:
                old = line if moved is None else moved.get(line)
                bits |= int(of_file.get(str(old), "0"), 16)
            found.update(test for at, test in enumerate(recorded["tests"]) if bits >> at & 1)
        return {test for test in found if test == IMPORT or test in self.seconds}

    def _moved(self, file: str, digest: str) -> dict[int, int] | None:
        """Where the lines of a file were when the coverage was recorded; None if there still."""
        key = f"{file} {digest}"
        if key not in self._moves:
            new = self._project.text(file)
            if digest_of(new) == digest:
                self._moves[key] = None
            else:
                old = (self._folder / "sources" / digest).read_text()
                self._moves[key] = _moved_lines(old.splitlines(), new.splitlines())
        return self._moves[key]

    @cached_property
    def _moves(self) -> dict[str, dict[int, int] | None]:
        return {}

    def _path(self, test_file: str) -> Path:
        return self._folder / (test_file.replace("/", "-") + ".json")

    def outdated(self) -> list[str]:
        """The test files that have no record or changed since."""
        return [file for file in self._project.test_files() if not self._is_current(file)]

    def _is_current(self, file: str) -> bool:
        path = self._path(file)
        if not path.exists():
            return False
        recorded = json.loads(path.read_text())
        return bool(recorded["digest"] == digest_of(self._project.text(file)))


def record_coverage(project: Project, test_files: Iterable[str]) -> None:
    """Runs the tests of these files, each in a child of its own, and keeps what they run."""
    folder = project.cache / "coverage"
    (folder / "sources").mkdir(parents=True, exist_ok=True)
    digests = {}
    for file in project.files():
        digests[file] = digest_of(project.text(file))
        (folder / "sources" / digests[file]).write_text(project.text(file))
    for test_file in test_files:
        digest = digest_of(project.text(test_file))
        start = time.monotonic()
        child = Child(lambda send, file=test_file: send(record(project, file)), folder / "log")
        try:
            recorded = child.message(LONGEST_FILE)
        except (TimeoutError, EOFError):
            print(f"{test_file}: no record, see {folder / 'log'}", flush=True)
            continue
        finally:
            child.end()
        used = {file: digests[file] for file in recorded["lines"] if file in digests}
        recorded["lines"] = {file: recorded["lines"][file] for file in used}
        recorded |= {"digest": digest, "digests": used}
        (folder / (test_file.replace("/", "-") + ".json")).write_text(json.dumps(recorded))
        count, failed = len(recorded["seconds"]), len(recorded["failed"])
        seconds = time.monotonic() - start
        print(f"{test_file}: {count} tests, {failed} not passed, {seconds:.0f} s", flush=True)


def digest_of(text: str) -> str:
    """A short hash of a text."""
    return hashlib.sha256(text.encode()).hexdigest()[:16]


def _moved_lines(old: list[str], new: list[str]) -> dict[int, int]:
    """For each new line the old one with the same content in the same place."""
    moved = {}
    for block in difflib.SequenceMatcher(None, old, new, autojunk=False).get_matching_blocks():
        for step in range(block.size):
            moved[block.b + step + 1] = block.a + step + 1
    return moved
