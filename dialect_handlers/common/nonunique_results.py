"""Notes about decompositions that are not unique: XLA's results may differ, and both are right."""

from __future__ import annotations

from typing import Literal

from hlo2onnx.lowering.emitter import Emitter

_CHOICES = {
    "eigh": "eigenvectors are unique only up to a sign or phase, in the space of equal eigenvalues",
    "eig": "eigenvectors are unique only up to a sign or phase, eigenvalues up to their order",
    "svd": "singular vectors are unique only up to a sign or phase, in the space of equal values",
    "schur": "Schur forms are unique only up to signs or phases and the order of the eigenvalues",
}


def note_choices(em: Emitter, of: Literal["eigh", "eig", "svd", "schur"]) -> None:
    """Adds a note that results may differ from XLA's."""
    em.report.note(f"{_CHOICES[of]}: XLA may choose others")
