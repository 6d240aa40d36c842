"""Constant folding with a bound on what it may store."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import onnx_ir as oir

from hlo2onnx.graph.extent_rules import slice_of
from hlo2onnx.graph.ops import ELEMENTWISE as ELEMENTWISE_OPERATORS
from hlo2onnx.graph.values import FLOATS, INTEGERS, const_of, dtype_of, static_shape
from hlo2onnx.graph.weights import inherit_name
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need

MOVED_ELEMENTS = 1 << 12
"""Folding may always make a constant of up to this many elements from others that it moves."""

COMPUTED_ELEMENTS = 1 << 14
"""And by computing: a mask of 128 tokens."""

MOST_ELEMENTS = 1 << 18
"""And of so many where an operand has as many: the parameters of a normalization."""

Evaluate = Callable[[oir.Node, list[np.ndarray]], np.ndarray]


def _reshape(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return inputs[0].reshape(static_shape(node.outputs[0]) or ())


def _transpose(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return np.ascontiguousarray(inputs[0].transpose(node.attributes["perm"].as_ints()))


def _expand(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return np.array(np.broadcast_to(inputs[0], static_shape(node.outputs[0]) or ()))


def _concat(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return np.concatenate(inputs, node.attributes["axis"].as_int())


def _slice(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    x, starts, ends, *rest = inputs
    axes = rest[0] if rest else np.arange(starts.size)
    steps = rest[1] if len(rest) > 1 else np.ones(starts.size, np.int64)
    index: list[slice] = [slice(None)] * x.ndim
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        index[int(axis)] = slice_of(x.shape[axis], int(start), int(end), int(step))
    return np.ascontiguousarray(x[tuple(index)])


def _exact_cast(array: np.ndarray, source: oir.DataType, target: oir.DataType) -> bool:
    """Whether the cast loses nothing, wraps, or rounds once in numpy too.

    A float to integer cast depends on the runtime out of range and for NaN, and ml_dtypes rounds
    f64 to bf16 and f8 twice.
    """
    if source in FLOATS and target in _INTEGERS:
        limits = np.iinfo(target.numpy())
        whole = np.trunc(array.astype(np.float64))
        # The upper limit itself may be no float: 2**31 and 2**63 are beyond it and are.
        return bool(np.all((whole >= limits.min) & (whole < float(limits.max) + 1)))
    if source in FLOATS:
        return target in FLOATS and (
            target.bitwidth > source.bitwidth or source == oir.DataType.FLOAT
        )
    return target not in FLOATS or target in _EXACT


def _clip(x: np.ndarray, low: np.ndarray, high: np.ndarray) -> np.ndarray:
    return np.asarray(np.minimum(np.maximum(x, low), high))


def _sum(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """The sum or the mean: of floats in f64 and rounded once, of integers it wraps."""
    x, *rest = inputs
    noop = node.attributes.get_int("noop_with_empty_axes", 0)
    given = rest[0].tolist() if rest else []
    axes = tuple(given) if given or noop else tuple(range(x.ndim))
    if x.dtype.kind in "iu":
        need(node.op_type == "ReduceSum", "runtimes round the mean of integers", node)
        total = np.asarray(np.sum(x, axis=axes, dtype=x.dtype))
        return total.reshape(static_shape(node.outputs[0]) or ())
    wide = np.asarray(np.sum(x.astype(np.float64), axis=axes, keepdims=True))
    if node.op_type == "ReduceMean":
        wide = wide / (x.size // max(wide.size, 1))
    negative_zeros = np.any(np.signbit(x) & (x == 0))
    need(not negative_zeros or np.all(wide), "runtimes differ in the sum of -0 alone", node)
    return wide.astype(x.dtype).reshape(static_shape(node.outputs[0]) or ())


SUMS: dict[str, Evaluate] = {"ReduceMean": _sum, "ReduceSum": _sum}
"""Reductions: folded in f32 and in integers, and where there is something to sum."""

MOVES: dict[str, Evaluate] = {
    "Concat": _concat,
    "Expand": _expand,
    "Reshape": _reshape,
    "Slice": _slice,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""Operators that only move data: folded in every element type."""

