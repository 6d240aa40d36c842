"""Times linear algebra in ONNX Runtime and in XLA's LAPACK, with residuals and node counts.

    python -m tools.bench.linalg                    every decomposition
    python -m tools.bench.linalg cholesky qr        some of them
    python -m tools.bench.linalg --sizes 64,200 --dtypes float32
    python -m tools.bench.linalg --write            write docs/linear_algebra.md

The residual is the distance of the factors' product from the matrix. The defect is the distance of
the unitary factors from orthogonality. Both are multiples of n * eps (and of the matrix' norm).
The error of U V^T, of a matrix of condition 1e5, is a multiple of that of XLA's.
Times are the fastest of many calls that take turns.
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
import onnxruntime as ort
from jax.lax import linalg

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import ROOT
from tools.bench.timing import THREADS, Call

Arrays = Sequence[np.ndarray]


SECONDS = 4.0
CALLS = 5
"""Of one kind in a row, and the fewest."""
MATRICES = 5
"""Of which the median error of the polar factor is taken."""


@dataclass(frozen=True)
class Decomposition:
    """A function of a matrix, and how to put its results together again.

    Attributes:
        function: In JAX.
        matrix: Makes its argument from a random square matrix.
        product: What the results multiply to, which should be the (permuted) matrix: gives both.
        unitary: Those of the results that should be unitary.
        polar: What the results of a nearly singular matrix give as its polar factor.
    """

    function: Callable[..., Any]
    product: Callable[[np.ndarray, Arrays], tuple[np.ndarray, np.ndarray]]
    matrix: Callable[[np.ndarray], np.ndarray] = lambda a: a
    unitary: Callable[[Arrays], Arrays] = lambda results: []
    polar: Callable[[Arrays], np.ndarray] | None = None


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
    "eigh": Decomposition(
        jnp.linalg.eigh,
        lambda a, factors: (factors[1] * factors[0] @ factors[1].T, a),
        lambda a: (a + a.T) / 2,
        unitary=lambda factors: factors[1:],
    ),
    "svd": Decomposition(
        jnp.linalg.svd,
        lambda a, factors: (factors[0] * factors[1] @ factors[2], a),
        unitary=lambda factors: [factors[0], factors[2].T],
        polar=lambda factors: factors[0] @ factors[2],
    ),
    "eig": Decomposition(
        jnp.linalg.eig, lambda a, factors: (a @ factors[1], factors[1] * factors[0])
    ),
    "solve": Decomposition(
        lambda a: jnp.linalg.solve(a, jnp.ones((len(a), 1), a.dtype)),
        lambda a, x: (a @ x[0], np.ones((len(a), 1))),
        lambda a: a + 2 * np.sqrt(len(a)) * np.eye(len(a)),
    ),
}


@dataclass(frozen=True)
class Row:
    """Measurements of one decomposition: seconds, errors in units of n * eps, nodes; the error of
    the polar factor in units of XLA's."""

    name: str
    ort: float
    xla: float
    residual: float
    defect: float
    polar: float | None
    nodes: int
    translation: float

    def __str__(self) -> str:
        polar = "" if self.polar is None else f"{self.polar:.2f}"
        return (
            f"| {self.name} | {1e3 * self.ort:.2f} | {1e3 * self.xla:.2f} |"
            f" {self.ort / self.xla:.1f} | {self.residual:.2f} | {self.defect:.2f} |"
            f" {polar} | {self.nodes} | {self.translation:.2f} |"
        )


PAGE = ROOT / "docs" / "linear_algebra.md"
INTRODUCTION = """\
# Linear algebra

Rows are written by `python -m tools.bench.linalg [NAME] --write`; do not edit. Recorded with ONNX
Runtime {runtime} and JAX {jax} on two cores. Other work shared the cores, so some times are too
long.

JAX calls LAPACK for these functions. The model has loops of ONNX operators instead.

* *ms*: the fastest of many calls, in ONNX Runtime and in XLA, which calls LAPACK.
* *residual*: distance of the factors' product from the matrix, relative to the matrix's norm.
* *defect*: distance of the unitary factors from orthogonality. Residual and defect are multiples
  of n times the rounding error.
* *polar*: distance of the polar factor U V^T from the exact one, in multiples of XLA's. The
  matrices have singular values from 1 to 1e-5; median of five.
* *nodes*: the count hardly grows with the matrix. Larger matrices need a few more nodes, for
  tables that are not computed beforehand and for blocks that do not fit. `eigh` of more than 96
  rows and `svd` of more than 80, in f64 80 and 48, have up to three times the nodes: large parts of
  a matrix have their own nodes.

`eig` finds the eigenvalues of a matrix that is not Hermitian one after the other, in LAPACK's
order, by a reflection for each row. This is slow, so use it for small matrices.

Eigenvectors and singular vectors are not unique: a sign or phase is free, and so is the basis of a
space of equal values. For diagonal matrices, such as the identity, the vectors are exactly those
of LAPACK. For other matrices they may differ from XLA's. `program.verify()` therefore judges
vectors by their residual and their orthogonality, and computes the other outputs from the vectors
that the model chose. If an output depends on a choice that it does not know, it says so.
"""
HEADER = """\
| decomposition | ORT ms | XLA ms | ORT / XLA | residual | defect | polar | nodes | translation s |
| --- | --- | --- | --- | --- | --- | --- | --- | --- |"""


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
    ours, xla = _fastest([partial(session, feeds), lambda: jax.block_until_ready(compiled(a))])
    results = [
        x.astype(np.result_type(x, np.float64)) if x.dtype.kind in "fc" else x
        for x in map(np.asarray, jax.tree.leaves(program(a)))
    ]
    unit = size * float(np.finfo(dtype).eps)
    product, matrix = item.product(a.astype(np.float64), results)
    residual = np.linalg.norm(product - matrix) / (unit * np.linalg.norm(matrix))
    defects = [np.linalg.norm(q.T @ q - np.eye(q.shape[1])) / unit for q in item.unitary(results)]
    return Row(
        f"{name} {size} {dtype}",
        ours,
        xla,
        float(residual),
        float(max(defects, default=0.0)),
        item.polar and _polar_error(item.polar, [program, compiled], size, dtype),
        program.report.nodes.total(),
        seconds,
    )


