"""Names, types and pytrees at the boundary of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Protocol, TypeAlias

import jax
import numpy as np
from jax.tree_util import KeyEntry, KeyPath, PyTreeDef
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.functions import argument_attributes, function_type
from hlo2onnx.frontend.mlir.locations import argument_name
from hlo2onnx.frontend.mlir.quantization import step_of, stored_element
from hlo2onnx.frontend.mlir.types import element_type, is_tensor, is_token, shape_of
from hlo2onnx.frontend.mlir.values import module_of, operations_in
from hlo2onnx.interface.description import BoundArgument
from hlo2onnx.ir.dims import is_static, parse, symbol
from hlo2onnx.ir.names import Names
from hlo2onnx.ir.values import Dim

PyTree: TypeAlias = Any
"""Nested containers with arrays or other leaves, as `jax.tree_util` flattens them."""


class Aval(Protocol):
    """The shape and dtype of an array. JAX has several classes for it."""

    @property
    def shape(self) -> tuple[object, ...]:
        """Extents, perhaps symbolic."""

    @property
    def dtype(self) -> np.dtype:
        """A type of NumPy or of PRNG keys."""


_KEY = re.compile(r"\[(['\"]?)(?:<flat index )?(?P<item>.*?)>?\1\]|\.(?P<name>\w+)")


@dataclass(frozen=True)
class Port:
    """One tensor at the boundary, as StableHLO types it.

    Attributes:
        name: Path of the leaf: "x", "params/Dense_0/kernel", "logits".
        element: MLIR element type: "f32", "ui8", "complex<f32>"; the storage type of a quantized
            type.
        shape: Extents; symbols for dynamic ones.
        position: Index among the arguments (or results) of the MLIR function.
        alias: Position of the result that takes the memory of a donated input (`donate_argnums`).
        step: Distance between neighbouring numbers of a quantized or dequantized result. Another
            rounding differs by one step. 0 for other results.
        channels_second: Whether the program's last axis is the second axis in the model.
    """

    name: str
    element: str
    shape: tuple[Dim, ...]
    position: int
    alias: int | None = None
    step: float = 0.0
    channels_second: bool = False


@dataclass(frozen=True)
class Leaf:
    """One leaf of the JAX function's arguments or results.

    Attributes:
        aval: Its shape and dtype. The dtype may be a PRNG key type or float0.
        port: Index of the input (output) that carries it; None for an argument that jit pruned.
    """

    aval: Aval
    port: int | None


@dataclass(frozen=True)
class Statics:
    """Static arguments. They are part of the program, not inputs.

    Attributes:
        count: Count of positional arguments at lowering, with the static ones.
        positional: Values by position.
        keywords: Values by name.
        objects: `(args, kwargs)` with the leaves that are not arrays, and None for each array. None
            if all leaves are arrays.
    """

    count: int = 0
    positional: Mapping[int, object] = field(default_factory=dict)
    keywords: Mapping[str, object] = field(default_factory=dict)
    objects: PyTree | None = None


NO_STATICS = Statics()


@dataclass(frozen=True)
class Trees:
    """The calling convention of a JAX function. `in_tree` is the structure of `(args, kwargs)`."""

    in_tree: PyTreeDef
    in_leaves: tuple[Leaf, ...]
    out_tree: PyTreeDef
    out_leaves: tuple[Leaf, ...]
    statics: Statics = NO_STATICS


@dataclass(frozen=True)
class Bound:
    """An input whose value is part of the model.

    Attributes:
        array: Its value, in the user's memory.
    """

    port: Port
    array: np.ndarray


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a program, without tokens.

    Attributes:
        inputs: In the order of the MLIR arguments.
        outputs: In the order of the MLIR results.
        trees: Pytrees of the JAX function; None for a bare StableHLO module.
        dims: Extents that are arguments of the MLIR function, by position. The user does not pass
            them.
        bound: Former inputs with their values.
        bound_arguments: The arguments that the user has bound.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    trees: Trees | None = None
    dims: Mapping[int, Dim] = field(default_factory=dict)
    bound: tuple[Bound, ...] = ()
    bound_arguments: tuple[BoundArgument, ...] = ()

    @property
    def aliases(self) -> dict[int, int]:
        """Indices of the outputs that take the memory of an input, by index of the input."""
        places = {port.position: index for index, port in enumerate(self.outputs)}
        return {
            index: places[port.alias]
            for index, port in enumerate(self.inputs)
            if port.alias in places
        }


def signature_of(function: ir.Operation) -> Signature:
    """The signature of a `func.func`, named by its argument locations and `jax.result_info`.

    Raises:
        LoadError: An argument or result is not a tensor.
    """
    block = function.regions[0].blocks[0]
    attributes = argument_attributes(function)
    dims = {
        position: parse(names["jax.global_constant"])
        for position, names in enumerate(attributes)
        if "jax.global_constant" in names
    }
    positive = POLYMORPHIC in module_of(function).attributes
    inputs = _ports(
        block.arguments.types,
        [path_name(argument_name(argument.location)) for argument in block.arguments],
        "arg",
        positive,
    )
    aliases = [names.get("tf.aliasing_output") for names in attributes]
    inputs = tuple(
        replace(port, alias=aliases[port.position]) for port in inputs if port.position not in dims
    )
    result_types = function_type(function).results
    names = own_results(_result_names(function, len(result_types)), [port.name for port in inputs])
    outputs = _ports(result_types, names, "result", positive)
    steps = [step_of(value) for value in operations_in(block)[-1].operands]
    outputs = tuple(replace(port, step=steps[port.position]) for port in outputs)
    return Signature(inputs, outputs, dims=dims)


def with_trees(
    function: ir.Operation,
    in_tree: PyTreeDef,
    in_avals: Sequence[Aval],
    kept: Iterable[int],
    out_tree: PyTreeDef,
    out_avals: Sequence[Aval],
    statics: Statics = NO_STATICS,
) -> Signature:
    """The signature of a `func.func` that JAX has made, with its pytrees.

    Args:
        function: The `func.func`.
        in_tree: Tree of `(args, kwargs)`.
        in_avals: One per leaf of it.
        kept: Indices of the leaves that are arguments of the function. jit pruned the others.
        out_tree: Tree of the results.
        out_avals: One per leaf of it.
        statics: Static arguments, if they are known.

    Raises:
        LoadError: The function's inputs and outputs do not fit the trees.
    """
    bare = signature_of(function)
    port_of = {leaf: port for port, leaf in enumerate(sorted(kept))}
    are_leaves = len(out_avals) == out_tree.num_leaves and len(
        in_avals
    ) == in_tree.num_leaves > max(port_of, default=-1)
    if not are_leaves or (len(bare.inputs), len(bare.outputs)) != (len(port_of), len(out_avals)):
        raise LoadError(
            f"the program has {len(bare.inputs)} inputs and {len(bare.outputs)} outputs, its"
            f" pytrees have {len(port_of)} and {len(out_avals)}: functions that take mutable"
            " arrays (jax.Ref) cannot be translated"
        )
    arguments = function.regions[0].blocks[0].arguments
    paths = key_paths(in_tree, in_avals)
    input_names = [
        _input_name(paths[leaf], argument_name(arguments[port.position].location))
        for leaf, port in zip(sorted(port_of), bare.inputs, strict=True)
    ]
    results = [
        "/".join(["result", *map(key_name, path)]) for path in key_paths(out_tree, out_avals)
    ]
    output_names = own_results(results, input_names)
    in_leaves = [Leaf(aval, port_of.get(index)) for index, aval in enumerate(in_avals)]
    out_leaves = [Leaf(aval, index) for index, aval in enumerate(out_avals)]
    trees = Trees(in_tree, tuple(in_leaves), out_tree, tuple(out_leaves), statics)
    inputs = _renamed(bare.inputs, input_names, [in_avals[leaf] for leaf in sorted(port_of)])
    outputs = _renamed(bare.outputs, output_names, out_avals)
    return Signature(inputs, outputs, trees, bare.dims)


def with_inputs_named(signature: Signature, names: Sequence[str]) -> Signature:
    """The signature with other names of its inputs, made unique."""
    renamed = map(lambda port, name: replace(port, name=name), signature.inputs, names)
    return replace(signature, inputs=_unique(renamed))


def path_name(text: str) -> str:
    """JAX's spelling of a pytree leaf as a path: "params['a'][0].w" -> "params/a/0/w".

    Names of other producers of StableHLO stay the same.
    """
    parts = [re.split(r"[\[.]", text, maxsplit=1)[0]]
    end = len(parts[0])
    while key := _KEY.match(text, end):
        parts.append(key.group("name") or key.group("item"))
        end = key.end()
    return "/".join(parts) if end == len(text) else text


def key_paths(tree: PyTreeDef, leaves: Sequence[object]) -> list[KeyPath]:
    """The key path of each leaf of a tree.

    Args:
        leaves: Leaves to fill the tree with.
    """
    filled = jax.tree_util.tree_unflatten(tree, leaves)
    return [path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]]


def _input_name(path: KeyPath, location: str) -> str:
    """Path of an argument's leaf: the parameter's name, then the keys within it.

    The argument's location may have the parameter's name ("params['w']"). The keys come from the
    pytree: in the location, a key "a.b" looks like attribute b of a.
    """
    kind, parameter, *rest = path
    suffix = jax.tree_util.keystr(tuple(rest))
    if location.endswith(suffix) and len(location) > len(suffix):
        head = path_name(location.removesuffix(suffix))
    else:
        head = key_name(parameter) if kind.idx == 1 else f"arg{key_name(parameter)}"
    return "/".join([head, *map(key_name, rest)])


def key_name(key: KeyEntry) -> str:
    """The name of one key of a path."""
    return str(jax.tree_util.keystr((key,), simple=True))


def _renamed(
    ports: Sequence[Port], names: Sequence[str], avals: Sequence[Aval]
) -> tuple[Port, ...]:
    """The ports with the names and symbolic extents of a JAX function."""
    rows = zip(ports, names, avals, strict=True)
    renamed = (replace(port, name=name, shape=_named(port, aval)) for port, name, aval in rows)
    return _unique(renamed)


def _named(port: Port, aval: Aval) -> tuple[Dim, ...]:
    if is_static(port.shape):
        return port.shape
    # The data of a typed key has more axes than its aval.
    spelled = [*aval.shape, *(None for _ in port.shape[len(aval.shape) :])]
    return tuple(
        dim if isinstance(dim, int) else parse(str(text))
        for dim, text in zip(port.shape, spelled, strict=True)
    )


POLYMORPHIC = "jax.uses_shape_polymorphism"
"""JAX's attribute of modules with symbolic dimensions, which are at least 1."""


