"""Runs the tests of a mutant, which are chosen by what they ran before, in a forked process."""

from __future__ import annotations

import contextlib
import importlib
import os
import resource
import signal
import subprocess
import sys
import time
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from importlib.machinery import SourceFileLoader
from pathlib import Path
from types import CodeType

import pytest

from tools import environment
from tools.mutation.mutant import Mutant
from tools.mutation.project import Project, Verdict
from tools.mutation.recording import FOLDER, PACKAGES, Recorded

PRELOADED = (
    *("jax", "jax.export", "jaxlib.mlir.dialects.stablehlo", "onnx_ir.passes", "onnxruntime"),
    *("numpy.testing", "onnx.reference", "scipy.special", "flax.nnx", "hypothesis", "sympy"),
)
"""Libraries that are imported once, before the forks; this starts no runtime."""

MOST_TESTS = 200
PATIENCE = 60.0
"""Seconds after the limit until a child is ended, whose last test does not return."""
MEMORY = 8 << 30
"""Bytes of data that a child may allocate: a change may make it ask for too many."""
KILLED, OUT_OF_TIME = 1, 3


def record(project: Project, paths: Sequence[str]) -> None:
    """Records which tests run which lines, in files of the cache."""
    for old in project.cache.glob("ran-*.json"):
        old.unlink()
    variables = {PACKAGES: ",".join(project.packages), FOLDER: str(project.cache)}
    command = [sys.executable, "-m", "pytest", "-q", "-p", "tools.mutation.recording"]
    command += ["-p", "no:cacheprovider", "-n", str(os.cpu_count()), *(paths or ["tests"])]
    subprocess.run(command, cwd=project.root, env=environment(project.root, **variables))


class Selection:
    """Chooses tests by what they ran when the coverage was recorded."""

    def __init__(self, project: Project) -> None:
        self._project = project
        self._recorded = Recorded(project.cache)
        self._killers: dict[str, dict[str, None]] = defaultdict(dict)
        self.left_out: set[str] = set()
        self.trusted: set[str] = set()

    def killed(self, mutant: Mutant, test: str) -> None:
        """Notes that a test, which passes without a change, notices changes of this function."""
        self.trusted.add(test)
        killers = self._killers[f"{mutant.file} {mutant.function}"]
        killers.pop(test, None)
        killers[test] = None

    def choose(self, mutant: Mutant) -> list[str]:
        """The tests that run the changed lines: those first that noticed a change of the same
        function, then one of each test function, then a second one of each, and so on.

        Of lines that only an import runs, the tests of the function or class around them are taken,
        or of the whole file.
        """
        places: list[Iterable[int]] = [
            range(mutant.line, mutant.last_line + 1),
            [mutant.start_line],
            range(mutant.scope[0], mutant.scope[1] + 1) if mutant.scope else [],
            range(1, self._project.text(mutant.file).count("\n") + 2),
        ]
        found = next(filter(None, (self._tests_of(mutant.file, lines) for lines in places)), set())
        killers = self._killers[f"{mutant.file} {mutant.function}"]
        turns: dict[str, int] = defaultdict(int)
        ranked = []
        for test in sorted(found.difference(killers)):
            function = test.partition("[")[0]
            ranked.append((turns[function], test))
            turns[function] += 1
        return [
            *(test for test in reversed(killers) if test in found),
            *(t for _, t in sorted(ranked)),
        ]

    def _tests_of(self, file: str, lines: Iterable[int]) -> set[str]:
        path = self._project.root / file
        found = set().union(*(self._recorded.tests(path, line) for line in lines))
        return found - self.left_out


def judge(project: Project, mutant: Mutant, selection: Selection, limit: float) -> Verdict:
    """The verdict on a mutant. Tests that fail alone without the change do not count."""
    source = mutant.source(project.text(mutant.file))
    while tests := selection.choose(mutant)[:MOST_TESTS]:
        verdict = _run(project, mutant.file, source, tests, limit)
        test = verdict.test
        if not test or test in selection.trusted:
            break
        same = _run(project, mutant.file, project.text(mutant.file), [test], 10 * limit)
        if same.kind == "survived":
            break
        print(f"{test} fails alone without any change and is left out", flush=True)
        selection.left_out.add(test)
    else:
        return Verdict("not covered")
    if verdict.test:
        selection.killed(mutant, verdict.test)
    return verdict


def preload() -> None:
    """Imports the libraries of `PRELOADED` that are installed."""
    for module in PRELOADED:
        with contextlib.suppress(ImportError):
            importlib.import_module(module)


def _run(project: Project, file: str, source: str, tests: Sequence[str], limit: float) -> Verdict:
    """Runs tests in a forked process that has another source for a file."""
    begin, killer = time.monotonic(), project.cache / f"killer-{os.getpid()}"
    killer.write_text("")
    sys.stdout.flush()
    child = os.fork()
    if child == 0:
        status = KILLED
        try:
            status = _in_child(project, file, source, _Watcher(tests, killer, limit))
        finally:
            os._exit(status)
    status = None
    while status is None and time.monotonic() - begin < limit + PATIENCE:
        time.sleep(0.02)
        ended, code = os.waitpid(child, os.WNOHANG)
        status = os.waitstatus_to_exitcode(code) if ended else None
    if status is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(child, signal.SIGKILL)
        os.waitpid(child, 0)
    kinds = {0: "survived", OUT_OF_TIME: "within limit"}
    seconds = round(time.monotonic() - begin, 2)
    kind = "killed" if status is None else kinds.get(status, "killed")
    return Verdict(kind, killer.read_text() if kind == "killed" else "", len(tests), seconds)


def _in_child(project: Project, file: str, source: str, watcher: _Watcher) -> int:
    os.setpgid(0, 0)
    os.chdir(project.root)
    sys.path.insert(0, str(project.root))
    log = os.open(project.cache / "log", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
    os.dup2(log, 1)
    os.dup2(log, 2)
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    sys.dont_write_bytecode = True
    path, get_code = str(project.root / file), SourceFileLoader.get_code

    def changed(loader: SourceFileLoader, name: str) -> CodeType | None:
        if loader.path == path:
            return compile(source, path, "exec", dont_inherit=True)
        return get_code(loader, name)

    SourceFileLoader.get_code = changed  # type: ignore[method-assign]
    for name in [name for name in sys.modules if name.partition(".")[0] in project.packages]:
        del sys.modules[name]
    files = dict.fromkeys(test.partition("::")[0] for test in watcher.tests)
    options = ["-q", "-x", "--tb=short", "-p", "no:cacheprovider", "-p", "no:xdist", "-m", ""]
    status = pytest.main([*options, *files], plugins=[watcher])
    if watcher.out_of_time:
        return OUT_OF_TIME
    return 0 if status == pytest.ExitCode.OK else KILLED


class _Watcher:
    """A pytest plugin that runs some tests in a given order, while there is time."""

    def __init__(self, tests: Sequence[str], killer: Path, limit: float) -> None:
        self.tests = tests
        self.out_of_time = False
        self._killer = killer
        self._end = time.monotonic() + limit

    @pytest.hookimpl(trylast=True)
    def pytest_collection_modifyitems(self, items: list[pytest.Item]) -> None:
        """Keeps the chosen tests, in the chosen order."""
        found = {item.nodeid: item for item in items}
        items[:] = [found[test] for test in self.tests if test in found]

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Stops before a test if the time is over."""
        if time.monotonic() > self._end:
            self.out_of_time = True
            item.session.shouldstop = "out of time"
        return (yield)  # type: ignore[misc]

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        """Notes the test that fails."""
        if report.failed:
            self._killer.write_text(report.nodeid)
