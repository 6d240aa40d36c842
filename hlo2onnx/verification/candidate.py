"""A model to judge, and its runs."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, Providers
from hlo2onnx.sources.signature import Signature

Run: TypeAlias = Callable[[Mapping[str, np.ndarray], bool], list[np.ndarray]]
"""Runs a model in another runtime, on inputs by name. The second argument says whether it may
optimize the graph."""


@dataclass(frozen=True)
class Candidate:
    """A model to judge.

    Attributes:
        model: The model, serialized or in a file.
        input_names: Names of its inputs, in the order of the program's.
        libraries: Paths of shared libraries with custom operators.
        denormals: "keep" or "flush".
        providers: Execution providers. Default: the CPU.
        ignores_nan: Whether operators of the model ignore NaN, as `nan=` permits.
        run: Runs the model in another runtime, which keeps or flushes denormals as it does.
            Default: ONNX Runtime.
    """

    model: bytes | str
    input_names: Sequence[str]
    libraries: Sequence[str] = ()
    denormals: str = "keep"
    providers: Providers | None = None
    ignores_nan: bool = False
    run: Run | None = None

    def runs(
        self,
        signature: Signature,
        inputs: Iterable[Sequence[np.ndarray]],
        optimize: bool,
        denormals: str,
    ) -> list[list[np.ndarray]]:
        """The outputs for each of several inputs, from one session.

        Raises:
            VerificationError: The model does not load or does not run.
        """
        session = self._session(optimize, denormals)
        found = []
        for arrays in inputs:
            feeds = to_model(self.input_names, arrays, signature.inputs)
            found.append(from_model(signature.outputs, session(feeds)))
        return found

    def _session(
        self, optimize: bool, denormals: str
    ) -> Callable[[Mapping[str, np.ndarray]], list[np.ndarray]]:
        if self.run is not None:
            run = self.run
            return lambda feeds: run(feeds, optimize)
        return OrtProgram(
            self.model,
            optimize=optimize,
            libraries=self.libraries,
            denormals=denormals,
            providers=self.providers,
        )
