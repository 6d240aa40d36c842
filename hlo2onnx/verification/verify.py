"""Verifies a model: runs XLA once, and ORT with and without graph optimization.

If a float output is outside its tolerance, the program also runs in f64. An error of up to twice
XLA's own is XLA's rounding.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo2onnx.runtime.sessions import Providers
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.candidate import Candidate
from hlo2onnx.verification.compare import Verification
from hlo2onnx.verification.judge import Judge
from hlo2onnx.verification.trial_inputs import inputs_of


def verify(
    source: Source,
    model: bytes | str,
    input_names: Sequence[str],
    arrays: Sequence[np.ndarray] | None,
    seed: int,
    libraries: Sequence[str] = (),
    denormals: str = "keep",
    providers: Providers | None = None,
) -> Verification:
    """Compares a model, serialized or in a file, with its program. See `OnnxProgram.verify`."""
    candidate = Candidate(model, input_names, libraries, denormals, providers)
    return Judge(source, inputs_of(source, arrays, seed))(candidate)
