"""Names, types and pytrees at the boundary of a program."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import jax
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.ir.dims import is_static, parse, symbol
from hlo2onnx.ir.values import Dim
from hlo2onnx.mlir.attributes import to_python
from hlo2onnx.mlir.functions import argument_attributes
from hlo2onnx.mlir.locations import argument_name
from hlo2onnx.mlir.quant.types import step_of, stored_element
from hlo2onnx.mlir.types import is_tensor, is_token, shape_of

_KEY = re.compile(r"\[(['\"]?)(?:<flat index )?(?P<item>.*?)>?\1\]|\.(?P<name>\w+)")


@dataclass(frozen=True)
class Port:
    """One tensor at the boundary, as StableHLO types it.

    Attributes:
        name: Path of the leaf: "x", "params/Dense_0/kernel", "result/logits".
        element: MLIR element type: "f32", "ui8", "complex<f32>"; of a quantized one that of its
            storage.
        shape: Extents; symbolic where they are dynamic.
        position: Index among the arguments (or results) of the MLIR function.
        alias: Of an input that the caller gives away (`donate_argnums`): the position of the
            result that takes its memory.
        step: Distance between neighbouring values of a quantized result, or one just dequantized:
            rounding that goes the other way shows as one step. 0 for everything else.
        channels_second: Whether the model has the last axis second, though the program has it last.
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
        aval: Its abstract value (`.shape`, `.dtype`; the dtype may be a PRNG key type or float0).
        port: Index of the input (output) that carries it; None for an argument that jit pruned.
    """

    aval: Any
    port: int | None


@dataclass(frozen=True)
class Statics:
    """Static arguments, which are part of the program and no inputs of it.

    Attributes:
        count: How many positional arguments the function was lowered with, static ones included.
        positional: Values by position.
        keywords: Values by name.
        objects: `(args, kwargs)` with what is no array in arguments that hold arrays, too, and
            None in place of these; None where there is no such thing.
    """

    count: int = 0
    positional: Mapping[int, Any] = field(default_factory=dict)
    keywords: Mapping[str, Any] = field(default_factory=dict)
    objects: Any = None


NO_STATICS = Statics()


@dataclass(frozen=True)
class Trees:
    """The JAX function's own calling convention: `in_tree` is that of `(args, kwargs)`."""

    in_tree: Any
    in_leaves: tuple[Leaf, ...]
    out_tree: Any
    out_leaves: tuple[Leaf, ...]
    statics: Statics = NO_STATICS


@dataclass(frozen=True)
class Bound:
    """An input that is part of the model.

    Attributes:
        array: Its value, over the memory it was given in.
    """

    port: Port
    array: Any


@dataclass(frozen=True)
class Signature:
    """Inputs and outputs of a program, tokens left out.

    Attributes:
        inputs: In the order of the MLIR arguments.
        outputs: In the order of the MLIR results.
        trees: Pytrees of the JAX function; None for a bare StableHLO module.
        dims: Extents that are arguments of the MLIR function, by position; nobody passes them.
        bound: What were inputs, with their values.
    """

    inputs: tuple[Port, ...]
    outputs: tuple[Port, ...]
    trees: Trees | None = None
    dims: Mapping[int, Dim] = field(default_factory=dict)
    bound: tuple[Bound, ...] = ()

    @property
    def aliases(self) -> dict[int, int]:
        """Inputs that lend their memory to outputs of their type: input index to output index."""
        places = {port.position: index for index, port in enumerate(self.outputs)}
        return {
            index: places[port.alias]
            for index, port in enumerate(self.inputs)
            if port.alias in places
        }


