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
from tools.zoo.program import load_all

os.environ.setdefault("KERAS_BACKEND", "jax")
os.environ.setdefault("JAX_PLATFORMS", "cpu")


def main() -> None:
    import jax
    import jaxlib

    name, path, *rules = sys.argv[1:]
    item = load_all()[name]
    if item.x64:
        jax.config.update("jax_enable_x64", True)
    function, args = item.build()
    lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*args)
    found = {"jax": jaxlib.__version__, **asdict(measure(lowered, rules, args))}
    Path(path).write_text(json.dumps(found), encoding="utf-8")


if __name__ == "__main__":
    main()
