"""Runs mutants, each in a forked child that has everything imported but the tests."""

from __future__ import annotations

import gc
import os
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise
from typing import Any

import pytest

from tools.mutation.changing import change
from tools.mutation.economy import economize
from tools.mutation.forking import Child
from tools.mutation.mutant import Mutant, Span
from tools.mutation.project import Project
from tools.mutation.selection import Chosen

CHUNKS = (0, 10, 50, 1 << 30)
"""Tests are collected in portions: most mutants die in the first."""

PATIENCE = 60.0
"""Seconds that a test may take more than `SLOWER` times what it takes without a change."""

SLOWER = 20


@dataclass(frozen=True)
class Verdict:
    """The verdict on a mutant.

    Attributes:
        kind: "killed", "survived", "within budget" (it survived, and not all of its tests ran),
            "not covered" (no test runs the line) or "invalid" (it is no program).
        test: The test that killed it.
        how: "failed", "timeout" or "crash", of one that was killed.
        ran: How many tests ran.
    """

    kind: str
    test: str = ""
    how: str = ""
    ran: int = 0
    seconds: float = 0.0


def run_mutant(
    project: Project, mutant: Mutant, chosen: Chosen, seconds: dict[str, float], budget: float
) -> Verdict:
    """Runs tests on a mutant until one fails or took `budget` seconds of the processor."""
    tests = chosen.tests
    if not tests:
        return Verdict("not covered")
    source = mutant.source(project.text(mutant.file))
    path = str(project.root / mutant.file)
    try:
        compile(source, path, "exec", dont_inherit=True)
    except SyntaxError:
        return Verdict("invalid")

    def work(send: Callable[[Any], None]) -> None:
        os.chdir(project.root)
        gc.disable()
        change(project, path, source, chosen.at_import)
        if project.is_own:
            economize(project.cache)
        for start, stop in pairwise(CHUNKS):
            watcher = _Watcher(tests[start:stop], send, budget)
            if watcher.tests and not watcher.run():
                return
        send({"end": True})

    child = Child(work, project.cache / f"log-{os.getpid()}")
    try:
        return _follow(child, seconds)
    finally:
        child.end()


def passes(project: Project, mutant: Mutant, test: str) -> bool:
    """Whether a test passes alone on the file as it is."""
    same = replace(mutant, span=Span(1, 0, 1, 0), replacement="")
    return run_mutant(project, same, Chosen([test], False), {test: 30.0}, 600.0).kind == "survived"


def _follow(child: Child, seconds: dict[str, float]) -> Verdict:
    """Reads a child's messages until its verdict is known."""
    begin = time.monotonic()
    current, ran = "", 0

    def verdict(kind: str, how: str = "") -> Verdict:
        test = current if kind == "killed" else ""
        return Verdict(kind, test, how, ran, round(time.monotonic() - begin, 2))

    while True:
        try:
            message = child.message(PATIENCE + SLOWER * seconds.get(current, 0.0))
        except TimeoutError:
            return verdict("killed", "timeout")
        except EOFError:
            return verdict("killed", "crash")
        if "start" in message:
            current, ran = message["start"], ran + 1
        elif "failed" in message:
            current = message["failed"]
            return verdict("killed", "failed")
        elif "budget" in message:
            return verdict("within budget")
        else:
            return verdict("survived")


class _Watcher:
    """A pytest plugin that runs some tests in a given order and tells the parent."""

    def __init__(self, tests: Sequence[str], send: Callable[[Any], None], budget: float) -> None:
        self.tests = list(tests)
        self._send = send
        self._budget = budget
        self._goes_on = True

    def run(self) -> bool:
        """Runs the tests; returns whether all passed in time."""
        files = dict.fromkeys(test.partition("::")[0] for test in self.tests)
        without = ("cacheprovider", "xdist", "unraisableexception")
        options = [option for name in without for option in ("-p", f"no:{name}")]
        status = pytest.main(["-q", "-x", "--tb=short", *options, *files], plugins=[self])
        if self._goes_on and status not in (pytest.ExitCode.OK, pytest.ExitCode.NO_TESTS_COLLECTED):
            self._fails(f"collection of {', '.join(files)}")
        return self._goes_on

    def _fails(self, test: str) -> None:
        if self._goes_on:
            self._goes_on = False
            self._send({"failed": test})

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keeps the chosen tests, in the chosen order."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self.tests if test in found]

    def pytest_runtest_logstart(self, nodeid: str) -> None:
        """Tells that a test begins."""
        self._send({"start": nodeid})

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Stops before a test if the time is over."""
        if self._goes_on and time.process_time() > self._budget:
            self._goes_on = False
            self._send({"budget": True})
        if not self._goes_on:
            item.session.shouldstop = "over"
        return (yield)  # type: ignore[misc]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Tells that a test fails."""
        if report.failed:
            self._fails(report.nodeid)