def _polar_error(
    polar: Callable[[Arrays], np.ndarray],
    calls: Sequence[Callable[[np.ndarray], Any]],
    size: int,
    dtype: str,
) -> float:
    """The error of the polar factor of the first call in multiples of that of the second."""
    ratios = []
    for seed in range(MATRICES):
        normal = np.random.default_rng(seed).normal(size=(2, size, size))
        q, p = np.linalg.qr(normal)[0]
        a = (q * np.geomspace(1, 1e-5, size) @ p.T).astype(dtype)
        exact = _polar_factor(a)
        results = ([np.asarray(x, np.longdouble) for x in call(a)] for call in calls)
        ours, xla = (abs(polar(factors) - exact).max() for factors in results)
        ratios.append(ours / xla)
    return float(np.median(ratios))


def _polar_factor(a: np.ndarray) -> np.ndarray:
    """U V^T: rotations of NumPy's U in long double make U^T A V symmetric."""
    factors = np.linalg.svd(a.astype(np.float64))
    u, s, v = (np.asarray(x, np.longdouble) for x in factors)
    for _ in range(3):
        u, v = (x @ (3 * np.eye(len(a)) - x.T @ x) / 2 for x in (u, v))
        product = u.T @ a @ v.T
        u += u @ ((product - product.T) / np.add.outer(s, s))
    exact: np.ndarray = u @ v
    return exact


def _fastest(calls: Sequence[Call]) -> list[float]:
    """The least seconds of each call, without the other load of the machine."""
    for call in calls:
        call()
    times: list[list[float]] = [[] for _ in calls]
    end = time.perf_counter() + SECONDS
    while not times[0] or time.perf_counter() < end:
        for call, found in zip(calls, times, strict=True):
            for _ in range(CALLS):
                start = time.perf_counter()
                call()
                found.append(time.perf_counter() - start)
    return [min(found) for found in times]


def _write(rows: Sequence[Row]) -> None:
    """Writes the page; other rows stay."""
    lines = PAGE.read_text(encoding="utf-8").splitlines() if PAGE.exists() else []
    table = {line.split("|")[1].strip(): line for line in lines if line.startswith("|")}
    table |= {row.name: str(row) for row in rows}
    introduction = INTRODUCTION.format(runtime=ort.__version__, jax=jax.__version__)
    known = [
        table[name]
        for decomposition in DECOMPOSITIONS
        for name in sorted(table, key=lambda name: len(name.partition(" ")[2]))
        if name.partition(" ")[0] == decomposition
    ]
    PAGE.write_text("\n".join([introduction, HEADER, *known]) + "\n", encoding="utf-8")


def main() -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.linalg", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("names", nargs="*", help=f"of {', '.join(DECOMPOSITIONS)}; default: all")
    parser.add_argument("--sizes", default="64,200", help="default: %(default)s")
    parser.add_argument("--dtypes", default="float32,float64", help="default: %(default)s")
    parser.add_argument("--write", action="store_true", help=f"write {PAGE.name}")
    given = parser.parse_args()
    if unknown := set(given.names) - set(DECOMPOSITIONS):
        parser.error(f"no decomposition named {', '.join(sorted(unknown))}")
    jax.config.update("jax_enable_x64", True)
    print(HEADER)
    rows = []
    for name in given.names or DECOMPOSITIONS:
        for size in map(int, given.sizes.split(",")):
            for dtype in given.dtypes.split(","):
                rows.append(measure(name, size, dtype))
                print(rows[-1], flush=True)
    if given.write:
        _write(rows)
    return 0


if __name__ == "__main__":
    sys.exit(main())
