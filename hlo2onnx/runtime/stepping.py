"""Runs a model step by step. Its state stays in the runtime's memory."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as oir

from hlo2onnx.mlir.types import numpy_type
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, from_ort, to_ort
from hlo2onnx.runtime.state import StateArray
from hlo2onnx.sources.signature import Port, Signature

if TYPE_CHECKING:
    import onnxruntime as ort

_IN_PLACE = frozenset({"ScatterElements", "ScatterND"})
"""Operators that ONNX Runtime runs without a copy if the output has the memory of `data`."""


def updated_in_place(graph: oir.Graph, aliases: Mapping[int, int]) -> frozenset[int]:
    """Outputs that can overwrite their state.

    Only the node that makes such an output reads the state, and it updates some elements.

    Args:
        aliases: Places of the outputs, by the places of their states among the inputs.
    """
    found = set()
    for place, output in aliases.items():
        maker = graph.outputs[output].producer()
        if maker is None or maker.op_type not in _IN_PLACE:
            continue
        readers = [(use.node, use.idx) for use in graph.inputs[place].uses()]
        if readers == [(maker, 0)]:
            found.add(output)
    return frozenset(found)


class Stepper:
    """Runs a program with ONNX Runtime's IO binding.

    A new state takes the memory of the old state if the model can update that in place. Otherwise,
    it takes the memory of the state before the old one.

    Args:
        program: The session.
        graph: The model's graph.
        signature: Says which outputs take the memory of which inputs.
    """

    def __init__(self, program: OrtProgram, graph: oir.Graph, signature: Signature) -> None:
        self._program = program
        self._names = [str(value.name) for value in graph.inputs]
        self._signature = signature
        self._state_of = {output: place for place, output in signature.aliases.items()}
        self._in_place = updated_in_place(graph, signature.aliases)
        self._spare: dict[int, ort.OrtValue] = {}

    def __call__(self, arrays: Sequence[np.ndarray | StateArray]) -> list[np.ndarray | StateArray]:
        """Runs a step. Returns its results, with states as `StateArray`s."""
        binding = self._program.session.io_binding()
        taken = self._bind_inputs(binding, arrays)
        outputs = self._program.output_names
        for place, name in enumerate(outputs):
            memory = self._memory(place, taken)
            if memory is None:
                binding.bind_output(name, "cpu")
            else:
                binding.bind_ortvalue_output(name, memory)
        self._program.run_bound(binding)
        values = binding.get_outputs()
        self._spare = {
            output: taken[place]
            for output, place in self._state_of.items()
            if place in taken and output not in self._in_place
        }
        return [self._result(place, value) for place, value in enumerate(values)]

    def _bind_inputs(
        self, binding: ort.IOBinding, arrays: Sequence[np.ndarray | StateArray]
    ) -> dict[int, ort.OrtValue]:
        """Binds all inputs. Returns the values that this step may overwrite, by input."""
        taken: dict[int, ort.OrtValue] = {}
        lent = set(self._state_of.values())
        for place, (name, array) in enumerate(zip(self._names, arrays, strict=True)):
            if isinstance(array, StateArray):
                value = array.take() if place in lent else array.value
                if place in lent:
                    taken[place] = value
            else:
                port = self._signature.inputs[place]
                value = to_ort(to_model([name], [array], [port])[name])
            binding.bind_ortvalue_input(name, value)
        return taken

    def _memory(self, output: int, taken: Mapping[int, ort.OrtValue]) -> ort.OrtValue | None:
        """The value that an output overwrites; None for new memory."""
        current = taken.get(self._state_of.get(output, -1))
        if output in self._in_place:
            return current
        spare = self._spare.pop(output, None)
        if current is None or spare is None or spare is current:
            return None
        return spare if spare.shape() == current.shape() else None

    def _result(self, place: int, value: ort.OrtValue) -> np.ndarray | StateArray:
        port = self._signature.outputs[place]
        if place in self._state_of:
            shape = tuple(value.shape())
            shape = shape[:-1] if port.element.startswith("complex") else shape
            return StateArray(value, shape, numpy_type(port.element), partial(_read, port))
        return _read(port, value)


def _read(port: Port, value: ort.OrtValue) -> np.ndarray:
    (array,) = from_model([port], [from_ort(value)])
    return array
