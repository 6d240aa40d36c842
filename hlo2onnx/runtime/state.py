"""Arrays in the runtime's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

import numpy as np

from hlo2onnx.errors import SignatureError

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
