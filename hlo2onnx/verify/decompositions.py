"""LAPACK's decompositions whose results are not unique: their checks, and other right results."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence, Set
from dataclasses import dataclass
from typing import Literal

import numpy as np

from hlo2onnx.lowering.op import CustomCall
from hlo2onnx.verify.factor_checks import (
    Array,
    adjoint,
    eig_error,
    eigh_error,
    hermitian,
    limit,
    norm,
    schur_error,
    svd_error,
    wide,
)

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
        """The errors of results: the residual, and the defect of vectors (see `factor_checks`).

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
        """Our results, with the found ones and all that follows from these.

        Args:
            found: Some of the free results; NaN for unknown elements.
        """
        known = {name: x for name, x in found.items() if not np.isnan(x).any()}
        made = _COMPLETED[self.kind](_operand(self, wide(a)), dict(own), known, found)
        return {name: np.asarray(x, own[name].dtype) for name, x in made.items()}


def decomposition_of(call: CustomCall) -> Decomposition | None:
    """The decomposition of a custom call; None for other calls, and for unique results."""
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


def _completed_eigh(a: np.ndarray, own: Results, known: Arrays, found: Arrays) -> Results:
    if "v" in found:
        own["v"] = np.where(np.isnan(found["v"]).any(-2, keepdims=True), own["v"], found["v"])
    return own


def _completed_svd(a: np.ndarray, own: Results, known: Arrays, found: Arrays) -> Results:
    made = own | dict(known)
    if len(known) == 1:
        # The other vectors of nonzero singular values: A^H u / s, or A v / s.
        s = own["s"].astype(np.float64)
        rank = s.shape[-1]
        first = s.max(-1, keepdims=True, initial=0)
        large = s > first * max(a.shape[-2:]) * np.finfo(own["s"].dtype).eps
        inverse = np.where(large, 1 / np.where(large, s, 1), 0)
        if "u" in known:
            vh = inverse[..., None] * (adjoint(wide(known["u"][..., :rank])) @ a)
            vh = np.where(large[..., None], vh, own["vh"][..., :rank, :])
            made["vh"] = np.concatenate([vh, own["vh"][..., rank:, :]], -2)
        else:
            u = (a @ adjoint(wide(known["vh"][..., :rank, :]))) * inverse[..., None, :]
            u = np.where(large[..., None, :], u, own["u"][..., :rank])
            made["u"] = np.concatenate([u, own["u"][..., rank:]], -1)
    return made


def _completed_eig(a: np.ndarray, own: Results, known: Arrays, found: Arrays) -> Results:
    made = own | dict(known)
    if "vr" in known and not {"w", "wr"} & known.keys():
        v = wide(known["vr"])
        w = (v.conj() * (a @ v)).sum(-2)
        made |= {"wr": w.real, "wi": w.imag} if "wr" in own else {"w": w}
    return made


def _completed_schur(a: np.ndarray, own: Results, known: Arrays, found: Arrays) -> Results:
    if "z" not in known:
        return own
    made = own | dict(known)
    z = wide(known["z"])
    if "t" not in known:
        made["t"] = np.triu(adjoint(z) @ a @ z, 0 if np.iscomplexobj(a) else -1)
    return made


_COMPLETED = {
    "eigh": _completed_eigh,
    "svd": _completed_svd,
    "eig": _completed_eig,
    "schur": _completed_schur,
}