_INTEGERS = frozenset(
    {oir.DataType.INT8, oir.DataType.INT16, oir.DataType.INT32, oir.DataType.INT64}
    | {oir.DataType.UINT8, oir.DataType.UINT16, oir.DataType.UINT32, oir.DataType.UINT64}
)
_EXACT = _INTEGERS | {oir.DataType.FLOAT, oir.DataType.DOUBLE}
"""Element types in which numpy computes as every runtime does."""
_SINGLE = frozenset({oir.DataType.FLOAT})
_FLOATS = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})
_BOOL = frozenset({oir.DataType.BOOL})


def _divide(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """x / y; on integers rounded towards 0."""
    if x.dtype.kind == "f":
        return np.asarray(x / y)
    overflows = (y == -1) & (x == np.iinfo(x.dtype).min) if x.dtype.kind == "i" else False
    need(not np.any((y == 0) | overflows), "the division traps")
    floor, rest = np.divmod(x, y)
    return np.asarray(floor + ((rest != 0) & ((x < 0) != (y < 0))))


def _larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one, NaN if there is one, +0 of both zeros."""
    return np.asarray(np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)))


def _smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one, NaN if there is one, -0 of both zeros."""
    return np.asarray(np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)))


def _in_f64(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The function evaluated in f64 and rounded once: no runtime is closer to the truth."""

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        wide = function(*(array.astype(np.float64) for array in arrays))
        return np.asarray(wide, arrays[0].dtype)

    return evaluate


ELEMENTWISE: dict[str, tuple[Callable[..., np.ndarray], frozenset[oir.DataType]]] = {
    "Abs": (np.abs, _EXACT),
    "Add": (np.add, _EXACT),
    "Clip": (_clip, _INTEGERS),
    "And": (np.logical_and, _BOOL),
    "Cos": (_in_f64(np.cos), _SINGLE),
    "Div": (_divide, _EXACT),
    "Equal": (np.equal, _EXACT | _BOOL),
    "Exp": (_in_f64(np.exp), _SINGLE),
    "Floor": (np.floor, _FLOATS),
    "Greater": (np.greater, _EXACT),
    "GreaterOrEqual": (np.greater_equal, _EXACT),
    "IsNaN": (np.isnan, _FLOATS),
    "Less": (np.less, _EXACT),
    "LessOrEqual": (np.less_equal, _EXACT),
    "Log": (_in_f64(np.log), _SINGLE),
    "Max": (lambda *xs: functools.reduce(_larger, xs), _EXACT),
    "Min": (lambda *xs: functools.reduce(_smaller, xs), _EXACT),
    "Mul": (np.multiply, _EXACT),
    "Neg": (np.negative, _EXACT),
    "Not": (np.logical_not, _BOOL),
    "Or": (np.logical_or, _BOOL),
    "Pow": (_in_f64(np.power), _SINGLE),
    "Reciprocal": (lambda x: np.asarray(1 / x, x.dtype), _FLOATS),
    "Relu": (lambda x: np.maximum(x, x.dtype.type(0)), _EXACT),
    "Sign": (np.sign, _INTEGERS),
    "Sin": (_in_f64(np.sin), _SINGLE),
    "Sqrt": (np.sqrt, _FLOATS),
    "Sub": (np.subtract, _EXACT),
    "Xor": (np.logical_xor, _BOOL),
}
"""Operators whose exact, correctly rounded or wrapping result numpy and every runtime share, and
the element types of operands of which that holds."""


_PASS_ON = ELEMENTWISE_OPERATORS | {"Concat", "Expand", "Gather"}
"""Operators that take a repeated element as one element, or pass it on as such."""


def _is_final(x: oir.Value) -> bool:
    """Whether all that reads it, as it is or in another shape, reads every element."""
    if x.is_graph_output():
        return False
    return all(
        reader.op_type not in _PASS_ON
        and (reader.op_type not in MOVES or _is_final(reader.outputs[0]))
        for reader in x.consumers()
    )


class FoldConstants(Rule):
    """Op(constants) -> constant

    Legal for data movement, selection, casts that numpy gets right, comparisons, logic, and the
    arithmetic that IEEE 754 and two's complement define exactly; functions and sums of f32 are
    evaluated in f64 and rounded once. Bounded: what is moved has at most 4,096 elements; what is
    computed 16,384, or 262,144 if an operand has as many; or it is no larger than an operand that
    only this node reads (a weight transposed once, here). An expanded constant is folded where it
    is an index or where no reader broadcasts by itself.
    """

    name = "fold-constants"
    anchors = frozenset({*MOVES, *ELEMENTWISE, *SUMS, "Cast", "Where"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        arrays = [const_of(x) for x in node.inputs if x is not None]
        inputs = [array for array in arrays if array is not None]
        need(len(inputs) == len(arrays), "an operand is computed at run time", node)
        dims = static_shape(node.outputs[0])
        need(dims is not None, "its shape is dynamic", node)
        if node.op_type == "Expand":
            is_index = inputs[0].size > 1 and dtype_of(node.outputs[0]) in INTEGERS
            is_final = is_index or _is_final(node.outputs[0])
            need(is_final, "repeated, it is best left to readers that broadcast", node)
        need(self._affordable(node, int(np.prod(dims or ()))), "it would store more", node)
        folded = b.const(evaluate(node, inputs))
        inherit_name(node.inputs, folded)
        return folded

    def _affordable(self, node: oir.Node, elements: int) -> bool:
        moves = node.op_type in MOVES
        if elements <= (MOVED_ELEMENTS if moves else COMPUTED_ELEMENTS):
            return True
        return any(
            x is not None
            and x.const_value is not None
            and elements <= x.const_value.size
            and (len(x.uses()) == 1 or (not moves and elements <= MOST_ELEMENTS))
            for x in (node.inputs[:1] if moves else node.inputs)
        )


def evaluate(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """What the node makes of these operands.

    Raises:
        Refusal: Only the runtime knows.
    """
    if node.op_type in MOVES:
        return MOVES[node.op_type](node, inputs)
    source, target = dtype_of(node.inputs[0]), dtype_of(node.outputs[0])  # type: ignore[arg-type]
    if node.op_type == "Cast":
        exact = _exact_cast(inputs[0], source, target)
        need(exact, "numpy's cast may not be the runtime's", node)
        return inputs[0].astype(target.numpy())
    with np.errstate(all="ignore"):
        if node.op_type == "Where":
            return np.where(*inputs)
        if node.op_type in SUMS:
            is_exact = source in _SINGLE | _INTEGERS
            need(is_exact and inputs[0].size, "the order of its terms matters", node)
            return SUMS[node.op_type](node, inputs)
        function, types = ELEMENTWISE[node.op_type]
        need(source in types, "numpy's arithmetic in this type may not be the runtime's", node)
        need(len(inputs) == len(node.inputs), "an operand is left out", node)
        return function(*inputs)


MAX_STEPS = 64
"""Nodes between constants and what is computed of them, in `evaluated`."""
MAX_ELEMENTS = 1 << 20
"""Elements of each of their results."""


def evaluated(value: oir.Value) -> np.ndarray | None:
    """The value of an expression of constants, which may be larger than what is folded; None if it
    is no such expression."""
    nodes: dict[oir.Value, oir.Node] = {}
    pending = [value]
    while pending:
        x = pending.pop()
        if const_of(x) is not None or x in nodes:
            continue
        node, dims = x.producer(), static_shape(x)
        if node is None or node.domain or node.op_type not in FoldConstants.anchors:
            return None
        if dims is None or int(np.prod(dims)) > MAX_ELEMENTS or len(nodes) == MAX_STEPS:
            return None
        nodes[x] = node
        pending += [operand for operand in node.inputs if operand is not None]
    try:
        return _computed(value, nodes, {})
    except Refusal:
        return None


def _computed(
    value: oir.Value, nodes: dict[oir.Value, oir.Node], known: dict[oir.Value, np.ndarray]
) -> np.ndarray:
    array = const_of(value)
    if array is not None:
        return array
    if value not in known:
        inputs = [_computed(x, nodes, known) for x in nodes[value].inputs if x is not None]
        known[value] = evaluate(nodes[value], inputs)
    return known[value]
