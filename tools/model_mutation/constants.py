"""Changes of constants."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from tools.model_mutation.graphs import (
    Scope,
    graph_at,
    own_constants,
    scopes_of,
    set_constant,
    source_of,
)
from tools.model_mutation.mutant import Edit, Mutant

Change = Callable[[np.ndarray], np.ndarray]

SMALLEST = "1 ulp"
"""A change as small as rounding."""


def _is_float(array: np.ndarray) -> bool:
    return array.dtype.kind == "f" or array.dtype in (ml_dtypes.bfloat16,)


def one_ulp(array: np.ndarray, step: int = 1) -> np.ndarray:
    """The neighbours away from zero, or towards it. Zeros, infinities and NaN stay."""
    bits = np.ascontiguousarray(array).view(f"i{array.dtype.itemsize}") + step
    wide = array.astype(np.float64)
    return np.where((wide != 0) & np.isfinite(wide), bits.view(array.dtype), array)


def _scaled(array: np.ndarray) -> np.ndarray:
    """Times 1 + 1e-3, or two units in the last place."""
    step = max(1e-3, 2 * float(ml_dtypes.finfo(array.dtype).eps))
    wide = array.astype(np.float64)
    return np.where(wide == 0, step, wide * (1 + step)).astype(array.dtype)


FLOATS: Mapping[str, Change] = {
    SMALLEST: one_ulp,
    "1e-3": _scaled,
    "sign": lambda array: -array,
    "zero": np.zeros_like,
}
"""Changes of floats: element by element."""

INTEGERS: Mapping[str, Change] = {
    "+1": lambda array: (array + 1).astype(array.dtype),
    "-1": lambda array: (array - 1).astype(array.dtype),
}
"""Changes of integers."""

BOOLEANS: Mapping[str, Change] = {"not": np.logical_not}


def changes_of(array: np.ndarray) -> Mapping[str, Change]:
    """The changes that the element type has."""
    if array.dtype.kind == "b":
        return BOOLEANS
    if array.dtype.kind in "iu":
        return INTEGERS
    return FLOATS if _is_float(array) else {}


def constants(scope: Scope) -> Iterator[Mutant]:
    """Changes one element of a constant, and all."""
    for name, tensor in own_constants(scope.graph).items():
        array = numpy_helper.to_array(tensor)
        if not array.size:
            continue
        op, source = _consumer(scope, name)
        for change, function in changes_of(array).items():
            place = zlib.crc32(f"{name} {change}".encode()) % array.size
            for all_of_it in (True, False) if array.size > 1 else (True,):
                with np.errstate(all="ignore"):
                    made = _changed(array, function, None if all_of_it else place)
                if made.tobytes() == array.tobytes():
                    continue
                what = "all" if all_of_it else f"element {place}"
                detail = f"{what} of {array.dtype}{list(array.shape)}: {change}"
                kind = f"constant, {'all' if all_of_it else 'one'}: {change}"
                yield Mutant(kind, scope.path, name, op, source, detail, _edit(name, made))


def with_smaller_constants(model: onnx.ModelProto) -> bytes:
    """A model whose float constants are one unit in the last place nearer to zero."""
    changed = onnx.ModelProto()
    changed.CopyFrom(model)
    for scope in scopes_of(model):
        graph = graph_at(changed, scope.path)
        for name, tensor in own_constants(scope.graph).items():
            array = numpy_helper.to_array(tensor)
            if _is_float(array):
                _edit(name, one_ulp(array, -1))(graph)
    return bytes(changed.SerializeToString())


def _changed(array: np.ndarray, function: Change, place: int | None) -> np.ndarray:
    made = np.asarray(function(array))
    if place is None:
        return made
    one = array.copy()
    one.flat[place] = made.flat[place]
    return one


def _edit(name: str, array: np.ndarray) -> Edit:
    return lambda graph: set_constant(graph, name, numpy_helper.from_array(array, name))


def _consumer(scope: Scope, name: str) -> tuple[str, str]:
    """The operator and the source line of the first node that takes a value."""
    for node in scope.graph.node:
        if name in node.input or name in _names_below(node):
            return f"constant of {node.op_type}", source_of(node) or scope.source
    return "constant", scope.source


def _names_below(node: onnx.NodeProto) -> set[str]:
    found: set[str] = set()
    for attribute in node.attribute:
        for below in attribute.g.node:
            found |= {*below.input, *_names_below(below)}
    return found
