"""Names, types and pytrees at the boundary of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any

from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.locations import argument_name
from hlo2onnx.mlir.types import is_token, shape_of

_KEY = re.compile(
    r"\[(?P<quote>['\"]?)(?:<flat index )?(?P<item>.*?)>?(?P=quote)\]|\.(?P<name>\w+)"
)


@dataclass(frozen=True)
class Port:
    """One tensor at the boundary, as StableHLO types it.

    Attributes:
        name: Path of the leaf: "x", "params/Dense_0/kernel", "result/logits".
        element: MLIR element type: "f32", "ui8", "complex<f32>".
        shape: Extents; None for a dynamic one.
        position: Index among the arguments (or results) of the MLIR function.
    """

    name: str
    element: str
    shape: tuple[int | None, ...]
    position: int


@dataclass(frozen=True)
class Leaf:
    """One leaf of the JAX function's arguments or results.

    Attributes:
        aval: Its abstract value (`.shape`, `.dtype`; the dtype may be a PRNG key type or float0).
        port: Index of the input (output) that carries it; None for an argument that jit pruned.
    """

    aval: Any
    port: int | None


@dataclass(frozen=True)
class Trees:
    """The JAX function's own calling convention."""

    in_tree: Any
    in_leaves: tuple[Leaf, ...]
    out_tree: Any
    out_leaves: tuple[Leaf, ...]


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a program, tokens left out.

    Attributes:
        inputs: In the order of the MLIR arguments.
        outputs: In the order of the MLIR results.
        trees: Pytrees of the JAX function; None for a bare StableHLO module.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    trees: Trees | None = None

    def with_names(self, inputs: Sequence[str], outputs: Sequence[str]) -> Signature:
        """The signature with other names."""
        return replace(
            self,
            inputs=tuple(replace(p, name=n) for p, n in zip(self.inputs, inputs, strict=True)),
            outputs=tuple(replace(p, name=n) for p, n in zip(self.outputs, outputs, strict=True)),
        )


def path_name(text: str) -> str:
    """JAX's spelling of a pytree leaf as a path: "params['a'][0].w" -> "params/a/0/w"."""
    head = re.match(r"\w*", text)
    parts = [head.group()] if head and head.group() else []
    for key in _KEY.finditer(text):
        parts.append(key.group("name") or key.group("item"))
    return "/".join(parts)


def signature_of(function: Any) -> Signature:
    """The signature of a `func.func`, named by its argument locations and `jax.result_info`."""
    block = function.regions[0].blocks[0]
    inputs = _ports(
        (argument.type for argument in block.arguments),
        [path_name(argument_name(argument.location)) for argument in block.arguments],
        "arg",
    )
    result_types = list(to_python(function.attributes["function_type"]).results)
    outputs = _ports(result_types, _result_names(function, len(result_types)), "result")
    return Signature(inputs, outputs)


def _ports(types: Iterable[Any], names: Sequence[str], default: str) -> tuple[Port, ...]:
    """One port per tensor; the members of a tuple are ports of their own."""
    ports: list[Port] = []
    for position, (mlir_type, name) in enumerate(zip(types, names, strict=True)):
        for member, suffix in _members(mlir_type):
            wanted = (name or f"{default}{position}") + suffix
            element = str(member.element_type)
            ports.append(Port(wanted, element, shape_of(member), position))
    return tuple(_unique(ports))


def _members(mlir_type: Any, suffix: str = "") -> list[tuple[Any, str]]:
    if is_token(mlir_type):
        return []
    if hasattr(mlir_type, "num_types"):
        return [
            member
            for index in range(mlir_type.num_types)
            for member in _members(mlir_type.get_type(index), f"{suffix}/{index}")
        ]
    return [(mlir_type, suffix)]


def _unique(ports: Iterable[Port]) -> Iterable[Port]:
    seen: dict[str, int] = {}
    for port in ports:
        count = seen[port.name] = seen.get(port.name, 0) + 1
        yield port if count == 1 else replace(port, name=f"{port.name}_{count - 1}")


def _result_names(function: Any, count: int) -> list[str]:
    names = [a if isinstance(a, str) else a.name for a in function.attributes]
    attributes = to_python(function.attributes["res_attrs"]) if "res_attrs" in names else ()
    infos = [entry.get("jax.result_info", "") for entry in attributes] or [""] * count
    return [path_name(info) if info else ("result" if count == 1 else "") for info in infos]
