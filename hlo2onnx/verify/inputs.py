"""Random inputs for verification and profiling, and changes of them that reach special cases."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import ml_dtypes
import numpy as np

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.ports import tensor_of
from hlo2onnx.frontend.signature import Port
from hlo2onnx.interface.extents import Extent
from hlo2onnx.interface.tensors import Tensor
from hlo2onnx.ir.dims import free_symbols
from hlo2onnx.verify.element_kinds import is_float, is_integer
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


# -- recipes ---------------------------------------------------------------------------------------

Change = Callable[[np.ndarray, Role, np.random.Generator, int], np.ndarray]
"""Takes an ordinary array, the role of the input, a generator and the number of the draw."""


@dataclass(frozen=True)
class Recipe:
    """A way to change inputs.

    Attributes:
        what: Its description for the user.
        change: Changes one array.
        is_tame: Whether the inputs stay in the range of ordinary numbers. Others are used only if
            they reach a new side of a guard.
        column: The column of the table of samples that counts them.
    """

    what: str
    change: Change
    is_tame: bool
    column: str = "other ranges"


_IN_TURN = 0.7


def _special(
    array: np.ndarray, role: Role, rng: np.random.Generator, number: int, share: float = 0.5
) -> np.ndarray:
    """Some or all elements become values that matter. A single element takes them in turn."""
    if not role.values:
        return array
    pool = _cast(role.values, array.dtype)
    if array.size <= 1:  # some by chance, so that several scalars do not go in step
        place = number if rng.random() < _IN_TURN else int(rng.integers(0, len(pool)))
        return np.full(array.shape, pool[place % len(pool)])
    # Each value comes once before one comes again.
    order = rng.permutation(array.size).reshape(array.shape)
    chosen = pool[(order + number * (array.size // 2)) % len(pool)]
    # All of them in turns, so that values of several inputs meet.
    return np.where(rng.random(array.shape) < (1 if number % 2 else share), chosen, array)


def _same(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """All elements become one value that matters."""
    if not role.values:
        return array
    pool = _cast(role.values, array.dtype)
    return np.full(array.shape, pool[number % len(pool)])


def _edges(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
    """One element becomes NaN or infinite."""
    if not role.takes_nonfinite or role.is_limited or not is_float(array) or not array.size:
        return array
    found = array.copy()
    place = int(rng.integers(0, array.size))
    found.reshape(-1)[place] = (np.nan, np.inf, -np.inf)[number % 3]
    return found


def _scaled(factor: float) -> Change:
    def change(array: np.ndarray, role: Role, rng: np.random.Generator, number: int) -> np.ndarray:
        if array.dtype.kind == "c" or (is_float(array) and not role.is_limited):
            with np.errstate(all="ignore"):
                return np.asarray(array * np.array(factor, array.dtype), array.dtype)
        return array

    return change


def _of_floats(function: Callable[[np.ndarray], np.ndarray]) -> Change:
    return lambda array, *_: function(array) if is_float(array) else array


def _rounded(array: np.ndarray) -> np.ndarray:
    """Few distinct numbers, so that some are equal; also -0."""
    return (np.rint(array.astype(np.float64) * 2) / 2).astype(array.dtype)


def in_domain(array: np.ndarray, role: Role) -> np.ndarray:
    """The array with positive numbers if the program takes their roots, and with positive definite
    matrices if it takes their Cholesky factors."""
    if role.is_definite and (is_float(array) or array.dtype.kind == "c"):
        wide = array.astype(np.complex128 if array.dtype.kind == "c" else np.float64)
        size = array.shape[-1]
        product = wide @ wide.swapaxes(-1, -2).conj() / size + np.eye(size)
        return np.asarray(product, array.dtype)
    if role.least is not None and is_float(array):
        return np.asarray(np.abs(array.astype(np.float64)) + role.least, array.dtype)
    return array


COLUMNS = ("ordinary", "at limits", "NaN or inf", "other ranges")
"""The columns of the table of samples."""
ORDINARY = Recipe("", lambda array, *_: array, True, "ordinary")
POSITIVE = Recipe("floats made positive", _of_floats(np.abs), True, "ordinary")
"""Variances must not be negative, for example."""

LIMITS = Recipe("values at the limits of the program", _special, True, "at limits")
_FEW = Recipe(
    "few values at the limits of the program", partial(_special, share=0.1), True, "at limits"
)
_EQUAL = Recipe("equal values at a limit of the program", _same, False, "at limits")
_NOT_FINITE = Recipe("NaN or infinity", _edges, True, "NaN or inf")

RECIPES: Sequence[Recipe] = (
    LIMITS,
    _NOT_FINITE,
    _EQUAL,
    _FEW,
    Recipe("floats times 30", _scaled(30), False),
    LIMITS,
    _NOT_FINITE,
    Recipe("rounded floats", _of_floats(_rounded), True),
    LIMITS,
    _NOT_FINITE,
    Recipe("floats times 0.01", _scaled(0.01), True),
    _EQUAL,
    Recipe("floats made negative", _of_floats(lambda x: -np.abs(x)), False),
    _FEW,
    Recipe("floats times 1e4", _scaled(1e4), False),
    _EQUAL,
    Recipe("zeros", lambda array, *_: np.zeros_like(array), False),
    ORDINARY,
)
"""The recipes after the first two draws. They repeat."""


def _cast(values: Sequence[float], dtype: np.dtype) -> np.ndarray:
    # Integers of 64 bits do not pass through f64.
    with np.errstate(all="ignore"):
        if dtype.kind in "iu":
            return np.array([dtype.type(int(value)) for value in values], dtype)
        return np.array(values, np.float64).astype(dtype)
