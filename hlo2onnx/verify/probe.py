"""Runs an instrumented program: its results, and the sides of its guards that a run reaches."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import function_type, functions_of
from hlo2onnx.frontend.signature import Port
from hlo2onnx.verify.guards import NAN
from hlo2onnx.verify.input_flow import InputFlow
from hlo2onnx.verify.instrument import ENDLESS, Instrumentation
from hlo2onnx.verify.roles import roles_of
from hlo2onnx.verify.xla import XlaProgram, module_bytecode
from hlo2onnx.verify.xla_process import Compile


class Probe:
    """A program that tells which guards its runs reach.

    Attributes:
        roles: The values of each input that matter.
        places: The sides of the guards.
        unobserved: Count of guards that are not observed.

    Args:
        module: The module operation. It changes.
        ports: The inputs.
        arguments: Converts inputs to the arguments of `main`.
        results: Places of the outputs among its results.
        compiled: Compiles it.

    Raises:
        VerificationError: XLA does not compile the program.
    """

    def __init__(
        self,
        module: ir.Operation,
        ports: Sequence[Port],
        arguments: Callable[[Sequence[np.ndarray]], Iterable[np.ndarray]],
        results: Sequence[int],
        compiled: Compile = XlaProgram,
    ) -> None:
        flow = InputFlow(module, {port.position: index for index, port in enumerate(ports)})
        self.roles = roles_of(flow, ports)
        instrumented = Instrumentation(module, flow)
        self.places, self.unobserved = instrumented.places, instrumented.unobserved
        self._of_nan = np.array([place.what == NAN for place in self.places], bool)
        self._converts = np.array([place.op == "convert" for place in self.places], bool)
        self._of_trips = np.array([place.what == ENDLESS for place in self.places], bool)
        self._flags = np.array(instrumented.flags, np.int64)
        self._arguments = arguments
        self._wanted = list(results)
        if self.places:
            every = function_type(functions_of(module)["main"]).results
            self._wanted.append(len(every) - 1)
        self._program = compiled(module_bytecode(module))

    def nans(self, reached: np.ndarray) -> tuple[bool, bool]:
        """Whether a run that reaches these sides takes the maximum or minimum of NaN, and whether
        it converts NaN to an integer."""
        found = reached & self._of_nan
        return bool((found & ~self._converts).any()), bool((found & self._converts).any())

    def is_endless(self, reached: np.ndarray) -> bool:
        """Whether a run that reaches these sides has a loop of too many trips. Its results are
        wrong."""
        return bool((reached & self._of_trips).any())

    def __call__(self, arrays: Sequence[np.ndarray]) -> tuple[list[np.ndarray], np.ndarray]:
        """The outputs, and whether the run reaches each side.

        Raises:
            VerificationError: XLA does not run the program.
        """
        found = self._program(self._arguments(arrays), self._wanted)
        reached = np.zeros(len(self.places), bool)
        if self.places:
            np.logical_or.at(reached, self._flags, found.pop())
        return found, reached
