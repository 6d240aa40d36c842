"""Names, layouts and arrays of the inputs and outputs of a program."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import jax
import numpy as np
from jax.tree_util import KeyPath

from hlo2onnx.errors import SignatureError, UsageError
from hlo2onnx.frontend.captured import signature_of_call
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.frontend.signature import Leaf, Port, PyTree, Signature
from hlo2onnx.interface.tensors import Tensor, to_array
from hlo2onnx.options import PortNames


def with_names(
    signature: Signature, inputs: PortNames | None, outputs: PortNames | None
) -> Signature:
    """The signature with new names; None keeps the present ones.

    Raises:
        UsageError: The names are not valid, of other ports, too few or too many, or not unique.
    """
    trees = signature.trees
    renamed = replace(
        signature,
        inputs=_renamed("input", signature.inputs, inputs, trees.in_leaves if trees else ()),
        outputs=_renamed("output", signature.outputs, outputs, ()),
    )
    clashes = _clashes(renamed).items() - _clashes(signature).items()
    for name, things in sorted(clashes):
        raise UsageError(f"{name!r} would be the name of {things}")
    return renamed


def _clashes(signature: Signature) -> dict[str, str]:
    """Names of several things: a weight, an input or an output."""
    kinds: dict[str, list[str]] = {}
    weights = [item.port for item in signature.bound]
    for kind, ports in (
        ("a weight", weights),
        ("an input", signature.inputs),
        ("an output", signature.outputs),
    ):
        for port in ports:
            kinds.setdefault(port.name, []).append(kind)
    return {name: " and ".join(found) for name, found in kinds.items() if len(found) > 1}


def _renamed(
    kind: str, ports: Sequence[Port], names: PortNames | None, leaves: Sequence[Leaf]
) -> tuple[Port, ...]:
    if names is None:
        return tuple(ports)
    old = [port.name for port in ports]
    new = _mapped(kind, old, names) if isinstance(names, Mapping) else _listed(kind, names)
    if len(new) != len(old) and len(new) == len(leaves):  # jit pruned some arguments
        new = [name for name, leaf in zip(new, leaves, strict=True) if leaf.port is not None]
    if len(new) != len(old):
        known = ", ".join(old) or "none"
        raise UsageError(f"{kind}_names has {len(new)} names for {len(old)} {kind}s: {known}")
    twice = [name for name in new if new.count(name) > 1]
    if twice:
        raise UsageError(f"{kind}_names gives the name {twice[0]} to several {kind}s")
    return tuple(replace(port, name=name) for port, name in zip(ports, new, strict=True))


def _listed(kind: str, names: object) -> list[str]:
    """The names of a list.

    Raises:
        UsageError: It is none, or holds something else than names.
    """
    if isinstance(names, str):
        return _checked(kind, [names])
    if not isinstance(names, Sequence):
        raise UsageError(f"{kind}_names={names!r} is neither a list of names nor a mapping")
    return _checked(kind, list(names))


def _mapped(kind: str, old: Sequence[str], names: Mapping[str, str]) -> list[str]:
    for name in names:
        if name not in old:
            known = ", ".join(old) or "none"
            raise UsageError(f"{kind}_names: no {kind} is named {name!r}; there is {known}")
    return _checked(kind, [names.get(name, name) for name in old])


def _checked(kind: str, names: list[str]) -> list[str]:
    for name in names:
        if not isinstance(name, str) or not name:
            raise UsageError(f"{kind}_names: {name!r} is not a name")
    return names


def positional_names(function: object) -> list[str]:
    """The names of the parameters that positional arguments fill, without `*args`.

    Empty if they are not known, and for sources that are not functions.
    """
    signature = signature_of_call(function) if callable(function) else None
    parameters = [] if signature is None else signature.parameters.values()
    return [
        item.name
        for item in parameters
        if item.kind in (item.POSITIONAL_ONLY, item.POSITIONAL_OR_KEYWORD)
    ]


def argument_names(
    names: Sequence[str], args: Sequence[object], kwargs: Iterable[str]
) -> list[str | int]:
    """The name of each argument of a call; the position of one without a name.

    Args:
        names: Names of the positional parameters, if known.
        args, kwargs: The arguments, and the names of keywords.
    """
    positional = [names[i] if i < len(names) else i for i in range(len(args))]
    return [*positional, *kwargs]


def listed(names: Iterable[str | int]) -> str:
    """ "the arguments are x, y", for errors."""
    found = ", ".join(map(str, names))
    return f"the arguments are {found}" if found else "there are no arguments"


def leaf_name(path: KeyPath, names: Sequence[str]) -> str:
    """The name of a leaf of `(args, kwargs)`, such as "x['w']".

    Args:
        names: Names of the positional parameters, if known.
    """
    kind, parameter, *rest = path
    if kind.idx == 1:
        head = str(parameter.key)
    elif parameter.idx < len(names):
        head = names[parameter.idx]
    else:
        head = f"args[{parameter.idx}]"
    return f"{head}{jax.tree_util.keystr(tuple(rest))}"


def with_channels_second(
    signature: Signature, inputs: Iterable[str], outputs: Iterable[str]
) -> Signature:
    """Moves the channels of some inputs and outputs from the last axis to the second.

    Raises:
        UsageError: There is no port of a name, or it has no channels to move.
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
            raise UsageError(f"{kind} {port.name} is not an image with channels last")
        if port.name in names and port.alias is not None:
            raise UsageError(f"{kind} {port.name} is a state: it must keep its layout")
    return tuple(replace(port, channels_second=port.name in names) for port in ports)


