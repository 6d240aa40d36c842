"""Runs a model step by step. Its state stays in the runtime's memory."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.tensors import Tensor, from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, from_ort, to_ort

if TYPE_CHECKING:
    import onnxruntime as ort


_TAKEN = "this state was given to a step, which has taken its memory"


class StateArray:
    """An array in the runtime's memory: a result that is the state of the next step.

    The next step takes its memory, as with `donate_argnums` in JAX. Then it cannot be read.

    Args:
        value: The value in the runtime.
        shape: Shape of the array.
        dtype: numpy type of its elements.
        read: Copies an `OrtValue` to a numpy array.

    Attributes:
        shape: Its shape.
        dtype: Its numpy type.
    """

    def __init__(
        self,
        value: ort.OrtValue,
        shape: tuple[int, ...],
        dtype: np.dtype,
        read: Callable[[ort.OrtValue], np.ndarray],
    ) -> None:
        self._values = [value]
        self._read = read
        self.shape = shape
        self.dtype = dtype

    @property
    def value(self) -> ort.OrtValue:
        """The value in the runtime.

        Raises:
            SignatureError: A step has taken its memory.
        """
        try:
            return self._values[0]
        except IndexError:
            raise SignatureError(_TAKEN) from None

    def take_from_runtime(self) -> ort.OrtValue:
        """The value in the runtime. Its memory belongs to the caller afterwards.

        One of several threads gets it.

        Raises:
            SignatureError: A step has taken its memory.
        """
        try:
            return self._values.pop()
        except IndexError:
            raise SignatureError(_TAKEN) from None

    def numpy(self) -> np.ndarray:
        """A copy of the content."""
        return self._read(self.value)

    def __array__(self, dtype: np.dtype | None = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<StateArray {self.dtype}{list(self.shape)}>"


class Stepper:
    """Runs a program with ONNX Runtime's IO binding.

    A new state takes the memory of the old state if the model can update that in place. Otherwise,
    it takes the memory of the state before the old one.

    Args:
        program: The session.
        description: Says which outputs take the memory of which inputs.
        in_place: Outputs that can overwrite their state.
    """

    def __init__(
        self, program: OrtProgram, description: Description, in_place: Collection[int]
    ) -> None:
        self._program = program
        self._names = program.input_names
        self._description = description
        self._state_of = {output: int(place) for place, output in description.states.items()}
        self._in_place = frozenset(in_place)
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
                value = array.take_from_runtime() if place in lent else array.value
                if place in lent:
                    taken[place] = value
            else:
                value = to_ort(to_model(array, self._description.inputs[place].channels_second))
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
        port = self._description.outputs[place]
        if place in self._state_of:
            shape = tuple(value.shape())
            shape = shape[:-1] if port.dtype.startswith("complex") else shape
            return StateArray(value, shape, port.numpy, partial(_read, port))
        return _read(port, value)


def _read(port: Tensor, value: ort.OrtValue) -> np.ndarray:
    return from_model(from_ort(value), port)
