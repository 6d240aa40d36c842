"""Runs functions in forked children of a process that has the large libraries imported."""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import resource
import select
import signal
import sys
import time
import warnings
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

CHILD_MEMORY = 8 << 30
"""Bytes of data that a child may allocate: a change may make it ask for too many."""


def preload(modules: Iterable[str]) -> None:
    """Imports the modules that are installed, with one thread for BLAS."""
    os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
    for module in modules:
        try:
            importlib.import_module(module)
        except ImportError:
            continue


class Child:
    """A forked process that runs a function, which sends messages through a pipe.

    Its standard streams go to a file.
    """

    def __init__(self, work: Callable[[Callable[[Any], None]], None], log: Path) -> None:
        reading, writing = os.pipe()
        sys.stdout.flush()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            self.pid = os.fork()
        if self.pid == 0:
            os.close(reading)
            _be_child(work, writing, log)
        os.close(writing)
        self._pipe = reading
        self._rest = b""

    def message(self, timeout: float) -> Any:
        """The next message.

        Raises:
            TimeoutError: None came in time.
            EOFError: The child ended.
        """
        deadline = time.monotonic() + timeout
        while b"\n" not in self._rest:
            left = deadline - time.monotonic()
            if left <= 0 or not select.select([self._pipe], [], [], left)[0]:
                raise TimeoutError
            data = os.read(self._pipe, 1 << 20)
            if not data:
                raise EOFError
            self._rest += data
        line, _, self._rest = self._rest.partition(b"\n")
        return json.loads(line)

    def end(self) -> int:
        """Ends the child and its own children; returns its exit status, negative for a signal."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, signal.SIGKILL)
        os.close(self._pipe)
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


def _be_child(work: Callable[[Callable[[Any], None]], None], writing: int, log: Path) -> None:
    status = 1
    try:
        os.setpgid(0, 0)
        out = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
        os.dup2(out, 1)
        os.dup2(out, 2)
        resource.setrlimit(resource.RLIMIT_DATA, (CHILD_MEMORY, CHILD_MEMORY))
        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        work(lambda message: _send(writing, message))
        status = 0
    except BaseException:  # noqa: BLE001  (a fork must never return to its parent's code)
        sys.excepthook(*sys.exc_info())  # type: ignore[arg-type]
    finally:
        sys.stdout.flush()
        os._exit(status)


def _send(pipe: int, message: Any) -> None:
    data = json.dumps(message).encode() + b"\n"
    while data:
        data = data[os.write(pipe, data) :]
