"""From the JAX function's arguments to the model's inputs, and back from its outputs."""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.ir.dims import evaluate, solve
from hlo2onnx.mlir.types import STORED_FLOATS, numpy_type
from hlo2onnx.runtime.state import StateArray
from hlo2onnx.sources.input_arrays import check_type, dims_text, input_array, is_key
from hlo2onnx.sources.partition import combined
from hlo2onnx.sources.signature import Port, Signature, Statics, Trees, key_paths


def flatten_arguments(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[np.ndarray]:
    """One array per input of the program, checked against its type.

    Arguments that jit pruned are accepted and left out; typed PRNG keys become their data.
    Python scalars take the input's type. 64-bit arrays are narrowed where JAX would do so, which
    is as long as `jax_enable_x64` is off; integers that do not fit are refused.

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
        pairs = [(leaf, None) for leaf in args]
    else:
        pairs = _leaves(signature.trees, args, kwargs)
    arrays = [
        _input_array(leaf, port, dtype)
        for (leaf, dtype), port in zip(pairs, signature.inputs, strict=True)
    ]
    extents_of(signature, arrays)
    return arrays


def extents_of(signature: Signature, arrays: Sequence[np.ndarray]) -> dict[str, int]:
    """What the symbols in the inputs' shapes stand for, given the inputs.

    Raises:
        SignatureError: An extent is not what the others say.
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


def _leaves(trees: Trees, args: Sequence[Any], kwargs: Mapping[str, Any]) -> list[tuple[Any, Any]]:
    """The leaves that inputs carry, each with the dtype JAX has for it."""
    dynamic = _without_statics(trees.statics, args, kwargs)
    given, tree = jax.tree_util.tree_flatten(dynamic)
    has_objects = trees.statics.objects is not None
    if tree != (_whole_tree(trees) if has_objects else trees.in_tree):
        raise SignatureError(_difference(trees, tree, given))
    if has_objects:
        given = _without_objects(trees.statics, dynamic)
    # jit keeps the order of the leaves it does not prune.
    return [
        (value, leaf.aval.dtype)
        for leaf, value in zip(trees.in_leaves, given, strict=True)
        if leaf.port is not None
    ]


def _without_statics(
    statics: Statics, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The arguments without the static ones, which may be given or left out.

    Raises:
        SignatureError: A static argument has another value than the program was made with.
    """
    positional: Mapping[int, Any] = statics.positional if len(args) == statics.count else {}
    for index, value in positional.items():
        _check_static(f"argument {index}", args[index], value)
    for name in statics.keywords.keys() & kwargs.keys():
        _check_static(f"argument {name}", kwargs[name], statics.keywords[name])
    return (
        tuple(value for index, value in enumerate(args) if index not in positional),
        {name: value for name, value in kwargs.items() if name not in statics.keywords},
    )


def _check_static(what: str, given: Any, value: Any) -> None:
    try:
        differs = given is not value and bool(given != value)
    except ValueError:  # an array, where there was none
        differs = True
    if differs:
        raise SignatureError(
            f"{what} is static: the program was made with {value!r} and cannot run with {given!r}"
        )


def _whole_tree(trees: Trees) -> Any:
    """The structure of the arguments together with what is no array in them."""
    arrays = jax.tree_util.tree_unflatten(trees.in_tree, trees.in_leaves)
    return jax.tree_util.tree_structure(combined(arrays, trees.statics.objects))


def _without_objects(statics: Statics, dynamic: Any) -> list[Any]:
    """The arrays among the arguments' leaves.

    Raises:
        SignatureError: Another leaf is not what the program was made with.
    """
    objects = _objects(statics)
    arrays = []
    for path, leaf in jax.tree_util.tree_flatten_with_path(dynamic)[0]:
        if tuple(path) in objects:
            _check_static(f"argument {_argument(path)}", leaf, objects[tuple(path)])
        else:
            arrays.append(leaf)
    return arrays


def _objects(statics: Statics) -> dict[tuple[Any, ...], Any]:
    """What is no array in the arguments, by its path."""
    pairs = jax.tree_util.tree_flatten_with_path(statics.objects)[0]
    return {tuple(path): leaf for path, leaf in pairs}


def _difference(trees: Trees, tree: Any, given: Sequence[Any]) -> str:
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


def _argument(path: Sequence[Any]) -> str:
    """How a user writes the argument at a key path: "args[0]['w']", "scale"."""
    kind, parameter, *rest = path
    suffix = jax.tree_util.keystr(tuple(rest))
    return f"args[{parameter.idx}]{suffix}" if kind.idx == 0 else f"{parameter.key}={suffix}"


def _input_array(leaf: Any, port: Port, dtype: Any) -> Any:
    """See `input_array`; an array in the runtime's memory stays there."""
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
    """The model's feeds: complex arrays become float arrays with a trailing axis of 2, floats of
    types that models store as bits become uint8, images get the layout of their port."""
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
    """The model's outputs in the program's types and layouts: trailing axes of 2 become complex
    numbers, and stored bits floats."""
    return [_result_array(port, array) for port, array in zip(ports, arrays, strict=True)]


def _result_array(port: Port, array: np.ndarray) -> np.ndarray:
    if port.element.startswith("complex"):
        return _complex(array, numpy_type(port.element))
    if port.element in STORED_FLOATS:
        array = array.view(numpy_type(port.element))
    return np.moveaxis(array, 1, -1) if port.channels_second else array


def _complex(pairs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    # re + 1j * im would lose the sign of zeros and spread NaN.
    return np.ascontiguousarray(pairs).view(dtype).reshape(pairs.shape[:-1])


def unflatten_results(signature: Signature, arrays: Sequence[np.ndarray]) -> Any:
    """The results as the JAX function returns them."""
    if signature.trees is None:
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
    leaves = [
        _result(leaf.aval.dtype, array)
        for leaf, array in zip(signature.trees.out_leaves, arrays, strict=True)
    ]
    return jax.tree_util.tree_unflatten(signature.trees.out_tree, leaves)


def _result(dtype: Any, array: np.ndarray) -> Any:
    if dtype == jax.dtypes.float0:
        return np.zeros(array.shape, jax.dtypes.float0)
    if is_key(dtype):
        return jax.random.wrap_key_data(array, impl=_key_impl(dtype))
    return array


@functools.cache
def _key_impl(dtype: Any) -> Any:
    """The implementation of a key type: JAX names it for keys only, not for their type."""
    found: list[Any] = []

    def look(key: Any) -> None:
        found.append(jax.random.key_impl(key))

    jax.eval_shape(look, jax.ShapeDtypeStruct((), dtype))
    return found[0]
