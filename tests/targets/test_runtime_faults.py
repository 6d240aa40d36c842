"""Where each workaround for a runtime's fault applies, and where a node stays as it is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import partial

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, foreign, model_of, run_model
from workaround_cases import FLOATS, RNG, T, changed

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.legalize import legalize
from hlo2onnx.targets.legalize.kernels import is_right_here
from hlo2onnx.targets.workarounds.fusions import spell_out_normalization
from hlo2onnx.targets.workarounds.graph_fusions import (
    spell_out_axes,
    spell_out_reciprocal,
    spell_out_scale,
)
from hlo2onnx.targets.workarounds.nan import guard_nan

# -- factors of products ---------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("factor", "dtype", "is_ordinary"),
    [
        (0.5, np.float32, True),
        (0.1, np.float32, True),
        (-3, np.float32, True),
        (2.0**24, np.float32, True),
        (2.0**-24, np.float32, True),
        (2.0**25, np.float32, False),
        (-(2.0**25), np.float32, False),
        (2.0**-25, np.float32, False),
        (0, np.float32, False),
        (0.5, np.float64, True),
        (-4, np.float64, True),
        (3, np.float64, False),
        (2.0**25, np.float64, False),
        (np.inf, np.float32, False),
        (np.nan, np.float32, False),
    ],
)
@pytest.mark.parametrize("first", [False, True])
def test_factors_of_products(factor: float, dtype: type, is_ordinary: bool, first: bool) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = [x, b.scalar_like(factor, x)]
        result: oir.Value = b.MatMul(b.Mul(*(operands[::-1] if first else operands)), x)
        return result

    nodes = changed(build, "Mul", spell_out_scale, x=np.ones((3, 3), dtype))
    assert nodes == (None if is_ordinary else Counter(Mul=1, MatMul=1))


@pytest.mark.parametrize("place", [0, 1])
def test_a_number_divided_by_a_matrix_is_no_factor(place: int) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = [x, b.scalar_like(3e10, x)]
        result: oir.Value = b.MatMul(b.Div(*(operands if place else operands[::-1])), x)
        return result

    found = changed(build, "Div", spell_out_scale, x=np.ones((3, 3), np.float32))
    assert (found is not None) == bool(place)


@pytest.mark.parametrize(
    ("build", "dtype", "applies"),
    [
        (lambda b, x, c: b.MatMul(b.Mul(x, c), x), np.float32, True),
        (lambda b, x, c: b.MatMul(x, b.Mul(x, c)), np.float32, True),
        (lambda b, x, c: b.Mul(b.MatMul(x, x), c), np.float32, True),
        (lambda b, x, c: b.Mul(b.transpose(b.MatMul(x, x), (1, 0)), c), np.float32, True),
        (lambda b, x, c: b.MatMul(b.transpose(b.Mul(x, c), (1, 0)), x), np.float32, True),
        (lambda b, x, c: b.MatMul(b.Neg(b.Mul(x, c)), x), np.float32, False),
        (lambda b, x, c: b.Mul(b.Neg(b.MatMul(x, x)), c), np.float32, False),
        (lambda b, x, c: b.Neg(b.Mul(x, c)), np.float32, False),
        (lambda b, x, c: b.MatMul(b.Mul(x, b.expand(c, (3, 1))), x), np.float32, False),
        (lambda b, x, c: b.MatMul(b.Mul(x, x), x), np.float32, False),
        (lambda b, x, c: b.Mul(b.MatMul(x, x), b.reshape(c, (1, 1, 1))), np.float32, False),
        (lambda b, x, c: b.MatMul(b.Mul(x, c), x), np.int32, False),
    ],
)
def test_where_factors_stand(build: Build, dtype: type, applies: bool) -> None:
    def far(b: GraphBuilder, x: oir.Value) -> oir.Value | object:
        return build(b, x, b.const(np.array(1 << 26, dtype)))

    found = changed(far, "Mul", spell_out_scale, x=np.ones((3, 3), dtype))
    assert (found is not None) == applies


@pytest.mark.parametrize(("shape", "squeezed"), [((1, 1), True), ((2, 1), False), ((1, 4), False)])
def test_rows_of_factors(shape: tuple[int, int], squeezed: bool) -> None:
    """A constant of the result's shape, or of more axes: the runtime sees no scalar."""
    build = lambda b, x: b.MatMul(b.transpose(b.Mul(x, b.scalar_like(3e10, x)), (1, 0)), x)  # noqa: E731
    nodes = changed(build, "Mul", spell_out_scale, x=np.ones(shape, np.float32))
    assert nodes == Counter(MatMul=1, Mul=1, Transpose=1, Squeeze=int(squeezed)) - Counter()


