"""Converts an argument of a call to the array of an input."""

from __future__ import annotations

import functools
from dataclasses import replace

import jax
import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.frontend.signature import Port, PyTree
from hlo2onnx.interface.tensors import Tensor, to_array


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
