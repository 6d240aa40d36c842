"""XLA's generators of random bits, in JAX.

Each takes the state of `rng_bit_generator`, a vector of u64: the key, then the words of a counter.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import jax
import jax.numpy as jnp
from jax import lax
from jax.extend.random import threefry2x32_p

Words = tuple[jax.Array, ...]


def random_bits(
    state: jax.Array, *, algorithm: str, shape: tuple[int, ...], width: int
) -> tuple[jax.Array, jax.Array]:
    """The new state and unsigned integers of 32 or 64 bits.

    Args:
        state: u64[2], or u64[3] for "PHILOX".
        algorithm: "PHILOX" or "THREE_FRY".
        shape: Of the integers.
        width: Their bits.
    """
    generate = {"PHILOX": _philox, "THREE_FRY": _threefry}[algorithm]
    return generate(state, shape, width)


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
