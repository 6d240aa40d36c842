"""Runs a program in XLA, as the reference."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property, partial
from typing import TypeVar

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import OverBudgetError, UsageError, VerificationError
from hlo2onnx.frontend.mlir.callbacks import drop_effects
from hlo2onnx.frontend.mlir.constants import densify
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.mlir.devices import devices_of
from hlo2onnx.frontend.mlir.functions import large_constants_as_arguments, make_main
from hlo2onnx.frontend.mlir.passes import flatten_results, replace_calls
from hlo2onnx.frontend.mlir.quantization import is_quantized, quantized_to_math
from hlo2onnx.frontend.mlir.shardings import replicate
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.frontend.mlir.values import module_bytecode, operations_of
from hlo2onnx.frontend.source import Source, find_function
from hlo2onnx.frontend.specialize import lowered_at, specialized, symbols_of
from hlo2onnx.runtime.calling import extents_of
from hlo2onnx.verify.budget import Budget
from hlo2onnx.verify.compare import compare
from hlo2onnx.verify.coverage import Probe
from hlo2onnx.verify.f64_reference import is_evaluation_of, widen, widened
from hlo2onnx.verify.input_flow import InputFlow
from hlo2onnx.verify.inputs import private_generator
from hlo2onnx.verify.reference_with_factors import OpenReference, has_decompositions
from hlo2onnx.verify.rounding import keep_half_weights, move_steps, round_constants, round_otherwise
from hlo2onnx.verify.sensitivity import Run
from hlo2onnx.verify.xla import XlaProgram, XlaRun, require_known_types


class Reference:
    """A program in XLA: the reference for its results.

    XLA compiles the program when it first runs, and a program of dynamic shapes for each set of
    input shapes.

    Args:
        source: The program.
        weights_dtype: The type in which the model stores f32 weights. The constants of the program
            are rounded to it.
        half: The policy of the model for half types.
        budget: The time of all but `__call__`. What it leaves out is as if XLA did not run it.
        lowers_again: Whether the function of a program with symbols is lowered for the sizes of the
            inputs. This is what the user's function computes; the program may be another.
    """

    def __init__(
        self,
        source: Source,
        weights_dtype: str | None = None,
        half: str = "xla",
        budget: Budget | None = None,
        lowers_again: bool = False,
    ) -> None:
        self._source = source
        self._weights_dtype = weights_dtype
        self._half = half
        self.budget = budget or Budget()
        self._lowers_again = lowers_again
        self._is_dynamic = bool(symbols_of(source.signature))
        self._is_of_several = devices_of(source.module.operation, source.function) is not None
        self._programs: dict[tuple[tuple[int, ...], ...], StaticReference] = {}
        if not self._is_dynamic:
            self._programs[()] = self._static(source)

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs on these inputs.

        Raises:
            VerificationError: XLA does not compile or run the program.
        """
        return self.at(arrays)(arrays)

    def at(self, arrays: Sequence[np.ndarray]) -> StaticReference:
        """The reference for inputs of these shapes."""
        shapes = tuple(array.shape for array in arrays) if self._is_dynamic else ()
        if shapes not in self._programs:
            sizes = extents_of(self._source.signature, arrays)
            static = self._specialized(sizes)
            if self._lowers_again and not self._is_of_several:
                static = lowered_at(self._source, static, sizes) or static
            self._programs[shapes] = self._static(static)
        return self._programs[shapes]

    def _specialized(self, sizes: Mapping[str, int]) -> Source:
        try:
            return specialized(self._source, sizes)
        except UsageError as error:
            raise VerificationError(f"XLA has no reference for this: {error}") from error

    def is_another(self, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]) -> bool:
        """Whether the function, lowered again for these sizes, is another program than the one that
        was translated: that has other results."""
        may_differ = self._lowers_again and self._is_dynamic and not self._is_of_several
        if not may_differ or self._source.at_sizes is None:
            return False
        static = self._specialized(extents_of(self._source.signature, arrays))
        try:
            found = self._static(static).again(arrays)
        except VerificationError:
            return False
        rows = zip(found, expected, strict=False)
        return not all(compare("", actual, want).ok for actual, want in rows)

    def _static(self, source: Source) -> StaticReference:
        return StaticReference(source, self._weights_dtype, self._half, self.budget)


