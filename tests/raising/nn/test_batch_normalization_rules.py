"""Batch normalization on small graphs: where the rule fires and where not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.batch_normalization import BatchNormalization

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (2, 6, 4, 6)).astype(np.float32)
W = RNG.normal(size=(6, 6, 1, 1)).astype(np.float32)
S, B, M = RNG.uniform(0.5, 2, (3, 1, 6, 1, 1)).astype(np.float32)
IMAGE = {"x": X}


def conv(b: GraphBuilder, x: oir.Value, w: np.ndarray = W) -> oir.Value:
    return b.Conv(x, b.const(w))


def inverse(b: GraphBuilder, v: oir.Value, epsilon: float = 0.25) -> oir.Value:
    return b.Reciprocal(b.Sqrt(b.Add(v, b.scalar_like(epsilon, v))))


def batch(
    b: GraphBuilder,
    x: oir.Value,
    *statistics: oir.Value,
    dims: tuple[int, ...] = (1, 6, 1, 1),
    swaps: bool = False,
    inner: bool = False,
    epsilon: float = 0.25,
) -> oir.Value:
    m, v, s, shift = statistics
    root = inverse(b, v, epsilon)
    factor = b.Mul(root, s) if inner else b.Mul(s, root)
    m, factor, shift = (b.reshape(y, dims) for y in (m, factor, shift))
    pair = (b.Sub(x, m), factor)
    scaled = b.Mul(*pair[:: -1 if swaps else 1])
    pair = (scaled, shift)
    return b.Add(*pair[:: -1 if swaps else 1])


STATISTICS = {name: p.reshape(6) for name, p in zip("mvst", (M, S, B - 3, M * 2 - 3), strict=True)}


@pytest.mark.parametrize("inner", [False, True])
@pytest.mark.parametrize("swaps", [False, True])
@pytest.mark.parametrize("dims", [(1, 6, 1, 1), (6, 1, 1)])
def test_batch_normalization(dims: tuple[int, ...], swaps: bool, inner: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value, *statistics: oir.Value) -> oir.Value:
        return batch(b, conv(b, x), *statistics, dims=dims, swaps=swaps, inner=inner)

    def named(b: GraphBuilder, x: oir.Value, **statistics: oir.Value) -> oir.Value:
        return build(b, x, *statistics.values())

    found = Rewrite(named, IMAGE | STATISTICS, BatchNormalization(), tolerance=1e-5)
    found.gives("Conv", "BatchNormalization")
    node = found.model.graph[1]
    assert node.attributes["epsilon"].as_float() == 0.25


def constants(b: GraphBuilder, x: oir.Value, **_: oir.Value) -> oir.Value:
    return batch(b, conv(b, x), *(b.const(array) for array in STATISTICS.values()))


def one_computed(b: GraphBuilder, x: oir.Value, **computed: oir.Value) -> oir.Value:
    known = [b.const(array) for array in STATISTICS.values()]
    return batch(b, conv(b, x), *known[:3], computed["t"])


def spelled(
    b: GraphBuilder,
    x: oir.Value,
    op_type: str = "Sub",
    factor: Callable[..., oir.Value] = inverse,
    scaled: bool = True,
    **s: oir.Value,
) -> oir.Value:
    dims = (1, 6, 1, 1)
    y = b.op(op_type, conv(b, x), b.reshape(s["m"], dims))
    root = factor(b, s["v"])
    root = b.reshape(b.Mul(s["s"], root) if scaled else root, dims)
    return b.Add(b.Mul(y, root), b.reshape(s["t"], dims))


def no_product(b: GraphBuilder, x: oir.Value, **s: oir.Value) -> oir.Value:
    return spelled(b, x, scaled=False, **s)


def test_one_computed_parameter() -> None:
    found = Rewrite(one_computed, IMAGE | STATISTICS, BatchNormalization(), tolerance=1e-5)
    found.gives("Conv", "BatchNormalization")


def test_no_scale() -> None:
    found = Rewrite(no_product, IMAGE | STATISTICS, BatchNormalization(), tolerance=1e-5)
    found.gives("Conv", "BatchNormalization")


# -- with the mean in the shift, as Keras writes it ------------------------------------------------


def shifted(
    b: GraphBuilder,
    x: oir.Value,
    form: str = "",
    dims: tuple[int, ...] = (1, 6, 1, 1),
    **statistics: oir.Value,
) -> oir.Value:
    """x * f + (t - m * f), where f = s / sqrt(v + e)."""
    m, v, s, t = statistics.values()
    f = inverse(b, v) if "unscaled" in form else b.Mul(inverse(b, v), s)
    if "difference" in form:
        shift = b.Sub(t, b.Mul(f, m))
    else:
        moved = b.Mul(m if "not negated" in form else b.Neg(m), f)
        shift = moved if "no bias" in form else b.Add(moved, t)
    if "another factor" in form:
        f = b.Mul(f, s)
    return b.Add(b.Mul(x, b.reshape(f, dims)), b.reshape(shift, dims))


@pytest.mark.parametrize("form", ["", "difference", "unscaled", "no bias", "unscaled, no bias"])
def test_the_mean_in_the_shift(form: str) -> None:
    """The kernel computes the same, so x may be exact."""

    def build(b: GraphBuilder, x: oir.Value, **statistics: oir.Value) -> oir.Value:
        return shifted(b, x, form, **statistics)

    found = Rewrite(build, IMAGE | STATISTICS, BatchNormalization(), tolerance=1e-6)
    found.gives("BatchNormalization")


@pytest.mark.parametrize("dims", [(1, 1, 1, 6), (6, 1, 1), (2, 3)])
def test_statistics_in_other_shapes(dims: tuple[int, ...]) -> None:
    """haiku's have the channels last."""
    given = {name: array.reshape(dims) for name, array in STATISTICS.items()}
    found = Rewrite(shifted, IMAGE | given, BatchNormalization(), tolerance=1e-6)
    found.gives(*["Reshape"] * 4, "BatchNormalization")

    def build(b: GraphBuilder, x: oir.Value, **statistics: oir.Value) -> oir.Value:
        return batch(b, conv(b, x), *statistics.values())

    found = Rewrite(build, IMAGE | given, BatchNormalization(), tolerance=1e-5)
    found.gives("Conv", *["Reshape"] * 4, "BatchNormalization")


