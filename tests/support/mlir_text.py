"""Parts of MLIR programs as text."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np

from hlo2onnx.frontend.mlir.types import numpy_type

Start = int | str
"""A number is a constant of the program; "@3" is the input 3."""


def tensor(dims: Iterable[int], element: str = "f32") -> str:
    """A tensor type, such as tensor<2x3xf32>."""
    return f"tensor<{'x'.join([*map(str, dims), element])}>"


@dataclass(frozen=True)
class Starts:
    """Scalar start indices of an op.

    Attributes:
        parameters: The parameters of the function, after others.
        constants: The lines that define known indices.
        names: The names of the operands.
        types: The types of the operands.
        inputs: The indices that the caller passes.
    """

    parameters: str
    constants: str
    names: list[str]
    types: list[str]
    inputs: list[np.ndarray]

    @classmethod
    def of(cls, starts: Sequence[Start], index: str, first: int) -> Starts:
        """Starts of an index type; the function has `first` parameters before them."""
        scalar = tensor([], index)
        names, parameters, constants, inputs = [], "", [], []
        for axis, start in enumerate(starts):
            if isinstance(start, str):
                names.append(f"%arg{first + len(inputs)}")
                parameters += f", {names[-1]}: {scalar}"
                inputs.append(np.asarray(int(start[1:])).astype(numpy_type(index)))
            else:
                names.append(f"%c{axis}")
                constants.append(f"%c{axis} = stablehlo.constant dense<{start}> : {scalar}")
        return cls(parameters, "\n".join(constants), names, [scalar] * len(names), inputs)
