"""Records which lines of the packages under test each test runs (Python 3.12 or later)."""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType
from typing import Any

import pytest

from tools.mutation.economy import economize
from tools.mutation.importing import import_packages
from tools.mutation.project import Project

IMPORT = "import"
"""Stands in the place of a test for lines that run when a module is imported."""


class Recorder:
    """A pytest plugin: the lines that each test runs, and how long it takes.

    Attributes:
        tests: `IMPORT` and the tests, in the order in which they ran.
        lines: By file and line, the tests that run it, as bits: 1 << index in `tests`.
        seconds: How long each test takes.
        failed: The tests that fail without any change.
    """

    def __init__(self, root: Path) -> None:
        self._root = f"{root}/"
        self._bit = 1
        self.tests = [IMPORT]
        self.lines: dict[str, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        self.seconds: dict[str, float] = defaultdict(float)
        self.failed: set[str] = set()
        self._monitoring: Any = sys.monitoring  # type: ignore[attr-defined,unused-ignore]
        self._tool = self._monitoring.COVERAGE_ID
        self._monitoring.use_tool_id(self._tool, "mutation")
        events = self._monitoring.events
        self._monitoring.register_callback(self._tool, events.LINE, self._line_runs)
        self._monitoring.register_callback(self._tool, events.PY_START, self._code_runs)
        self._events = events.LINE | events.PY_START

    def watch(self, code: CodeType) -> None:
        """Records the lines of a code object and of all that it defines."""
        self._monitoring.set_local_events(self._tool, code, self._events)
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                self.watch(constant)

    def _line_runs(self, code: CodeType, line: int) -> object:
        self.lines[code.co_filename.removeprefix(self._root)][line] |= self._bit
        return self._monitoring.DISABLE

    def _code_runs(self, code: CodeType, _: int) -> object:
        """Python tells of no line where a lambda of one line runs."""
        return self._line_runs(code, code.co_firstlineno)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Notes the lines from a test's set-up to its tear-down as its own."""
        self._bit = 1 << len(self.tests)
        self.tests.append(item.nodeid)
        self._monitoring.restart_events()
        try:
            return (yield)  # type: ignore[misc]
        finally:
            self._bit = 1

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes how long a test takes and whether it fails."""
        self.seconds[report.nodeid] += report.duration
        if not report.passed:
            self.failed.add(report.nodeid)


def record(project: Project, test_file: str) -> dict[str, Any]:
    """Runs the tests of one file in this process, which has not imported the packages yet."""
    os.chdir(project.root)
    recorder = Recorder(project.root)
    import_packages(project.root, project.packages, recorder.watch)
    if project.is_own:
        economize(project.cache)
    arguments = ["-q", "-p", "no:cacheprovider", "-p", "no:xdist", test_file]
    pytest.main(arguments, plugins=[recorder])
    return {
        "seconds": {test: round(seconds, 3) for test, seconds in recorder.seconds.items()},
        "failed": sorted(recorder.failed),
        "tests": recorder.tests,
        "lines": {
            file: {line: f"{bits:x}" for line, bits in lines.items()}
            for file, lines in recorder.lines.items()
        },
    }
