"""A pytest plugin that records which tests run which lines, by `sys.monitoring` (Python 3.12).

A line costs time once for each test that runs it, so that the tests take about as long as without.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import sys
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

import pytest

PACKAGES, FOLDER = "HLO2ONNX_RECORD_PACKAGES", "HLO2ONNX_RECORD_FOLDER"
"""Variables of the environment: what is recorded, and the folder for the files."""

_TOOL = 4  # no other tool has this number


class Recorder:
    """Writes a file of the tests of a process, and of the lines of each file of the packages with
    the tests that run them: a number in hexadecimal whose bit N stands for test N."""

    def __init__(self, packages: list[str], path: Path) -> None:
        self._path = path
        self._tests: list[str] = []
        self._running: set[tuple[str, int]] = set()
        self._lines: dict[tuple[str, int], int] = defaultdict(int)
        # Modules are imported before the tests, or else the first test seems to run the lines that
        # only an import runs.
        for package in packages:
            import_all(package)
        sys.monitoring.use_tool_id(_TOOL, "mutation")
        events = sys.monitoring.events
        sys.monitoring.register_callback(_TOOL, events.LINE, self._line)
        # The line of a lambda begins with the call, without an event of its own.
        sys.monitoring.register_callback(_TOOL, events.PY_START, self._start)
        folders = tuple(f"{Path(sys.modules[name].__path__[0])}{os.sep}" for name in packages)
        found = [each.__code__ for each in gc.get_objects() if isinstance(each, FunctionType)]
        for code in _with_nested(code for code in found if code.co_filename.startswith(folders)):
            sys.monitoring.set_local_events(_TOOL, code, events.LINE | events.PY_START)

    def _line(self, code: CodeType, line: int) -> object:
        self._running.add((code.co_filename, line))
        return sys.monitoring.DISABLE

    def _start(self, code: CodeType, offset: int) -> object:
        return self._line(code, code.co_firstlineno)

    @pytest.hookimpl(wrapper=True)
    def pytest_runtest_protocol(self, item: pytest.Item) -> Iterator[None]:
        """Notes what a test runs."""
        self._running.clear()
        sys.monitoring.restart_events()
        result = yield
        bit = 1 << len(self._tests)
        self._tests.append(item.nodeid)
        for place in self._running:
            self._lines[place] |= bit
        return result

    def pytest_sessionfinish(self) -> None:
        """Writes the file."""
        lines: dict[str, dict[int, str]] = defaultdict(dict)
        for (file, line), tests in self._lines.items():
            lines[file][line] = f"{tests:x}"
        self._path.write_text(json.dumps({"tests": self._tests, "lines": lines}), encoding="utf-8")


def _with_nested(codes: Iterator[CodeType]) -> Iterator[CodeType]:
    for code in codes:
        yield code
        yield from _with_nested(each for each in code.co_consts if isinstance(each, CodeType))


def import_all(package: str) -> None:
    """Imports a package and every module in it."""
    for info in pkgutil.walk_packages(importlib.import_module(package).__path__, f"{package}."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)


def pytest_configure(config: pytest.Config) -> None:
    """Records in each process that runs tests: one of pytest-xdist, or the only one."""
    if getattr(config.option, "numprocesses", None) and not hasattr(config, "workerinput"):
        return
    path = Path(os.environ[FOLDER]) / f"ran-{os.getpid()}.json"
    config.pluginmanager.register(Recorder(os.environ[PACKAGES].split(","), path))


class Recorded:
    """What the files of a folder tell."""

    def __init__(self, folder: Path) -> None:
        files = sorted(folder.glob("ran-*.json"))
        if not files:
            raise SystemExit(f"{folder} has no recorded tests: run --record first")
        self._parts = [json.loads(file.read_text(encoding="utf-8")) for file in files]

    def tests(self, file: Path, line: int) -> set[str]:
        """The tests that run a line."""
        found: set[str] = set()
        for part in self._parts:
            bits = int(part["lines"].get(str(file), {}).get(str(line), "0"), 16)
            found.update(part["tests"][bit] for bit in range(bits.bit_length()) if bits >> bit & 1)
        return found
