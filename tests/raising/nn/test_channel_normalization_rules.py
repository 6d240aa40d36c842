"""Group normalization on small graphs: where the rule fires and where not."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from expressions import graph
from rewriting import Build, Rewrite, fires

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.channel_normalization import GroupNormalization

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (2, 6, 4, 6)).astype(np.float32)
S = RNG.uniform(0.5, 2, (1, 6, 1, 1)).astype(np.float32)
IMAGE = {"x": X}


def inverse(b: GraphBuilder, v: oir.Value) -> oir.Value:
    return b.Reciprocal(b.Sqrt(b.Add(v, b.scalar_like(0.25, v))))


def group(
    b: GraphBuilder,
    x: oir.Value,
    groups: int = 2,
    axes: tuple[int, ...] = (2, 3, 4),
    view: tuple[int, ...] | None = None,
) -> oir.Value:
    """x - mean over a root, both repeated for the channels of each of `groups` groups."""
    n, c, *rest = x.shape.numpy()  # type: ignore[union-attr]

    def repeated(value: oir.Value, count: int) -> oir.Value:
        small = b.reshape(value, (n, count, 1))
        wide = b.expand(small, (n, count, c // count)) if count < c else small
        return b.reshape(wide, (n, c, *(1,) * len(rest)))

    dims = (n, groups, c // groups, *rest) if view is None else view
    whole = b.reshape(x, dims)
    mean = b.ReduceMean(whole, b.i64(axes), keepdims=1)
    difference = b.Sub(whole, mean)
    variance = b.ReduceMean(b.Mul(difference, difference), b.i64(axes), keepdims=1)
    root = inverse(b, variance)
    beside = repeated(mean, groups)
    factor = repeated(root, groups)
    return b.Mul(b.Sub(x, beside), factor)


@pytest.mark.parametrize("groups", [1, 2, 3, 6])
@pytest.mark.parametrize("count", [1, 2])
def test_group_normalization(count: int, groups: int) -> None:
    found = Rewrite(
        lambda b, x: group(b, x, groups), {"x": X[:count]}, GroupNormalization(), tolerance=2e-6
    )
    assert found.nodes["InstanceNormalization"] == 1 and not found.nodes["ReduceMean"]
    (node,) = (n for n in found.model.graph if n.op_type == "InstanceNormalization")
    assert node.attributes["epsilon"].as_float() == 0.25


@pytest.mark.parametrize(("rows", "expected"), [(256, True), (257, False)])
def test_groups_of_very_many_elements_stay(rows: int, expected: bool) -> None:
    """The kernel's sums lose digits."""
    images = np.zeros((1, 2, rows, 256), np.float32)
    assert fires(lambda b, x: group(b, x, 1), {"x": images}, GroupNormalization()) == expected


def of_itself(b: GraphBuilder, x: oir.Value, axes: tuple[int, ...]) -> oir.Value:
    """Statistics of x itself, which stand beside it."""
    mean = b.ReduceMean(x, b.i64(axes), keepdims=1)
    difference = b.Sub(x, mean)
    variance = b.ReduceMean(b.Mul(difference, difference), b.i64(axes), keepdims=1)
    return b.Mul(difference, inverse(b, variance))


@pytest.mark.parametrize("axes", [(2, 3), (1, 2, 3)])
@pytest.mark.parametrize("count", [1, 2])
def test_statistics_of_the_image_itself(count: int, axes: tuple[int, ...]) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return of_itself(b, x, axes)

    found = Rewrite(build, {"x": X[:count]}, GroupNormalization(), tolerance=2e-6)
    if len(axes) == 2:
        found.gives("InstanceNormalization")
    else:
        found.nothing()


def of_one(b: GraphBuilder, x: oir.Value, dims: tuple[int, ...]) -> oir.Value:
    """One mean and one deviation for a single image, which have fewer axes."""
    mean = b.ReduceMean(x, b.i64([1, 2, 3]), keepdims=1)
    difference = b.Sub(x, mean)
    variance = b.ReduceMean(b.Mul(difference, difference), b.i64([1, 2, 3]), keepdims=1)
    beside, factor = (b.reshape(y, dims) for y in (mean, inverse(b, variance)))
    return b.Mul(b.Sub(x, beside), factor)


@pytest.mark.parametrize("dims", [(), (1,), (1, 1, 1)])
def test_one_group_of_one_image(dims: tuple[int, ...]) -> None:
    found = Rewrite(
        lambda b, x: of_one(b, x, dims), {"x": X[:1]}, GroupNormalization(), tolerance=2e-6
    )
    found.gives("Reshape", "InstanceNormalization", "Reshape")
    assert not fires(lambda b, x: b.Mul(x, b.Exp(x)), {"x": X[:1]}, GroupNormalization())