def signature_of(function: Any) -> Signature:
    """The signature of a `func.func`, named by its argument locations and `jax.result_info`.

    Raises:
        LoadError: An argument or result is no tensor.
    """
    block = function.regions[0].blocks[0]
    dims = {
        position: parse(names["jax.global_constant"])
        for position, names in enumerate(argument_attributes(function))
        if "jax.global_constant" in names
    }
    positive = POLYMORPHIC in function.parent.attributes
    inputs = _ports(
        (argument.type for argument in block.arguments),
        [path_name(argument_name(argument.location)) for argument in block.arguments],
        "arg",
        positive,
    )
    aliases = [names.get("tf.aliasing_output") for names in argument_attributes(function)]
    inputs = tuple(
        replace(port, alias=aliases[port.position]) for port in inputs if port.position not in dims
    )
    result_types = list(to_python(function.attributes["function_type"]).results)
    names = _result_names(function, len(result_types))
    outputs = _ports(result_types, names, "result", positive)
    steps = [step_of(value) for value in block.operations[len(block.operations) - 1].operands]
    outputs = tuple(replace(port, step=steps[port.position]) for port in outputs)
    return Signature(inputs, outputs, dims=dims)


def with_trees(
    function: Any,
    in_tree: Any,
    in_avals: Sequence[Any],
    kept: Iterable[int],
    out_tree: Any,
    out_avals: Sequence[Any],
    statics: Statics = NO_STATICS,
) -> Signature:
    """The signature of a `func.func` that JAX made, with its pytrees.

    Args:
        function: The `func.func`.
        in_tree: Tree of `(args, kwargs)`.
        in_avals: One per leaf of it.
        kept: Indices of the leaves that are arguments of the function; jit pruned the others.
        out_tree: Tree of the results.
        out_avals: One per leaf of it.
        statics: Static arguments, where they are known.

    Raises:
        LoadError: The function's inputs and outputs are not those of the trees.
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
    output_names = [
        "/".join(["result", *map(_key_name, path)]) for path in key_paths(out_tree, out_avals)
    ]
    in_leaves = [Leaf(aval, port_of.get(index)) for index, aval in enumerate(in_avals)]
    out_leaves = [Leaf(aval, index) for index, aval in enumerate(out_avals)]
    trees = Trees(in_tree, tuple(in_leaves), out_tree, tuple(out_leaves), statics)
    inputs = _renamed(bare.inputs, input_names, [in_avals[leaf] for leaf in sorted(port_of)])
    outputs = _renamed(bare.outputs, output_names, out_avals)
    return Signature(inputs, outputs, trees, bare.dims)


def path_name(text: str) -> str:
    """JAX's spelling of a pytree leaf as a path: "params['a'][0].w" -> "params/a/0/w".

    Names that are not spelled so, as other producers of StableHLO have them, stay as they are.
    """
    parts = [re.match(r"[^\[.]*", text).group()]  # type: ignore[union-attr]
    end = len(parts[0])
    while key := _KEY.match(text, end):
        parts.append(key.group("name") or key.group("item"))
        end = key.end()
    return "/".join(parts) if end == len(text) else text


def key_paths(tree: Any, leaves: Sequence[Any]) -> list[tuple[Any, ...]]:
    """The key path of each leaf of a tree; the leaves are put there to find them."""
    filled = jax.tree_util.tree_unflatten(tree, leaves)
    return [path for path, _ in jax.tree_util.tree_flatten_with_path(filled)[0]]


def _input_name(path: Sequence[Any], location: str) -> str:
    """Path of an argument's leaf: the parameter's name, then the keys within it.

    The parameter's name stands in the argument's location ("params['w']"), if at all; keys are
    taken from the pytree, since the location does not tell a key "a.b" from attribute b of a.
    """
    kind, parameter, *rest = path
    suffix = jax.tree_util.keystr(tuple(rest))
    if location.endswith(suffix) and len(location) > len(suffix):
        head = path_name(location.removesuffix(suffix))
    else:
        head = _key_name(parameter) if kind.idx == 1 else f"arg{_key_name(parameter)}"
    return "/".join([head, *map(_key_name, rest)])


def _key_name(key: Any) -> str:
    return str(jax.tree_util.keystr((key,), simple=True))


def _renamed(ports: Sequence[Port], names: Sequence[str], avals: Sequence[Any]) -> tuple[Port, ...]:
    """The ports with the names of a JAX function, and with its extents where they are dynamic."""
    rows = zip(ports, names, avals, strict=True)
    renamed = (replace(port, name=name, shape=_named(port, aval)) for port, name, aval in rows)
    return tuple(_unique(renamed))


def _named(port: Port, aval: Any) -> tuple[Dim, ...]:
    if is_static(port.shape):
        return port.shape
    # The data of a typed key has axes that its aval has not.
    spelled = [*aval.shape, *(None for _ in port.shape[len(aval.shape) :])]
    return tuple(
        dim if isinstance(dim, int) else parse(str(text))
        for dim, text in zip(port.shape, spelled, strict=True)
    )


POLYMORPHIC = "jax.uses_shape_polymorphism"
"""The attribute of a module that JAX made for symbolic dimensions, which are at least 1."""


def _ports(
    types: Iterable[Any], names: Sequence[str], default: str, positive: bool
) -> tuple[Port, ...]:
    """One port per tensor; the members of a tuple are ports of their own."""
    ports: list[Port] = []
    for position, (mlir_type, name) in enumerate(zip(types, names, strict=True)):
        for member, suffix in _members(mlir_type):
            wanted = (name or f"{default}{position}") + suffix
            element = stored_element(member.element_type)
            ports.append(Port(wanted, element, _shape(member, wanted, positive), position))
    return tuple(_unique(ports))


def _shape(mlir_type: Any, name: str, positive: bool) -> tuple[Dim, ...]:
    return tuple(
        symbol(f"{name}_dim{axis}", positive) if dim is None else dim
        for axis, dim in enumerate(shape_of(mlir_type))
    )


def _members(mlir_type: Any, suffix: str = "") -> list[tuple[Any, str]]:
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
    raise LoadError(f"an argument or result has the type {mlir_type}, which is no ranked tensor")


def _unique(ports: Iterable[Port]) -> Iterable[Port]:
    seen: set[str] = set()
    for port in ports:
        name, count = port.name, 0
        while name in seen:
            count += 1
            name = f"{port.name}_{count}"
        seen.add(name)
        yield replace(port, name=name)


def _result_names(function: Any, count: int) -> list[str]:
    names = [a if isinstance(a, str) else a.name for a in function.attributes]
    attributes = to_python(function.attributes["res_attrs"]) if "res_attrs" in names else ()
    infos = [entry.get("jax.result_info", "") for entry in attributes] or [""] * count
    return [path_name(info) if info else ("result" if count == 1 else "") for info in infos]


def with_channels_second(
    signature: Signature, inputs: Iterable[str], outputs: Iterable[str]
) -> Signature:
    """The signature of a model that has some inputs and outputs in another layout.

    Raises:
        UsageError: There are none of these names, or they have no channels to move.
    """
    return replace(
        signature,
        inputs=_moved(signature.inputs, frozenset(inputs), "input"),
        outputs=_moved(signature.outputs, frozenset(outputs), "output"),
    )


def _moved(ports: Sequence[Port], names: frozenset[str], kind: str) -> tuple[Port, ...]:
    if unknown := names - {port.name for port in ports}:
        known = ", ".join(port.name for port in ports)
        raise UsageError(f"no {kind} named {', '.join(sorted(unknown))}; there is {known}")
    for port in ports:
        if port.name in names and (len(port.shape) < 3 or port.element.startswith("complex")):
            raise UsageError(f"{kind} {port.name} has no channels after axes of an image")
        if port.name in names and port.alias is not None:
            raise UsageError(f"{kind} {port.name} is a state: a result takes its memory as it is")
    return tuple(replace(port, channels_second=port.name in names) for port in ports)


def channels_to_second(rank: int) -> list[int]:
    """The permutation that makes channels-second of channels-last."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_to_last(rank: int) -> list[int]:
    """The permutation that makes channels-last of channels-second."""
    return [0, *range(2, rank), 1]
