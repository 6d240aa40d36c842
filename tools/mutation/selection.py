"""Which tests are run on a mutant, and in which order."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable
from dataclasses import dataclass

from tools.mutation.coverage import Coverage
from tools.mutation.mutant import Mutant
from tools.mutation.project import Project
from tools.mutation.recorder import IMPORT

_ASSIGNED = re.compile(r"(\w+)\s*(?::[^=]*)?(?:\||)=[^=]")


@dataclass(frozen=True)
class Chosen:
    """The tests of a mutant, the most promising first, and whether an import runs its lines."""

    tests: list[str]
    at_import: bool


class Selection:
    """Chooses tests by what they ran when the coverage was recorded."""

    def __init__(self, project: Project, coverage: Coverage) -> None:
        self._project = project
        self._coverage = coverage
        self._killers: dict[str, dict[str, None]] = defaultdict(dict)
        self._counts: dict[str, int] = defaultdict(int)
        self._trusted: set[str] = set()
        for test in coverage.seconds:
            self._counts[_file_of(test)] += 1

    def is_trusted(self, test: str) -> bool:
        """Whether a test is known to pass alone on the code as it is."""
        return test in self._trusted

    def trust(self, test: str) -> None:
        """Notes that a test passes alone on the code as it is."""
        self._trusted.add(test)

    def killed(self, mutant: Mutant, test: str) -> None:
        """Notes that a test notices changes of this function."""
        killers = self._killers[f"{mutant.file} {mutant.function}"]
        killers.pop(test, None)
        killers[test] = None

    def choose(self, mutant: Mutant) -> Chosen:
        """The tests that run the changed lines, the most promising first.

        Those come first that noticed a change of the same function; then one of each test function,
        those of files that run the line in most of their tests before others, and the fastest
        first; then a second one of each, and so on.
        """
        found, at_import = self._covering(mutant)
        killers = self._killers[f"{mutant.file} {mutant.function}"]
        first = [test for test in reversed(killers) if test in found]
        return Chosen([*first, *self._by_promise(found.difference(first))], at_import)

    def _covering(self, mutant: Mutant) -> tuple[set[str], bool]:
        lines = range(mutant.line, mutant.last_line + 1)
        found = self._coverage.tests_of(mutant.file, lines)
        if not found:
            found = self._coverage.tests_of(mutant.file, [mutant.start_line])
        at_import = IMPORT in found
        if found == {IMPORT}:
            found = self._using(mutant)
        return found - {IMPORT}, at_import

    def _using(self, mutant: Mutant) -> set[str]:
        """The tests of what an import defines: they run its scope, or lines that name it.

        Of a class without code of its own they run anything of its file.
        """
        text = self._project.text(mutant.file).split("\n")
        if mutant.scope is not None:
            found = self._coverage.tests_of(
                mutant.file, range(mutant.scope[0], mutant.scope[1] + 1)
            )
            everything = range(1, len(text) + 1)
            return found if found - {IMPORT} else self._coverage.tests_of(mutant.file, everything)
        pending = _assigned_around(text, mutant.start_line)
        known = set(pending)
        found = set()
        while pending and not found - {IMPORT}:
            name = re.compile(rf"\b{pending.pop(0)}\b")
            for file in self._project.files():
                lines = self._project.text(file).split("\n")
                named = [at for at, line in enumerate(lines, 1) if name.search(line)]
                found |= self._coverage.tests_of(file, named)
                # An import runs these lines, too: they define other names.
                further = {other for at in named for other in _assigned_around(lines, at)} - known
                known |= further
                pending += sorted(further)
        return found

    def _by_promise(self, tests: Iterable[str]) -> list[str]:
        seconds = self._coverage.seconds
        functions: dict[str, list[str]] = defaultdict(list)
        files: dict[str, int] = defaultdict(int)
        for test in sorted(tests, key=lambda test: (seconds[test], test)):
            functions[test.partition("[")[0]].append(test)
            files[_file_of(test)] += 1
        ranked = []
        for function, members in functions.items():
            file = _file_of(function)
            share = round(files[file] / self._counts[file], 1)
            ranked += [(turn, -share, seconds[test], test) for turn, test in enumerate(members)]
        return [test for *_, test in sorted(ranked)]


def _assigned_around(lines: list[str], at: int) -> list[str]:
    """The name that the module's statement around a line assigns to, if it is one."""
    while at > 1 and re.match(r"[\s)\]}]", lines[at - 1] or " "):
        at -= 1
    named = _ASSIGNED.match(lines[at - 1])
    return [named[1]] if named is not None else []


def _file_of(test: str) -> str:
    return test.partition("::")[0]
