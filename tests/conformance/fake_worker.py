"""A worker whose cases do what their names say, to test the machinery without any handler."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Mapping
from typing import Any

from tools.conformance.outcome import Outcome
from tools.conformance.worker import serve_cases


def run(name: str, options: Mapping[str, Any]) -> Outcome:
    what = name.partition(" ")[0]
    if what == "abort":
        print("the runtime says goodbye", file=sys.stderr, flush=True)
        os.abort()
    if what == "exit":
        os._exit(7)
    if what == "hang":
        time.sleep(1000)
    if what == "raise":
        raise ValueError("no\nsuch thing")
    if what == "noise":
        print("something a library prints")
        os.write(1, b"and from C++\n")
    return Outcome(name, "pass", reason=f"process {os.getpid()}")


if __name__ == "__main__":
    if "broken" in sys.argv:
        sys.exit("cannot start")
    catalogue = {"cases": [["noise", "a"], ["other", "b"]], "jax": "0.10.2"}
    serve_cases(run, lambda: catalogue)
