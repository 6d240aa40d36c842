"""Random inputs for verification and profiling."""

from __future__ import annotations

from collections.abc import Collection

import ml_dtypes
import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.interface.extents import Extent
from hlo2onnx.interface.tensors import Tensor
from hlo2onnx.ir.dims import free_symbols
from hlo2onnx.sources.input_arrays import tensor_of
from hlo2onnx.sources.signature import Port

SIZE = 3
"""Default value of a dynamic extent."""

_PRIVATE = 0x686C6F32_6F6E6E78
"""Entropy of the generators of a verification. No seed of a user's generator gives their numbers:
if weights and inputs were the same numbers, differences could be 0 by chance."""


def private_generator(seed: int) -> np.random.Generator:
    """A generator whose numbers no other generator with a small seed has."""
    return np.random.default_rng(np.random.SeedSequence([_PRIVATE, seed]))


def random_array(
    port: Port | Tensor, rng: np.random.Generator, names: Collection[str] = ()
) -> np.ndarray:
    """An array for one input: normal floats, small non-negative integers, fair booleans.

    Integers stay in [0, 8), because most integer inputs are indices or keys.

    Args:
        names: The symbols in the shape of a `Tensor`.

    Raises:
        VerificationError: There is not enough memory.
    """
    if isinstance(port, Port):
        tensor, names = tensor_of(port), free_symbols(port.shape)
    else:
        tensor = port
    known = dict.fromkeys(names, SIZE)
    shape = tuple(
        dim if isinstance(dim, int) else Extent(dim, names).value(known) or 0
        for dim in tensor.shape
    )
    try:
        return _random(shape, tensor.numpy, rng)
    except (MemoryError, ValueError) as error:  # ValueError: more elements than numpy counts
        raise VerificationError(f"no random input {port.name} of shape {shape}: {error}") from error


def _random(shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator) -> np.ndarray:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if dtype.kind in "iu" or "int" in dtype.name:
        return rng.integers(0, min(8, int(ml_dtypes.iinfo(dtype).max) + 1), shape).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)


def is_float(array: np.ndarray) -> bool:
    """Whether the elements are real floats, also of ml_dtypes."""
    return array.dtype.kind not in "biuc" and "int" not in array.dtype.name
