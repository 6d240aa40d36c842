"""Programs for several devices, with what JAX computes on them.

Run as a script, `device_programs.py COUNT PARTITIONER FILE`, this pickles for each program its
StableHLO, its arguments and its results on that many devices of the CPU. The results are JAX's own:
nothing here reads hlo2onnx.
"""

from __future__ import annotations

import functools
import os
import pickle
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from jax import lax
from jax.sharding import AxisType, Mesh
from jax.sharding import PartitionSpec as P

PROGRAMS: dict[str, Callable[[int], tuple[Any, tuple[Any, ...]]]] = {}
"""Makes a function and its arguments for a count of devices."""


def program(make: Callable[[int], tuple[Any, tuple[Any, ...]]]) -> Any:
    PROGRAMS[make.__name__] = make
    return make


def line(n: int) -> Mesh:
    return jax.make_mesh((n,), ("x",), axis_types=(AxisType.Auto,))


def square(n: int) -> Mesh:
    return jax.make_mesh((2, n // 2), ("x", "y"), axis_types=(AxisType.Auto,) * 2)


def over(mesh: Mesh, function: Any, in_specs: Any, out_specs: Any, **options: Any) -> Any:
    return jax.jit(
        jax.shard_map(function, mesh=mesh, in_specs=in_specs, out_specs=out_specs, **options)
    )


def values(*shape: int, seed: int = 0) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def ring(n: int, step: int = 1) -> list[tuple[int, int]]:
    return [(i, (i + step) % n) for i in range(n)]


def along(function: Any, spec_in: Any = None, spec_out: Any = None, **options: Any) -> Any:
    """A program of one argument of shape (2 n, 6), cut along its first axis."""

    def make(n: int) -> tuple[Any, tuple[Any, ...]]:
        given = P("x") if spec_in is None else spec_in
        wanted = P("x") if spec_out is None else spec_out
        body = functools.partial(function, n) if options.pop("takes_n", False) else function
        return over(line(n), body, given, wanted, **options), (values(2 * n, 6),)

    return make


# -- single collectives ---------------------------------------------------------------------------

SIMPLE: dict[str, tuple[Any, Any]] = {
    "psum": (lambda n, x: lax.psum(x, "x"), P()),
    "psum_of_one_row": (lambda n, x: lax.psum(x[0], "x"), P()),
    "pmean": (lambda n, x: lax.pmean(x, "x"), P()),
    "pmax": (lambda n, x: lax.pmax(x, "x"), P()),
    "pmin": (lambda n, x: lax.pmin(x, "x"), P()),
    "psum_of_integers": (lambda n, x: lax.psum((x * 9).astype(jnp.int32), "x"), P()),
    "psum_of_bytes": (lambda n, x: lax.psum((x * 9).astype(jnp.int8), "x"), P()),
    "psum_of_bool": (lambda n, x: lax.psum(x > 0, "x"), P()),
    "pmax_of_bf16": (lambda n, x: lax.pmax(x.astype(jnp.bfloat16), "x").astype(jnp.float32), P()),
    "psum_of_bf16": (lambda n, x: lax.psum(x.astype(jnp.bfloat16), "x").astype(jnp.float32), P()),
    "psum_of_f16": (lambda n, x: lax.psum(x.astype(jnp.float16), "x").astype(jnp.float32), P()),
    "psum_of_complex": (lambda n, x: lax.psum(lax.complex(x, x * 2), "x").imag, P()),
    "shift": (lambda n, x: lax.ppermute(x, "x", ring(n)), P("x")),
    "shift_without_wrap": (lambda n, x: lax.ppermute(x, "x", ring(n)[:-1]), P("x")),
    "shift_of_complex": (
        lambda n, x: jnp.abs(lax.ppermute(lax.complex(x, x + 1), "x", ring(n)[:-1])),
        P("x"),
    ),
    "shift_of_bool": (
        lambda n, x: lax.ppermute(x > 0, "x", ring(n)[:-1]).astype(jnp.float32),
        P("x"),
    ),
    "axis_index": (lambda n, x: x + lax.axis_index("x").astype(jnp.float32), P("x")),
    "own_row": (lambda n, x: x[lax.axis_index("x") % 2][None] * 2, P("x")),
    "psum_scatter": (
        lambda n, x: lax.psum_scatter(jnp.arange(2.0 * n)[:, None] * x[0], "x", tiled=True),
        P("x"),
    ),
    "psum_scatter_untiled": (
        lambda n, x: lax.psum_scatter(jnp.stack([x] * n) * 2, "x"),
        P("x"),
    ),
    "all_gather": (lambda n, x: lax.all_gather(x, "x").sum(0)[:1] * x, P("x")),
    "all_gather_tiled": (lambda n, x: lax.all_gather(x, "x", tiled=True) @ x.T, P(None, "x")),
    "all_gather_of_columns": (
        lambda n, x: lax.all_gather(x, "x", axis=1, tiled=True) * 2,
        P("x"),
    ),
    "all_to_all": (
        lambda n, x: lax.all_to_all(jnp.arange(2.0 * n)[:, None] * x[0], "x", 0, 1, tiled=True),
        P("x"),
    ),
    "all_to_all_untiled": (lambda n, x: lax.all_to_all(jnp.stack([x] * n), "x", 0, 2), P("x")),
    "halves": (
        lambda n, x: lax.psum(
            x, "x", axis_index_groups=[list(range(n // 2)), list(range(n // 2, n))]
        ),
        P("x"),
    ),
    "random_per_device": (
        lambda n, x: (
            x
            + jax.random.normal(jax.random.fold_in(jax.random.key(3), lax.axis_index("x")), x.shape)
        ),
        P("x"),
    ),
    "halo": (
        lambda n, x: (
            jnp.concatenate(
                [lax.ppermute(x[-1:], "x", ring(n)), x, lax.ppermute(x[:1], "x", ring(n, -1))]
            )[:-2]
            + x
        ),
        P("x"),
    ),
    "gather_by_sum": (
        lambda n, x: lax.psum(
            lax.dynamic_update_slice(
                jnp.zeros((2 * n, 6), x.dtype), x, (2 * lax.axis_index("x"), 0)
            ),
            "x",
        ),
        P(),
    ),
    "in_branch": (
        lambda n, x: lax.cond(
            lax.psum(x.sum(), "x") > 0,
            lambda y: y * lax.psum(y, "x"),
            lambda y: lax.ppermute(y, "x", ring(n)),
            x,
        ),
        P("x"),
    ),
    "switch_by_device": (
        lambda n, x: lax.switch(lax.axis_index("x") % 3, [jnp.sin, jnp.cos, lambda y: y * 2], x),
        P("x"),
    ),
    "until_the_sum_is_small": (
        lambda n, x: lax.while_loop(
            lambda s: lax.psum(jnp.abs(s).sum(), "x") > 1, lambda s: s * 0.5, x
        ),
        P("x"),
    ),
    "as_often_as_the_device": (
        lambda n, x: lax.fori_loop(0, lax.axis_index("x") + 1, lambda i, s: s * 1.5 + i, x),
        P("x"),
    ),
    "sum_in_a_scan": (
        lambda n, x: lax.scan(lambda c, row: (c + lax.psum(row, "x"), c * row), jnp.zeros(6), x)[1],
        P("x"),
    ),
    "index_in_a_loop": (
        lambda n, x: lax.fori_loop(0, 3, lambda i, s: s * 2 + lax.axis_index("x"), 1) * x,
        P("x"),
    ),
    "ring_of_sums": (
        lambda n, x: lax.fori_loop(
            0,
            n,
            lambda i, s: (
                s[0] + s[1] * (1 + lax.axis_index("x")),
                lax.ppermute(s[1], "x", ring(n)),
            ),
            (jnp.zeros_like(x), x),
        )[0],
        P("x"),
    ),
}
# -- ops on the values of all devices at once -----------------------------------------------------


def own(n: int, x: Any) -> Any:
    """An index that differs between devices, and is out of range on some."""
    return lax.axis_index("x") * 2 - 1


def windows(x: Any) -> Any:
    return lax.reduce_window(x, -jnp.inf, lax.max, (2, 3), (1, 1), "SAME")


def convolved(x: Any, kernel: Any) -> Any:
    return lax.conv_general_dilated(x[None, None], kernel, (1, 2), "SAME")[0, 0]


OPS: dict[str, Any] = {
    "sort": lambda n, x: jnp.sort(x, 1),
    "sort_of_pairs": lambda n, x: jnp.argsort(x, 1),
    "top_k": lambda n, x: lax.top_k(x, 2)[1],
    "cumsum": lambda n, x: jnp.cumsum(x, 1),
    "windows": lambda n, x: windows(x),
    "reverse": lambda n, x: x[:, ::-1] + lax.rev(x, (0,)),
    "pad": lambda n, x: lax.pad(x, 0.5, ((0, 0, 0), (1, -2, 1))),
    "pad_with_own": lambda n, x: lax.pad(x, x[0, 0], ((0, 0, 0), (1, -2, 1))),
    "reduce_from_own": lambda n, x: lax.reduce(x, x[0, 0], lax.max, (1,)),
    "reduce_pairs": lambda n, x: jnp.argmax(x, 1) + lax.axis_index("x"),
    "select_by_own_scalar": lambda n, x: jnp.where(x[0, 0] > 0, x, 2.0),
    "select_by_scalar": lambda n, x: jnp.where(lax.psum(x[0, 0], "x") > 0, x, jnp.cos(x)),
    "clamp_by_own": lambda n, x: lax.clamp(x[0, 0] - 1, x, x[0, 0] + 1),
    "clamp": lambda n, x: lax.clamp(-0.5, x, 0.5),
    "take": lambda n, x: x[:, jnp.array([3, 0, 7])],
    "take_own": lambda n, x: jnp.take(x, own(n, x) + jnp.arange(3), 1, mode="clip"),
    "take_own_of_shared": lambda n, x: (jnp.arange(9.0) ** 2)[own(n, x) + jnp.arange(2)] * x[0, 0],
    "take_pairs": lambda n, x: jnp.take_along_axis(x, jnp.argsort(x, 1)[:, :2], 1),
    "slice": lambda n, x: lax.dynamic_slice(x, (lax.psum(1, "x"), 1), (1, 3)),
    "slice_own": lambda n, x: lax.dynamic_slice(x, (0, own(n, x)), (1, 3)),
    "slice_own_of_shared": lambda n, x: (
        lax.dynamic_slice(jnp.arange(9.0), (own(n, x),), (2,)) * x[0, 0]
    ),
    "update": lambda n, x: lax.dynamic_update_slice(x, x[:1, :2] * 2, (1, lax.psum(1, "x"))),
    "update_own": lambda n, x: lax.dynamic_update_slice(x, x[:1, :2] * 2, (1, own(n, x))),
    "update_shared": lambda n, x: lax.dynamic_update_slice(
        jnp.ones((2, 6)), x[:1] * 2, (own(n, x), 0)
    ),
    "scatter": lambda n, x: x.at[:, jnp.array([0, 9])].add(x[:, :2] * 3),
    "scatter_own": lambda n, x: x.at[:, own(n, x)].set(7.0),
    "scatter_into_shared": lambda n, x: jnp.zeros((2, 6)).at[1, own(n, x)].add(x[0, 0]),
    "products": lambda n, x: jnp.einsum("ij,kj->ik", x, x) @ x,
    "products_of_batches": lambda n, x: jnp.einsum("ij,ikj->ik", x, jnp.ones((2, 3, 6))),
    "products_with_shared": lambda n, x: jnp.ones((4, 2)) @ x + (x @ jnp.ones((6, 2))).sum(),
    "spectrum": lambda n, x: jnp.abs(jnp.fft.rfft(x)),
    "solve": lambda n, x: lax.linalg.triangular_solve(
        x[:, :2] + 3 * jnp.eye(2), x, left_side=True, lower=True
    ),
    "cholesky": lambda n, x: jnp.linalg.cholesky(x @ x.T + jnp.eye(2)),
    "convolution": lambda n, x: convolved(x, jnp.ones((2, 1, 2, 3))),
    "convolution_with_own": lambda n, x: convolved(x, x[None, None, :, :3]),
    "bits": lambda n, x: lax.bitcast_convert_type(x, jnp.int32) >> 3,
    "barrier": lambda n, x: lax.optimization_barrier((x, x[0]))[0],
    "erf": lambda n, x: lax.erf(x) + lax.lgamma(x),
    "loop_of_shared": lambda n, x: lax.fori_loop(
        0, 3, lambda i, s: (s[0] * 2, s[1] + s[0] * x), (jnp.ones(()), jnp.zeros_like(x))
    )[1],
    "branch_of_shared": lambda n, x: lax.cond(
        lax.psum(x.sum(), "x") > 0, lambda y: y * 2, lambda y: jnp.ones_like(y), x
    ),
}
SIMPLE |= {f"op_{name}": (body, P("x")) for name, body in OPS.items()}
for _name, (_body, _spec) in SIMPLE.items():
    PROGRAMS[_name] = along(_body, spec_out=_spec, check_vma=False, takes_n=True)


# -- programs as people write them ----------------------------------------------------------------


@program
def train_step(n: int) -> Any:
    """Data parallelism: gradients of shards are averaged."""

    def loss(w: Any, x: Any, y: Any) -> Any:
        return ((jnp.tanh(x @ w["a"]) @ w["b"] - y) ** 2).mean()

    def step(w: Any, x: Any, y: Any) -> Any:
        value, slopes = jax.value_and_grad(loss)(w, x, y)
        slopes = jax.tree.map(lambda g: lax.pmean(g, "x"), slopes)
        return jax.tree.map(lambda p, g: p - 0.1 * g, w, slopes), lax.pmean(value, "x")

    weights = {"a": values(6, 8), "b": values(8, 3, seed=1)}
    run = over(line(n), step, (P(), P("x"), P("x")), (P(), P()), check_vma=False)
    return run, (weights, values(4 * n, 6, seed=2), values(4 * n, 3, seed=3))


@program
def batch_norm(n: int) -> Any:
    """The mean and variance of the whole batch."""

    def norm(x: Any) -> Any:
        mean = lax.pmean(x.mean(0), "x")
        variance = lax.pmean(((x - mean) ** 2).mean(0), "x")
        return (x - mean) / jnp.sqrt(variance + 1e-5)

    return over(line(n), norm, P("x"), P("x")), (values(4 * n, 5),)


@program
def tensor_parallel_mlp(n: int) -> Any:
    """The columns of a matrix, then the rows of the next one."""

    def run(x: Any, a: Any, b: Any) -> Any:
        return lax.psum(jax.nn.gelu(x @ a) @ b, "x")

    arguments = values(3, 6), values(6, 128, seed=1), values(128, 6, seed=2)
    return over(line(n), run, (P(), P(None, "x"), P("x", None)), P()), arguments


@program
def ring_attention(n: int) -> Any:
    """Keys and values go round; each device keeps running sums of the softmax."""

    def run(q: Any, k: Any, v: Any) -> Any:
        def trip(_: Any, state: Any) -> Any:
            total, weight, most, k, v = state
            scores = q @ k.T / 2.0
            new = jnp.maximum(most, scores.max(-1, keepdims=True))
            part = jnp.exp(scores - new)
            factor = jnp.exp(most - new)
            k, v = (lax.ppermute(y, "x", ring(n)) for y in (k, v))
            weight = weight * factor + part.sum(-1, keepdims=True)
            return total * factor + part @ state[4], weight, new, k, v

        zero = jnp.zeros_like(q)
        start = (zero, zero[:, :1], zero[:, :1] - 1e9, k, v)
        total, weight, *_ = lax.fori_loop(0, n, trip, start)
        return total / weight

    arguments = tuple(values(2 * n, 4, seed=seed) for seed in range(3))
    return over(line(n), run, P("x"), P("x"), check_vma=False), arguments


@program
def pipeline(n: int) -> Any:
    """A stage on each device; the microbatches go from one to the next in a scan.

    The gain of a stage is about 1: with a larger one, rounding grows from stage to stage.
    """

    def run(w: Any, x: Any) -> Any:
        index, steps = lax.axis_index("x"), x.shape[0] + n - 1

        def trip(carry: Any, t: Any) -> Any:
            fed = x[jnp.minimum(t, x.shape[0] - 1)]
            y = jnp.tanh(jnp.where(index == 0, fed, carry) @ w[0])
            return lax.ppermute(y, "x", ring(n)), y

        found = lax.scan(trip, jnp.zeros_like(x[0]), jnp.arange(steps))[1][n - 1 :]
        return lax.psum(jnp.where(index == n - 1, found, 0), "x")

    run = over(line(n), run, (P("x"), P()), P(), check_vma=False)
    return run, (values(n, 5, 5) / 2, values(3, 2, 5, seed=1))


@program
def experts(n: int) -> Any:
    """An expert on each device; tokens go to it and come back by all_to_all."""

    def run(w: Any, x: Any) -> Any:
        sent = lax.all_to_all(x.reshape(n, -1, 4), "x", 0, 0)
        return lax.all_to_all(jnp.tanh(sent @ w[0]), "x", 0, 0).reshape(x.shape)

    specs = (P("x"), P("x"))
    run_ = over(line(n), run, specs, P("x"))
    return run_, (values(n, 4, 4), values(2 * n * n, 4, seed=1))


@program
def fully_sharded(n: int) -> Any:
    """FSDP: the weights are gathered, their gradients scattered."""

    def loss(w: Any, x: Any) -> Any:
        return (jnp.sin(x @ lax.all_gather(w, "x", tiled=True)) ** 2).sum()

    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * jax.grad(loss)(w, x)

    run = over(line(n), step, (P("x"), P("x")), P("x"), check_vma=False)
    return run, (values(2 * n, 3), values(2 * n, 2 * n, seed=1))


@program
def two_axes(n: int) -> Any:
    def run(x: Any) -> Any:
        x = lax.psum(x, "x") + lax.axis_index("y") * 2.0 + lax.axis_index(("x", "y"))
        return x * lax.psum(x, ("y", "x"))

    run_ = over(square(n), run, P("x", "y"), P("x", "y"), check_vma=False)
    return run_, (values(4, 8),)


def data_and_tensor_parallel(n: int, data: str, model: str) -> Any:
    """The rows of one operand are independent of those of the other one."""

    def run(x: Any, w: Any) -> Any:
        return lax.psum(jnp.tanh(x @ w).sum(1, keepdims=True), model) + jnp.sin(x)

    run_ = over(square(n), run, (P(data), P(None, model)), P(data), check_vma=False)
    return run_, (values(2 * n, 3), values(3, 2 * n, seed=1))


PROGRAMS["data_before_tensor_parallel"] = lambda n: data_and_tensor_parallel(n, "x", "y")
PROGRAMS["tensor_before_data_parallel"] = lambda n: data_and_tensor_parallel(n, "y", "x")


@program
def axes_in_other_order(n: int) -> Any:
    def run(x: Any) -> Any:
        return lax.all_gather(x, ("y", "x"), tiled=True)

    return over(square(n), run, P(("y", "x")), P(), check_vma=False), (values(2 * n, 3),)


@program
def part_of_the_axes(n: int) -> Any:
    """Partial auto: the partitioner of XLA has the other axis."""

    def run(x: Any) -> Any:
        return lax.psum(jnp.sin(x), "x") * x.sum(1, keepdims=True)

    run_ = over(square(n), run, P("x"), P("x"), axis_names={"x"}, check_vma=False)
    return run_, (values(4, 8),)


@program
def nested(n: int) -> Any:
    mesh = square(n)

    def run(x: Any) -> Any:
        inner = jax.shard_map(
            lambda y: lax.psum(y, "y") * 2 + y, in_specs=P(None, "y"), out_specs=P(None, "y"),
            axis_names={"y"}, check_vma=False,
        )  # fmt: skip
        return inner(x * 3) + lax.psum(x, "x")

    run_ = over(mesh, run, P("x"), P("x"), axis_names={"x"}, check_vma=False)
    return run_, (values(4, 8),)


@program
def twice(n: int) -> Any:
    """Two manual parts, and ops of the whole tensor around them."""
    first = over(line(n), lambda x: lax.psum(x, "x") * x, P("x"), P("x"), check_vma=False)
    second = over(line(n), lambda x: lax.pmax(x, "x") + x, P(None, "x"), P(None, "x"))
    return jax.jit(lambda x: second(jnp.sort(first(x) * 2, 0)) + x), (values(n, 2 * n),)


@program
def in_a_loop_of_the_whole(n: int) -> Any:
    body = over(line(n), lambda x: x / lax.psum(x, "x"), P("x"), P("x"))
    run = jax.jit(lambda x: lax.fori_loop(0, 3, lambda i, s: body(s) + i, x))
    return run, (np.abs(values(n, 4)) + 1,)


@program
def mapped(n: int) -> Any:
    def run(x: Any, k: Any) -> Any:
        return x / lax.psum(x, "i") + lax.axis_index("i"), k * 2

    return jax.pmap(run, axis_name="i", in_axes=(0, None)), (values(n, 3), values(2))


@program
def mapped_train_step(n: int) -> Any:
    def step(w: Any, x: Any) -> Any:
        return w - 0.1 * lax.pmean(jax.grad(lambda w: ((x @ w) ** 2).mean())(w), "i")

    return jax.pmap(step, axis_name="i"), (np.stack([values(4, 2)] * n), values(n, 3, 4, seed=1))


@program
def integers(n: int) -> Any:
    def run(x: Any) -> Any:
        return lax.psum_scatter(lax.all_gather(x, "x", tiled=True), "x", tiled=True) % 7

    return over(line(n), run, P("x"), P("x")), (np.arange(2 * n, dtype=np.int32),)


def main(count: int, partitioner: str, path: str) -> None:
    """Runs every program on its devices."""
    jax.config.update("jax_use_shardy_partitioner", partitioner == "shardy")
    found = {}
    for name, make in PROGRAMS.items():
        try:
            function, arguments = make(count)
            lowered = function.lower(*arguments)
            module = lowered.compiler_ir("stablehlo")
            results = jax.tree.leaves(function(*arguments))
            text = module.operation.get_asm(enable_debug_info=True)
            found[name] = text, jax.tree.leaves(arguments), [np.asarray(x) for x in results]
        except Exception as error:  # noqa: BLE001  (a partitioner may not take it)
            found[name] = f"{type(error).__name__}: {error}"
    Path(path).write_bytes(pickle.dumps(found))


if __name__ == "__main__":
    os.environ["XLA_FLAGS"] = f"--xla_force_host_platform_device_count={sys.argv[1]}"
    main(int(sys.argv[1]), sys.argv[2], sys.argv[3])