def _ports(
    types: Iterable[ir.Type], names: Sequence[str], default: str, positive: bool
) -> tuple[Port, ...]:
    """One port per tensor, and one per member of a tuple."""
    ports: list[Port] = []
    for position, (mlir_type, name) in enumerate(zip(types, names, strict=True)):
        for member, suffix in _members(mlir_type):
            wanted = (name or f"{default}{position}") + suffix
            element = stored_element(element_type(member))
            ports.append(Port(wanted, element, _shape(member, wanted, positive), position))
    return _unique(ports)


def _shape(mlir_type: ir.Type, name: str, positive: bool) -> tuple[Dim, ...]:
    return tuple(
        symbol(f"{name}_dim{axis}", positive) if dim is None else dim
        for axis, dim in enumerate(shape_of(mlir_type))
    )


def _members(mlir_type: ir.Type, suffix: str = "") -> list[tuple[ir.Type, str]]:
    if is_token(mlir_type):
        return []
    if is_tensor(mlir_type):
        return [(mlir_type, suffix)]
    if isinstance(mlir_type, ir.TupleType):
        return [
            member
            for index in range(mlir_type.num_types)
            for member in _members(mlir_type.get_type(index), f"{suffix}/{index}")
        ]
    raise LoadError(f"an argument or result has the type {mlir_type}, not a ranked tensor")


