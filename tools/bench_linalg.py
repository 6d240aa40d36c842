"""Times linear algebra in ONNX Runtime and in XLA's LAPACK, with residuals and node counts.

    python tools/bench_linalg.py                    every decomposition
    python tools/bench_linalg.py cholesky qr        some of them
    python tools/bench_linalg.py --sizes 64,200 --dtypes float32

The residual is that of the factors' product to the matrix, the defect that of the unitary factors
to orthogonality, both as multiples of n * eps (and the matrix' norm). Times are medians of blocks
of calls in turn, as in tools/bench.py.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from bench import THREADS, medians
from jax.lax import linalg

import hlo2onnx
from hlo2onnx.calling import to_model
from hlo2onnx.verification.ort import OrtProgram

Arrays = Sequence[np.ndarray]


@dataclass(frozen=True)
class Decomposition:
    """A function of a matrix, and how to put its results together again.

    Attributes:
        function: In JAX.
        matrix: Makes its argument from a random square matrix.
        product: What the results multiply to, which should be the (permuted) matrix: gives both.
        unitary: Those of the results that should be unitary.
    """

    function: Callable[..., Any]
    product: Callable[[np.ndarray, Arrays], tuple[np.ndarray, np.ndarray]]
    matrix: Callable[[np.ndarray], np.ndarray] = lambda a: a
    unitary: Callable[[Arrays], Arrays] = lambda results: []


def _definite(a: np.ndarray) -> np.ndarray:
    square: np.ndarray = a @ a.T + len(a) * np.eye(len(a))
    return square


def _lu_product(a: np.ndarray, results: Arrays) -> tuple[np.ndarray, np.ndarray]:
    packed, _, rows = results
    return (np.tril(packed, -1) + np.eye(len(a))) @ np.triu(packed), a[rows]


DECOMPOSITIONS: dict[str, Decomposition] = {
    "cholesky": Decomposition(
        jnp.linalg.cholesky, lambda a, factors: (factors[0] @ factors[0].T, a), _definite
    ),
    "lu": Decomposition(linalg.lu, _lu_product),
    "qr": Decomposition(
        jnp.linalg.qr,
        lambda a, factors: (factors[0] @ factors[1], a),
        unitary=lambda factors: factors[:1],
    ),
    "solve": Decomposition(
        lambda a: jnp.linalg.solve(a, jnp.ones((len(a), 1), a.dtype)),
        lambda a, x: (a @ x[0], np.ones((len(a), 1))),
        lambda a: a + 2 * np.sqrt(len(a)) * np.eye(len(a)),
    ),
}


@dataclass(frozen=True)
class Row:
    """What was measured of one decomposition: seconds, errors in units of n * eps, nodes."""

    name: str
    ort: float
    xla: float
    residual: float
    defect: float
    nodes: int
    translation: float

    def __str__(self) -> str:
        return (
            f"| {self.name} | {1e3 * self.ort:.2f} | {1e3 * self.xla:.2f} |"
            f" {self.ort / self.xla:.1f} | {self.residual:.2f} | {self.defect:.2f} |"
            f" {self.nodes} | {self.translation:.2f} |"
        )


HEADER = """\
| decomposition | ORT ms | XLA ms | ORT / XLA | residual | defect | nodes | translation s |
| --- | --- | --- | --- | --- | --- | --- | --- |"""


def measure(name: str, size: int, dtype: str) -> Row:
    """Translates, runs, checks and times one decomposition."""
    item = DECOMPOSITIONS[name]
    a = item.matrix(np.random.default_rng(0).normal(size=(size, size))).astype(dtype)
    lowered = jax.jit(item.function).lower(a)
    start = time.perf_counter()
    program = hlo2onnx.translate(lowered)
    seconds = time.perf_counter() - start
    session = OrtProgram(program.model_proto.SerializeToString(), threads=THREADS)
    feeds = to_model(program.input_names, program.flatten(a))
    compiled = lowered.compile()
    ort, xla = medians([partial(session, feeds), lambda: jax.block_until_ready(compiled(a))])
    results = [
        x.astype(np.float64) if x.dtype.kind == "f" else x
        for x in map(np.asarray, jax.tree.leaves(program(a)))
    ]
    unit = size * float(np.finfo(dtype).eps)
    product, matrix = item.product(a.astype(np.float64), results)
    residual = np.linalg.norm(product - matrix) / (unit * np.linalg.norm(matrix))
    defects = [np.linalg.norm(q.T @ q - np.eye(q.shape[1])) / unit for q in item.unitary(results)]
    return Row(
        f"{name} {size} {dtype}",
        ort,
        xla,
        float(residual),
        float(max(defects, default=0.0)),
        program.report.nodes.total(),
        seconds,
    )


def main() -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(DECOMPOSITIONS)}; default: all")
    parser.add_argument("--sizes", default="64,200", help="default: %(default)s")
    parser.add_argument("--dtypes", default="float32,float64", help="default: %(default)s")
    given = parser.parse_args()
    if unknown := set(given.names) - set(DECOMPOSITIONS):
        parser.error(f"no decomposition named {', '.join(sorted(unknown))}")
    jax.config.update("jax_enable_x64", True)
    print(HEADER)
    for name in given.names or DECOMPOSITIONS:
        for size in map(int, given.sizes.split(",")):
            for dtype in given.dtypes.split(","):
                print(measure(name, size, dtype), flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
