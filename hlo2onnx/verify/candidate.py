"""A model to judge, and its runs."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from hlo2onnx.errors import OverBudgetError
from hlo2onnx.frontend.signature import Signature
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.verify.budget import MODEL, Budget
from hlo2onnx.verify.runners import IN_THIS_PROCESS, OnnxRuntime, Runner

_LEAST = 2
"""Count of runs in any time."""


@dataclass(frozen=True)
class Candidate:
    """A model to judge.

    Attributes:
        model: The model, serialized or in a file.
        input_names: Names of its inputs, in the order of the program's.
        runner: What runs it.
        denormals: "keep" or "flush".
        ignores_nan: Whether operators of the model ignore NaN, as `nan=` permits.
    """

    model: bytes | str
    input_names: Sequence[str]
    runner: Runner = IN_THIS_PROCESS
    denormals: str = "keep"
    ignores_nan: bool = False

    def limited(self, limit: Callable[[], float]) -> Candidate:
        """The candidate, whose runs in this process take no more than some seconds."""
        runner = self.runner
        if isinstance(runner, OnnxRuntime):
            runner = replace(runner, limit=limit)
        return replace(self, runner=runner)

    def runs(
        self,
        signature: Signature,
        inputs: Iterable[Sequence[np.ndarray]],
        optimize: bool,
        denormals: str,
        seconds: float = math.inf,
        budget: Budget | None = None,
    ) -> list[list[np.ndarray]]:
        """The outputs for each of several inputs, from one session.

        Args:
            seconds: No run but the first two begins later than this.
            budget: The time of the verification. What it leaves out has no outputs.

        Raises:
            OverBudgetError: There is no time for any of them.
            VerificationError: The model does not load or does not run.
        """
        budget = budget or Budget()
        session = self.runner.session(self.model, optimize=optimize, denormals=denormals)
        found: list[list[np.ndarray]] = []
        until = time.monotonic() + seconds
        for arrays in inputs:
            if len(found) >= _LEAST and time.monotonic() > until:
                break
            feeds = to_model(self.input_names, arrays, signature.inputs)
            begin = time.monotonic()
            try:
                if budget.has_run_of_model:
                    budget.check()
                outputs = session(feeds)
            except OverBudgetError:
                if not found:
                    raise
                budget.leave_out("samples for the model")
                break
            budget.measured(MODEL, time.monotonic() - begin)
            found.append(from_model(signature.outputs, outputs))
        return found
