"""Running a model step by step, its state staying with the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np

from hlo2onnx.calling import from_model, to_model
from hlo2onnx.sources.signature import Port, Signature
from hlo2onnx.state import StateArray
from hlo2onnx.verification.inputs import numpy_type
from hlo2onnx.verification.ort import OrtProgram, from_ort, to_ort


class Stepper:
    """Runs a program with ONNX Runtime's IO binding.

    Args:
        program: The session.
        names: Names of the model's inputs.
        signature: Says which inputs lend their memory to which outputs.
    """

    def __init__(self, program: OrtProgram, names: Sequence[str], signature: Signature) -> None:
        self._program = program
        self._names = names
        self._signature = signature
        self._state_of = {output: place for place, output in signature.aliases.items()}
        self._spare: dict[int, Any] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The results; those that are states as `StateArray`s, in memory of earlier states."""
        binding = self._program.session.io_binding()
        taken = self._bind_inputs(binding, arrays)
        outputs = self._program.output_names
        for place, name in enumerate(outputs):
            spare = self._spare.pop(place, None)
            if spare is not None and self._fits(spare, taken, place):
                binding.bind_ortvalue_output(name, spare)
            else:
                binding.bind_output(name, "cpu")
        self._program.run_bound(binding)
        values = binding.get_outputs()
        self._spare = {
            output: taken[place] for output, place in self._state_of.items() if place in taken
        }
        return [self._result(place, value) for place, value in enumerate(values)]

    def _bind_inputs(self, binding: Any, arrays: Sequence[Any]) -> dict[int, Any]:
        """Binds all inputs; returns the runtime's values that this step may overwrite, by input."""
        taken: dict[int, Any] = {}
        lent = set(self._state_of.values())
        for place, (name, array) in enumerate(zip(self._names, arrays, strict=True)):
            if isinstance(array, StateArray):
                value = array.take() if place in lent else array.value
                if place in lent:
                    taken[place] = value
            else:
                value = to_ort(to_model([name], [array])[name])
            binding.bind_ortvalue_input(name, value)
        return taken

    def _fits(self, spare: Any, taken: Mapping[int, Any], output: int) -> bool:
        """Whether an output can be written over a state of two steps ago."""
        current = taken.get(self._state_of[output])
        return current is not None and spare is not current and spare.shape() == current.shape()

    def _result(self, place: int, value: Any) -> Any:
        port = self._signature.outputs[place]
        if place in self._state_of:
            shape = tuple(value.shape())
            shape = shape[:-1] if port.element.startswith("complex") else shape
            return StateArray(value, shape, numpy_type(port.element), partial(_read, port))
        return _read(port, value)


def _read(port: Port, value: Any) -> np.ndarray:
    (array,) = from_model([port], [from_ort(value)])
    return array
