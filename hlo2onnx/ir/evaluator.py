"""ONNX operators on numpy arrays, where numpy and every runtime agree.

Constant folding, the content of index values, weights that are moved and the tracing of moved
elements all use these tables. An operator that is added here is known to all of them.

Other evaluators have their own tables, because their operators differ and not only their values:
* `block_evaluator` evaluates StableHLO, whose shifts, divisions and maxima differ from ONNX's.
* `ranges` and `float_ranges` bound the elements of a value as a set, so that data movement is the
  identity and only monotonic operators are shared.
* `raising.match.linear_terms` recognises forms such as x + c, and evaluates nothing.
* `ir.type_inference` computes types, which depend on attributes more than on contents.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.shapes import slice_of
from hlo2onnx.ir.values import (
    FLOATS,
    INTEGERS,
    UNSIGNED,
    const_of,
    dtype_of,
    present,
    size_of,
    static_shape,
)

MAX_STEPS = 64
"""Most nodes that `known_array` evaluates."""
MAX_ELEMENTS = 1 << 20
"""Most elements of each result in `known_array`."""
MAX_INDEX_ELEMENTS = 1 << 16
"""Most elements of each result in `known_elements`."""

_VIEWED_BYTES = 1 << 20
"""Transposed arrays of at least this size stay views: they are copied when they are written."""

Evaluate = Callable[[oir.Node, list[np.ndarray]], np.ndarray]


class Unknown(Exception):  # noqa: N818  (a verdict, not an error)
    """The result depends on the runtime. The message says why."""


def _need(condition: object, reason: str) -> None:
    if not condition:
        raise Unknown(reason)


def _reshape(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return inputs[0].reshape(static_shape(node.outputs[0]) or ())


def _transpose(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    moved = inputs[0].transpose(node.attributes["perm"].as_ints())
    return moved if moved.nbytes >= _VIEWED_BYTES else np.ascontiguousarray(moved)


def _expand(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    return np.array(np.broadcast_to(inputs[0], static_shape(node.outputs[0]) or ()))


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
        rounds_once = source == oir.DataType.FLOAT or target == oir.DataType.FLOAT
        return target in FLOATS and (target.bitwidth > source.bitwidth or rounds_once)
    return target not in FLOATS or target in _EXACT


def _cast(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    source, target = dtype_of(node.inputs[0]), dtype_of(node.outputs[0])  # type: ignore[arg-type]
    _need(_exact_cast(inputs[0], source, target), "numpy and the runtime may cast differently")
    # ml_dtypes has no casts between its own integers.
    array = inputs[0].astype(np.int8) if source in _SUB_BYTE else inputs[0]
    return array.astype(target.numpy())


def _sum(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """The sum or the mean of at least one element: floats are added in f64 and rounded once,
    integers wrap."""
    x, *rest = inputs
    _need(x.size, "the sum of no elements depends on the runtime")
    noop = node.attributes.get_int("noop_with_empty_axes", 0)
    given = rest[0].tolist() if rest else []
    axes = tuple(given) if given or noop else tuple(range(x.ndim))
    if x.dtype.kind in "iu":
        _need(node.op_type == "ReduceSum", "runtimes round the mean of integers")
        total = np.asarray(np.sum(x, axis=axes, dtype=x.dtype))
        return total.reshape(static_shape(node.outputs[0]) or ())
    wide = np.asarray(np.sum(x.astype(np.float64), axis=axes, keepdims=True))
    if node.op_type == "ReduceMean":
        wide = wide / (x.size // max(wide.size, 1))
    negative_zeros = np.any(np.signbit(x) & (x == 0))
    _need(not negative_zeros or np.all(wide), "runtimes differ in sums of -0")
    return wide.astype(x.dtype).reshape(static_shape(node.outputs[0]) or ())


def _gather(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    x, index = inputs
    axis = node.attributes.get_int("axis", 0)
    extent = x.shape[axis]
    _need(np.all((index >= -extent) & (index < extent)), "an index is out of range")
    return np.asarray(np.take(x, index, axis))


def _bits(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    narrow = dtype_of(node.outputs[0]).bitwidth < 8
    _need(not narrow, "numpy stores this type with padding bits")
    return inputs[0].view(dtype_of(node.outputs[0]).numpy())


def _pad(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    mode = node.attributes.get_string("mode", "constant") or "constant"
    _need(mode != "constant" and len(inputs) == 2, "the Pad has a value or axes")
    x, pads = inputs
    _need(np.all(pads >= 0), "the Pad removes elements")
    return np.asarray(np.pad(x, pads.reshape(2, -1).T, mode))  # type: ignore[call-overload]


def _scatter(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    x, index, updates = inputs
    _need(node.attributes.get_string("reduction", "none") == "none", "the scatter has a reduction")
    extents = x.shape[: index.shape[-1]]
    _need(np.all((index < extents) & (index >= np.negative(extents))), "an index is out of range")
    written = x.copy()
    written[tuple(np.moveaxis(index, -1, 0))] = updates
    return written


MOVES: dict[str, Evaluate] = {
    "BitCast": _bits,
    "Concat": lambda node, inputs: np.concatenate(inputs, node.attributes["axis"].as_int()),
    "Expand": _expand,
    "Gather": _gather,
    "Identity": lambda node, inputs: inputs[0],
    "Pad": _pad,
    "Reshape": _reshape,
    "ScatterND": _scatter,
    "Slice": _slice,
    "Squeeze": _reshape,
    "Transpose": _transpose,
    "Unsqueeze": _reshape,
}
"""Operators that only move data: evaluated in every element type."""

_SUB_BYTE = frozenset(dtype for dtype in INTEGERS if dtype.bitwidth < 8)
_INTEGERS, _UNSIGNED = INTEGERS - _SUB_BYTE, UNSIGNED - _SUB_BYTE
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
    _need(not np.any((y == 0) | overflows), "the division traps")
    floor, rest = np.divmod(x, y)
    return np.asarray(floor + ((rest != 0) & ((x < 0) != (y < 0))))


def _larger(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The larger one, NaN if there is one, +0 of both zeros."""
    return np.asarray(np.where((x == 0) & (y == 0), x + y, np.maximum(x, y)))


