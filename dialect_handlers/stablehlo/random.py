"""Random bits and numbers: rng and rng_bit_generator."""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from jax import lax
from jax.extend.random import threefry2x32_p

from hlo2onnx.ir.dependence import Draw
from hlo2onnx.ir.values import Dim, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import CustomCall, Op
from hlo2onnx.lowering.registry import handles, handles_call
from hlo2onnx.lowering.shape_arithmetic import dims_of

# -- rng_bit_generator and rng: random numbers with and without a state -----------------------


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
    generate = {"PHILOX": _philox, "THREE_FRY": _threefry}[algorithm]
    state, bits = generate(state, shape, max(width, 32))
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
    return _philox(words.sum(1), shape, width)[1]


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


# -- generators of random bits, in JAX --------------------------------------------------------
#
# Each takes the state of `rng_bit_generator`, a vector of u64: the key, then the words of a
# counter; and the shape of integers and their width, 32 or 64 bits. It gives the new state and the
# unsigned integers.


Words = tuple[jax.Array, ...]


def _halves(x: jax.Array) -> Words:
    """The low and the high word of u64 numbers."""
    return x.astype(jnp.uint32), (x >> 32).astype(jnp.uint32)


def _joined(low: jax.Array, high: jax.Array) -> jax.Array:
    return low.astype(jnp.uint64) | high.astype(jnp.uint64) << 32


# -- Threefry --------------------------------------------------------------------------------------


def _threefry(state: jax.Array, shape: tuple[int, ...], width: int) -> tuple[jax.Array, jax.Array]:
    """Numbers of 64 bits take both words that a counter gives; of 32 bits, two neighbours along
    the first even axis, or else along the longest one, take one word each."""
    if width == 64:
        state, words = _threefry_words(state, shape)
        return state, _joined(*words)
    if not shape:
        state, words = _threefry_words(state, (1,))
        return state, words[0].reshape(())
    even = [axis for axis, dim in enumerate(shape) if dim % 2 == 0]
    axis = even[0] if even else shape.index(max(shape))
    half = (*shape[:axis], -(-shape[axis] // 2), *shape[axis + 1 :])
    state, words = _threefry_words(state, half)
    pairs = jnp.stack(words, axis + 1)
    padded = pairs.reshape(*shape[:axis], 2 * half[axis], *shape[axis + 1 :])
    return state, lax.slice_in_dim(padded, 0, shape[axis], axis=axis)


def _threefry_words(state: jax.Array, shape: Sequence[int]) -> tuple[jax.Array, Words]:
    size = math.prod(shape)
    counts = state[1] + lax.iota(jnp.uint64, size).reshape(shape)
    words = threefry2x32_p.bind(*_halves(state[0]), *_halves(counts))
    return jnp.stack([state[0], state[1] + jnp.uint64(size)]), words


# -- Philox ----------------------------------------------------------------------------------------

_ROUNDS = 10
_KEY_STEPS = (0x9E3779B9, 0xBB67AE85)
_FACTORS = (0xD2511F53, 0xCD9E8D57)


def _philox(state: jax.Array, shape: tuple[int, ...], width: int) -> tuple[jax.Array, jax.Array]:
    """A block of four words of 32 bits for each step of a counter of 128 bits.

    A state of two words has one for the low half of the counter; the key then is its high half.
    """
    size = math.prod(shape)
    blocks = -(-size * width // 128)
    key, low, high = state if len(state) == 3 else (state[0], state[1], state[0])
    counters = _plus(low, high, lax.iota(jnp.uint64, blocks))
    words = _philox_words(key, counters)
    numbers = [_joined(*words[:2]), _joined(*words[2:])] if width == 64 else list(words)
    bits = jnp.stack(numbers, axis=1).reshape(-1)[:size].reshape(shape)
    after = _plus(low, high, jnp.uint64(blocks))
    return jnp.stack([key, *after][: len(state)]), bits


def _plus(low: jax.Array, high: jax.Array, step: jax.Array) -> Words:
    """The sum of a number of 128 bits and one of 64, as its low and its high half."""
    total = low + step
    return total, high + (total < low).astype(jnp.uint64)


def _philox_words(key: jax.Array, counters: Words) -> Words:
    """Philox-4x32 in ten rounds, on words of 32 bits held in u64.

    A round multiplies two of four words by a constant each; their low halves replace them and the
    high ones are XORed into the other two, with a key that grows by a constant (Salmon et al.).
    """
    mask = jnp.uint64(0xFFFFFFFF)

    def one_round(_: jax.Array, carry: tuple[Words, Words]) -> tuple[Words, Words]:
        (a, b, c, d), keys = carry
        first, second = (x * jnp.uint64(factor) for x, factor in zip((a, c), _FACTORS, strict=True))
        words = ((second >> 32) ^ b ^ keys[0], second & mask,
                 (first >> 32) ^ d ^ keys[1], first & mask)  # fmt: skip
        raised = tuple(
            (word + jnp.uint64(step)) & mask for word, step in zip(keys, _KEY_STEPS, strict=True)
        )
        return words, raised

    start = tuple(part for half in counters for part in (half & mask, half >> 32))
    keys = (key & mask, key >> 32)
    words, _ = lax.fori_loop(0, _ROUNDS, one_round, (start, keys))
    return tuple(word.astype(jnp.uint32) for word in words)