def channels_to_second(rank: int) -> list[int]:
    """The permutation from channels-last to channels-second."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_to_last(rank: int) -> list[int]:
    """The permutation from channels-second to channels-last."""
    return [0, *range(2, rank), 1]


def input_array(leaf: PyTree, port: Port, dtype: np.dtype | None) -> np.ndarray:
    """An argument as the array of an input.

    Args:
        leaf: An array, a Python scalar, or a typed PRNG key.
        port: The input.
        dtype: JAX's type of the argument; None without a JAX function.

    Raises:
        SignatureError: Its shape or type does not fit.
    """
    tensor = tensor_of(port)
    if is_key(dtype):
        tensor = replace(tensor, jax_type=f"key<{key_impl(dtype)}>")
    return to_array(host_array(leaf, tensor), tensor, narrows=narrows())


@functools.lru_cache(maxsize=1 << 12)
def tensor_of(port: Port) -> Tensor:
    """The input or output as data."""
    shape = tuple(dim if isinstance(dim, int) else str(dim) for dim in port.shape)
    return Tensor(port.name, numpy_type(port.element).name, shape, port.channels_second)


def host_array(leaf: PyTree, tensor: Tensor) -> PyTree:
    """An argument, or the data of a typed PRNG key.

    Raises:
        SignatureError: JAX traces it, or it is a key of another type.
    """
    if isinstance(leaf, jax.core.Tracer):
        raise SignatureError("an OnnxProgram runs outside of JAX: JAX cannot trace it")
    if isinstance(leaf, jax.Array) and is_key(leaf.dtype):
        found = f"key<{key_impl(leaf.dtype)}>"
        if tensor.jax_type and tensor.jax_type != found:
            name = f"argument {tensor.name}"
            raise SignatureError(f"{name} must be of type {tensor.jax_type}, not {found}")
        return jax.random.key_data(leaf)
    return leaf


def narrows() -> bool:
    """Whether JAX has no 64-bit types now (`jax_enable_x64`)."""
    return not jax.config.jax_enable_x64


def is_key(dtype: np.dtype | None) -> bool:
    """Whether a type is one of typed PRNG keys."""
    return dtype is not None and bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


@functools.cache
def key_impl(dtype: np.dtype) -> object:
    """The implementation of a key type. JAX gives it for keys, but not for their type."""
    found: list[object] = []

    def look(key: jax.Array) -> None:
        found.append(jax.random.key_impl(key))

    jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return found[0]
