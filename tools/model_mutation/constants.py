"""Changes of constants."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Iterator, Mapping
from functools import partial

import ml_dtypes
import numpy as np
import onnx
from onnx import numpy_helper

from hlo2onnx.verify.element_kinds import is_float
from tools.model_mutation.graphs import (
    Scope,
    own_constants,
    set_constant,
    source_of,
)
from tools.model_mutation.mutant import Edit, Mutant

Change = Callable[[np.ndarray], np.ndarray]


def _scaled(array: np.ndarray) -> np.ndarray:
    """Times 1 + 1e-3, or two units in the last place."""
    step = max(1e-3, 2 * float(ml_dtypes.finfo(array.dtype).eps))
    wide = array.astype(np.float64)
    return np.where(wide == 0, step, wide * (1 + step)).astype(array.dtype)


def _plus(step: int, array: np.ndarray) -> np.ndarray:
    return np.asarray(array.astype(np.int64) + step).astype(array.dtype)


CHANGES: Mapping[str, Mapping[str, Change]] = {
    "f": {"1e-3": _scaled, "sign": np.negative, "zero": np.zeros_like},
    "i": {"+1": partial(_plus, 1), "-1": partial(_plus, -1)},
    "b": {"not": np.logical_not},
}
"""Changes of floats, integers and booleans: element by element."""


def _kind(array: np.ndarray) -> str:
    """The key of `CHANGES`."""
    return "f" if is_float(array) else {"u": "i"}.get(array.dtype.kind, array.dtype.kind)


def constants(scope: Scope) -> Iterator[Mutant]:
    """Changes one element of a constant, and all."""
    for name, tensor in own_constants(scope.graph).items():
        array = numpy_helper.to_array(tensor)
        if not array.size:
            continue
        op, source = _consumer(scope, name)
        for change, function in CHANGES.get(_kind(array), {}).items():
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
