"""Measures one program of the zoo; runs in the environment that has its packages.

The arguments are its name, the path of a JSON file to write, and the rules to switch off.
"""

from __future__ import annotations

import json
import os
import sys
from dataclasses import asdict
from pathlib import Path

from tools.rules.measure import measure
from tools.zoo.program import lowered

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> None:
    import jaxlib

    name, path, *rules = sys.argv[1:]
    source, args = lowered(name)
    found = {"jax": jaxlib.__version__, **asdict(measure(source, rules, args))}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
