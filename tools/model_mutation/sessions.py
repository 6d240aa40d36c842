"""Sessions of ONNX Runtime whose runs have a time limit."""

from __future__ import annotations

import threading
from collections.abc import Mapping, Sequence

import numpy as np
import onnxruntime as ort

from hlo2onnx.runtime.sessions import OrtProgram, from_ort, to_ort


class LimitedSession:
    """A model in ONNX Runtime, without graph optimization.

    Args:
        model: The serialized model.
        libraries: Paths of shared libraries with custom operators.
        seconds: Limit of a run.

    Attributes:
        was_stopped: Whether a run has taken too long.

    Raises:
        VerificationError: ONNX Runtime does not load the model.
    """

    def __init__(self, model: bytes, libraries: Sequence[str], seconds: float) -> None:
        self._program = OrtProgram(model, optimize=False, threads=1, libraries=libraries)
        self._seconds = seconds
        self.was_stopped = False

    def __call__(self, feeds: Mapping[str, np.ndarray]) -> list[np.ndarray] | None:
        """The outputs; None if the run fails or takes too long."""
        options = ort.RunOptions()
        options.log_severity_level = 4

        def stop() -> None:
            self.was_stopped = options.terminate = True

        timer = threading.Timer(self._seconds, stop)
        timer.daemon = True
        timer.start()
        try:
            values = {name: to_ort(array) for name, array in feeds.items()}
            run = self._program.session.run_with_ort_values
            return [from_ort(value) for value in run(self._program.output_names, values, options)]
        except Exception:  # noqa: BLE001 - whatever ONNX Runtime raises
            return None
        finally:
            timer.cancel()
