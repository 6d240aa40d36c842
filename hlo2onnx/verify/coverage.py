"""Which guards of a program inputs reach: an instrumented program tells."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import compress

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import function_type, functions_of
from hlo2onnx.frontend.mlir.locations import OriginReader
from hlo2onnx.frontend.mlir.values import module_bytecode
from hlo2onnx.frontend.signature import Port
from hlo2onnx.verify.guards import NAN
from hlo2onnx.verify.input_flow import InputFlow
from hlo2onnx.verify.instrument import ENDLESS, Instrumentation, Place
from hlo2onnx.verify.roles import roles_of
from hlo2onnx.verify.xla import Compile

SHOWN = 6
"""Limit of the sides in the text."""


@dataclass(frozen=True)
class Coverage:
    """The sides of guards that some inputs have reached.

    A guard is an op that treats some values in another way: a branch, a clamp, an index out of
    range, a division by 0. Each of its sides counts.

    Attributes:
        reached: Count of the sides that were reached.
        total: Count of all sides.
        missed: The others: op, side and source line.
        unobserved: Count of guards that cannot be observed, such as those in the comparator of a
            sort.
    """

    reached: int
    total: int
    missed: tuple[str, ...] = ()
    unobserved: int = 0

    def __str__(self) -> str:
        text = f"guards reached {self.reached} of {self.total}"
        if self.missed:
            more = len(self.missed) - SHOWN
            rest = [f"{more} more"] if more > 0 else []
            text += f". No sample reaches {'; '.join([*self.missed[:SHOWN], *rest])}"
        if self.unobserved:
            text += f" ({self.unobserved} in regions are not observed)"
        return text


class Probe:
    """A program that tells which guards its runs reach.

    Attributes:
        roles: The values of each input that matter.
        places: The sides of the guards.

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
        compiled: Compile,
    ) -> None:
        flow = InputFlow(module, {port.position: index for index, port in enumerate(ports)})
        self.roles = roles_of(flow, ports)
        instrumented = Instrumentation(module, flow)
        self.places, self._unobserved = instrumented.places, instrumented.unobserved
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
        ops = [place.op for place in self._of(reached) if place.what == NAN]
        return any(op != "convert" for op in ops), "convert" in ops

    def is_endless(self, reached: np.ndarray) -> bool:
        """Whether a run that reaches these sides has a loop of too many trips. Its results are
        wrong."""
        return any(place.what == ENDLESS for place in self._of(reached))

    def coverage(self, reached: np.ndarray) -> Coverage | None:
        """The coverage of runs that reach these sides; None without guards."""
        read = OriginReader()
        missed = []
        for place in self._of(~reached):
            if place.is_counted:
                sources = (read(location).source for location in place.locations)
                source = next(filter(None, sources), "")
                missed.append(f"{place.op} with {place.what}" + (f" ({source})" if source else ""))
        total = sum(place.is_counted for place in self.places)
        if not total and not self._unobserved:
            return None
        return Coverage(total - len(missed), total, tuple(dict.fromkeys(missed)), self._unobserved)

    def _of(self, flags: np.ndarray) -> Iterator[Place]:
        return compress(self.places, flags)

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
