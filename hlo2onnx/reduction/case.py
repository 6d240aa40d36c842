"""A program under reduction: its text, and arrays for some of its arguments."""

from __future__ import annotations

import hashlib
from dataclasses import dataclass
from functools import cached_property

import numpy as np

Inputs = tuple[np.ndarray | None, ...]
"""One entry per argument: its array, or None for an argument with random numbers."""


@dataclass(frozen=True)
class Case:
    """A program that can be tested.

    Attributes:
        text: StableHLO text with a function `main`.
        inputs: What `main` is run on.
        ops: Count of ops, without functions and terminators.
    """

    text: str
    inputs: Inputs
    ops: int

    @cached_property
    def key(self) -> str:
        """The same for equal cases."""
        digest = hashlib.sha256(self.text.encode())
        for array in self.inputs:
            if array is not None:
                digest.update(str((array.dtype, array.shape)).encode())
                digest.update(np.ascontiguousarray(array).tobytes())
            digest.update(b"|")
        return digest.hexdigest()

    @property
    def size(self) -> tuple[int, int, int]:
        """What a reduction makes smaller: ops, arguments and text."""
        return self.ops, len(self.inputs), len(self.text)