def _unique(ports: Iterable[Port]) -> tuple[Port, ...]:
    names = Names()
    return tuple(replace(port, name=names.unique(port.name)) for port in ports)


def _result_names(function: ir.Operation, count: int) -> list[str]:
    present = "res_attrs" in function.attributes
    attributes = to_python(function.attributes["res_attrs"]) if present else ()
    infos = [entry.get("jax.result_info", "") for entry in attributes] or [""] * count
    return [path_name(info) if info else ("result" if count == 1 else "") for info in infos]


def own_results(names: Sequence[str], inputs: Sequence[str]) -> list[str]:
    """The names of results: their keys in a dict or named tuple, without "result" in front.

    Where one has no such key, or the name of an input, all keep "result/" in front.
    """
    own = [name.removeprefix("result/") for name in names]
    are_keys = all(
        name != key and (head := key.split("/")[0]) and not head.isdigit()
        for name, key in zip(names, own, strict=True)
    )
    return own if are_keys and not set(own) & set(inputs) else list(names)


def own_inputs(names: Sequence[str], parameters: Sequence[str]) -> list[str]:
    """The names of the inputs of a function that passes on `*args`, with the names of the
    parameters that take them.

    Args:
        names: The names of its inputs. Those of `*args` are "args/0" and so on.
        parameters: Names of all parameters, the function's own ones first.
    """
    taken = {name.split("/")[0] for name in names}
    free = [name for name in parameters if name not in taken]

    def own(name: str) -> str:
        head, _, rest = name.partition("/")
        place, _, tail = rest.partition("/")
        if head != "args" or not place.isdigit() or int(place) >= len(free):
            return name
        return "/".join(part for part in (free[int(place)], tail) if part)

    return list(names) if "args" in parameters else list(map(own, names))
