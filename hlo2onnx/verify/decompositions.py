"""LAPACK's decompositions whose results are not unique: their checks, and other right results.

Vectors may be unique only up to sign, phase or order. Also, a change in the last bit of an
ill-conditioned matrix can change all digits of its factors. A good algorithm keeps two errors
small: the difference of the factors' product from the matrix, and the distance of a unitary factor
from orthogonality.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal, TypeAlias

import jax
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.lowering.op import CUSTOM_CALL, CustomCall

Array: TypeAlias = np.ndarray | jax.Array
Kind = Literal["eigh", "svd", "eig", "schur"]
Arrays = Mapping[str, Array]
"""Results by name."""
Results = dict[str, Array]

WHAT: Mapping[Kind, str] = {
    "eigh": "eigenvectors, which are unique up to their signs or phases and the basis of a space of"
    " equal eigenvalues",
    "svd": "singular vectors, which are unique up to their signs or phases and the basis of a space"
    " of equal singular values",
    "eig": "eigenvectors, which are unique up to their signs or phases, and the order of"
    " eigenvalues",
    "schur": "Schur vectors, which are unique up to signs or phases and the order of eigenvalues",
}
"""The choices that a result may depend on."""

_TARGET = re.compile(r"lapack_([sdcz])(syevd|heevd|gesdd|gesvd|geev|gees)_ffi")
_YES = ord("V")


@dataclass(frozen=True)
class Decomposition:
    """One decomposition call.

    Attributes:
        kind: Which decomposition.
        names: Names of the results, in order.
        free: Names of the results that are not unique.
        lower: The triangle of a Hermitian operand.
    """

    kind: Kind
    names: tuple[str, ...]
    free: tuple[str, ...]
    lower: bool = True

    def named(self, results: Sequence[Array]) -> Results:
        """Results by name."""
        return dict(zip(self.names, results, strict=True))

    def errors(self, a: Array, results: Arrays) -> tuple[Array, Array]:
        """The errors of results: the residual, and the defect of vectors (see "checks" below).

        The arrays are of NumPy or of JAX.
        """
        given = {name: wide(x) for name, x in results.items() if x.dtype.kind in "fc"}
        return _ERRORS[self.kind](_operand(self, wide(a)), given, self.free)

    def are_good(self, a: Array, results: Arrays, xla: Arrays) -> Array:
        """Whether results are as good as XLA's, as a boolean scalar."""
        dtype = np.dtype(a.dtype)
        good: Array = True
        for mine, theirs in zip(self.errors(a, results), self.errors(a, xla), strict=True):
            good &= mine <= limit(theirs, dtype)
        return good

    def flipped(self, results: Arrays) -> Results:
        """Other right results, of NumPy or of JAX: every second vector with the opposite sign."""
        made = dict(results)
        for name in set(self.free) & _FLIPPED.keys():
            x = made[name]
            for axis in _FLIPPED[name]:
                sign = 1.0 - 2 * (np.arange(x.shape[axis]) % 2)
                x = x * (sign[:, None] if axis == -2 else sign)
            made[name] = x.astype(made[name].dtype)
        return made

    def is_told_by(self, names: Set[str]) -> bool:
        """Whether these free results determine the choice of the others."""
        if self.kind == "svd":
            return not names.isdisjoint(self.free)
        # Eigenvalues do not determine signs. T follows from Z.
        return names >= set(self.free) - {"w", "wr", "wi", "t"}

    def completed(self, a: np.ndarray, own: Arrays, found: Arrays) -> Results:
        """Our results, with the found ones, and the vectors on the other side of these.

        Args:
            found: Some of the free results; NaN for unknown elements.
        """
        known = {name: x for name, x in found.items() if not np.isnan(x).any()}
        made = {**own, **known}
        if self.kind == "eigh" and "v" in found:
            unknown = np.isnan(found["v"]).any(-2, keepdims=True)
            made["v"] = np.where(unknown, own["v"], found["v"])
        if self.kind == "svd" and list(known) == ["u"]:
            made["vh"] = _right_vectors(wide(a), known["u"], own, own["vh"])
        if self.kind == "svd" and list(known) == ["vh"]:
            flipped = adjoint(wide(a)), adjoint(known["vh"])
            made["u"] = adjoint(_right_vectors(*flipped, own, adjoint(own["u"])))
        return {name: np.asarray(x, own[name].dtype) for name, x in made.items()}


