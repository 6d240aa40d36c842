"""Decompositions are unique only up to a choice, which is made here as XLA made it.

    eigh   (w, v)          each eigenvector up to a phase (a sign)
    eig    (w, [vl, [vr]]) the same, and the order of the eigenvalues
    svd    (s, [u, vt])    each pair of singular vectors up to one phase; with full matrices the
                           vectors beyond the smaller extent up to a rotation among themselves

Only unit phases, permutations and projections within a subspace are applied, so vectors that are
wrong in any other way stay wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

Arrays = list[np.ndarray]


def align(
    group: str, outputs: Sequence[np.ndarray], reference: Sequence[np.ndarray]
) -> list[np.ndarray]:
    """The outputs of a harness of a group with their free choices made as in the reference.

    Outputs that do not have the reference's shapes come back as they are.
    """
    rule = _RULES.get(group)
    same = len(outputs) == len(reference) and all(
        one.shape == two.shape for one, two in zip(outputs, reference, strict=True)
    )
    if rule is None or not same or not reference[0].size:
        return list(outputs)
    batch = reference[0].shape[:-1]
    aligned = [array.copy() for array in outputs]
    for index in np.ndindex(*batch):
        parts = rule([array[index] for array in outputs], [array[index] for array in reference])
        for array, part in zip(aligned, parts, strict=True):
            array[index] = part
    return aligned


def _phases(got: np.ndarray, want: np.ndarray) -> np.ndarray:
    """For each column the unit number that turns `got` towards `want`."""
    products = (got.conj() * want).sum(0)
    sizes = np.abs(products)
    return np.where(sizes > 0, products / np.where(sizes > 0, sizes, 1), 1).astype(got.dtype)


def _eigh(got: Arrays, want: Arrays) -> Arrays:
    values, vectors = got
    return [values, vectors * _phases(vectors, want[1])]


def _eig(got: Arrays, want: Arrays) -> Arrays:
    order = _nearest(got[0], want[0])
    vectors = [
        ours[:, order] * _phases(ours[:, order], theirs)
        for ours, theirs in zip(got[1:], want[1:], strict=True)
    ]
    return [got[0][order], *vectors]


def _nearest(got: np.ndarray, want: np.ndarray) -> list[int]:
    """For each wanted value the index of the nearest one that is still free."""
    free = list(range(len(got)))
    order = []
    for value in want:
        distances = [np.abs(got[index] - value) for index in free]
        order.append(free.pop(int(np.argmin(distances))))
    return order


def _svd(got: Arrays, want: Arrays) -> Arrays:
    if len(got) == 1:
        return got
    (values, u, vt), (_, want_u, want_vt) = got, want
    rank = len(values)
    phases = _phases(u[:, :rank], want_u[:, :rank])
    u_rest = _rotated(u[:, rank:], want_u[:, rank:])
    vt_rest = _rotated(vt[rank:].conj().T, want_vt[rank:].conj().T).conj().T
    return [
        values,
        np.concatenate([u[:, :rank] * phases, u_rest], 1),
        np.concatenate([vt[:rank] * phases.conj()[:, None], vt_rest], 0),
    ]


def _rotated(basis: np.ndarray, want: np.ndarray) -> np.ndarray:
    """The projection of `want` on what an orthonormal basis spans: `want` if that is the same."""
    projected: np.ndarray = basis @ (basis.conj().T @ want)
    return projected


_RULES: dict[str, Callable[[Arrays, Arrays], Arrays]] = {"eigh": _eigh, "eig": _eig, "svd": _svd}