def _smaller(x: np.ndarray, y: np.ndarray) -> np.ndarray:
    """The smaller one, NaN if there is one, -0 of both zeros."""
    return np.asarray(np.where((x == 0) & (y == 0), -(-x - y), np.minimum(x, y)))


def _shifted(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """Bits shifted by less than their number."""
    x, amount = inputs
    _need(np.all(amount < 8 * x.itemsize), "runtimes differ in shifts by all bits or more")
    is_left = node.attributes.get_string("direction", "") == "LEFT"
    return np.asarray(x << amount if is_left else x >> amount)


def _remainder(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """x mod y, with the sign of y, or with fmod=1 that of x."""
    x, y = inputs
    if x.dtype.kind == "f":
        _need(node.attributes.get_int("fmod", 0), "Mod without fmod takes integers")
        return np.asarray(np.fmod(x, y))
    _need(not np.any((y == 0) | ((y == -1) & (x.dtype.kind == "i"))), "the division may trap")
    return np.asarray((np.fmod if node.attributes.get_int("fmod", 0) else np.mod)(x, y))


def _in_f64(function: Callable[..., np.ndarray]) -> Callable[..., np.ndarray]:
    """The function evaluated in f64 and rounded once: no runtime is closer to the truth."""

    def evaluate(*arrays: np.ndarray) -> np.ndarray:
        wide = function(*(array.astype(np.float64) for array in arrays))
        return np.asarray(wide, arrays[0].dtype)

    return evaluate


def _elementwise(function: Callable[..., np.ndarray]) -> Evaluate:
    return lambda node, inputs: function(*inputs)


ELEMENTWISE: dict[str, tuple[Callable[..., np.ndarray], frozenset[oir.DataType]]] = {
    "Abs": (np.abs, _EXACT),
    "Add": (np.add, _EXACT),
    "Clip": (lambda x, low, high: np.minimum(np.maximum(x, low), high), _INTEGERS),
    "And": (np.logical_and, _BOOL),
    "BitwiseAnd": (np.bitwise_and, _INTEGERS),
    "BitwiseNot": (np.invert, _INTEGERS),
    "BitwiseOr": (np.bitwise_or, _INTEGERS),
    "BitwiseXor": (np.bitwise_xor, _INTEGERS),
    "Ceil": (np.ceil, _FLOATS),
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
    "Round": (np.rint, _FLOATS),
    "Sign": (np.sign, _INTEGERS),
    "Sin": (_in_f64(np.sin), _SINGLE),
    "Sqrt": (np.sqrt, _FLOATS),
    "Sub": (np.subtract, _EXACT),
    "Xor": (np.logical_xor, _BOOL),
}
"""Operators for which numpy and every runtime give the same exact, correctly rounded or wrapped
result, and the element types of operands for which they do."""

_COMPUTED: dict[str, tuple[Evaluate, frozenset[oir.DataType] | None]] = {
    "BitShift": (_shifted, _UNSIGNED),
    "Cast": (_cast, None),
    "Mod": (_remainder, _EXACT),
    "ReduceMean": (_sum, _SINGLE | _INTEGERS),
    "ReduceSum": (_sum, _SINGLE | _INTEGERS),
    "Where": (_elementwise(np.where), None),
    **{name: (_elementwise(function), types) for name, (function, types) in ELEMENTWISE.items()},
}
"""The function of each operator that computes, and the types of operands as above; None for any."""

OPERATORS = frozenset({*MOVES, *_COMPUTED})
"""All operators that `evaluate` knows."""


def evaluate(node: oir.Node, inputs: list[np.ndarray]) -> np.ndarray:
    """The output of a node of `OPERATORS` for these operands.

    Raises:
        Unknown: The result depends on the runtime.
    """
    _need(len(inputs) == len(node.inputs), "an operand is left out")
    if node.op_type in MOVES:
        return MOVES[node.op_type](node, inputs)
    evaluated, types = _COMPUTED[node.op_type]
    is_exact = types is None or dtype_of(node.inputs[0]) in types  # type: ignore[arg-type]
    _need(is_exact, "numpy and the runtime may differ in this type")
    with np.errstate(all="ignore"):
        return evaluated(node, inputs)


def known_array(
    value: oir.Value,
    most_elements: int | None = MAX_ELEMENTS,
    given: Mapping[oir.Value, np.ndarray] | None = None,
) -> np.ndarray | None:
    """The value of an expression of constants, None for any other value.

    Args:
        most_elements: No result in the expression may have more; None for any number.
        given: Values that count as these constants.
    """
    known = dict(given or {})
    nodes: dict[oir.Value, oir.Node] = {}
    pending = [value]
    while pending:
        x = pending.pop()
        if x in nodes or x in known or const_of(x) is not None:
            continue
        node, size = x.producer(), size_of(x)
        if node is None or node.domain or node.op_type not in OPERATORS or size is None:
            return None
        too_large = most_elements is not None and size > most_elements
        if too_large or len(nodes) == MAX_STEPS:
            return None
        nodes[x] = node
        pending += present(node.inputs)
    try:
        return _computed(value, nodes, known)
    except Unknown:
        return None


def _computed(
    value: oir.Value, nodes: dict[oir.Value, oir.Node], known: dict[oir.Value, np.ndarray]
) -> np.ndarray:
    array = const_of(value)
    if array is not None:
        return array
    if value not in known:
        inputs = [_computed(x, nodes, known) for x in present(nodes[value].inputs)]
        known[value] = evaluate(nodes[value], inputs)
    return known[value]


def known_elements(value: oir.Value) -> np.ndarray | None:
    """The elements of a small integer or boolean value, in its shape, if they follow from
    constants."""
    if dtype_of(value) not in INTEGERS and dtype_of(value) != oir.DataType.BOOL:
        return None
    array = known_array(value, most_elements=MAX_INDEX_ELEMENTS)
    return array if array is not None and array.size <= MAX_INDEX_ELEMENTS else None