def decomposition_of(operation: ir.Operation) -> Decomposition | None:
    """The decomposition that an op is; None for other ops, and for unique results."""
    if operation.name != CUSTOM_CALL or len(operation.operands) != 1:
        return None
    found = _of_call(CustomCall(operation))
    return found if found is not None and len(found.names) == len(operation.results) else None


def _of_call(call: CustomCall) -> Decomposition | None:
    match = _TARGET.fullmatch(call.target)
    if match is None:
        return None
    real, routine = match[1] in "sd", match[2]
    if routine in ("syevd", "heevd"):
        lower = call.attribute("uplo") == ord("L")
        return Decomposition("eigh", ("v", "w", "info"), ("v",), lower)
    values = ("wr", "wi") if real else ("w",)
    if routine == "geev":
        sides = {"vl": call.attribute("compute_left"), "vr": call.attribute("compute_right")}
        free = (*values, *(name for name, wanted in sides.items() if wanted == _YES))
        return Decomposition("eig", (*values, "vl", "vr", "info"), free)
    mode = chr(call.attribute("mode"))
    if routine == "gees":
        names = ("t", "z", *values, "selected", "info")
        return Decomposition("schur", names, ("t", "z", *values)) if mode == "V" else None
    return (
        Decomposition("svd", ("a", "s", "u", "vh", "info"), ("u", "vh")) if mode in "AS" else None
    )


def _operand(decomposition: Decomposition, a: Array) -> Array:
    return hermitian(a, decomposition.lower) if decomposition.kind == "eigh" else a


_FLIPPED = {
    "v": (-1,),
    "u": (-1,),
    "vh": (-2,),
    "vl": (-1,),
    "vr": (-1,),
    "z": (-1,),
    "t": (-2, -1),
}
"""The axes of each result along which a change of a vector's sign changes signs."""


# -- checks ---------------------------------------------------------------------------------------

# These functions take arrays of NumPy or of JAX, [..., m, n], and return the error of the worst
# matrix of a batch, relative to its norm.

TIMES_XLA = 4
"""Limit of an error relative to XLA's. Both are sums of random rounding errors."""
UNITS = 10
"""An error of this many units in the last place is always good."""

TINY = np.finfo(np.float64).tiny
"""Matrices of a smaller norm count as 0."""


def limit(xla: Array, dtype: np.dtype) -> Array:
    """The largest good error, for XLA's error and the type of the factors."""
    least, most = UNITS * float(np.finfo(dtype).eps), TIMES_XLA * xla
    return most + (least - most) * (most < least)  # the larger one, also of traced arrays


def wide(array: Array) -> Array:
    """An array of floats in 64 bits, or a complex one in 128."""
    return array.astype(np.result_type(array.dtype, np.float64))


def adjoint(x: Array) -> Array:
    """The conjugate transpose of each matrix."""
    return x.swapaxes(-1, -2).conj()


def norm(x: Array) -> Array:
    """The Frobenius norm of each matrix."""
    return (abs(x) ** 2).sum((-2, -1)) ** 0.5


def relative(difference: Array, whole: Array) -> Array:
    """The largest norm of the difference among the matrices of a batch, relative to the whole."""
    size = norm(whole)
    return (norm(difference) / (size + (size < TINY))).max(initial=0)


def defect(q: Array) -> Array:
    """The distance of the columns of q from orthonormality."""
    unit = np.eye(q.shape[-1])
    return relative(adjoint(q) @ q - unit, unit)


def hermitian(a: Array, lower: bool) -> Array:
    """The Hermitian matrix of one triangle and the real part of the diagonal."""
    n = a.shape[-1]
    triangle = a * (np.tril(np.ones((n, n)), -1) if lower else np.triu(np.ones((n, n)), 1))
    return triangle + adjoint(triangle) + a.real * np.eye(n)


