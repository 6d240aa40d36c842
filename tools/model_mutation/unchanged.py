"""Verifies a program as it is, and prints a line of JSON.

python -m tools.model_mutation.unchanged NAME [SEED]
"""

from __future__ import annotations

import json
import os
import sys
import time
from dataclasses import asdict, dataclass

from hlo2onnx.errors import Hlo2OnnxError
from tools.model_mutation.programs import translated

os.environ.setdefault("KERAS_BACKEND", "jax")


@dataclass
class Verdict:
    """What `verify()` says of an unchanged program.

    Attributes:
        verdict: "passes", "differs", "cannot be judged" or "fails".
        text: The table of the verification, or the error.
        seconds: Time of the verification.
    """

    name: str
    verdict: str
    text: str = ""
    seconds: float = 0.0


def verdict_of(name: str, seed: int) -> Verdict:
    """Verifies a program with inputs that `verify` makes."""
    try:
        program = translated(name)
        begin = time.monotonic()
        found = program.verify(seed=seed)
    except Hlo2OnnxError as error:
        return Verdict(name, "fails", str(error))
    seconds = round(time.monotonic() - begin, 2)
    if found.ok:
        return Verdict(name, "passes", "", seconds)
    verdict = "differs" if found.differing else "cannot be judged"
    return Verdict(name, verdict, str(found), seconds)


def main() -> None:
    """Verifies the program that the command line names."""
    name, *rest = sys.argv[1:]
    print(json.dumps(asdict(verdict_of(name, int(rest[0]) if rest else 0))))


if __name__ == "__main__":
    main()
