"""An MLIR operation as handlers see it."""

from __future__ import annotations

from functools import cached_property
from typing import Any

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.passes import operands_of
from hlo2onnx.frontend.mlir.types import Dim, is_complex, shape_of
from hlo2onnx.frontend.mlir.values import MlirValue


class Op:
    """Read-only view of one MLIR operation.

    Attributes:
        name: Qualified name, "stablehlo.pad".
        operands: MLIR values.
        results: MLIR values.
        mlir_names: Names of all MLIR attributes present.
    """

    def __init__(self, operation: ir.Operation, name: str | None = None) -> None:
        self.operation = operation
        self.name: str = name or operation.name
        self.operands: list[MlirValue] = list(operation.operands)
        self.results: list[MlirValue] = list(operation.results)
        self.mlir_names: list[str] = [
            item if isinstance(item, str) else item.name for item in operation.attributes
        ]

    @property
    def key(self) -> str:
        """The key of the op's handler in the registry."""
        return self.name

    @property
    def label(self) -> str:
        """The default name of its nodes."""
        return self.name.partition(".")[2]

    @property
    def attribute_names(self) -> list[str]:
        """Names of the attributes a handler has to know."""
        return [name for name in self.mlir_names if "." not in name]

    def attribute(self, name: str) -> Any:
        """One attribute as a Python value; KeyError if it is absent."""
        return to_python(self.operation.attributes[name])

    @property
    def block_count(self) -> int:
        """How many regions the op has."""
        return len(self.operation.regions)

    def block(self, region: int) -> ir.Block:
        """The single block of a region."""
        block: ir.Block = self.operation.regions[region].blocks[0]
        return block

    @property
    def reader(self) -> Op | None:
        """The op that is the only reader of the op's only result; None if there is none."""
        owners = [use.owner for result in self.results for use in result.uses]
        return op_of(owners[0].operation) if len(owners) == len(self.results) == 1 else None

    @property
    def touches_complex(self) -> bool:
        """Whether an operand or a result is a tensor of complex numbers."""
        for value in (*self.operands, *self.results):  # noqa: SIM110  (every op is asked)
            if is_complex(value.type):
                return True
        return False

    def types(self) -> str:
        """The op's type, as MLIR prints it: (operands) -> results."""
        operands = ", ".join(str(value.type) for value in self.operands)
        results = ", ".join(str(value.type) for value in self.results)
        return f"({operands}) -> {results if len(self.results) == 1 else f'({results})'}"

    def result_shape(self, index: int = 0) -> tuple[Dim, ...]:
        """Extents of a tensor result; None for a dynamic one."""
        return shape_of(self.results[index].type)


CUSTOM_CALL = "stablehlo.custom_call"
CALLED = "called_computations"


def call_key(target: str) -> str:
    """The key of a custom call's handler in the registry."""
    return f"{CUSTOM_CALL} @{target}"


class CustomCall(Op):
    """A `stablehlo.custom_call`. Its handler is registered for the target.

    Its attributes are the entries of its configuration: those of a `backend_config` dictionary, or
    of `mhlo.backend_config` and `mhlo.attributes`, where older versions keep them. A text that is
    not empty is the single entry "backend_config". The called functions are "called_computations",
    and the generator of random numbers is "rng_algorithm".

    Operands that hold the shapes of results (indices_of_shape_operands) are left out.

    The other attributes describe the calling convention, and no handler reads them: api_version,
    has_side_effect, operand_layouts, result_layouts, output_operand_aliases.
    """

    def __init__(self, operation: ir.Operation, name: str | None = None) -> None:
        super().__init__(operation, name)
        self.operands = operands_of(operation)

    @cached_property
    def target(self) -> str:
        """The name of the function it calls."""
        return str(super().attribute("call_target_name"))

    @property
    def label(self) -> str:
        """The name of its nodes: the last part of the target."""
        return self.target.rpartition(".")[2] or self.target

    @property
    def key(self) -> str:
        """The key of the call's handler in the registry."""
        return call_key(self.target)

    @cached_property
    def configuration(self) -> dict[str, Any]:
        """The entries of the call's configuration, as Python values."""
        entries: dict[str, Any] = {}
        for name in ("backend_config", "mhlo.backend_config", "mhlo.attributes"):
            if name in self.mlir_names and (content := super().attribute(name)):
                entries |= content if isinstance(content, dict) else {"backend_config": content}
        for name in (CALLED, "rng_algorithm"):
            if name in self.mlir_names and (content := super().attribute(name)):
                entries[name] = content
        return entries

    @property
    def attribute_names(self) -> list[str]:
        """Names of the entries of the configuration."""
        return list(self.configuration)

    def attribute(self, name: str) -> Any:
        """One entry of the configuration; KeyError if it is absent."""
        return self.configuration[name]


def op_of(operation: ir.Operation) -> Op:
    """The view of an MLIR operation."""
    name = operation.name  # MLIR makes a new text each time
    return CustomCall(operation, name) if name == CUSTOM_CALL else Op(operation, name)
