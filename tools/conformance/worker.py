"""The process that runs cases: one request a line on stdin, one answer a line on stdout."""

from __future__ import annotations

import json
import os
import sys
import traceback
from collections.abc import Callable, Mapping
from dataclasses import asdict
from typing import Any

from tools.conformance.outcome import Outcome, one_line

Runner = Callable[[str, Mapping[str, Any]], Outcome]
"""Runs the case of a name, with the options of its request."""


def serve(answer: Callable[[dict[str, Any]], Any]) -> None:
    """Answers requests until stdin ends."""
    # Whatever else prints in this process must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    print(json.dumps({"ready": True}), file=answers, flush=True)
    for line in sys.stdin:
        print(json.dumps(answer(json.loads(line))), file=answers, flush=True)


def serve_cases(run: Runner, catalogue: Callable[[], Mapping[str, Any]]) -> None:
    """Answers requests for cases.

    Args:
        run: For `{"case": name, ...}`; whatever it raises becomes the status `error`.
        catalogue: For `{"list": true}`.
    """

    def answer(request: dict[str, Any]) -> Mapping[str, Any]:
        if request.get("list"):
            return catalogue()
        name = request.pop("case")
        try:
            return asdict(run(name, request))
        except Exception as error:  # noqa: BLE001  (one case's failure must not end the others)
            reason = one_line(f"{type(error).__name__}: {error}")
            return asdict(Outcome(name, "error", reason, traceback.format_exc()))

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
