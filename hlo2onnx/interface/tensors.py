"""Inputs and outputs of a model, and the conversion of arrays to and from them."""

from __future__ import annotations

import functools
from collections.abc import Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any, Protocol

import numpy as np

from hlo2onnx.errors import SignatureError, VerificationError

FLOAT0 = np.dtype([("float0", np.void, 0)])
"""JAX's type of the gradients of integers. A model holds bools in their place."""


STORED_AS_BITS = frozenset(
    {"float4_e2m1fn", "float6_e2m3fn", "float6_e3m2fn"}
    | {"float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"}
)
"""Float types whose bits a model holds as uint8. ONNX has no such type, or no runtime a kernel."""


@dataclass(frozen=True)
class Tensor:
    """An input or output, as the program has it.

    Attributes:
        name: Path of the leaf: "x", "params/Dense_0/kernel", "result/logits".
        dtype: Name of the type of its elements in numpy or ml_dtypes.
        shape: Extents: numbers and expressions of symbols.
        channels_second: Whether the program's last axis is the second axis in the model.
        jax_type: JAX's type if it is another: "key<threefry2x32>" for the data of PRNG keys,
            "float0".
    """

    name: str
    dtype: str
    shape: tuple[int | str, ...]
    channels_second: bool = False
    jax_type: str = ""

    @property
    def numpy(self) -> np.dtype:
        """The type of the elements.

        Raises:
            VerificationError: numpy needs ml_dtypes for it.
        """
        return numpy_dtype(self.dtype)

    @property
    def is_plain(self) -> bool:
        """Whether the model takes or gives the same array as the program."""
        special = self.channels_second or self.dtype in STORED_AS_BITS
        return not (special or self.dtype.startswith("complex"))

    @property
    def is_static(self) -> bool:
        """Whether all extents are numbers."""
        return all(isinstance(dim, int) for dim in self.shape)

    def __str__(self) -> str:
        return f"{self.dtype}{dims_text(self.shape)}"


class Typed(Protocol):
    """Something with the shape and type of an array."""

    @property
    def shape(self) -> tuple[Any, ...]:
        """Its extents."""

    @property
    def dtype(self) -> np.dtype:
        """The type of its elements."""


@functools.cache
def numpy_dtype(name: str) -> np.dtype:
    """The numpy type of this name.

    Raises:
        VerificationError: numpy needs ml_dtypes for it.
    """
    try:
        return np.dtype(name)
    except TypeError:
        pass
    try:
        found: np.dtype = np.dtype(getattr(import_module("ml_dtypes"), name))
    except (ImportError, AttributeError) as error:
        raise VerificationError(
            f"numpy has no type {name}\n  next   pip install --upgrade ml_dtypes"
        ) from error
    return found


def dims_text(shape: Sequence[object]) -> str:
    """A shape for errors: "[2, b]"."""
    return f"[{', '.join(map(str, shape))}]"


def to_array(leaf: Any, tensor: Tensor, *, narrows: bool) -> np.ndarray:
    """An argument as the array of an input.

    Python scalars take the input's type, by JAX's rules of weak types.

    Args:
        leaf: An array or a Python scalar.
        tensor: The input.
        narrows: Whether 64-bit arrays become 32-bit arrays if the input needs that.

    Raises:
        SignatureError: Its shape or type does not fit.
    """
    wanted = tensor.numpy
    if type(leaf) in (bool, int, float, complex):
        array = _from_scalar(leaf, wanted, tensor)
    else:
        try:
            array = np.asarray(leaf)
        except (TypeError, ValueError) as error:
            raise SignatureError(f"argument {tensor.name} is not an array: {error}") from error
        if array.dtype == FLOAT0:
            array = np.zeros(array.shape, bool)
        if narrows and _NARROW.get(array.dtype) == wanted:
            array = _narrowed(array, wanted, tensor)
    check_type(array, tensor)
    return array


def check_type(array: Typed, tensor: Tensor) -> None:
    """Checks the type of an array for an input, and the extents that are numbers.

    Raises:
        SignatureError: Its shape or type does not fit.
    """
    if array.dtype != tensor.numpy:
        raise SignatureError(f"argument {tensor.name} must be {tensor.dtype}, not {array.dtype}")
    fits = len(array.shape) == len(tensor.shape) and all(
        not isinstance(want, int) or have == want
        for have, want in zip(array.shape, tensor.shape, strict=True)
    )
    if not fits:
        raise SignatureError(
            f"argument {tensor.name} must have shape {dims_text(tensor.shape)},"
            f" not {list(array.shape)}"
        )


_NARROW = {
    np.dtype(np.float64): np.dtype(np.float32),
    np.dtype(np.complex128): np.dtype(np.complex64),
    np.dtype(np.int64): np.dtype(np.int32),
    np.dtype(np.uint64): np.dtype(np.uint32),
}


def _from_scalar(value: bool | float | complex, wanted: np.dtype, tensor: Tensor) -> np.ndarray:
    kind = _kind(wanted)
    if "bifc".index(kind) < (bool, int, float, complex).index(type(value)):
        raise SignatureError(f"argument {tensor.name} must be {wanted}, not {value!r}")
    if isinstance(value, int) and kind == "i":
        _check_range(value, value, wanted, tensor)
    try:
        with np.errstate(over="ignore"):
            return np.asarray(value).astype(wanted)
    except OverflowError as error:
        raise SignatureError(f"argument {tensor.name}: {error}") from error


def _narrowed(array: np.ndarray, wanted: np.dtype, tensor: Tensor) -> np.ndarray:
    if wanted.kind in "iu" and array.size:
        _check_range(int(array.min()), int(array.max()), wanted, tensor)
    with np.errstate(over="ignore"):
        return array.astype(wanted)


def _check_range(lowest: int, highest: int, wanted: np.dtype, tensor: Tensor) -> None:
    if wanted.kind in "iu":
        info: Any = np.iinfo(wanted)
    else:
        info = import_module("ml_dtypes").iinfo(wanted)
    if lowest < info.min or highest > info.max:
        value = lowest if lowest < info.min else highest
        raise SignatureError(f"argument {tensor.name} is {wanted} and cannot hold {value}")


def _kind(dtype: np.dtype) -> str:
    """b, i (signed or not), f or c. numpy's own kind of the types of ml_dtypes is V."""
    if dtype.kind in "bfc":
        return dtype.kind
    return "i" if dtype.kind in "iu" or "int" in dtype.name else "f"


# -- the model's side -------------------------------------------------------------------------


def to_model(array: np.ndarray, channels_second: bool = False) -> np.ndarray:
    """The array that the model takes: pairs of floats, bits, or another layout."""
    if array.dtype.kind == "c":
        return np.stack([array.real, array.imag], -1)
    if array.dtype.name in STORED_AS_BITS:
        array = array.view(np.uint8)
    return np.moveaxis(array, -1, 1) if channels_second else array


def from_model(array: np.ndarray, tensor: Tensor) -> np.ndarray:
    """The array of the program: the reverse of `to_model`."""
    if tensor.dtype.startswith("complex"):
        # re + 1j * im would lose the signs of zeros and spread NaN.
        return np.ascontiguousarray(array).view(tensor.numpy).reshape(array.shape[:-1])
    if tensor.dtype in STORED_AS_BITS:
        array = array.view(tensor.numpy)
    return np.moveaxis(array, 1, -1) if tensor.channels_second else array
