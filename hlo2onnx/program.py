"""The result of a translation: a model that can be run, verified and saved."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.calling import flatten_arguments, unflatten_results
from hlo2onnx.report import Report
from hlo2onnx.sources import Source
from hlo2onnx.verification.compare import Verification
from hlo2onnx.verification.ort import OrtProgram
from hlo2onnx.verification.verify import verify

EXTERNAL_DATA_BYTES = 1 << 30
"""Models with more weight bytes than this are saved with external data (a protobuf ends at 2 GB)."""


class OnnxProgram:
    """An ONNX model together with the calling convention of the program it was made from.

    Calling it runs the model in ONNX Runtime on the pytrees the JAX function takes and returns
    those the JAX function returns, with numpy arrays as leaves.

    Attributes:
        model: The model, as `onnx_ir.Model`.
        report: What the translation did.
    """

    def __init__(self, model: oir.Model, source: Source, report: Report) -> None:
        self.model = model
        self.report = report
        self._source = source

    @property
    def input_names(self) -> list[str]:
        """Names of the model's inputs."""
        return [str(value.name) for value in self.model.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the model's outputs."""
        return [str(value.name) for value in self.model.graph.outputs]

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as an `onnx.ModelProto`."""
        return oir.to_proto(self.model)

    def save(self, path: str | Path) -> None:
        """Writes the model; weights of more than 1 GB in total go to `<name>.data` beside it."""
        path = Path(path)
        size = sum(
            value.const_value.nbytes
            for value in self.model.graph.initializers.values()
            if value.const_value is not None
        )
        external = f"{path.name}.data" if size > EXTERNAL_DATA_BYTES else None
        oir.save(self.model, path, external_data=external)

    @cached_property
    def _runtime(self) -> OrtProgram:
        return OrtProgram(self.model_proto.SerializeToString())

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Runs the model in ONNX Runtime.

        Args:
            args, kwargs: As the JAX function takes them (static arguments left out); for a bare
                StableHLO program one array per input.

        Returns:
            As the JAX function returns it; for a bare StableHLO program the array, or a tuple of
            arrays.

        Raises:
            SignatureError: The arguments do not fit.
            VerificationError: ONNX Runtime is not installed or refuses.
        """
        signature = self._source.signature
        arrays = flatten_arguments(signature, args, kwargs)
        results = self.run(arrays)
        return unflatten_results(signature, results)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the model on flat arrays, one per input, complex ones as complex arrays."""
        from hlo2onnx.calling import from_model, to_model

        signature = self._source.signature
        feeds = to_model(self.input_names, arrays)
        return from_model(signature.outputs, self._runtime(feeds))

    def verify(self, *args: Any, seed: int = 0, **kwargs: Any) -> Verification:
        """Compares the model in ONNX Runtime with XLA on the CPU running the original module.

        Runs ORT with and without graph optimisation.

        Args:
            args, kwargs: As for a call; random inputs are made where none are given.
            seed: Of the random inputs.

        Returns:
            A comparison per output and run; falsy when they disagree, readable as text.

        Raises:
            SignatureError: The arguments do not fit.
            VerificationError: XLA or ORT cannot run the program.
        """
        arrays = None
        if args or kwargs or not self._source.signature.inputs:
            arrays = flatten_arguments(self._source.signature, args, kwargs)
        return verify(self._source, self.model_proto, self.input_names, arrays, seed)

    def __repr__(self) -> str:
        return (
            f"<OnnxProgram of {self.report.source}: {', '.join(self.input_names)} ->"
            f" {', '.join(self.output_names)}>"
        )