@pytest.mark.parametrize("axes", [(2, 3), (1, 2, 3)])
def test_one_channel_of_several_images(axes: tuple[int, ...]) -> None:
    found = Rewrite(
        lambda b, x: of_itself(b, x, axes),
        {"x": np.ascontiguousarray(X[:, :1])},
        GroupNormalization(),
        tolerance=2e-6,
    )
    assert found.nodes["InstanceNormalization"] == (axes == (1, 2, 3))


def rescaled(
    b: GraphBuilder, x: oir.Value, scale: np.ndarray, dims: tuple[int, ...], inner: tuple[int, ...]
) -> oir.Value:
    """Two groups; the inverse root times a scale is seen as `inner` before it stands beside x."""
    n, c, *rest = x.shape.numpy()  # type: ignore[union-attr]
    view = b.reshape(x, (n, 2, c // 2, *rest))
    mean = b.ReduceMean(view, b.i64([2, 3, 4]), keepdims=1)
    difference = b.Sub(view, mean)
    variance = b.ReduceMean(b.Mul(difference, difference), b.i64([2, 3, 4]), keepdims=1)
    wide = b.expand(b.reshape(mean, (n, 2, 1)), (n, 2, c // 2))
    beside = b.reshape(wide, (n, c, 1, 1))
    factor = b.Mul(b.reshape(inverse(b, variance), inner), b.const(scale.reshape(dims)))
    return b.Mul(b.Sub(x, beside), b.reshape(factor, (n, c, 1, 1)))


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("dims", [(1, 2, 3), (2, 3)])
def test_groups_with_a_scale(dims: tuple[int, ...], count: int) -> None:
    found = Rewrite(
        lambda b, x: rescaled(b, x, S, dims, (count, 2, 1)),
        {"x": X[:count]},
        GroupNormalization(),
        tolerance=3e-6,
    )
    assert found.nodes["InstanceNormalization"] == 1 and not found.nodes["ReduceMean"]


RESCALED: dict[str, Build] = {
    "groups inside": lambda b, x: rescaled(b, x, S[:, :3], (3, 1), (2, 1, 2)),
    "images inside": lambda b, x: rescaled(b, x, S[:, :3], (3, 1), (1, 4)),
    "a scale of images": lambda b, x: rescaled(b, x, np.resize(S, 12), (2, 2, 3), (2, 2, 1)),
    "the scale of one group": lambda b, x: rescaled(b, x, S[:, :3], (1, 1, 3), (2, 2, 1)),
}


@pytest.mark.parametrize("name", RESCALED)
def test_other_scales_of_groups(name: str) -> None:
    assert not fires(RESCALED[name], IMAGE, GroupNormalization())


def scaled_by_input(
    b: GraphBuilder,
    x: oir.Value,
    s: oir.Value,
    form: str = "",
    channels: int = 1,
    inner: tuple[int, ...] = (2, 1, 1, 6),
) -> oir.Value:
    """(x - mean) * f of two groups, as flax computes it: f is the inverse root, repeated for the
    three channels of each group, times s, in the shape `inner`."""
    dims = list(x.shape.numpy())  # type: ignore[union-attr]
    split = [*dims[:channels], 2, 3, *dims[channels + 1 :]]
    view = b.reshape(x, split)
    axes = b.i64([n for n in range(1, 5) if n != channels])
    mean = b.ReduceMean(view, axes, keepdims=0)
    squares = b.ReduceMean(b.Mul(view, view), axes, keepdims=0)
    variance = b.Relu(b.Sub(squares, b.Mul(mean, mean)))

    def repeated(value: oir.Value) -> oir.Value:
        if "in turns" in form:
            return b.expand(b.reshape(value, (2, 1, 2)), (2, 3, 2))
        return b.expand(b.reshape(value, (2, 2, 1)), (2, 2, 3))

    per_channel = [2, 1, 1, 1]
    per_channel[channels] = 6
    factor = b.Mul(b.reshape(repeated(inverse(b, variance)), inner), s)
    beside = b.reshape(repeated(mean), per_channel)
    return b.Mul(b.Sub(x, beside), b.reshape(factor, per_channel))


SCALE = {"s": S.reshape(6)}


def test_groups_with_a_computed_scale() -> None:
    found = Rewrite(scaled_by_input, IMAGE | SCALE, GroupNormalization(), tolerance=3e-6)
    found.gives(*["Reshape"] * 3, "InstanceNormalization", "Mul")


@pytest.mark.parametrize("width", [1, 3])
def test_a_scale_next_to_the_statistic_itself(width: int) -> None:
    """As in Keras' groups and in instance normalizations."""

    def build(b: GraphBuilder, x: oir.Value, s: oir.Value) -> oir.Value:
        dims = (2, 6 // width, width, 4, 6) if width > 1 else (2, 6, 4, 6)
        view, axes = b.reshape(x, dims), b.i64(range(2, len(dims)))
        centred = b.Sub(view, b.ReduceMean(view, axes, keepdims=1))
        root = inverse(b, b.ReduceMean(b.Mul(centred, centred), axes, keepdims=1))
        scale = b.reshape(s, (1, *dims[1:-2], 1, 1))
        return b.Mul(centred, b.Mul(scale, root))

    found = Rewrite(build, IMAGE | SCALE, GroupNormalization(), tolerance=3e-6)
    assert found.nodes["InstanceNormalization"] == 1 and not found.nodes["ReduceMean"]


LAST = {"x": np.ascontiguousarray(np.moveaxis(X, 1, 3))}


def test_channels_last() -> None:
    def build(b: GraphBuilder, x: oir.Value, s: oir.Value) -> oir.Value:
        return scaled_by_input(b, x, s, channels=3)

    assert not fires(build, LAST | SCALE, GroupNormalization())


COMPUTED: dict[str, Build] = {
    "groups in turns": lambda b, x, s: scaled_by_input(b, x, s, "in turns"),
    "a scale of images": lambda b, x, s: scaled_by_input(b, x, b.expand(s, (2, 6)), inner=(2, 6)),
}


@pytest.mark.parametrize("name", COMPUTED)
def test_computed_scales_of_others(name: str) -> None:
    assert not fires(COMPUTED[name], IMAGE | SCALE, GroupNormalization())


@pytest.mark.parametrize("count", [1, 2])
@pytest.mark.parametrize("axes", [(3,), (0, 2, 3), (1,), (0, 1, 2)])
def test_statistics_over_other_axes(axes: tuple[int, ...], count: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return of_itself(b, x, axes)

    Rewrite(build, {"x": X[:count]}, GroupNormalization()).nothing()


def test_types_and_ranks_without_group_normalization() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        return of_itself(b, x, tuple(range(2, len(x.shape))))  # type: ignore[arg-type]

    Rewrite(build, {"x": X.astype(np.float64)}, GroupNormalization()).nothing()
    Rewrite(build, {"x": X[..., 0]}, GroupNormalization()).nothing()


def deviation_of_others(b: GraphBuilder, x: oir.Value) -> oir.Value:
    """Two groups for the mean, three for the deviation."""
    mean = b.ReduceMean(b.reshape(x, (2, 2, 3, 4, 6)), b.i64([2, 3, 4]), keepdims=1)
    other = b.reshape(x, (2, 3, 2, 4, 6))
    centred = b.Sub(other, b.ReduceMean(other, b.i64([2, 3, 4]), keepdims=1))
    variance = b.ReduceMean(b.Mul(centred, centred), b.i64([2, 3, 4]), keepdims=1)
    wide = b.expand(b.reshape(mean, (2, 2, 1)), (2, 2, 3))
    factor = b.expand(b.reshape(inverse(b, variance), (2, 3, 1)), (2, 3, 2))
    difference = b.Sub(x, b.reshape(wide, (2, 6, 1, 1)))
    return b.Mul(difference, b.reshape(factor, (2, 6, 1, 1)))


def variance(b: GraphBuilder, x: oir.Value, mean: oir.Value | None = None) -> oir.Value:
    """The variance of images, around their mean or another one."""
    centred = b.Sub(x, b.ReduceMean(x, b.i64([2, 3]), keepdims=1) if mean is None else mean)
    return b.ReduceMean(b.Mul(centred, centred), b.i64([2, 3]), keepdims=1)  # type: ignore[no-any-return]


CONSTANTS = {
    "deviation_of_others": deviation_of_others, "group": group, "inverse": inverse,
    "mean": lambda b, x: b.ReduceMean(x, b.i64([2, 3]), keepdims=1), "variance": variance,
}  # fmt: skip
NO_GROUPS = [
    "deviation_of_others(x)",
    # No root, no variance, and that of something else.
    "(m := mean(x), (x - m) * Exp(m))[1]",
    "(m := mean(x), (x - m) * inverse(Exp(m)))[1]",
    "(x - mean(x)) * inverse(variance(Exp(x)))",
    "(m := mean(Exp(x)), (x - m) * inverse(variance(Exp(x), m)))[1]",
    "(x - mean(x)) * inverse(variance(x, mean(Exp(x))))",
    # No mean, and means over other axes.
    "(x - ReduceMax(x, [2, 3], keepdims=1)) * inverse(variance(x))",
    "(x - ReduceMean(x, [3], keepdims=1)) * inverse(variance(x))",
    "group(Abs(x), 2, axes=(1, 3, 4), view=(2, 3, 2, 4, 6))",
    "x * Exp(x)",
    "(x - Exp(x)) * x",
]


@pytest.mark.parametrize("text", NO_GROUPS)
def test_no_group_normalization(text: str) -> None:
    assert not fires(graph(text, **CONSTANTS), IMAGE, GroupNormalization())
