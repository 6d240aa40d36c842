"""Tries the mutants of programs in child processes. ONNX Runtime can crash on a changed model."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import suppress

from tools.conformance.pool import Worker, WorkerDied, WorkerHangs
from tools.model_mutation.trial import Result

COMMAND = (sys.executable, "-W", "ignore", "-m", "tools.model_mutation.worker")
SECONDS = 60.0
"""Limit for a mutant."""
FIRST = 600.0
"""Limit for the translation of a program."""


def results(model: str, count: int, seed: int) -> Iterator[Result]:
    """The results of a sample of a program's mutants.

    Args:
        count: How many mutants that are valid models.

    Raises:
        WorkerDied, WorkerHangs: The program does not translate.
    """
    runner = _Runner(model, seed)
    try:
        tried = 0
        for place in range(len(runner.described)):
            if tried >= count:
                return
            result = runner.run(place)
            tried += result.status != "invalid"
            yield result
    finally:
        runner.close()


class _Runner:
    """A worker and its replacements."""

    def __init__(self, model: str, seed: int) -> None:
        self._request = {"model": model, "seed": seed}
        self._worker: Worker | None = Worker(COMMAND)
        rows = self._worker.ask(self._request, FIRST)
        self.described = [Result(**row) for row in rows]

    def run(self, place: int) -> Result:
        """The result of a mutant.

        A run that does not end is "invalid". A mutant that ends the process is "caught".
        """
        if self._worker is None:
            self._worker = Worker(COMMAND)
            self._worker.ask(self._request, FIRST)
        try:
            answer = self._worker.ask({**self._request, "place": place}, SECONDS)
            return Result(**answer)
        except (WorkerDied, WorkerHangs) as end:
            self.close()
            result = self.described[place]
            result.status = "caught" if isinstance(end, WorkerDied) else "invalid"
            result.detail += f" ({str(end).splitlines()[0]})"
            return result

    def close(self) -> None:
        """Ends the worker."""
        if self._worker is not None:
            with suppress(OSError):
                self._worker.close()
            self._worker = None
