"""Verifies a model against XLA, on one or several inputs."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from hlo2onnx.runtime.sessions import Providers
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.candidate import Candidate
from hlo2onnx.verification.compare import Verification
from hlo2onnx.verification.judge import Judge
from hlo2onnx.verification.settings import Settings


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
    """Compares a model, serialized or in a file, with its program.

    To judge several models of a program, make one `Judge`.

    Args:
        source: The program.
        model: The model.
        input_names: Names of its inputs.
        arrays: One for each input; None to make inputs.
        seed: Seed of the inputs that are made.
        libraries, denormals, providers: See `Candidate`.
    """
    given = None if arrays is None else [(arrays, "")]
    judge = Judge(source, given, Settings(seed=seed))
    return judge(Candidate(model, input_names, libraries, denormals, providers))
