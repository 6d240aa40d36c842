"""A child process that tests programs, and survives their crashes.

The child imports everything once. Where the system can copy a process, as on Linux, each request
runs in a copy of it: no test sees what another one left behind, and a crash ends the copy.
Elsewhere the child answers itself, and another one replaces it after a crash.
"""

from __future__ import annotations

import json
import math
import os
import pickle
import queue
import signal
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import suppress
from typing import Any, BinaryIO, Self

from hlo2onnx.errors import UsageError
from hlo2onnx.reduction.by_value import dumps
from hlo2onnx.reduction.outcome import Outcome, Request, Run, Tell, answer, stable

ENDING = 5.0
"""Seconds for a killed process to end."""

SPARE = 5
"""Seconds after the time limit at which a process of the child ends itself."""

TAIL = 2000
"""Characters of the standard error of a process that died, in its message."""


class Worker:
    """The child process. Use it in a `with` block.

    Args:
        timeout: Seconds that a request may take. The child is ended then.
    """

    def __init__(self, timeout: float) -> None:
        self._timeout = timeout
        self._child: subprocess.Popen[bytes] | None = None
        self._messages: queue.Queue[tuple[str, Any]] = queue.Queue()

    def __enter__(self) -> Self:
        self._errors: BinaryIO = tempfile.TemporaryFile()
        return self

    def __exit__(self, *_: object) -> None:
        self._end()
        self._errors.close()

    def limit(self, timeout: float) -> None:
        """Lowers the time that a request may take."""
        self._timeout = min(self._timeout, timeout)

    def test(self, request: Request) -> Outcome:
        """The outcome of a program, however it ends."""
        said = self._ask(request)
        stage = next((what for word, what in reversed(said) if word == "stage"), "")
        word, what = said[-1]
        if word == "result":
            assert isinstance(what, Outcome)
            return what
        if word == "raised":
            return Outcome("error", stage, (stable(what),), message=what)
        if word == "timeout":
            return Outcome("timeout", stage, message=f"no result after {self._timeout:g} s")
        return Outcome("died", stage, (what[0],), message="\n".join(filter(None, what)))

    def capture(self, request: Request) -> list[Any] | None:
        """The results of a program in XLA; None if XLA does not run it."""
        word, what = self._ask(request)[-1]
        return what if word == "result" else None

    def run(self, request: Request) -> Run | None:
        """What is known of a run of the program, up to the step that fails."""
        said = self._ask(request)
        return next((what for word, what in reversed(said) if word == "run"), None)

    # -- messages ---------------------------------------------------------------------------------

    def _ask(self, request: Request) -> list[tuple[str, Any]]:
        """All messages about a request. The last one is "result", "raised", "died" or "timeout"."""
        content = dumps(request, "the function")
        child = self._child or self._start()
        self._errors.seek(0, os.SEEK_END)
        before = self._errors.tell()
        assert child.stdin is not None
        said: list[tuple[str, Any]] = []
        with suppress(BrokenPipeError):  # the messages say that the child has ended
            header = (len(content), math.ceil(self._timeout) + SPARE)
            child.stdin.write(b"".join(each.to_bytes(8, "little") for each in header) + content)
            child.stdin.flush()
        deadline = time.monotonic() + self._timeout
        while not said or said[-1][0] in ("copy", "stage", "run"):
            try:
                left = max(deadline - time.monotonic(), 0)
                said.append(self._messages.get(timeout=left))
            except queue.Empty:
                self._stop(next((what for word, what in said if word == "copy"), None))
                said.append(("timeout", None))
        if said[-1][0] == "ended":
            with suppress(subprocess.TimeoutExpired):
                child.wait(1)
            self._end()
            said[-1] = ("died", _signal_name(child.returncode))
        if said[-1][0] == "died":
            self._errors.seek(before)
            told = self._errors.read().decode(errors="replace").strip()
            name = said[-1][1]
            said[-1] = ("timeout", None) if name == "SIGALRM" else ("died", (name, told[-TAIL:]))
        return said

    def _stop(self, copy: int | None) -> None:
        """Ends the copy of the child that works on a request, or the child itself."""
        if copy is not None:
            with suppress(ProcessLookupError, queue.Empty):
                os.kill(copy, signal.SIGKILL)
                while self._messages.get(timeout=ENDING)[0] not in ("died", "ended"):
                    pass
                return
        self._end()

    def _start(self) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-P", "-c", _CHILD, json.dumps([*map(str, sys.path)])]
        try:
            self._child = subprocess.Popen(
                command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                env={**os.environ, "JAX_PLATFORMS": "cpu"},
                start_new_session=True,
            )
        except OSError as error:
            raise UsageError(f"cannot start Python: {error}") from error
        self._messages = queue.Queue()
        reader = threading.Thread(target=_read, args=(self._child, self._messages), daemon=True)
        reader.start()
        ready, _ = self._messages.get()
        if ready != "ready":
            self._errors.seek(0)
            text = self._errors.read().decode(errors="replace").strip()
            raise UsageError(f"the child process does not start: {text[-TAIL:]}")
        return self._child

    def _end(self) -> None:
        if self._child is None:
            return
        if hasattr(os, "killpg"):
            with suppress(ProcessLookupError):
                os.killpg(self._child.pid, signal.SIGKILL)
        else:
            self._child.kill()
        self._child.wait()
        for stream in (self._child.stdin, self._child.stdout):
            assert stream is not None
            with suppress(BrokenPipeError):
                stream.close()
        self._child = None


def _read(child: subprocess.Popen[bytes], messages: queue.Queue[tuple[str, Any]]) -> None:
    """Passes on what the child writes, and that it has ended."""
    assert child.stdout is not None
    while True:
        try:
            messages.put(pickle.load(child.stdout))
        except (EOFError, OSError, ValueError, pickle.UnpicklingError):
            break
    messages.put(("ended", None))


def _signal_name(code: int) -> str:
    if code >= 0:
        return f"exit code {code}"
    try:
        return signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


# -- in the child -----------------------------------------------------------------------------

_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop())
from hlo2onnx.reduction.worker import main
main()
"""


def main() -> None:
    """Answers requests on standard input until it ends."""
    messages = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)
    _no_core_dumps()
    from hlo2onnx.lowering.registry import load_handlers

    load_handlers()

    def tell(word: str, what: object) -> None:
        pickle.dump((word, what), messages)
        messages.flush()

    tell("ready", None)
    respond = _respond_in_copy if sys.platform == "linux" else _respond
    while header := sys.stdin.buffer.read(16):
        length, seconds = (int.from_bytes(header[at : at + 8], "little") for at in (0, 8))
        respond(sys.stdin.buffer.read(length), tell, seconds)


def _respond(content: bytes, tell: Tell, seconds: int) -> None:
    # If the process that asks is killed, an endless program must not stay behind.
    if hasattr(signal, "alarm"):
        signal.alarm(seconds)
    try:
        request: Request = pickle.loads(content)
        found = answer(request, tell)
        if hasattr(signal, "alarm"):
            signal.alarm(0)
        tell("result", found)
    except Exception as error:  # noqa: BLE001  (the parent decides)
        tell("raised", f"{type(error).__name__}: {error}")


def _respond_in_copy(content: bytes, tell: Tell, seconds: int) -> None:
    pid = os.fork()
    if pid == 0:
        tell("copy", os.getpid())
        _respond(content, tell, seconds)
        os._exit(0)
    _, status = os.waitpid(pid, 0)
    code = os.waitstatus_to_exitcode(status)
    if code:
        tell("died", _signal_name(code))


def _no_core_dumps() -> None:
    try:
        import resource
    except ImportError:  # Windows
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