T = TypeVar("T")

_WIDE = "the program in f64"
_VARIANTS = 3
"""Count of programs that round otherwise."""
_SMALL = 200
"""Count of ops that XLA compiles in a moment, however they round."""
_FEW_BYTES = 1 << 28
"""Bytes of weights of which another process may have a copy in f64."""


class StaticReference:
    """A program of static shapes.

    Attributes:
        devices: The counts of replicas and of partitions that run it. It is the original program,
            and not the one that was rewritten for one device.
        is_of_several: Whether these are several, and exchange data.
    """

    def __init__(
        self, source: Source, weights_dtype: str | None, half: str, budget: Budget
    ) -> None:
        self._is_half = half == "fast"
        module = clone_module(source.module)
        densify(module)
        if weights_dtype is not None:
            round_constants(module, weights_dtype)
        drop_effects(module)
        replace_calls(module)
        if is_quantized(module):
            quantized_to_math(module)
        make_main(module, source.function)
        function = find_function(module, "main", source.description)
        devices = devices_of(module, "main")
        self.devices = (1, 1) if devices is None else (devices.replicas, devices.partitions)
        self.is_of_several = devices is not None
        if devices is not None:
            replicate(function)
        self._module = module
        self._argument_count = len(function.regions[0].blocks[0].arguments)
        self._constants = large_constants_as_arguments(function)
        outputs = [port.position for port in source.signature.outputs]
        self._results = flatten_results(function) or outputs
        self._signature = source.signature
        self._budget = budget
        self._opened: dict[bool, OpenReference | None] = {}
        require_known_types(module)

    @cached_property
    def _program(self) -> XlaRun:
        if self.is_of_several:
            return self._compiled(module_bytecode(self._module), False)
        return XlaProgram(module_bytecode(self._module))

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs on these inputs."""
        return self._program(self._arguments(arrays, np.asarray), self._results)

    def again(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs on inputs for which a loop may not end.

        Raises:
            OverBudgetError: There is no time for it.
            VerificationError: XLA does not compile or run the program.
        """
        return self._checked_run(self._guarded if self.may_not_end else self._program, arrays)

    @cached_property
    def _guarded(self) -> XlaRun:
        return self._compiled(module_bytecode(self._module), True)

    @cached_property
    def may_not_end(self) -> bool:
        """Whether the condition of a loop depends on inputs."""
        if self.is_of_several:  # the flow does not enter the parts that run on each device
            return any(item.name == "stablehlo.while" for item in operations_of(self._module))
        return bool(self._flow.dependent_loops)

    @cached_property
    def _may_last(self) -> bool:
        """Whether a program that rounds otherwise may run or compile without end."""
        operations = operations_of(self._module)
        if any(operation.name == "stablehlo.while" for operation in operations):
            return True
        return len(operations) > _SMALL and sum(x.nbytes for x in self._fixed) < _FEW_BYTES

    @property
    def _fixed(self) -> list[np.ndarray]:
        """Arguments of all runs."""
        return [*self._constants, *(item.array for item in self._signature.bound)]

    def _compiled(self, bytecode: bytes, may_last: bool) -> XlaRun:
        return self._budget.program(bytecode, may_last, self._fixed, self.devices)

    def in_f64(
        self, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]
    ) -> list[np.ndarray | None]:
        """The outputs of the program in f64; None for each without a credible evaluation."""
        found = self.widened_results(arrays)
        if found is None:
            return [None] * len(expected)
        exact = [
            truth if is_evaluation_of(truth, want, self._is_half) else None
            for truth, want in zip(found, expected, strict=True)
        ]
        if any(truth is not None for truth in exact):  # integers may count roundings, as loops do
            for place, (truth, want) in enumerate(zip(found, expected, strict=True)):
                if truth.dtype == want.dtype and want.dtype.kind in "biu":
                    exact[place] = truth
        return exact

    def widened_results(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray] | None:
        """The outputs of the program in f64, which may be another function; None if XLA does not
        run it."""
        program = self._wide_program
        if program is None:
            return None
        return self._unless_refused(_WIDE, lambda: self._checked_run(program, arrays, widen))

    @cached_property
    def _wide_program(self) -> XlaRun | None:
        return self._unless_refused(
            _WIDE, lambda: self._compiled(self._widened().encode(), self._may_last)
        )

    def _widened(self) -> str:
        module = clone_module(self._module)
        keep_half_weights(module, [port.position for port in self._signature.inputs])
        return widened(str(module.get_asm(enable_debug_info=False)))

    def opened(self, is_wide: bool = False) -> OpenReference | None:
        """The program, or that in f64, opened at its decompositions.

        None if it has none, or XLA does not compile it.
        """
        if is_wide not in self._opened:
            what = "other results of decompositions"
            self._opened[is_wide] = self._unless_refused(what, lambda: self._open(is_wide))
        return self._opened[is_wide]

    def _open(self, is_wide: bool) -> OpenReference | None:
        module = clone_module(self._module)
        if self.is_of_several or not has_decompositions(module):
            return None
        convert: Callable[[np.ndarray], np.ndarray] = np.asarray
        if is_wide:
            module, convert = ir.Module.parse(self._widened(), module.context).operation, widen
        return OpenReference(
            module,
            self._results,
            partial(self._arguments, converted=convert),
            partial(self._compiled, may_last=self._may_last),
        )

    @cached_property
    def variants(self) -> list[Run]:
        """Programs that round otherwise."""
        what = "programs that round otherwise"
        each = [
            self._changed(what, round_otherwise, private_generator(x)) for x in range(_VARIANTS)
        ]
        return [run for run in each if run is not None]

    @cached_property
    def steps(self) -> list[Run]:
        """Programs that move floats before they become integers."""
        each = [self._changed("moved steps", move_steps, sign) for sign in (1, -1)]
        return [run for run in each if run is not None]

    def _changed(
        self, what: str, change: Callable[[ir.Operation, T], bool], argument: T
    ) -> Run | None:
        """The program with a change; None if nothing changes, or XLA does not compile it."""

        def compiled() -> XlaRun | None:
            module = clone_module(self._module)
            if not change(module, argument):
                return None
            return self._compiled(module_bytecode(module), self._may_last)

        program = self._unless_refused(what, compiled)
        return None if program is None else partial(self._checked_run, program)

    def _unless_refused(self, what: str, make: Callable[[], T | None]) -> T | None:
        """What a function makes; None if there is no time for it, or XLA refuses the program."""
        try:
            return make()
        except OverBudgetError:
            self._budget.leave_out(what)
        except (VerificationError, ir.MLIRError):
            pass
        return None

    @cached_property
    def _flow(self) -> InputFlow:
        ports = self._signature.inputs
        positions = {port.position: index for index, port in enumerate(ports)}
        return InputFlow(self._module, positions)

    def depends(self, output: int) -> bool:
        """Whether the output at a position depends on inputs."""
        outputs = self._flow.outputs
        # A tuple has several outputs.
        return output >= len(outputs) or bool(outputs[output].inputs)

    @cached_property
    def probe(self) -> Probe | None:
        """The program that also tells which guards a run reaches; None if XLA refuses it, or for
        several devices."""
        if self.is_of_several:
            return None
        return self._unless_refused("the guards that inputs reach", self._probe)

    def _probe(self) -> Probe:
        return Probe(
            clone_module(self._module),
            self._signature.inputs,
            partial(self._arguments, converted=np.asarray),
            self._results,
            partial(self._compiled, may_last=self.may_not_end),
        )

    def _checked_run(
        self,
        program: XlaRun,
        arrays: Sequence[np.ndarray],
        converted: Callable[[np.ndarray], np.ndarray] = np.asarray,
    ) -> list[np.ndarray]:
        self._budget.check()
        return program(self._arguments(arrays, converted), self._results)

    def _arguments(
        self, arrays: Sequence[np.ndarray], converted: Callable[[np.ndarray], np.ndarray]
    ) -> Iterable[np.ndarray]:
        # Arguments without a port are tokens, whose place an empty array takes.
        arguments = [np.zeros((0,), bool)] * self._argument_count
        for port, array in zip(self._signature.inputs, arrays, strict=True):
            arguments[port.position] = array
        for item in self._signature.bound:
            arguments[item.port.position] = item.array.astype(
                numpy_type(item.port.element), copy=False
            )
        # Converted one by one: weights in f64 are there twice as large as they are already.
        return map(converted, [*arguments, *self._constants])
