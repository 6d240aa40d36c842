"""Running a model step by step, its state staying with the runtime."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.mlir.types import numpy_type
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, from_ort, to_ort
from hlo2onnx.runtime.state import StateArray
from hlo2onnx.sources.signature import Port, Signature

_IN_PLACE = frozenset({"ScatterElements", "ScatterND"})
"""Operators that ONNX Runtime runs without a copy where the output is in the memory of `data`."""


def updated_in_place(graph: oir.Graph, aliases: Mapping[int, int]) -> frozenset[int]:
    """Outputs that can be written over the state whose next value they are: nothing reads that
    state but the node that makes the output, and this one changes elements of it.

    Args:
        aliases: Places of the outputs, by those of the inputs that are their states.
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

    A result that is a state takes the memory of the state it follows, where the model can update
    that in place, or else of the one before that.

    Args:
        program: The session.
        graph: The model's graph.
        signature: Says which inputs lend their memory to which outputs.
    """

    def __init__(self, program: OrtProgram, graph: oir.Graph, signature: Signature) -> None:
        self._program = program
        self._names = [str(value.name) for value in graph.inputs]
        self._signature = signature
        self._state_of = {output: place for place, output in signature.aliases.items()}
        self._in_place = updated_in_place(graph, signature.aliases)
        self._spare: dict[int, Any] = {}

    def __call__(self, arrays: Sequence[Any]) -> list[Any]:
        """The results; those that are states as `StateArray`s."""
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
                port = self._signature.inputs[place]
                value = to_ort(to_model([name], [array], [port])[name])
            binding.bind_ortvalue_input(name, value)
        return taken

    def _memory(self, output: int, taken: Mapping[int, Any]) -> Any | None:
        """What an output is to be written over; None for memory of its own."""
        current = taken.get(self._state_of.get(output, -1))
        if output in self._in_place:
            return current
        spare = self._spare.pop(output, None)
        if current is None or spare is None or spare is current:
            return None
        return spare if spare.shape() == current.shape() else None

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
