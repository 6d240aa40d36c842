"""Converts a JAX function's arguments to the model's inputs, and outputs to results."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence

import jax
import numpy as np
from jax.tree_util import KeyPath, PyTreeDef

from hlo2onnx.errors import SignatureError
from hlo2onnx.ir.dims import evaluate, solve
from hlo2onnx.mlir.types import STORED_FLOATS, numpy_type
from hlo2onnx.runtime.state import StateArray
from hlo2onnx.sources.input_arrays import check_type, dims_text, input_array, is_key
from hlo2onnx.sources.partition import combined
from hlo2onnx.sources.signature import Port, PyTree, Signature, Statics, Trees, key_paths


def flatten_arguments(
    signature: Signature, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> list[np.ndarray]:
    """Converts arguments to one array per input of the program, and checks them.

    Arguments that jit pruned are left out. Typed PRNG keys become their data. Python scalars take
    the input's type. While `jax_enable_x64` is off, 64-bit arrays are narrowed, as in JAX. Integers
    that do not fit are errors.

    Raises:
        SignatureError: Structure, shape or type of an argument does not fit.
    """
    if signature.trees is None:
        if kwargs:
            raise SignatureError("a StableHLO program takes positional arguments only")
        if len(args) != len(signature.inputs):
            raise SignatureError(
                f"the program takes {len(signature.inputs)} arguments, not {len(args)}:"
                f" {', '.join(map(_shown, signature.inputs)) or 'none'}"
            )
        pairs: Sequence[tuple[PyTree, np.dtype | None]] = [(leaf, None) for leaf in args]
    else:
        pairs = _leaves(signature.trees, args, kwargs)
    arrays = [
        _input_array(leaf, port, dtype)
        for (leaf, dtype), port in zip(pairs, signature.inputs, strict=True)
    ]
    extents_of(signature, arrays)
    return arrays


def extents_of(signature: Signature, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """The values of the symbols in the inputs' shapes.

    Raises:
        SignatureError: The extents contradict each other.
    """
    rows = [
        (port, dim, have)
        for port, array in zip(signature.inputs, arrays, strict=True)
        for dim, have in zip(port.shape, array.shape, strict=True)
        if not isinstance(dim, int)
    ]
    values: dict[str, int] = {}
    for port, dim, have in rows:
        try:
            solution = solve(dim, have)
        except ValueError as error:
            raise SignatureError(
                f"argument {port.name} must have shape {dims_text(port)}: {error}"
            ) from error
        if solution is not None:
            values.setdefault(*solution)
    for port, dim, have in rows:
        wanted = evaluate(dim, values)
        if wanted is not None and wanted != have:
            known = ", ".join(f"{name} = {value}" for name, value in sorted(values.items()))
            raise SignatureError(
                f"argument {port.name} must have shape {dims_text(port)}: {have} is not {dim}"
                f" where {known}"
            )
    return values


def _leaves(
    trees: Trees, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> list[tuple[PyTree, np.dtype]]:
    """The leaves of the inputs, each with JAX's type."""
    dynamic = _without_statics(trees.statics, args, kwargs)
    given, tree = jax.tree_util.tree_flatten(dynamic)
    has_objects = trees.statics.objects is not None
    if tree != (_whole_tree(trees) if has_objects else trees.in_tree):
        raise SignatureError(_difference(trees, tree, given))
    if has_objects:
        given = _without_objects(trees.statics, dynamic)
    # jit keeps the order of the leaves that it does not prune.
    return [
        (value, leaf.aval.dtype)
        for leaf, value in zip(trees.in_leaves, given, strict=True)
        if leaf.port is not None
    ]


