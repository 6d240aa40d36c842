"""Worker processes that run cases, and their replacement when they die."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from multiprocessing import Pipe
from typing import Any

from tools import environment
from tools.conformance.outcome import Case, Outcome, one_line

COMMAND = (sys.executable, "-m", "tools.conformance.worker")
START_SECONDS = 180.0
CHUNK = 16
"""Cases handed out together. Neighbours are often the same program, which a worker runs once."""


class WorkerDied(Exception):  # noqa: N818  (an event, not a mistake)
    """The process ended; the text says how."""


class WorkerHangs(Exception):  # noqa: N818
    """No answer in time."""


class Worker:
    """A child process that answers each request with an object.

    Args:
        command: How it is started; it gets the number of its end of a pipe as another argument.

    Raises:
        WorkerDied, WorkerHangs: It does not start.
    """

    def __init__(self, command: Sequence[str] = COMMAND) -> None:
        self._log = tempfile.TemporaryFile()  # noqa: SIM115  (until close)
        self._pipe, theirs = Pipe()
        self._process = subprocess.Popen(
            [*command, str(theirs.fileno())],
            pass_fds=[theirs.fileno()],
            stdout=self._log,
            stderr=self._log,
            # XLA and ORT bring their own threads; XLA's notes about the machine are noise here.
            env=environment(TF_CPP_MIN_LOG_LEVEL="3"),
        )
        theirs.close()
        self.served = 0
        try:
            self._receive(START_SECONDS)
        except (WorkerDied, WorkerHangs):
            self.close()
            raise

    def ask(self, request: Mapping[str, Any], timeout: float) -> Any:
        """Sends a request and waits for the answer.

        Raises:
            WorkerDied: The process died of it.
            WorkerHangs: It did not answer in time, and has been killed.
        """
        self.served += 1
        try:
            self._pipe.send(request)
        except BrokenPipeError:
            raise WorkerDied(self._how_it_ended()) from None
        return self._receive(timeout)

    def close(self) -> None:
        """Ends the process."""
        self._process.kill()
        self._process.wait()
        self._pipe.close()
        self._log.close()

    def _receive(self, timeout: float) -> Any:
        if not self._pipe.poll(timeout):
            self._process.kill()
            raise WorkerHangs(f"no answer in {timeout:g} s")
        try:
            return self._pipe.recv()
        except (EOFError, ConnectionResetError):
            raise WorkerDied(self._how_it_ended()) from None

    def _how_it_ended(self) -> str:
        code = self._process.wait()
        how = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, self._log.tell() - 2000))
        last = self._log.read().decode(errors="replace").strip()
        return f"{how}\n{last}"


class _Lane:
    """A thread with a worker, which is replaced when it dies."""

    def __init__(self, timeout: float, recycle: int, command: Sequence[str]) -> None:
        self.thread = ThreadPoolExecutor(1)
        self._timeout, self._recycle, self._command = timeout, recycle, command
        self._worker: Worker | None = None

    def run(self, request: Mapping[str, Any]) -> Outcome:
        """The outcome of a case.

        Raises:
            WorkerDied, WorkerHangs: No worker starts, which is no case's fault.
        """
        self._worker = self._worker or Worker(self._command)
        try:
            outcome = self._worker.ask(request, self._timeout)
            is_spent = self._worker.served >= self._recycle
        except (WorkerDied, WorkerHangs) as end:
            outcome, is_spent = _lost(request["case"], end), True
        if is_spent:
            self.end()
        return outcome

    def end(self) -> None:
        """Ends the worker."""
        if self._worker is not None:
            self._worker.close()
            self._worker = None


class Pool:
    """Runs cases in worker processes, and replaces those that die.

    Args:
        jobs: Number of processes.
        timeout: Seconds for a case.
        recycle: A worker is replaced after this many cases, which bounds its memory.
        command: How to start a worker.
    """

    def __init__(
        self,
        jobs: int = 2,
        timeout: float = 60.0,
        recycle: int = 500,
        command: Sequence[str] = COMMAND,
    ) -> None:
        self._lanes = [_Lane(timeout, recycle, command) for _ in range(jobs)]
        self._turns = itertools.cycle(self._lanes)

    def submit(
        self, names: Sequence[str], options: Mapping[str, Any] | None = None
    ) -> list[Future[Outcome]]:
        """Queues cases; each future gets the outcome of one."""
        futures = []
        for start in range(0, len(names), CHUNK):
            lane = next(self._turns)
            for name in names[start : start + CHUNK]:
                futures.append(lane.thread.submit(lane.run, {"case": name, **(options or {})}))
        return futures

    def close(self) -> None:
        """Ends the workers when the cases they are at are done; cancels the others."""
        for lane in self._lanes:
            lane.thread.shutdown(wait=False, cancel_futures=True)
        for lane in self._lanes:
            lane.thread.shutdown()
            lane.end()


def _lost(name: str, end: Exception) -> Outcome:
    how, _, log = str(end).partition("\n")
    if isinstance(end, WorkerHangs):
        return Outcome(name, "timeout", how)
    last = one_line(log.rpartition("\n")[2])
    return Outcome(name, "crash", f"{how} {last}".strip(), log)


def list_cases(command: Sequence[str] = COMMAND) -> tuple[list[Case], str]:
    """All cases, and the version of JAX that defines them."""
    worker = Worker(command)
    try:
        answer = worker.ask({"list": True}, START_SECONDS)
    finally:
        worker.close()
    return [Case(*fields) for fields in answer["cases"]], answer["jax"]
