"""The process that tries mutants: one request a line on stdin, one answer a line on stdout."""

from __future__ import annotations

import json
import os
import resource
import sys
import time
from typing import Any

from tools.model_mutation.programs import translated
from tools.model_mutation.trial import Trials

MEMORY = 12 << 30
"""Limit of the data of a process: a changed loop may not end."""


def main() -> None:
    """Answers until stdin ends."""
    resource.setrlimit(resource.RLIMIT_DATA, (MEMORY, MEMORY))
    # Whatever else prints in this process must not come between the answers.
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    known: dict[tuple[str, int], Trials] = {}

    def answer(content: Any) -> None:
        answers.write(json.dumps(content) + "\n")
        answers.flush()

    answer({"ready": True})
    for line in sys.stdin:
        request = json.loads(line)
        key = request["model"], request["seed"]
        if key not in known:
            known.clear()
            known[key] = Trials(key[0], translated(key[0]), key[1])
        trials = known[key]
        if "place" not in request:
            rows = [trials.describe(mutant, "invalid").as_json() for mutant in trials.mutants]
            answer(rows)
            continue
        begin = time.monotonic()
        result = trials.run(request["place"])
        result.seconds = round(time.monotonic() - begin, 3)
        answer(result.as_json())


if __name__ == "__main__":
    main()
