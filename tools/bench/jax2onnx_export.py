"""Writes jax2onnx's model of a program of the benchmark's table.

    python -m tools.bench.jax2onnx_export NAME MODEL.onnx

`python -m tools.bench dense --peer PYTHON` runs it in an environment with jax2onnx, flax and
equinox. It does not import hlo2onnx.
"""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import jax
import jax2onnx

from tools.bench.dense import BENCHMARKS


def main(name: str, path: str) -> None:
    """Exports the program as a function of the leaves of its arguments, parameters bound."""
    program = BENCHMARKS[name]
    function, args = program.build()
    bound, free = (args[:1], args[1:]) if program.binds else ((), args)
    leaves, tree = jax.tree.flatten(free)

    def of_leaves(*leaves: Any) -> Any:
        return function(*bound, *jax.tree.unflatten(tree, leaves))

    inputs = [
        jax.ShapeDtypeStruct(leaf.shape, leaf.dtype) for leaf in map(jax.numpy.asarray, leaves)
    ]
    # As a file it would put weights beside the model.
    Path(path).write_bytes(jax2onnx.to_onnx(of_leaves, inputs).SerializeToString())


if __name__ == "__main__":
    main(*sys.argv[1:])
