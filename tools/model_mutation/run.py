"""Tries the mutants of programs in child processes. ONNX Runtime can crash on a changed model.

As a command it is such a process.
"""

from __future__ import annotations

import resource
import sys
from collections.abc import Iterator
from typing import Any

from tools.conformance.pool import Worker, WorkerDied, WorkerHangs
from tools.conformance.worker import serve
from tools.model_mutation.results import Result

COMMAND = (sys.executable, "-W", "ignore", "-m", "tools.model_mutation.run")
SECONDS = 60.0
"""Limit for a mutant."""
FIRST = 600.0
"""Limit for the translation of a program."""
MEMORY = 12 << 30
"""Limit of the data of a process: a changed loop may not end."""


def results(model: str, count: int, seed: int) -> Iterator[Result]:
    """The results of a sample of a program's mutants.

    A run that does not end is "invalid". A mutant that ends the process is "caught".

    Args:
        count: How many mutants that are valid models.

    Raises:
        WorkerDied, WorkerHangs: The program does not translate.
    """
    request = {"model": model, "seed": seed}
    worker, tried = Worker(COMMAND), 0
    try:
        for place, untried in enumerate(worker.ask(request, FIRST)):
            if tried >= count:
                return
            try:
                result = worker.ask({**request, "place": place}, SECONDS)
            except (WorkerDied, WorkerHangs) as end:
                result = untried
                result.status = "caught" if isinstance(end, WorkerDied) else "invalid"
                result.detail += f" ({str(end).splitlines()[0]})"
                worker.close()
                worker = Worker(COMMAND)
                worker.ask(request, FIRST)
            tried += result.status != "invalid"
            yield result
    finally:
        worker.close()


def main() -> None:
    """Answers requests."""
    from tools.model_mutation.programs import translated
    from tools.model_mutation.trial import Trials

    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    known: list[Trials] = []

    def answer(request: dict[str, Any]) -> Any:
        if not known:
            name = request["model"]
            known.append(Trials(name, translated(name), request["seed"]))
        (trials,) = known
        if "place" in request:
            return trials.run(request["place"])
        return [trials.describe(mutant, "invalid") for mutant in trials.mutants]

    serve(answer)


if __name__ == "__main__":
    main()
