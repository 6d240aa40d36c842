"""What a program computes, as XLA has it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from hlo2onnx.calling import extents_of
from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.graph.dims import evaluate
from hlo2onnx.mlir.constants import densify
from hlo2onnx.mlir.context import clone_module, parse_module
from hlo2onnx.mlir.effects import drop_effects
from hlo2onnx.mlir.refine import is_dynamic, refined
from hlo2onnx.mlir.quantized import is_quantized, quantized_to_math
from hlo2onnx.mlir.specialize import make_main, specialize
from hlo2onnx.sources.source import Source, find_function
from hlo2onnx.verification.widen import is_evaluation_of, widen, widened
from hlo2onnx.verification.xla import XlaProgram, module_bytecode


class Reference:
    """A program in XLA: the arbiter of what it computes.

    One of dynamic shapes is compiled for the shapes that it meets.

    Raises:
        VerificationError: XLA does not compile it.
    """

    def __init__(self, source: Source) -> None:
        self._source = source
        self._signature = source.signature
        module = clone_module(source.module)
        densify(module)
        drop_effects(module)
        if is_quantized(module):
            quantized_to_math(module)
        make_main(module, source.function)
        self._module = module
        function = find_function(module, "main", source.description)
        self._argument_count = len(function.regions[0].blocks[0].arguments)
        self._is_dynamic = is_dynamic(function) or bool(self._signature.dims)
        self._programs: dict[tuple[tuple[int, ...], ...], XlaProgram] = {}
        if not self._is_dynamic:
            self._programs[()] = XlaProgram(module_bytecode(module))

    def __call__(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """The outputs on these inputs."""
        shapes = tuple(array.shape for array in arrays) if self._is_dynamic else ()
        if shapes not in self._programs:
            self._programs[shapes] = XlaProgram(self._static_module(arrays))
        return self._run(self._programs[shapes], arrays)

    def in_f64(
        self, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]
    ) -> list[np.ndarray | None]:
        """The outputs of the program in f64; None for those without a believable evaluation."""
        module: Any = self._module
        if self._is_dynamic:
            module = parse_module(self._static_module(arrays), "the program").operation
        try:
            text = module.get_asm(enable_debug_info=False)
            program = XlaProgram(widened(text).encode())
            found = self._run(program, [widen(array) for array in arrays])
        except VerificationError:
            return [None] * len(expected)
        return [
            truth if is_evaluation_of(truth, want) else None
            for truth, want in zip(found, expected, strict=True)
        ]

    def _static_module(self, arrays: Sequence[np.ndarray]) -> bytes:
        module = self._module.clone()
        sizes = extents_of(self._signature, arrays)
        main = find_function(module, "main", self._source.description)
        constants = {
            position: np.array(evaluate(dim, sizes) or 0, _dtype(main, position))
            for position, dim in self._signature.dims.items()
        }
        specialize(main, constants)
        shapes: list[Sequence[int] | None] = [None] * (self._argument_count - len(constants))
        for port, array in zip(self._signature.inputs, arrays, strict=True):
            shapes[self._position(port.position)] = array.shape
        try:
            return refined(module, shapes)
        except UsageError as error:
            raise VerificationError(f"XLA has no reference for these inputs: {error}") from error

    def _position(self, position: int) -> int:
        """Where an argument is once the extents among the arguments are constants."""
        return position - sum(other < position for other in self._signature.dims)

    def _run(self, program: XlaProgram, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        # Arguments without a port are tokens, whose place an empty array takes.
        arguments = [np.zeros((0,), bool)] * (self._argument_count - len(self._signature.dims))
        for port, array in zip(self._signature.inputs, arrays, strict=True):
            arguments[self._position(port.position)] = array
        return program(arguments, [port.position for port in self._signature.outputs])


def _dtype(function: Any, position: int) -> str:
    """The type of an argument that holds an extent."""
    element = str(function.regions[0].blocks[0].arguments[position].type.element_type)
    return f"int{element.removeprefix('i')}"
