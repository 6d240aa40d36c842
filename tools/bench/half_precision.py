"""Counts and times networks in half precision beside the same networks in f32.

    python -m tools.bench.half_precision                 all networks
    python -m tools.bench.half_precision --counts        counts only
    python -m tools.bench.half_precision llama gpt2      networks by name

Each network is translated in f32, and in f16 and bf16 with half="xla" and half="fast". The weights
are constants of the model. "mixed" networks keep their weights in f32 and compute in the half type.
The table is in Markdown: nodes and Casts of the model, nodes that ONNX Runtime executes, and the
median time of a call; in brackets the ratio to the f32 model.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any

import flax.linen as nn
import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.options import HalfPolicy
from hlo2onnx.program import OnnxProgram
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram, to_ort
from tools.bench.operators import optimized
from tools.bench.timing import THREADS, medians
from tools.examples import load

Built = tuple[Callable[..., Any], tuple[Any, ...]]

POLICIES: Sequence[HalfPolicy] = ("xla", "fast")
HALF_TYPES = (jnp.bfloat16, jnp.float16)


class Block(nn.Module):
    """An encoder block whose layer norms have f32 statistics, as Flax computes them."""

    width: int
    heads: int
    dtype: Any
    param_dtype: Any

    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        """x: (batch, tokens, width) -> the same shape."""
        types = {"dtype": self.dtype, "param_dtype": self.param_dtype}
        dense = partial(nn.DenseGeneral, **types)
        y = nn.LayerNorm(**types)(x)
        shape = (self.heads, self.width // self.heads)
        query, key, value = (dense(shape, name=name)(y) for name in ("query", "key", "value"))
        scores = jnp.einsum("bqhd,bkhd->bhqk", query, key) / np.sqrt(shape[1]).astype(query.dtype)
        mixed = jnp.einsum("bhqk,bkhd->bqhd", jax.nn.softmax(scores), value)
        x = x + dense(self.width, axis=(-2, -1), name="out")(mixed)
        y = dense(4 * self.width)(nn.LayerNorm(**types)(x))
        return x + dense(self.width)(nn.gelu(y, approximate=False))


class Encoder(nn.Module):
    """A stack of blocks between a projection of patches and a classifier."""

    dtype: Any
    param_dtype: Any
    layers: int = 4
    width: int = 192
    heads: int = 3
    classes: int = 1000

    @nn.compact
    def __call__(self, patches: jax.Array) -> jax.Array:
        """patches: (batch, tokens, features) -> logits (batch, classes)."""
        types = {"dtype": self.dtype, "param_dtype": self.param_dtype}
        x = nn.Dense(self.width, **types)(patches)
        for _ in range(self.layers):
            x = Block(self.width, self.heads, **types)(x)
        return nn.Dense(self.classes, **types)(nn.LayerNorm(**types)(x).mean(axis=1))


def _encoder(dtype: Any, mixed: bool = False) -> Built:
    """A vision transformer in Flax, on patches."""
    model = Encoder(dtype, jnp.float32 if mixed else dtype)
    patches = jnp.asarray(np.random.default_rng(0).normal(size=(1, 64, 192)), dtype)
    variables = jax.eval_shape(model.init, jax.random.PRNGKey(0), patches)
    rng = np.random.default_rng(1)

    def drawn(leaf: Any) -> jax.Array:
        scale = 0.1 if len(leaf.shape) < 2 else leaf.shape[0] ** -0.5
        return jnp.asarray(rng.normal(len(leaf.shape) < 2, scale, leaf.shape), leaf.dtype)

    return partial(model.apply, jax.tree.map(drawn, variables)), (patches,)


def _example(name: str, dtype: Any, **sizes: int) -> Built:
    """A network of `examples`, with its parameters closed over."""
    function, args = load(name).build(dtype=dtype, **sizes)
    return (partial(function, args[0]), args[1:]) if len(args) > 1 else (function, args)


@dataclass(frozen=True)
class Network:
    """A network in any element type.

    Attributes:
        name: Names it on the command line.
        title: What it is.
        build: Gives the function and its arguments for an element type.
    """

    name: str
    title: str
    build: Callable[[Any], Built]


NETWORKS: Sequence[Network] = (
    Network("vit", "ViT, Flax Linen, 4 blocks of width 192", _encoder),
    Network("vit_mixed", "the same, weights in f32", partial(_encoder, mixed=True)),
    Network(
        "llama",
        "Llama, 2 blocks of width 256: rotary, RMSNorm, grouped queries, SwiGLU",
        partial(_example, "decoder", width=256, tokens=64),
    ),
    Network("gpt2", "GPT-2, 2 layers of width 256", partial(_example, "gpt2_prefill", width=256)),
)


@dataclass(frozen=True)
class Model:
    """A translated network.

    Attributes:
        type: Its element type.
        policy: The option `half`; "" for f32.
        program: The translation.
        feeds: The inputs of the model.
    """

    type: str
    policy: str
    program: OnnxProgram
    feeds: Mapping[str, np.ndarray]

    @cached_property
    def content(self) -> bytes:
        """The model as bytes."""
        return self.program.model_proto.SerializeToString()

    def counts(self) -> list[int]:
        """Nodes of the model, its Casts, and nodes that ONNX Runtime executes in a call."""
        nodes = self.program.report.nodes
        return [nodes.total(), nodes["Cast"], len(optimized(self.content).graph.node)]

    def call(self) -> Callable[[], object]:
        """Runs the model."""
        runtime = OrtProgram(self.content, threads=THREADS)
        values = {name: to_ort(array) for name, array in self.feeds.items()}
        return partial(runtime.session.run_with_ort_values, runtime.output_names, values)


def models(network: Network) -> Iterator[Model]:
    """The network in f32, and in each half type with each policy."""
    for dtype in (jnp.float32, *HALF_TYPES):
        function, args = network.build(dtype)
        for policy in POLICIES if dtype in HALF_TYPES else ("",):
            program = hlo2onnx.translate(jax.jit(function), *args, half=policy or "xla")
            feeds = to_model(program.input_names, program.flatten(*args))
            yield Model(jnp.dtype(dtype).name, policy, program, feeds)


def rows(network: Network, timed: bool) -> Iterator[str]:
    """The rows of a network: f32 first, the others with ratios to it."""
    found = list(models(network))
    columns = [model.counts() for model in found]
    seconds = medians([model.call() for model in found]) if timed else []
    first, *_ = columns
    for place, (model, (nodes, casts, executed)) in enumerate(zip(found, columns, strict=True)):
        cells = [
            network.title if not place else "",
            model.type,
            model.policy,
            _compared(nodes, first[0], "d"),
            f"{casts}",
            _compared(executed, first[2], "d"),
        ]
        if timed:
            cells.append(_compared(1e3 * seconds[place], 1e3 * seconds[0], ".2f"))
        yield f"| {' | '.join(cells)} |"


def _compared(number: float, first: float, form: str) -> str:
    """A number, and its ratio to that of the f32 model in brackets."""
    return f"{number:{form}} ({number / first:.2f})"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.half_precision",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    names = [network.name for network in NETWORKS]
    parser.add_argument("networks", nargs="*", metavar="NAME", help=f"of {', '.join(names)}")
    parser.add_argument("--counts", action="store_true", help="count only")
    given = parser.parse_args(argv)
    if unknown := set(given.networks) - set(names):
        parser.error(f"no network {', '.join(sorted(unknown))}; there are {', '.join(names)}")
    columns = ["network", "type", "half", "nodes", "Casts", "executed"]
    columns += [] if given.counts else ["ms"]
    print(f"| {' | '.join(columns)} |\n{'| --- ' * len(columns)}|")
    for network in NETWORKS:
        if not given.networks or network.name in given.networks:
            for row in rows(network, timed=not given.counts):
                print(row, flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
