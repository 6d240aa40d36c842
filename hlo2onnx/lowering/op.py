"""An MLIR operation as handlers see it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.types import Dim, is_complex, shape_of


class Op:
    """Read-only view of one MLIR operation.

    Attributes:
        name: Qualified name, "stablehlo.pad".
        operands: MLIR values.
        results: MLIR values.
    """

    def __init__(self, operation: Any) -> None:
        self.operation = operation
        self.name: str = operation.name
        self.operands: list[Any] = list(operation.operands)
        self.results: list[Any] = list(operation.results)

    @cached_property
    def attribute_names(self) -> list[str]:
        """Names of the attributes present."""
        return [a if isinstance(a, str) else a.name for a in self.operation.attributes]

    def attribute(self, name: str) -> Any:
        """One attribute as a Python value; KeyError if it is absent."""
        return to_python(self.operation.attributes[name])

    @property
    def block_count(self) -> int:
        """How many regions the op has."""
        return len(self.operation.regions)

    def block(self, region: int) -> Any:
        """The single block of a region."""
        return self.operation.regions[region].blocks[0]

    @cached_property
    def touches_complex(self) -> bool:
        """Whether an operand or a result is a tensor of complex numbers."""
        return any(is_complex(value.type) for value in [*self.operands, *self.results])

    def types(self) -> str:
        """The op's type, as MLIR prints it: (operands) -> results."""
        operands = ", ".join(str(value.type) for value in self.operands)
        results = ", ".join(str(value.type) for value in self.results)
        return (
            f"({operands}) -> {results}"
            if len(self.results) == 1
            else f"({operands}) -> ({results})"
        )

    def result_shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Extents of a tensor result; None for a dynamic one."""
        return shape_of(self.results[index].type)