def _without_statics(
    statics: Statics, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """The arguments without the static ones, which are optional.

    Raises:
        SignatureError: A static argument differs from its value in the program.
    """
    positional: Mapping[int, object] = statics.positional if len(args) == statics.count else {}
    for index, value in positional.items():
        _check_static(f"argument {index}", args[index], value)
    for name in statics.keywords.keys() & kwargs.keys():
        _check_static(f"argument {name}", kwargs[name], statics.keywords[name])
    return (
        tuple(value for index, value in enumerate(args) if index not in positional),
        {name: value for name, value in kwargs.items() if name not in statics.keywords},
    )


def _check_static(what: str, given: object, value: object) -> None:
    try:
        differs = given is not value and bool(given != value)
    except ValueError:  # an array
        differs = True
    if differs:
        raise SignatureError(
            f"{what} is static: the program was made with {value!r} and cannot run with {given!r}"
        )


def _whole_tree(trees: Trees) -> PyTreeDef:
    """The structure of the arguments with their objects."""
    arrays = jax.tree_util.tree_unflatten(trees.in_tree, trees.in_leaves)
    return jax.tree_util.tree_structure(combined(arrays, trees.statics.objects))


def _without_objects(statics: Statics, dynamic: PyTree) -> list[PyTree]:
    """The arrays among the arguments' leaves.

    Raises:
        SignatureError: Another leaf differs from its value in the program.
    """
    objects = _objects(statics)
    arrays = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(dynamic)[0]:
        if tuple(path) in objects:
            _check_static(f"argument {_argument(path)}", leaf, objects[tuple(path)])
        else:
            arrays.append(leaf)
    return arrays


def _objects(statics: Statics) -> dict[KeyPath, object]:
    """The leaves of the arguments that are no arrays, by path."""
    pairs = jax.tree_util.tree_flatten_with_path(statics.objects)[0]
    return {tuple(path): leaf for path, leaf in pairs}


def _difference(trees: Trees, tree: PyTreeDef, given: Sequence[PyTree]) -> str:
    wanted = {_argument(path) for path in key_paths(trees.in_tree, trees.in_leaves)}
    found = {_argument(path) for path in key_paths(tree, given)}
    found -= {_argument(path) for path in _objects(trees.statics)}
    lines = ["the arguments do not have the structure the function was lowered with"]
    if missing := sorted(wanted - found):
        lines.append(f"  missing     {', '.join(missing)}")
    if unexpected := sorted(found - wanted):
        lines.append(f"  unexpected  {', '.join(unexpected)}")
    if wanted == found:
        lines += [f"  expected  {trees.in_tree}", f"  got       {tree}"]
    lines.append("  static arguments are part of the program and are left out")
    return "\n".join(lines)


def _argument(path: KeyPath) -> str:
    """The argument at a key path in Python: "args[0]['w']", "scale"."""
    kind, parameter, *rest = path
    suffix = jax.tree_util.keystr(tuple(rest))
    return f"args[{parameter.idx}]{suffix}" if kind.idx == 0 else f"{parameter.key}={suffix}"


def _input_array(leaf: PyTree, port: Port, dtype: np.dtype | None) -> PyTree:
    """Like `input_array`, but arrays in the runtime's memory stay there."""
    if not isinstance(leaf, StateArray):
        return input_array(leaf, port, dtype)
    check_type(leaf, port)
    return leaf


def _shown(port: Port) -> str:
    return f"{port.name}: {port.element}{dims_text(port)}"


# -- the model's side -------------------------------------------------------------------------


def to_model(
    names: Sequence[str], arrays: Sequence[np.ndarray], ports: Sequence[Port] = ()
) -> dict[str, np.ndarray]:
    """The model's feeds.

    Complex arrays become float arrays with a trailing axis of 2, and floats that the model stores
    as bits become uint8. Images get the layout of their port.
    """
    feeds = {name: _fed(array) for name, array in zip(names, arrays, strict=True)}
    for name, port in zip(names, ports, strict=False):
        if port.channels_second:
            feeds[name] = np.moveaxis(feeds[name], -1, 1)
    return feeds


_STORED = frozenset(STORED_FLOATS.values())


def _fed(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    return array.view(np.uint8) if array.dtype in _STORED else array


def from_model(ports: Sequence[Port], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The model's outputs in the program's types and layouts: the reverse of `to_model`."""
    return [_result_array(port, array) for port, array in zip(ports, arrays, strict=True)]


def _result_array(port: Port, array: np.ndarray) -> np.ndarray:
    if port.element.startswith("complex"):
        return _complex(array, numpy_type(port.element))
    if port.element in STORED_FLOATS:
        array = array.view(numpy_type(port.element))
    return np.moveaxis(array, 1, -1) if port.channels_second else array


def _complex(pairs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    # re + 1j * im would lose the signs of zeros and spread NaN.
    return np.ascontiguousarray(pairs).view(dtype).reshape(pairs.shape[:-1])


def unflatten_results(signature: Signature, arrays: Sequence[np.ndarray | StateArray]) -> PyTree:
    """The results in the pytree of the JAX function."""
    if signature.trees is None:
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
    leaves = [
        _result(leaf.aval.dtype, array)
        for leaf, array in zip(signature.trees.out_leaves, arrays, strict=True)
    ]
    return jax.tree_util.tree_unflatten(signature.trees.out_tree, leaves)


def _result(dtype: np.dtype, array: np.ndarray | StateArray) -> PyTree:
    if dtype == jax.dtypes.float0:
        return np.zeros(array.shape, jax.dtypes.float0)
    if is_key(dtype):
        return jax.random.wrap_key_data(array, impl=_key_impl(dtype))
    return array


@functools.cache
def _key_impl(dtype: np.dtype) -> object:
    """The implementation of a key type. JAX gives it for keys, but not for their type."""
    found: list[object] = []

    def look(key: jax.Array) -> None:
        found.append(jax.random.key_impl(key))

    jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return found[0]
