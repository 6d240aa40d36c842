"""Random graphs of what rules move, merge and replace: all rules together keep the numbers.

There are extents of 0 and 1 and symbolic ones, values read twice, results in the middle, constants
of any rank. Numbers are small and finite, so that little is left to
rounding.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import run_model

from hlo2onnx.errors import InternalError, VerificationError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import is_static, symbol
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of
from hlo2onnx.raising import raise_model
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target

pytestmark = pytest.mark.wide

FLOAT, INT = oir.DataType.FLOAT, oir.DataType.INT32
MOST_AXES = 6
MOST_ELEMENTS = 500


class RandomGraph:
    """A graph made of a seed.

    Attributes:
        inputs: Arrays for the model's inputs.
        symbolic: Whether first axes of inputs have symbolic extents.
    """

    def __init__(self, seed: int, symbolic: bool) -> None:
        self.rng = np.random.default_rng(seed)
        graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": 23})
        self.b = GraphBuilder(graph, 23)
        self.inputs: dict[str, np.ndarray] = {}
        self.values: list[oir.Value] = []
        dims = self.rng.choice([1, 1, 2, 3, 4, 6] if seed % 16 else [0, 1, 2], seed % 5).tolist()
        for name in ("x", "y"):
            array = self.numbers(dims).astype(np.float32 if name == "x" or seed % 2 else np.int32)
            is_known = not symbolic or not dims or dims[0] < 2  # of 1 anything could be made
            first = dims[:1] if is_known else [symbol("n", positive=True)]
            kind = oir.DataType.from_numpy(array.dtype)
            self.values.append(self.b.value(name, kind, [*first, *dims[1:]]))
            self.inputs[name] = array
        graph.inputs.extend(self.values)
        for _ in range(self.rng.integers(4, 16)):
            self._grow(STEPS[self.rng.integers(len(STEPS))])
        made = self.values[2:]
        results = [x for x in made[:-1] if self.rng.random() < 0.1] + made[-1:]
        graph.outputs.extend(dict.fromkeys(results))
        self.model = oir.Model(graph, ir_version=10)

    def _grow(self, step: Step) -> None:
        before = len(self.b.made)
        x = self._any(self.values)
        try:
            made = step(self, x)
        except InternalError:  # it does not go with these shapes
            made = None
        if made is not None and made.producer() in self.b.made[before:]:
            self.values.append(made)

    def _any(self, values: list[oir.Value]) -> oir.Value:
        """One of them, most often the last."""
        return values[-1 if self.rng.random() < 0.6 else self.rng.integers(len(values))]

    def numbers(self, dims: list[int]) -> np.ndarray:
        """Small ones."""
        return np.asarray(self.rng.integers(-2, 3, dims))

    def constant(self, x: oir.Value) -> oir.Value:
        """One that broadcasts against x, and sometimes makes more of it."""
        dims = [d if isinstance(d, int) and self.rng.random() < 0.6 else 1 for d in shape_of(x)]
        dims = [1] * (self.rng.random() < 0.1) + dims[self.rng.integers(len(dims) + 1) :]
        return self.b.const(self.numbers(dims).astype(dtype_of(x).numpy()))

    def other(self, x: oir.Value) -> oir.Value:
        """Another operand, which is the same now and then."""
        alike = [y for y in self.values if dtype_of(y) == dtype_of(x)]
        return self.constant(x) if self.rng.random() < 0.4 else self._any(alike)

    def axis(self, x: oir.Value) -> int:
        """One of its axes.

        Raises:
            InternalError: It has none.
        """
        if not rank_of(x):
            raise InternalError("a scalar")
        return int(self.rng.integers(rank_of(x)))

    def often_last(self, x: oir.Value) -> int:
        """One of its axes, most often the last."""
        axis = self.axis(x)
        return axis if self.rng.random() < 0.3 else -1

    def permutation(self, count: int) -> tuple[int, ...]:
        """Axes in any order."""
        return tuple(int(axis) for axis in self.rng.permutation(count))


Step = Callable[[RandomGraph, oir.Value], oir.Value | None]


def binary(g: RandomGraph, x: oir.Value) -> oir.Value:
    op_type = ("Add", "Sub", "Mul", "Max", "Min")[g.rng.integers(5)]
    operands = [x, g.other(x)]
    result: oir.Value = g.b.op(op_type, *operands[:: 1 if g.rng.random() < 0.5 else -1])
    return result


def unary(g: RandomGraph, x: oir.Value) -> oir.Value:
    result: oir.Value = g.b.op(("Neg", "Abs", "Identity")[g.rng.integers(3)], x)
    return result


def bounded(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    if dtype_of(x) != FLOAT:
        return g.b.cast(x, FLOAT)
    result: oir.Value = g.b.op(("Tanh", "Sigmoid", "Relu")[g.rng.integers(3)], x)
    return result


def select(g: RandomGraph, x: oir.Value) -> oir.Value:
    test = ("Greater", "Equal", "LessOrEqual")[g.rng.integers(3)]
    result: oir.Value = g.b.Where(g.b.op(test, x, g.other(x)), x, g.other(x))
    return result


def reshape(g: RandomGraph, x: oir.Value) -> oir.Value:
    if not is_static(shape_of(x)) or g.rng.random() < 0.3:
        return g.b.unsqueeze(x, [int(g.rng.integers(rank_of(x) + 1))])
    rest = [dim for dim in shape_of(x) if isinstance(dim, int)]
    dims = list(rest)
    if 0 not in rest:
        dims, left = [], int(np.prod(rest))
        while left > 1 and len(dims) < 4:
            dims.append(int(g.rng.choice([n for n in range(1, left + 1) if left % n == 0])))
            left //= dims[-1]
        dims.append(left)
    return g.b.reshape(x, [dims[i] for i in g.permutation(len(dims))])


def squeeze(g: RandomGraph, x: oir.Value) -> oir.Value:
    ones = [axis for axis, dim in enumerate(shape_of(x)) if dim == 1]
    return g.b.squeeze(x, ones[: g.rng.integers(len(ones) + 1)])


def transpose(g: RandomGraph, x: oir.Value) -> oir.Value:
    return g.b.transpose(x, g.permutation(rank_of(x)))


def expand(g: RandomGraph, x: oir.Value) -> oir.Value:
    dims = [int(g.rng.integers(1, 4)) if dim == 1 else dim for dim in shape_of(x)]
    return g.b.expand(x, [2] * (g.rng.random() < 0.3) + dims)


def reduce(g: RandomGraph, x: oir.Value) -> oir.Value:
    axes = {g.axis(x), g.axis(x)}
    if any(shape_of(x)[axis] == 0 for axis in axes):
        raise InternalError("of nothing")
    op_type = ("ReduceSum", "ReduceMax", "ReduceMin")[g.rng.integers(3)]
    # Of nothing, ONNX Runtime takes other axes for negative ones.
    is_signed = 0 not in shape_of(x) and g.rng.random() < 0.2
    signed = [axis - rank_of(x) * is_signed for axis in sorted(axes)]
    result: oir.Value = g.b.op(op_type, x, g.b.i64(signed), keepdims=int(g.rng.integers(2)))
    return result


def mean(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    extent = shape_of(x)[axis := g.axis(x)]
    if dtype_of(x) != FLOAT or not isinstance(extent, int) or not extent:
        return None
    total = g.b.ReduceSum(x, g.b.i64([axis]), keepdims=int(g.rng.integers(2)))
    result: oir.Value = g.b.Div(total, g.b.scalar_like(extent + (g.rng.random() < 0.2), x))
    return result


def normal(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    """(x - mean) / sqrt(variance + 0.5), or without the mean; kept axes or not."""
    axes = g.b.i64([g.often_last(x)])
    if dtype_of(x) != FLOAT or 0 in shape_of(x):
        return None
    mean_of = g.b.ReduceMean(x, axes, keepdims=int(g.rng.random() < 0.8))
    left = g.b.Sub(x, mean_of) if g.rng.random() < 0.5 else x
    variance = g.b.ReduceMean(g.b.Mul(left, left), axes, keepdims=int(g.rng.random() < 0.8))
    root = g.b.Sqrt(g.b.Add(variance, g.b.scalar_like(0.5, x)))
    result: oir.Value = g.b.Div(left, root)
    if g.rng.random() < 0.5:
        result = g.b.Mul(g.b.Mul(left, g.b.Reciprocal(root)), g.constant(left))
    return g.b.Add(result, g.constant(result)) if g.rng.random() < 0.3 else result


def softmax(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    """Of a maximum and a sum, perhaps over other axes."""
    first, second = (g.b.i64([g.often_last(x)]) for _ in range(2))
    if dtype_of(x) != FLOAT or 0 in shape_of(x):
        return None
    shifted = g.b.Sub(x, g.b.ReduceMax(x, first, keepdims=int(g.rng.random() < 0.8)))
    powers = g.b.Exp(g.b.Min(shifted, g.b.scalar_like(3, x)) if g.rng.random() < 0.2 else shifted)
    total = g.b.ReduceSum(powers, second, keepdims=int(g.rng.random() < 0.8))
    result: oir.Value = g.b.Div(powers, total)
    return g.b.Sub(shifted, g.b.Log(total)) if g.rng.random() < 0.4 else result


def concat(g: RandomGraph, x: oir.Value) -> oir.Value:
    axis = g.axis(x)
    alike = [y for y in g.values if dtype_of(y) == dtype_of(x) and rank_of(y) == rank_of(x)]
    return g.b.concat([x, alike[g.rng.integers(len(alike))]], axis)


def cut(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    extent = shape_of(x)[axis := g.axis(x)]
    if not isinstance(extent, int) or not extent:
        return None
    if g.rng.random() < 0.3:
        return g.b.slice(x, [extent - 1], [-(1 << 63)], [-1], [axis])
    start = int(g.rng.integers(extent))
    limit = int(g.rng.integers(start + 1, extent + 1))
    return g.b.slice(x, [start], [limit], [int(g.rng.choice([1, 2]))], [axis])


def gather(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    extent = shape_of(x)[axis := g.axis(x)]
    if not isinstance(extent, int) or not extent:
        return None
    index = g.rng.integers(-extent, extent, [(), (2,), (4,)][g.rng.integers(3)])
    result: oir.Value = g.b.Gather(x, g.b.const(np.asarray(index, np.int64)), axis=axis)
    return result


def pad(g: RandomGraph, x: oir.Value) -> oir.Value:
    if not rank_of(x):
        raise InternalError("a scalar")
    pads = g.b.i64(g.rng.choice([0, 0, 1, 2], 2 * rank_of(x)).tolist())
    result: oir.Value = g.b.Pad(x, pads, g.b.scalar_like(int(g.rng.integers(2)), x))
    return result


def product(g: RandomGraph, x: oir.Value) -> oir.Value | None:
    """With a constant matrix from the right or from the left, or of a vector as a row."""
    extents = shape_of(x)[-2:]
    if dtype_of(x) != FLOAT or not is_static(extents) or 0 in extents or not extents:
        return None
    known = [int(extent) for extent in extents if isinstance(extent, int)]
    count = int(g.rng.integers(1, 4))
    if g.rng.random() < 0.4 and len(known) == 2:
        matrix = g.b.const(g.numbers([count, known[0]]).astype(np.float32))
        result: oir.Value = g.b.MatMul(matrix, x)
        return result
    matrix = g.b.const(g.numbers([known[-1], count]).astype(np.float32))
    row = x if len(known) == 2 else g.b.reshape(x, (1, known[0]))
    result = g.b.MatMul(row, matrix)
    return result if len(known) == 2 else g.b.reshape(result, (count,))


STEPS: tuple[Step, ...] = (
    binary, binary, binary, unary, bounded, select, reshape, reshape, squeeze, transpose, transpose,
    expand, reduce, mean, normal, softmax, concat, cut, gather, pad, product,
)  # fmt: skip


def check(seeds: range, symbolic: bool) -> Counter[str]:
    """Compares the graphs of these seeds before and after all rules; which fired how often."""
    fired: Counter[str] = Counter()
    target = load_target("ort-cpu")
    for seed in seeds:
        graph = RandomGraph(seed, symbolic)
        if not graph.model.graph.outputs or any(map(_is_large, graph.model.graph)):
            continue
        report = Report()
        try:
            before = run_model(graph.model, graph.inputs)
        except VerificationError:  # what does not broadcast after all; products of nothing
            continue
        raise_model(graph.model, target, frozenset(), report)
        fired += report.rules
        for new, old in zip(run_model(graph.model, graph.inputs), before, strict=True):
            scale = float(np.abs(old).max(initial=1))
            said = f"seed {seed}: {dict(report.rules)}"
            assert (new.dtype, new.shape) == (old.dtype, old.shape), said
            np.testing.assert_allclose(new, old, rtol=0, atol=1e-5 * scale, err_msg=said)
    return fired


def _is_large(node: oir.Node) -> bool:
    dims = shape_of(node.outputs[0])
    return len(dims) > MOST_AXES or np.prod([d for d in dims if isinstance(d, int)]) > MOST_ELEMENTS


@pytest.mark.parametrize("symbolic", [False, True])
def test_random_graphs(symbolic: bool) -> None:
    assert len(check(range(400), symbolic)) > 20, "few rules fire"


@pytest.mark.wide
@pytest.mark.parametrize("symbolic", [False, True])
@pytest.mark.parametrize("block", range(4))
def test_many_random_graphs(block: int, symbolic: bool) -> None:
    check(range(1000 * block + 400, 1000 * (block + 1) + 400), symbolic)
