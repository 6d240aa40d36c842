"""From the JAX function's arguments to the model's inputs, and back from its outputs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax
import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.sources.signature import Port, Signature, Trees
from hlo2onnx.verification.inputs import numpy_type


def flatten_arguments(
    signature: Signature, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[np.ndarray]:
    """One array per input of the program, checked against its type.

    Arguments that jit pruned are accepted and left out; typed PRNG keys become their data;
    Python scalars take the input's type.

    Raises:
        SignatureError: Structure, shape or type of an argument does not fit.
    """
    if signature.trees is None:
        if kwargs:
            raise SignatureError("a StableHLO program takes positional arguments only")
        leaves = list(args)
    else:
        leaves = _leaves(signature, signature.trees, args, kwargs)
    if len(leaves) != len(signature.inputs):
        raise SignatureError(
            f"the program takes {len(signature.inputs)} arguments"
            f" ({_shown(signature.inputs)}), not {len(leaves)}"
        )
    return [_array(leaf, port) for leaf, port in zip(leaves, signature.inputs, strict=True)]


def _leaves(
    signature: Signature, trees: Trees, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> list[Any]:
    given, tree = jax.tree_util.tree_flatten((tuple(args), dict(kwargs)))
    if tree != trees.in_tree:
        raise SignatureError(
            "the arguments' structure is not the lowered function's (static arguments are part"
            f" of the program and must be left out)\n  expected {trees.in_tree}\n  got      {tree}"
        )
    by_port = {
        leaf.port: value
        for leaf, value in zip(trees.in_leaves, given, strict=True)
        if leaf.port is not None
    }
    return [by_port[index] for index in sorted(by_port)]


def _array(leaf: Any, port: Port) -> np.ndarray:
    wanted = numpy_type(port.element)
    if isinstance(leaf, jax.Array) and jax.dtypes.issubdtype(leaf.dtype, jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    if isinstance(leaf, bool | int | float | complex):
        array = np.asarray(leaf)
        if array.dtype.kind not in _FROM_SCALAR[wanted.kind if wanted.kind in "biuc" else "f"]:
            raise SignatureError(f"argument {port.name} must be {wanted}, not {leaf!r}")
        array = array.astype(wanted)
    else:
        array = np.asarray(leaf)
        if array.dtype == jax.dtypes.float0:
            array = np.zeros(array.shape, bool)
    if array.dtype != wanted:
        raise SignatureError(f"argument {port.name} must be {wanted}, not {array.dtype}")
    fits = len(array.shape) == len(port.shape) and all(
        want is None or have == want for have, want in zip(array.shape, port.shape, strict=True)
    )
    if not fits:
        raise SignatureError(
            f"argument {port.name} must have shape {port.shape}, not {array.shape}"
        )
    return array


_FROM_SCALAR = {"b": "b", "i": "biu", "u": "biu", "f": "biuf", "c": "biufc"}
"""Which kinds of Python scalars an input of a kind takes."""


def _shown(ports: Sequence[Port]) -> str:
    return ", ".join(
        f"{port.name}: {port.element}[{','.join('?' if d is None else str(d) for d in port.shape)}]"
        for port in ports
    )


def to_model(names: Sequence[str], arrays: Sequence[np.ndarray]) -> dict[str, np.ndarray]:
    """The model's feeds: complex arrays become float arrays with a trailing axis of 2."""
    return {
        name: np.stack([array.real, array.imag], -1) if array.dtype.kind == "c" else array
        for name, array in zip(names, arrays, strict=True)
    }


def from_model(ports: Sequence[Port], arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
    """The model's outputs in the program's types: trailing axes of 2 become complex numbers."""
    return [
        _complex(array, numpy_type(port.element)) if port.element.startswith("complex") else array
        for port, array in zip(ports, arrays, strict=True)
    ]


def _complex(pairs: np.ndarray, dtype: np.dtype) -> np.ndarray:
    # re + 1j * im would lose the sign of zeros and spread NaN.
    return np.ascontiguousarray(pairs).view(dtype).reshape(pairs.shape[:-1])


def unflatten_results(signature: Signature, arrays: Sequence[np.ndarray]) -> Any:
    """The results as the JAX function returns them."""
    if signature.trees is None:
        return arrays[0] if len(arrays) == 1 else tuple(arrays)
    leaves = [
        _result(leaf.aval, arrays[leaf.port]) if leaf.port is not None else None
        for leaf in signature.trees.out_leaves
    ]
    return jax.tree_util.tree_unflatten(signature.trees.out_tree, leaves)


def _result(aval: Any, array: np.ndarray) -> Any:
    if aval.dtype == jax.dtypes.float0:
        return np.zeros(array.shape, jax.dtypes.float0)
    if jax.dtypes.issubdtype(aval.dtype, jax.dtypes.prng_key):
        return jax.random.wrap_key_data(array, impl=jax.random.key_impl(aval))
    return array