# -- reciprocals, edges, limits, NaN ---------------------------------------------------------------


def test_reciprocals_with_several_readers_and_numerators() -> None:
    x = np.array([1, 2, 5], np.int32)

    def both(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        y = b.Div(b.scalar_like(1, x), x)
        return [b.Mul(y, x), b.Neg(y)]

    def several(b: GraphBuilder, x: oir.Value) -> oir.Value:
        result: oir.Value = b.Mul(b.Div(b.const(np.ones(3, np.int32)), x), x)
        return result

    def given(b: GraphBuilder, x: oir.Value) -> oir.Value:
        result: oir.Value = b.Mul(b.Div(x, x), x)
        return result

    assert changed(both, "Div", spell_out_reciprocal, x=x) is not None
    assert changed(several, "Div", spell_out_reciprocal, x=x) is None
    assert changed(given, "Div", spell_out_reciprocal, x=x) is None


def test_paddings_that_are_computed_or_name_their_axes() -> None:
    image = np.ones((1, 1, 4, 4), np.float32)
    window = {"kernel_shape": [2, 2], "strides": [1, 1], "pads": [0] * 4, "dilations": [1, 1]}

    def computed(b: GraphBuilder, x: oir.Value, edges: oir.Value) -> oir.Value:
        types = [(T.FLOAT, (1, 1, 5, 5))]
        result: oir.Value = b.MaxPool(b.Pad(x, edges, types=types), **window)
        return result

    def named(b: GraphBuilder, x: oir.Value) -> oir.Value:
        zero = b.scalar_like(0, x)
        types = [(T.FLOAT, (1, 1, 5, 4))]
        padded = b.Pad(x, b.i64([0, 1]), zero, b.i64([2]), types=types)
        result: oir.Value = b.MaxPool(padded, **window)
        return result

    edges = np.array([0, 0, 0, 0, 0, 0, 1, 1])
    assert changed(computed, "Pad", spell_out_axes, x=image, edges=edges) is None
    assert changed(named, "Pad", spell_out_axes, x=image) is None


@pytest.mark.parametrize(("high", "is_right"), [(1 << 22, True), ((1 << 22) + 1, False)])
def test_sums_over_extents_that_are_not_known(high: int, is_right: bool) -> None:
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    x = b.value("x", T.INT64, [oir.SymbolicDim("n"), 3])
    node = b.ReduceSum(b.Clip(x, b.i64(0), b.i64(high)), b.i64([0])).producer()
    assert is_right_here(node, Facts(), True, Flags(sums_in_f64=True)) == is_right


def test_which_operands_of_an_extreme_are_looked_at() -> None:
    """All of Max, but not the axes of ReduceMax, and no bound that is absent."""
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    x = b.value("x", T.INT64, [4])
    small = b.Clip(x, b.i64(-5), b.i64(5))
    for made, is_right in [
        (b.Max(small, x), False),
        (b.Max(small, small), True),
        (b.Clip(small, None, b.i64(2)), True),
        (b.Clip(small, None, b.i64(1 << 40)), False),
        (b.ReduceMax(small, b.i64([0])), True),
        (b.ReduceProd(small), False),
        (b.Neg(small), False),
    ]:
        assert is_right_here(made.producer(), Facts(), True, Flags(sums_in_f64=True)) == is_right


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
def test_nan_among_floats_that_are_compared(op_type: str) -> None:
    guard = partial(guard_nan, facts=Facts())

    def reduced(make: Callable[..., oir.Value]) -> Counter[str] | None:
        build = lambda b, x: b.op(op_type, make(b, x), b.i64([1]), keepdims=0)  # noqa: E731
        return changed(build, op_type, guard, x=FLOATS)

    many = Counter([op_type, "ReduceSum", "IsNaN", "Where"])
    tile = lambda b, x: b.Tile(x, b.i64([1, 999]))  # noqa: E731
    assert reduced(lambda b, x: b.Neg(tile(b, x))) == many + Counter(Neg=1, Relu=1, Tile=1)
    assert reduced(lambda b, x: b.Abs(tile(b, x))) == many + Counter(Abs=1, Tile=1)
    assert reduced(lambda b, x: b.Where(b.IsNaN(x), b.scalar_like(0, x), x)) is None


@pytest.mark.parametrize("op_type", ["ReduceMax", "ReduceMin"])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_extremes_with_nan(op_type: str, dtype: type) -> None:
    """Zeros keep their sign, infinities and the largest numbers stay, and NaN wins."""
    big, tiny = np.finfo(dtype).max, np.finfo(dtype).smallest_subnormal
    rows = [[-0.0, -0.0], [0.0, 0.0], [0.0, 3], [-0.0, -3], [np.inf, -np.inf], [-np.inf] * 2,
            [np.inf] * 2, [big, big], [-big, -big], [tiny, tiny], [-tiny, -tiny], [0.5, 0.25],
            [-0.5, -0.25], [np.nan, 1], [1, np.nan], [np.nan] * 2, [np.inf, np.nan]]  # fmt: skip
    x = np.array(rows, dtype)
    model = model_of(lambda b, x: b.op(op_type, x, b.i64([1]), keepdims=0), {"x": x})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    (found,) = run_model(model, {"x": x})
    wanted = x.max(1) if op_type == "ReduceMax" else x.min(1)
    np.testing.assert_array_equal(found, wanted)
    np.testing.assert_array_equal(np.signbit(found[:13]), np.signbit(wanted[:13]))


def test_nan_along_axes_that_are_computed() -> None:
    types = [(oir.DataType.FLOAT, (FLOATS.shape[0],))]
    build = lambda b, x, y: b.op("ReduceMax", x, y, keepdims=0, types=types)  # noqa: E731
    x = FLOATS.copy()
    x[1, 2] = np.nan
    model = model_of(build, {"x": x, "y": np.array([1])})
    legalize(model, load_target("ort-cpu"), "xla", Report())
    (result,) = run_model(model, {"x": x, "y": np.array([1])})
    np.testing.assert_array_equal(result, x.max(1))


# -- batch normalization ---------------------------------------------------------------------------


def normalized(
    b: GraphBuilder, x: oir.Value, mean: float, epsilon: float | None = 3.0, **more: object
) -> oir.Value:
    vectors = [np.array([2.0, 3.0]), np.array([-1.0, 1.0]), np.array([mean, -mean]), np.ones(2)]
    parameters = [b.const(vector.astype(np.float32)) for vector in vectors]
    made: oir.Value = b.BatchNormalization(x, *parameters, epsilon=epsilon, **more)
    return made


@pytest.mark.parametrize(
    ("mean", "applies"), [(5.33, False), (5.34, True), (-5.33, False), (-5.34, True)]
)
def test_how_far_means_are(mean: float, applies: bool) -> None:
    """Factors are 1 and 1.5: eight deviations."""
    spell = spell_out_normalization
    x = RNG.normal(size=(3, 2)).astype(np.float32)
    build = lambda b, x: normalized(b, x, mean)  # noqa: E731
    assert (changed(build, "BatchNormalization", spell, x=x) is not None) == applies


def test_normalization_that_is_left_alone() -> None:
    spell = spell_out_normalization
    x = RNG.normal(size=(3, 2)).astype(np.float32)

    def computed(b: GraphBuilder, x: oir.Value, v: oir.Value) -> oir.Value:
        ones = b.const(np.ones(2, np.float32))
        far = b.const(np.full(2, 99, np.float32))
        made: oir.Value = b.BatchNormalization(x, ones, ones, far, v)
        return made

    def training(b: GraphBuilder, x: oir.Value) -> oir.Value:
        y = normalized(b, x, 99.0, training_mode=0)
        node = y.producer()
        assert node is not None
        node.attributes["training_mode"] = oir.AttrInt64("training_mode", 1)
        return y

    def on_a_product(b: GraphBuilder, x: oir.Value, own: bool = True) -> oir.Value:
        y = b.MatMul(x, b.const(RNG.normal(size=(2, 2)).astype(np.float32)))
        return normalized(b, y if own else foreign(y), 9.0)

    name = "BatchNormalization"
    assert changed(computed, name, spell, x=x, v=np.ones(2, np.float32)) is None
    assert changed(training, name, spell, runs=False, x=x) is None
    assert changed(on_a_product, name, spell, x=x) is None
    foreign_product = lambda b, x: on_a_product(b, x, False)  # noqa: E731
    assert changed(foreign_product, name, spell, runs=False, x=x) is not None