def of_its_own_mean(b: GraphBuilder, x: oir.Value, m: oir.Value, **s: oir.Value) -> oir.Value:
    """Another rule subtracts the mean first, which is more exact."""
    return shifted(b, x, m=b.ReduceMean(x, b.i64([0, 2, 3]), keepdims=0), **s)


def test_the_mean_of_one_image() -> None:
    """That is an instance normalization."""

    def build(b: GraphBuilder, x: oir.Value, m: oir.Value, **s: oir.Value) -> oir.Value:
        y = conv(b, x)
        return batch(b, y, b.ReduceMean(y, b.i64([0, 2, 3]), keepdims=1), *s.values())

    assert fires(build, IMAGE | STATISTICS, BatchNormalization())
    assert not fires(build, {"x": X[:1]} | STATISTICS, BatchNormalization())


NO_SHIFT: dict[str, Build] = {
    "the mean is added": lambda b, x, **s: shifted(b, x, "not negated", **s),
    "two factors": lambda b, x, **s: shifted(b, x, "another factor", **s),
    "along the rows": lambda b, x, **s: shifted(b, x, dims=(1, 1, 1, 6), **s),
    "one number for all": lambda b, x, m, **s: shifted(b, x, m=b.ReduceMax(m, keepdims=1), **s),
    "one bias for all": lambda b, x, t, **s: shifted(b, x, **s, t=b.ReduceMax(t, keepdims=1)),
    "a mean of x": of_its_own_mean,
    "of a number": lambda b, x, **s: shifted(b, b.ReduceMax(x, keepdims=0), **s),
}


@pytest.mark.parametrize("name", NO_SHIFT)
def test_no_mean_in_the_shift(name: str) -> None:
    assert not fires(NO_SHIFT[name], IMAGE | STATISTICS, BatchNormalization())


def test_statistics_that_widen_x() -> None:
    """One channel that meets the statistics of six."""
    one = {"x": X[:, :1]}
    Rewrite(shifted, one | STATISTICS, BatchNormalization()).nothing()
    given = {name: array.reshape(1, 6, 1, 1) for name, array in STATISTICS.items()}
    Rewrite(shifted, one | given, BatchNormalization()).nothing()


NO_BATCH: dict[str, Build] = {
    "all constant": constants,
    "nothing subtracted": lambda b, x, **s: spelled(b, x, "Add", **s),
    "divided by no root": lambda b, x, **s: spelled(b, x, factor=lambda b, v: b.Reciprocal(v), **s),
    "of exact values": lambda b, x, **s: batch(b, x, *s.values()),
    "along the columns": lambda b, x, **s: batch(b, conv(b, x), *s.values(), dims=(6,)),
    "along the last axis": lambda b, x, **s: batch(b, conv(b, x), *s.values(), dims=(1, 1, 1, 6)),
    "of a number": lambda b, x, **s: batch(b, b.ReduceMax(conv(b, x), keepdims=0), *s.values()),
    "divided by 0": lambda b, x, **s: batch(b, conv(b, x), *s.values(), epsilon=0),
    "a sum": lambda b, x, **_: b.Add(x, x),
    "a sum of products": lambda b, x, **_: b.Add(b.Mul(x, x), b.Mul(b.Exp(x), x)),
    "a sum of other functions": lambda b, x, **_: b.Add(b.Exp(x), b.Tanh(x)),
}


@pytest.mark.parametrize("name", NO_BATCH)
def test_no_batch_normalization(name: str) -> None:
    Rewrite(NO_BATCH[name], IMAGE | STATISTICS, BatchNormalization()).nothing()


def in_type(dtype: type, shape: tuple[int, ...]) -> bool:
    """Whether the rule fires on a product of matrices, or a convolution, of this shape."""

    def build(b: GraphBuilder, x: oir.Value, **s: oir.Value) -> oir.Value:
        y = b.MatMul(x, x) if len(shape) == 2 else b.Conv(x, b.const(W.astype(dtype)))
        return batch(b, y, *s.values(), dims=(1, 6, *(1,) * (len(shape) - 2)))

    arrays = {"x": np.ones(shape)} | STATISTICS
    inputs = {name: array.astype(dtype) for name, array in arrays.items()}
    return fires(build, inputs, BatchNormalization())


def test_types_and_ranks_without_batch_normalization() -> None:
    assert in_type(np.float32, (2, 6, 4, 6))
    assert not in_type(np.float64, (2, 6, 4, 6))
    assert not in_type(np.float32, (6, 6))
