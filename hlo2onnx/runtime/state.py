"""Arrays that stay in the runtime's memory."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from hlo2onnx.errors import SignatureError

_TAKEN = "this state was given to a step, which has taken its memory"


class StateArray:
    """An array in the runtime's memory: a result that is to be the next step's state.

    As in JAX, a step that is given it takes its memory (`donate_argnums`): it cannot be read
    afterwards.

    Args:
        value: The `onnxruntime.OrtValue`.
        shape: The shape of the array it holds.
        dtype: The numpy type of its elements.
        read: Copies an `OrtValue` into a numpy array.

    Attributes:
        shape: Its shape.
        dtype: Its numpy type.
    """

    def __init__(
        self,
        value: Any,
        shape: tuple[int, ...],
        dtype: np.dtype[Any],
        read: Callable[[Any], np.ndarray],
    ) -> None:
        self._values = [value]
        self._read = read
        self.shape = shape
        self.dtype = dtype

    @property
    def value(self) -> Any:
        """The `onnxruntime.OrtValue`.

        Raises:
            SignatureError: A step has taken it.
        """
        try:
            return self._values[0]
        except IndexError:
            raise SignatureError(_TAKEN) from None

    def take(self) -> Any:
        """The `onnxruntime.OrtValue`, whose memory is the taker's from now on.

        One of several threads gets it.

        Raises:
            SignatureError: A step has taken it.
        """
        try:
            return self._values.pop()
        except IndexError:
            raise SignatureError(_TAKEN) from None

    def numpy(self) -> np.ndarray:
        """A copy of the content."""
        return self._read(self.value)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        array = self.numpy()
        return array if dtype is None else array.astype(dtype, copy=False)

    def __repr__(self) -> str:
        return f"<StateArray {self.dtype}{list(self.shape)}>"