def eigh_error(a: Array, v: Array, w: Array) -> tuple[Array, Array]:
    """A V - V diag(w); and I - V^H V."""
    return relative(a @ v - v * w[..., None, :], a), defect(v)


def svd_error(a: Array, s: Array, u: Array, vh: Array) -> tuple[Array, Array]:
    """A - U diag(s) V^H; and I - U^H U or I - V^H V."""
    rank = s.shape[-1]
    product = (u[..., :rank] * s[..., None, :]) @ vh[..., :rank, :]
    defects = defect(u), defect(adjoint(vh))
    return relative(a - product, a), sum(defects)


def eig_error(a: Array, w: Array, v: Array) -> tuple[Array, Array]:
    """A V - V diag(w); and 1 - the norms of vectors."""
    lengths = (abs(v) ** 2).sum(-2) ** 0.5
    return relative(a @ v - v * w[..., None, :], a), abs(lengths - 1).max(initial=0)


def schur_error(a: Array, t: Array, z: Array) -> tuple[Array, Array]:
    """A - Z T Z^H, and the part of T below its diagonal or its blocks of 2 x 2; and I - Z^H Z."""
    n = t.shape[-1]
    below = t * np.tril(np.ones((n, n)), -1 if np.iscomplexobj(t) else -2)
    return relative(a - z @ t @ adjoint(z), a) + relative(below, a), defect(z)


# -- errors -------------------------------------------------------------------------------------


def _eigenvalues(given: Arrays) -> Array:
    return given["w"] if "w" in given else given["wr"] + 1j * given["wi"]


def _moments(a: Array, w: Array) -> Array:
    """The errors of the sum of eigenvalues, and of the sum of their squares, from the traces."""
    size = norm(a)
    size = size + (size == 0)
    first = w.sum(-1) - (a * np.eye(a.shape[-1])).sum((-2, -1))
    second = (w * w).sum(-1) - (a * a.swapaxes(-1, -2)).sum((-2, -1))
    return (abs(first) / size + abs(second) / size**2).max(initial=0)


def _eig_errors(a: Array, given: Arrays, free: Sequence[str]) -> tuple[Array, Array]:
    w = _eigenvalues(given)
    residual = _moments(a, w)
    lengths: Array = np.zeros(())
    for name, matrix, values in (("vl", adjoint(a), w.conj()), ("vr", a, w)):
        if name in free:
            errors = eig_error(matrix, values, given[name])
            residual, lengths = residual + errors[0], lengths + errors[1]
    return residual, lengths


def _schur_errors(a: Array, given: Arrays, _: Sequence[str]) -> tuple[Array, Array]:
    residual, defects = schur_error(a, given["t"], given["z"])
    return residual + _moments(a, _eigenvalues(given)), defects


_ERRORS: Mapping[Kind, Callable[[Array, Arrays, Sequence[str]], tuple[Array, Array]]] = {
    "eigh": lambda a, given, _: eigh_error(a, given["v"], given["w"]),
    "svd": lambda a, given, _: svd_error(a, given["s"], given["u"], given["vh"]),
    "eig": _eig_errors,
    "schur": _schur_errors,
}


# -- completion ---------------------------------------------------------------------------------


def _right_vectors(a: np.ndarray, u: Array, own: Arrays, own_vh: Array) -> np.ndarray:
    """V^H for known left vectors: A^H u / s, and ours where the singular value is 0."""
    s = np.asarray(own["s"], np.float64)
    rank = s.shape[-1]
    first = s.max(-1, keepdims=True, initial=0)
    large = s > first * max(a.shape[-2:]) * np.finfo(own["s"].dtype).eps
    inverse = np.where(large, 1 / np.where(large, s, 1), 0)
    vh = inverse[..., None] * (adjoint(wide(u[..., :rank])) @ a)
    vh = np.where(large[..., None], vh, own_vh[..., :rank, :])
    return np.concatenate([vh, own_vh[..., rank:, :]], -2)
