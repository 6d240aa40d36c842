"""Runs an instrumented program: which sides of its guards do some inputs reach?"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.verification.input_flow import InputFlow
from hlo2onnx.verification.instrument import Instrumentation
from hlo2onnx.verification.xla import XlaProgram, module_bytecode


class Probe:
    """A program that tells which guards its runs reach.

    Attributes:
        flow: The flows of the inputs. It belongs to the module before the instrumentation.
        places: The sides of the guards.
        unobserved: Count of guards that are not observed.

    Args:
        module: The module operation. It changes.
        ports: The index of the input at each position of an argument of `main`.
        arguments: Converts inputs to the arguments of `main`.

    Raises:
        VerificationError: XLA does not compile the program.
    """

    def __init__(
        self,
        module: ir.Operation,
        ports: Mapping[int, int],
        arguments: Callable[[Sequence[np.ndarray]], Iterable[np.ndarray]],
    ) -> None:
        self.flow = InputFlow(module, ports)
        instrumented = Instrumentation(module, self.flow)
        self.places, self.unobserved = instrumented.places, instrumented.unobserved
        self._flags = np.array(instrumented.flags, np.int64)
        self._arguments = arguments
        self._program = XlaProgram(module_bytecode(module)) if self.places else None

    def __call__(self, arrays: Sequence[np.ndarray]) -> np.ndarray:
        """Whether a run on these inputs reaches each side.

        Raises:
            VerificationError: XLA does not run the program.
        """
        reached = np.zeros(len(self.places), bool)
        if self._program is not None:
            (flags,) = self._program(self._arguments(arrays))
            np.logical_or.at(reached, self._flags, flags)
        return reached
