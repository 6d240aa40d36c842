"""The process that runs cases: it answers requests that come through a pipe."""

from __future__ import annotations

import contextlib
import sys
import traceback
from collections.abc import Callable, Mapping
from multiprocessing.connection import Connection
from typing import Any

from tools.conformance.outcome import Outcome, one_line

Runner = Callable[[str, Mapping[str, Any]], Outcome]
"""Runs the case of a name, with the options of its request."""


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answers requests until there are no more."""
    pipe = Connection(int(sys.argv[-1]))
    pipe.send("ready")
    with contextlib.suppress(EOFError):
        while True:
            pipe.send(answer(pipe.recv()))


def serve_cases(run: Runner, catalogue: Callable[[], Mapping[str, Any]]) -> None:
    """Answers requests for cases.

    Args:
        run: For `{"case": name, ...}`; whatever it raises becomes the status `error`.
        catalogue: For `{"list": true}`.
    """

    def answer(request: dict[str, Any]) -> Outcome | Mapping[str, Any]:
        if request.get("list"):
            return catalogue()
        name = request.pop("case")
        try:
            return run(name, request)
        except Exception as error:  # noqa: BLE001  (one case's failure must not end the others)
            reason = one_line(f"{type(error).__name__}: {error}")
            return Outcome(name, "error", reason, traceback.format_exc())

    serve(answer)


def main() -> None:
    import jax

    # Before the harnesses are imported: they ask for it when they are defined.
    jax.config.update("jax_enable_x64", True)
    from tools.conformance.case import Runs

    runs = Runs()
    serve_cases(runs.run, runs.catalogue)


if __name__ == "__main__":
    main()
