"""Converts an argument of a call to the array of an input."""

from __future__ import annotations

import jax
import ml_dtypes
import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.mlir.types import numpy_type
from hlo2onnx.sources.signature import Aval, Port, PyTree


def input_array(leaf: PyTree, port: Port, dtype: np.dtype | None) -> np.ndarray:
    """An argument as the array of an input.

    Args:
        leaf: An array, a Python scalar, or a typed PRNG key.
        port: The input.
        dtype: JAX's type of the argument; None without a JAX function.

    Raises:
        SignatureError: Its shape or type does not fit.
    """
    wanted = numpy_type(port.element)
    if type(leaf) in (bool, int, float, complex):
        array = _from_scalar(leaf, wanted, port)
    else:
        array = _narrowed(_from_array(leaf, port, dtype), wanted, port)
    check_type(array, port)
    return array


def check_type(array: Aval, port: Port) -> None:
    """Checks the shape and type of an array for an input.

    Raises:
        SignatureError: Its shape or type does not fit.
    """
    wanted = numpy_type(port.element)
    if array.dtype != wanted:
        raise SignatureError(f"argument {port.name} must be {wanted}, not {array.dtype}")
    fits = len(array.shape) == len(port.shape) and all(
        not isinstance(want, int) or have == want
        for have, want in zip(array.shape, port.shape, strict=True)
    )
    if not fits:
        raise SignatureError(
            f"argument {port.name} must have shape {dims_text(port)}, not {list(array.shape)}"
        )


def _from_scalar(value: bool | float | complex, wanted: np.dtype, port: Port) -> np.ndarray:
    """A Python scalar in the input's type, by JAX's rules of weak types."""
    if "bifc".index(_kind(wanted)) < (bool, int, float, complex).index(type(value)):
        raise SignatureError(f"argument {port.name} must be {wanted}, not {value!r}")
    if isinstance(value, int) and _kind(wanted) == "i":
        _check_range(value, value, wanted, port)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(wanted)
    except OverflowError as error:
        raise SignatureError(f"argument {port.name}: {error}") from error


def _from_array(leaf: PyTree, port: Port, dtype: np.dtype | None) -> np.ndarray:
    if isinstance(leaf, jax.core.Tracer):
        raise SignatureError("an OnnxProgram runs outside of JAX: JAX cannot trace it")
    if isinstance(leaf, jax.Array) and is_key(leaf.dtype):
        if is_key(dtype) and leaf.dtype != dtype:
            raise SignatureError(f"argument {port.name} must be of type {dtype}, not {leaf.dtype}")
        leaf = jax.random.key_data(leaf)
    try:
        array = np.asarray(leaf)
    except (TypeError, ValueError) as error:
        raise SignatureError(f"argument {port.name} is not an array: {error}") from error
    if array.dtype == jax.dtypes.float0:
        return np.zeros(array.shape, bool)
    return array


_NARROW = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}


def _narrowed(array: np.ndarray, wanted: np.dtype, port: Port) -> np.ndarray:
    """A 64-bit array in 32 bits, if the input needs that and JAX would do it."""
    if _NARROW.get(array.dtype) != wanted or jax.config.jax_enable_x64:
        return array
    if _kind(wanted) == "i" and array.size:
        _check_range(int(array.min()), int(array.max()), wanted, port)
    with np.errstate(over="ignore"):
        return array.astype(wanted)


def _check_range(lowest: int, highest: int, wanted: np.dtype, port: Port) -> None:
    info = ml_dtypes.iinfo(wanted)
    if lowest < info.min or highest > info.max:
        value = lowest if lowest < info.min else highest
        raise SignatureError(f"argument {port.name} is {wanted} and cannot hold {value}")


def _kind(dtype: np.dtype) -> str:
    """b, i (signed or not), f or c. numpy's own kind of the types of ml_dtypes is V."""
    if dtype.kind in "bfc":
        return dtype.kind
    return "i" if dtype.kind in "iu" or "int" in dtype.name else "f"


def is_key(dtype: np.dtype | None) -> bool:
    """Whether a type is one of typed PRNG keys."""
    return dtype is not None and bool(jax.dtypes.issubdtype(dtype, jax.dtypes.prng_key))


def dims_text(port: Port) -> str:
    """The shape of an input, for errors: "[2, b]"."""
    return f"[{', '.join(map(str, port.shape))}]"
