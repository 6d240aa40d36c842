"""JAX's own harnesses: every case passes but for those in known_failures.txt, which all fail.

    HLO2ONNX_CONFORMANCE_EVERY=10   each 10th case of each group only
    HLO2ONNX_CONFORMANCE_JOBS=4     worker processes, 2 by default

A sample checks the lines of known_failures.txt for its own cases only.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from pathlib import Path

import pytest

from tools.conformance.known import judge, read_known, side_of, vanished
from tools.conformance.outcome import Outcome
from tools.conformance.pool import Pool, list_cases
from tools.conformance.sets import FAMILIES, chosen

KNOWN = Path(__file__).parent / "known_failures.txt"
GROUPS = [
    pytest.param(group, id=f"{family}-{group}")
    for family, groups in FAMILIES.items()
    for group in groups.split()
]


class Suite:
    """The cases of the chosen set and the workers that run them."""

    def __init__(self, jobs: int) -> None:
        every = int(os.environ.get("HLO2ONNX_CONFORMANCE_EVERY", "1"))
        self.cases, self.version = list_cases()
        self.known = read_known(KNOWN, side_of(self.version))
        self.pool = Pool(jobs)
        self._selected: dict[str, list[str]] = {}
        for case in chosen(self.cases, every=every):
            self._selected.setdefault(case.group, []).append(case.name)
        self._futures: dict[str, list[Future[Outcome]]] = {}

    def start(self, groups: Sequence[str]) -> None:
        """Queues groups, so that no worker waits for the next test."""
        for group in groups:
            if group not in self._futures:
                self._futures[group] = self.pool.submit(self._selected.get(group, []))

    def outcomes(self, group: str) -> list[Outcome]:
        self.start([group])
        return [future.result() for future in self._futures[group]]


@pytest.fixture(scope="session")
def suite(request: pytest.FixtureRequest) -> Iterator[Suite]:
    parallel = "PYTEST_XDIST_WORKER" in os.environ
    suite = Suite(1 if parallel else int(os.environ.get("HLO2ONNX_CONFORMANCE_JOBS", "2")))
    if not parallel:  # there this process may get any of the tests
        functions = [item for item in request.session.items if isinstance(item, pytest.Function)]
        mine = [item for item in functions if item.function is test_group]
        suite.start([item.callspec.params["group"] for item in mine])
    yield suite
    suite.pool.close()


@pytest.mark.wide
@pytest.mark.sampled
@pytest.mark.parametrize("group", GROUPS)
def test_group(suite: Suite, group: str) -> None:
    outcomes = suite.outcomes(group)
    if not outcomes:
        pytest.skip(f"JAX {suite.version} has no such case in the chosen set")
    problems = judge(suite.known, outcomes)
    assert not problems, "\n".join(["", *problems])


@pytest.mark.wide
def test_known_failures_exist(suite: Suite) -> None:
    missing = vanished(suite.known, [case.name for case in suite.cases])
    assert not missing, (
        f"JAX {suite.version} has no such cases: delete their lines, or name the versions"
    )
