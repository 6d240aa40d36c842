"""rng_bit_generator and rng: random numbers with and without a state."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from jax import lax

from dialect_handlers.common.random.bit_generators import random_bits
from hlo2onnx.ir.dependence import Draw
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall, Op
from hlo2onnx.lowering.registry import handles, handles_call
from hlo2onnx.lowering.shape_arithmetic import dims_of

T = oir.DataType

_STATES = {"PHILOX": ((2,), (3,)), "THREE_FRY": ((2,),)}
"""The shapes of the u64 state that XLA takes."""


@handles("stablehlo.rng_bit_generator")
def rng_bit_generator(em: Emitter, op: Op, *, rng_algorithm: str) -> list[Parts]:
    """rng_bit_generator(state) -> the next state, and random bits in every element.

    DEFAULT is Philox, as in XLA on the CPU.
    """
    return _generated(em, op, rng_algorithm, em.result_dims(op, 1))


@handles_call("stablehlo.dynamic_rng_bit_generator")
def dynamic_rng_bit_generator(em: Emitter, op: CustomCall, *, rng_algorithm: str) -> list[Parts]:
    """dynamic_rng_bit_generator(state, shape) -> rng_bit_generator; the shape may be symbolic."""
    dims = dims_of(em, em.operand(op, 1), op.result_shape(1))
    return _generated(em, op, rng_algorithm, dims)


def _generated(em: Emitter, op: Op, rng_algorithm: str, dims: Sequence[Dim]) -> list[Parts]:
    state = em.operand(op)
    algorithm = "PHILOX" if rng_algorithm == "DEFAULT" else rng_algorithm
    if dtype_of(state) != T.UINT64 or shape_of(state) not in _STATES[algorithm]:
        raise unsupported("state of a generator")
    dtype = em.result_type(op, 1).dtype.numpy()
    made = em.through_jax(_elements, state, algorithm=algorithm, shape=tuple(dims), dtype=dtype)
    em.draws.append(Draw((state,), (), [part for parts in made for part in parts]))
    return made


def _elements(
    state: jax.Array, *, algorithm: str, shape: tuple[int, ...], dtype: np.dtype
) -> tuple[jax.Array, jax.Array]:
    """The bits as elements of any type; narrow elements are the low bits of 32."""
    width = jnp.iinfo(dtype).bits if jnp.issubdtype(dtype, jnp.integer) else jnp.finfo(dtype).bits
    state, bits = random_bits(state, algorithm=algorithm, shape=shape, width=max(width, 32))
    if jnp.issubdtype(dtype, jnp.integer):
        return state, bits.astype(dtype)
    return state, lax.bitcast_convert_type(bits.astype(f"uint{width}"), dtype)


# -- rng -------------------------------------------------------------------------------------------

_COINS = 128
ANOTHER_EACH_TIME = "stablehlo.rng gives other numbers in each run, as in XLA"


@handles("stablehlo.rng")
def rng(em: Emitter, op: Op, *, rng_distribution: str) -> oir.Value:
    """rng(a, b, shape) -> numbers from [a, b), or of mean a and deviation b; others in each run.

    Philox makes them, as in XLA. Dropout of 128 elements makes its seed: only this random operator
    of ONNX has a kernel for all opsets in ONNX Runtime.
    """
    low, high = em.operand(op, 0), em.operand(op, 1)
    em.report.note(ANOTHER_EACH_TIME)
    ones = em.const(np.ones(_COINS, np.float32))
    types = [(T.FLOAT, (_COINS,)), (T.BOOL, (_COINS,))]
    half, training = em.scalar(0.5, T.FLOAT), em.scalar(True, T.BOOL)
    _, kept = em.outputs("Dropout", ones, half, training, n_outputs=2, types=types)
    numbers = _uniform if rng_distribution == "UNIFORM" else _normal
    ((result,),) = em.through_jax(numbers, kept, low, high, shape=em.result_dims(op))
    return result


def _bits(coins: jax.Array, shape: tuple[int, ...], width: int) -> jax.Array:
    """Unsigned integers of 32 or 64 random bits, from 128 booleans."""
    words = coins.reshape(2, -1).astype(jnp.uint64) << lax.iota(jnp.uint64, _COINS // 2)
    return random_bits(words.sum(1), algorithm="PHILOX", shape=shape, width=width)[1]


def _wide(dtype: np.dtype) -> np.dtype:
    """The float type to compute in."""
    return dtype if dtype == np.float64 else np.dtype(np.float32)


def _uniform(
    coins: jax.Array, low: jax.Array, high: jax.Array, *, shape: tuple[int, ...]
) -> jax.Array:
    """Numbers from [low, high), of the bounds' type."""
    dtype = low.dtype
    if jnp.issubdtype(dtype, jnp.floating):
        wide = _wide(dtype)
        low, high = low.astype(wide), high.astype(wide)
        return (_fractions(coins, shape, wide) * (high - low) + low).astype(dtype)
    wide = dtype if dtype.itemsize >= 4 else jnp.dtype(jnp.int32)
    low, high = low.astype(wide), high.astype(wide)
    unsigned = f"uint{8 * wide.itemsize}"
    extent = high.astype(unsigned) - low.astype(unsigned)
    offset = lax.rem(_bits(coins, shape, 8 * wide.itemsize), extent)
    return (low + offset.astype(wide)).astype(dtype)


def _normal(
    coins: jax.Array, mean: jax.Array, deviation: jax.Array, *, shape: tuple[int, ...]
) -> jax.Array:
    """Numbers of this mean and deviation, by the Box-Muller transform: one of two uniform numbers
    makes a radius, the other an angle."""
    dtype = _wide(mean.dtype)
    size = math.prod(shape)
    first, second = _fractions(coins, (2, -(-size // 2)), dtype)
    radius, angle = jnp.sqrt(-2 * jnp.log1p(-first)), 2 * math.pi * second
    both = jnp.concatenate([radius * jnp.cos(angle), radius * jnp.sin(angle)])
    numbers = both[:size].reshape(shape) * deviation.astype(dtype) + mean.astype(dtype)
    return numbers.astype(mean.dtype)


def _fractions(coins: jax.Array, shape: tuple[int, ...], dtype: np.dtype) -> jax.Array:
    """Numbers from [0, 1): every multiple of 2^-digits alike."""
    info = jnp.finfo(dtype)
    digits = _bits(coins, shape, info.bits) >> (info.bits - info.nmant)
    return digits.astype(dtype) * jnp.array(2.0**-info.nmant, dtype)
