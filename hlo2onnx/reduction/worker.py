"""Child processes that test programs, one for each: a crash ends only that.

On Linux they are copies of a server that has imported everything. Elsewhere each imports it anew.
"""

from __future__ import annotations

import multiprocessing
import os
import pickle
import signal
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from multiprocessing.connection import Connection
from pathlib import Path
from types import ModuleType
from typing import Any

import jax

from hlo2onnx.errors import UsageError
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.reduction.testing import Outcome, Request, answer, stable

SPARE = 5
"""Seconds after the time limit at which a process ends itself, and for an ended one to stop."""

TAIL = 2000
"""Characters of the standard error of a process that died, in its message."""

_CONTEXT: Any = multiprocessing.get_context("forkserver" if sys.platform == "linux" else "spawn")


def outcome_of(request: Request, timeout: float) -> Outcome:
    """The outcome of a program, however it ends.

    Args:
        timeout: Seconds until the child process is ended.
    """
    said = ask(request, timeout)
    stage = next((what for word, what in reversed(said) if word == "stage"), "")
    word, what = said[-1]
    if word == "result":
        assert isinstance(what, Outcome)
        return what
    if word == "raised":
        return Outcome("error", stage, (stable(what),), message=what)
    if word == "timeout":
        return Outcome("timeout", stage, message=f"no result after {timeout:g} s")
    return Outcome("died", stage, (what[0],), message="\n".join(filter(None, what)))


def ask(request: Request, timeout: float) -> list[tuple[str, Any]]:
    """All messages about a program. The last one is "result", "raised", "died" or "timeout"."""
    content = pickle.dumps(request)
    receiver, sender = _CONTEXT.Pipe(duplex=False)
    with tempfile.TemporaryDirectory() as folder, receiver:
        log = Path(folder) / "log"
        limit = int(timeout) + 1 + SPARE
        child = _CONTEXT.Process(target=_main, args=(content, sender, log, limit), daemon=True)
        _CONTEXT.set_forkserver_preload([__name__, "dialect_handlers"])
        try:
            with _start_of_child():
                child.start()
            sender.close()
            said = list(_messages(receiver, timeout))
        except OSError as error:
            raise UsageError(f"cannot start Python: {error}") from error
        child.join(SPARE if not said or said[-1][0] == "stage" else 0)
        child.kill()
        child.join()
        told = log.read_text(errors="replace").strip()[-TAIL:] if log.exists() else ""
    if ("ready", None) not in said:
        raise UsageError(f"the child process does not start: {told}")
    if said[-1][0] in ("ready", "stage"):
        said.append(("died", (_signal_name(child.exitcode or 0), told)))
    return said


def _messages(receiver: Connection, timeout: float) -> Iterator[tuple[str, Any]]:
    """What a child says. The time limit does not count what it takes to start."""
    with suppress(EOFError):
        yield receiver.recv()
        end = time.monotonic() + timeout
        while receiver.poll(max(end - time.monotonic(), 0)):
            yield (message := receiver.recv())
            if message[0] in ("result", "raised"):
                return
        yield "timeout", None


@contextmanager
def _start_of_child() -> Iterator[None]:
    """Hides the script of the user, which a child would run again, and passes `sys.path` on."""
    main, path = sys.modules["__main__"], os.environ.get("PYTHONPATH")
    sys.modules["__main__"] = ModuleType("__main__")
    os.environ["PYTHONPATH"] = os.pathsep.join(sys.path)
    try:
        yield
    finally:
        sys.modules["__main__"] = main
        del os.environ["PYTHONPATH"]
        if path is not None:
            os.environ["PYTHONPATH"] = path


def _signal_name(code: int) -> str:
    try:
        return f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    except ValueError:
        return f"signal {-code}"


def _main(content: bytes, sender: Connection, log: Path, seconds: int) -> None:
    """Tests a program, in the child process."""
    output = os.open(log, os.O_WRONLY | os.O_CREAT)
    os.dup2(output, 1)
    os.dup2(output, 2)
    with suppress(ImportError):  # Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
        # If the process that asks is killed, an endless program must not stay behind.
        signal.alarm(seconds)
    jax.config.update("jax_platforms", "cpu")
    load_handlers()
    sender.send(("ready", None))
    try:
        request: Request = pickle.loads(content)
        sender.send(("result", answer(request, lambda stage: sender.send(("stage", stage)))))
    except Exception as error:  # noqa: BLE001  (the parent decides)
        sender.send(("raised", f"{type(error).__name__}: {error}"))
