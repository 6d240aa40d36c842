"""A trial: inputs of a program, and XLA's results for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np


@dataclass(frozen=True)
class Inputs:
    """Inputs of a program.

    Attributes:
        arrays: One for each input of the program.
        kind: Their description for the user: "random inputs, seed 0".
        is_ordinary: Whether they are the user's own, or ordinary numbers. Others were made to reach
            special cases.
    """

    arrays: Sequence[np.ndarray]
    kind: str = ""
    is_ordinary: bool = True


@dataclass(frozen=True)
class Trial:
    """Inputs and XLA's results for them."""

    inputs: Inputs
    expected: Sequence[np.ndarray]

    @property
    def arrays(self) -> Sequence[np.ndarray]:
        """The inputs."""
        return self.inputs.arrays
