"""Makes the inputs of a verification."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo2onnx.sources.source import Source
from hlo2onnx.verification.inputs import is_float, private_generator, random_array
from hlo2onnx.verification.trial import Inputs


def inputs_of(source: Source, arrays: Sequence[np.ndarray] | None, seed: int) -> list[Inputs]:
    """The inputs of a verification: these arrays, or inputs that are made for the program."""
    if arrays is not None:
        return [Inputs(arrays)]
    kind = f"random inputs, seed {seed}"
    rng = private_generator(seed)
    first, second = (
        [random_array(port, rng) for port in source.signature.inputs] for _ in range(2)
    )
    # Variances must not be negative, for example.
    positive = [np.abs(array) if is_float(array) else array for array in second]
    return [Inputs(first, kind), Inputs(positive, f"{kind}, floats made positive")]
