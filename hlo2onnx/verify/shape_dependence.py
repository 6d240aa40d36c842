"""Python code that depends on shapes: the function is another program at other sizes."""

from __future__ import annotations

from collections.abc import Sequence

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.signature import Signature
from hlo2onnx.frontend.specialize import symbols_of
from hlo2onnx.runtime.calling import extents_of
from hlo2onnx.verify.compare import compare
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.trial import Trial


def notes_on_shapes(
    reference: Reference, signature: Signature, trials: Sequence[Trial]
) -> list[str]:
    """Notes on the sizes at which the user's function is not the program that was translated.

    Args:
        reference: The program.
        signature: Its signature.
        trials: Those in which the model differs.
    """
    names = symbols_of(signature)
    by_sizes: dict[str, Trial] = {}
    for trial in trials if names else ():
        sizes = extents_of(signature, trial.arrays)
        by_sizes.setdefault(", ".join(f"{name} = {sizes[name]}" for name in names), trial)
    return [
        f"at {sizes} the function is another program: Python code depends on the shape"
        for sizes, trial in by_sizes.items()
        if _is_another(reference, trial)
    ]


def _is_another(reference: Reference, trial: Trial) -> bool:
    try:
        found = reference.as_translated(trial.arrays)
    except VerificationError:
        return False
    rows = zip(found or (), trial.expected, strict=False)
    return not all(compare("", actual, want).ok for actual, want in rows)
