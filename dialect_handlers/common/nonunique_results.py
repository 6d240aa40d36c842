"""What a decomposition leaves open, so that XLA's results may be others and both be right."""

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
    """Tells the user that results may differ from XLA's where they depend on such a choice."""
    em.report.note(f"{_CHOICES[of]}: XLA may choose others")
