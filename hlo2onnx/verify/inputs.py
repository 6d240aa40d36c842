"""Random inputs for verification and profiling."""

from __future__ import annotations

from collections.abc import Collection, Mapping

import ml_dtypes
import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.input_arrays import tensor_of
from hlo2onnx.frontend.signature import Port
from hlo2onnx.interface.extents import Extent
from hlo2onnx.interface.tensors import Tensor
from hlo2onnx.ir.dims import free_symbols
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.roles import Role

SIZE = 3
"""Default value of a dynamic extent."""

_PRIVATE = 0x686C6F32_6F6E6E78
"""Entropy of the generators of a verification. No seed of a user's generator gives their numbers:
if weights and inputs were the same numbers, differences could be 0 by chance."""


def private_generator(*seeds: int) -> np.random.Generator:
    """A generator whose numbers no other generator with a small seed has."""
    return np.random.default_rng(np.random.SeedSequence([_PRIVATE, *seeds]))


def random_array(
    port: Port | Tensor,
    rng: np.random.Generator,
    names: Collection[str] = (),
    sizes: Mapping[str, int] | None = None,
    role: Role | None = None,
) -> np.ndarray:
    """An array for one input: normal floats, small non-negative integers, fair booleans.

    Integers stay in [0, 8), because most integer inputs are indices, or in the range of valid
    indices. Keys of random generators have random bits.

    Args:
        names: The symbols in the shape of a `Tensor`.
        sizes: Sizes of symbols; `SIZE` for others.
        role: What the program does with the input, if known.

    Raises:
        VerificationError: There is not enough memory.
    """
    if isinstance(port, Port):
        tensor, names = tensor_of(port), free_symbols(port.shape)
    else:
        tensor = port
    known = {**dict.fromkeys(names, SIZE), **(sizes or {})}
    shape = tuple(
        dim if isinstance(dim, int) else Extent(dim, names).value(known) or 0
        for dim in tensor.shape
    )
    try:
        return _random(shape, tensor.numpy, rng, role or Role())
    except (MemoryError, ValueError) as error:  # ValueError: more elements than numpy counts
        raise VerificationError(f"no random input {port.name} of shape {shape}: {error}") from error


def _random(
    shape: tuple[int, ...], dtype: np.dtype, rng: np.random.Generator, role: Role
) -> np.ndarray:
    if dtype.kind == "b":
        return rng.integers(0, 2, shape).astype(bool)
    if dtype.kind == "c":
        return (rng.standard_normal(shape) + 1j * rng.standard_normal(shape)).astype(dtype)
    if is_integer(dtype):
        most = int(ml_dtypes.iinfo(dtype).max)
        if dtype == np.uint32 and shape[-1:] == (2,) and role.indices is None:  # keys
            return rng.integers(0, most, shape, dtype=np.uint32, endpoint=True)
        low, high = role.indices or (0, 7)
        low, high = max(low, int(ml_dtypes.iinfo(dtype).min)), min(high, most)
        return rng.integers(min(low, high), high, shape, endpoint=True).astype(dtype)
    return rng.standard_normal(shape).astype(dtype)
