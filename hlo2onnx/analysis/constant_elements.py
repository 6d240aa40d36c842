"""The elements of small integer and boolean values that follow from constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import INTEGERS, const_of, dtype_of, static_shape

LIMIT = 1 << 16
"""Values of more elements are not looked into."""

_DEEPEST = 64
"""Nor are values that more ops in a row made."""

_ELEMENTWISE: dict[str, Callable[..., np.ndarray]] = {
    "Add": np.add,
    "Equal": np.equal,
    "Greater": np.greater,
    "GreaterOrEqual": np.greater_equal,
    "Less": np.less,
    "LessOrEqual": np.less_equal,
    "Max": lambda *xs: np.asarray(np.max(np.broadcast_arrays(*xs), axis=0)),
    "Min": lambda *xs: np.asarray(np.min(np.broadcast_arrays(*xs), axis=0)),
    "Mul": np.multiply,
    "Sub": np.subtract,
    "Where": np.where,
}
_MOVES = frozenset({"Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def known_elements(value: oir.Value) -> np.ndarray | None:
    """The elements, in the value's shape, if they are few and known without running the model.

    What is looked through is what programs do to indices: moving, comparing and selecting them,
    and adding to them.
    """
    return _known(value, {}, _DEEPEST)


_Seen = dict[oir.Value, np.ndarray | None]


def _known(value: oir.Value, seen: _Seen, depth: int) -> np.ndarray | None:
    if value not in seen:
        seen[value] = _evaluated(value, seen, depth - 1) if depth else None
    return seen[value]


def _evaluated(value: oir.Value, seen: _Seen, depth: int) -> np.ndarray | None:
    array, dims = const_of(value), static_shape(value)
    if array is not None:
        return array if array.size <= LIMIT else None
    node, dtype = value.producer(), dtype_of(value)
    if node is None or dims is None or np.prod(dims) > LIMIT:
        return None
    if dtype not in INTEGERS and dtype != oir.DataType.BOOL:
        return None
    if node.op_type not in _MOVES | _ELEMENTWISE.keys() | {"Cast", "Concat"}:
        return None
    shaped = node.op_type in _MOVES
    inputs = [_known(x, seen, depth) for x in node.inputs[: 1 if shaped else None] if x is not None]
    arrays = [array for array in inputs if array is not None]
    if len(arrays) < len(inputs) or any(array.dtype.kind not in "iub" for array in arrays):
        return None
    return _apply(node, arrays, dims).astype(dtype.numpy(), copy=False)


def _apply(node: oir.Node, arrays: list[np.ndarray], dims: tuple[int, ...]) -> np.ndarray:
    if node.op_type == "Expand":
        return np.broadcast_to(arrays[0], dims)
    if node.op_type == "Transpose":
        return arrays[0].transpose(node.attributes["perm"].as_ints())
    if node.op_type in _MOVES:
        return arrays[0].reshape(dims)
    if node.op_type == "Cast":
        return arrays[0]
    if node.op_type == "Concat":
        return np.concatenate(arrays, node.attributes["axis"].as_int())
    with np.errstate(all="ignore"):
        return _ELEMENTWISE[node.op_type](*arrays)
