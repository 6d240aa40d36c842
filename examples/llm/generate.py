"""Whole `generate` loops of the Llama as one model each: greedy, sampling and beam search.

The cache has a fixed size. Prompts are padded on the left.
Run it: `python examples/llm/generate.py` writes greedy.onnx, sample.onnx and beam_search.onnx.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import NamedTuple

import jax
import jax.numpy as jnp
import llama
from jax import lax

STOP = 2
Caches = list[llama.Cache]
Model = Callable[..., tuple[jax.Array, Caches]]
"""`llama.transformer` with its sizes and weights."""


class State(NamedTuple):
    """What a loop carries. A row is a prompt, or a beam of a prompt."""

    place: jax.Array  # of the last token, i32[]
    tokens: jax.Array  # prompts and new tokens, i32[rows, length]; STOP after the end
    scores: jax.Array  # log probabilities of the new tokens, f32[rows]; only of beams
    cache: Caches


Choose = Callable[[State, jax.Array], State]
"""Adds tokens at `place` to a state, by the logits f32[rows, vocab] of the tokens before."""


def forward(
    model: Model, new: jax.Array, place: jax.Array | int, mask: jax.Array, cache: Caches
) -> tuple[jax.Array, Caches]:
    """Logits after new tokens, i32[rows, count], of which the first is at `place`."""
    length = mask.shape[1]
    places = place + jnp.arange(new.shape[1])
    padding = length - jnp.sum(mask, axis=1, keepdims=True)
    seen = (jnp.arange(length) <= places[:, None]) & (mask[:, None] > 0)
    write = partial(lax.dynamic_update_slice_in_dim, start_index=place, axis=2)
    positions = jnp.maximum(places - padding, 0)
    logits, cache = model(new, positions, seen[:, None, None], cache, write)
    return logits[:, -1], cache


def generate(
    config: llama.Config,
    model: Model,
    prompts: jax.Array,
    mask: jax.Array,
    choose: Choose,
    *,
    length: int,
    beams: int = 1,
) -> State:
    """The state when all rows have ended, or at `length` tokens with the prompt.

    Args:
        prompts: Padded on the left, i32[batch, count].
        mask: 1 for a token, 0 for padding, i32[batch, count].
    """
    batch, count = prompts.shape
    mask = jnp.pad(mask, ((0, 0), (0, length - count)), constant_values=1)
    buffer = jnp.zeros((batch, config.kv_heads, length, config.head_dim))
    logits, cache = forward(model, prompts, 0, mask, [(buffer, buffer)] * config.layers)
    tokens = jnp.pad(prompts, ((0, 0), (0, length - count)), constant_values=STOP)
    # All beams of a prompt start alike, so only the first may have successors.
    scores = jnp.tile(jnp.where(jnp.arange(beams) == 0, 0.0, -jnp.inf), batch)
    mask, logits, tokens, cache = jax.tree.map(
        lambda x: jnp.repeat(x, beams, axis=0), (mask, logits, tokens, cache)
    )

    def goes_on(state: State) -> jax.Array:
        return (state.place < length - 1) & jnp.any(state.tokens[:, state.place] != STOP)

    def step(state: State) -> State:
        last = lax.dynamic_slice_in_dim(state.tokens, state.place, 1, axis=1)
        logits, cache = forward(model, last, state.place, mask, state.cache)
        return choose(state._replace(place=state.place + 1, cache=cache), logits)

    first = choose(State(jnp.int32(count), tokens, scores, cache), logits)
    return lax.while_loop(goes_on, step, first)


def add(state: State, tokens: jax.Array) -> State:
    """Adds a token to each row that has not ended."""
    ended = state.tokens[:, state.place - 1] == STOP
    tokens = jnp.where(ended, STOP, tokens)
    return state._replace(tokens=state.tokens.at[:, state.place].set(tokens))


def greedy(config, model, prompts, mask, *, length):
    """The likeliest token each time: i32[batch, length]."""

    def choose(state: State, logits: jax.Array) -> State:
        return add(state, jnp.argmax(logits, axis=-1).astype(jnp.int32))

    return generate(config, model, prompts, mask, choose, length=length).tokens


def sample(config, model, prompts, mask, key, *, length, top_k=20, top_p=0.9, temperature=1.0):
    """Tokens drawn from the `top_k` likeliest, as far as these have the probability `top_p`."""

    def choose(state: State, logits: jax.Array) -> State:
        scores, tokens = lax.top_k(logits / temperature, top_k)
        chances = jax.nn.softmax(scores)
        before = jnp.cumsum(chances, axis=-1) - chances
        scores = jnp.where(before < top_p, scores, -jnp.inf)
        drawn = jax.random.categorical(jax.random.fold_in(key, state.place), scores)
        return add(state, jnp.take_along_axis(tokens, drawn[:, None], axis=1)[:, 0])

    return generate(config, model, prompts, mask, choose, length=length).tokens


def beam_search(config, model, prompts, mask, *, length, beams=3):
    """The likeliest sequences and their scores, best first: i32[batch, beams, length]."""
    batch, vocab = prompts.shape[0], config.vocab
    only_stop = jnp.where(jnp.arange(vocab) == STOP, 0.0, -jnp.inf)

    def choose(state: State, logits: jax.Array) -> State:
        ended = state.tokens[:, state.place - 1] == STOP
        steps = jnp.where(ended[:, None], only_stop, jax.nn.log_softmax(logits))
        totals = (state.scores[:, None] + steps).reshape(batch, beams * vocab)
        best, places = lax.top_k(totals, beams)
        rows = (jnp.arange(batch)[:, None] * beams + places // vocab).ravel()
        tokens, cache = jax.tree.map(lambda x: x[rows], (state.tokens, state.cache))
        tokens = tokens.at[:, state.place].set((places % vocab).ravel())
        return State(state.place, tokens, best.ravel(), cache)

    state = generate(config, model, prompts, mask, choose, length=length, beams=beams)
    return state.tokens.reshape(batch, beams, length), state.scores.reshape(batch, beams)


if __name__ == "__main__":
    import hlo2onnx

    sizes = llama.Config(vocab=1000, layers=2)
    for function, more in ((greedy, []), (sample, ["uint32[2]"]), (beam_search, [])):

        def whole(params, *inputs, function=function):
            return function(sizes, partial(llama.transformer, sizes, params), *inputs, length=64)

        inputs = [llama.create_params(sizes), "int32[b, s]", "int32[b, s]", *more]
        program = hlo2onnx.translate(whole, *inputs, bind=0, constraints=["s <= 63"], opset=24)
        program.save(f"{function.__name__}.onnx")
