"""Evaluation of shape arithmetic at translation time.

A program with dynamic dimensions computes its shapes by integer ops on scalars and short vectors.
Their contents are known as expressions of the inputs' extents, so this arithmetic need not run.
Handlers of dynamic ops read the extents. Other readers get a value that is computed from the
inputs' shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir
import sympy
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import is_tensor, parts_of
from hlo2onnx.ir.dim_arithmetic import FORMULAS, Function, Item, fits, plain
from hlo2onnx.ir.dims import dim_of, expression
from hlo2onnx.ir.evaluator import known_elements
from hlo2onnx.ir.values import Dim, complete, const_of, size_of, static_shape
from hlo2onnx.lowering.block_evaluator import name_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op

CONTENTS = "hlo2onnx.contents"
"""Key of `onnx_ir.Value.meta`: the content of a value, an array of ints, bools and SymPy
expressions."""

_LIMIT = 64
"""Longer vectors are not shapes."""

Contents = np.ndarray[Any, np.dtype[np.object_]]


def contents_of(value: oir.Value) -> Contents | None:
    """The content of a short integer or boolean value, if it is known."""
    known: Contents | None = value.meta.get(CONTENTS)
    if known is not None:
        return known
    array = const_of(value)
    if array is None or array.size > _LIMIT or array.dtype.kind not in "iub":
        return None
    return array.astype(object)


def dims_of(em: Emitter, value: oir.Value, known: Sequence[int | None] | None = None) -> list[Dim]:
    """The extents that a tensor of integers holds, in order. Extents that depend on data get
    symbols.

    Args:
        known: The extents that the program states.
    """
    contents = contents_of(value)
    if contents is None:
        elements = known_elements(value)
        contents = None if elements is None else elements.astype(object)
    if contents is not None:
        dims = [_dim(item) for item in contents.reshape(-1)]
        return [own if dim is None else dim for own, dim in zip(dims, known or dims, strict=True)]  # type: ignore[misc]
    count = size_of(value) or 0
    known = known or [None] * count
    vector = em.cast(em.reshape(value, [count]), oir.DataType.INT64)
    return [
        em.extents.held_by(em.slice(vector, [place], [place + 1])) if dim is None else dim
        for place, dim in enumerate(known)
    ]


def value_of(em: Emitter, contents: Contents, dtype: oir.DataType) -> oir.Value:
    """A value with this content: a constant, or computed from the inputs' shapes."""
    if not _is_symbolic(contents):
        return em.const(contents.astype(dtype.numpy()))
    if contents.ndim == 0:
        value = em.cast(em.extents.scalar(_dim(contents.item())), dtype)
    else:
        vector = em.extents.vector([_dim(item) for item in contents.reshape(-1)])
        value = em.reshape(em.cast(vector, dtype), contents.shape)
    return holding(value, contents)


def holding(value: oir.Value, contents: Contents) -> oir.Value:
    """The value, with its content noted."""
    value.meta[CONTENTS] = contents
    return value


def evaluated(em: Emitter, op: Op) -> list[Parts] | None:
    """The results of an op whose operands' contents follow from shapes; None for other ops, and
    in a program without dynamic shapes."""
    function = _OPS.get(name_of(op.operation)) if em.has_symbols else None
    if function is None or len(op.results) != 1 or not is_tensor(op.results[0].type):
        return None
    operands = [em.parts(value) for value in op.operands]
    if not all(len(parts) == 1 for parts in operands):
        return None
    if op.name == "stablehlo.select":
        return _selected(operands)
    arrays = [contents_of(value) for (value,) in operands]
    if op.name in _DECIDED_BY:
        decided = _decided(em, _DECIDED_BY[op.name], arrays)
        if decided is not None:
            return decided
    known = complete(arrays)
    if known is None:
        return None
    part, *others = parts_of(op.results[0].type)
    if others or part.dtype.is_floating_point() or None in part.shape:
        return None
    contents = _with_sign(em, [value for (value,) in operands], known, lambda x: function(op, x))
    if contents is None or not fits(contents.reshape(-1), part.dtype):
        return None
    return [(value_of(em, contents, part.dtype),)]


_FLOOR_DIVIDE = "divide sign sign compare remainder compare and subtract call return"
_MODULO = "compare call remainder compare compare compare compare and add select return"
_FUNCTIONS: Mapping[str, Callable[[Item, Item], Item]] = {
    _FLOOR_DIVIDE: lambda x, y: sympy.floor(x / y),
    _MODULO: sympy.Mod,
}
"""JAX's functions for `//` and `%` of dimensions, by the ops in them without constants. Op by op
they cannot be evaluated, because their branches depend on signs."""


def evaluated_call(
    em: Emitter, function: ir.Operation, arguments: Sequence[Parts]
) -> list[Parts] | None:
    """The results of a function on dimensions, if it is one of `_FUNCTIONS`. Its last two arguments
    are the operands."""
    if not em.has_symbols or len(arguments) < 2 or any(len(parts) != 1 for parts in arguments):
        return None
    names = (op.operation.name.split(".")[1] for op in function.regions[0].blocks[0].operations)
    known = _FUNCTIONS.get(" ".join(name for name in names if name != "constant"))
    if known is None:
        return None
    contents = complete(contents_of(value) for (value,) in arguments[-2:])
    if contents is None or any(item.ndim for item in contents):
        return None
    y = sympy.sympify(contents[1].item())
    dtype = arguments[-1][0].dtype
    if not y.is_positive or dtype is None:
        return None

    def result(items: list[Contents]) -> Contents:
        return scalar_contents(plain(known(*(sympy.sympify(item.item()) for item in items))))

    found = _with_sign(em, [value for (value,) in arguments[-2:]], contents, result)
    return None if found is None else [(value_of(em, found, dtype),)]


def _with_sign(
    em: Emitter,
    values: Sequence[oir.Value],
    contents: list[Contents],
    function: Callable[[list[Contents]], Contents | None],
) -> Contents | None:
    """A function of contents, which knows that the first one is not negative if the value is not.

    Extents of inputs are not, as t - s, whatever their symbols are. What is more by a known number
    stays so.
    """
    x = contents[0].item() if contents[0].ndim == 0 else 0
    if len(contents) != 2 or not isinstance(x, sympy.Basic) or x.is_nonnegative:
        return function(contents)
    known = em.facts.int_range(values[0])
    if known is None or known.low < 0:
        return function(contents)
    natural = sympy.Dummy(integer=True, nonnegative=True)

    def seen(item: Item) -> Item:
        return sympy.expand(item - x + natural) if isinstance(item, sympy.Basic) else item

    def back(item: Item) -> Item:
        return plain(item.subs(natural, x)) if isinstance(item, sympy.Basic) else item

    found = function([np.vectorize(seen, otypes=[object])(each) for each in contents])
    return None if found is None else np.vectorize(back, otypes=[object])(found)


def scalar_contents(item: Item) -> Contents:
    """The content of a scalar that holds an item."""
    contents = np.empty((), object)
    contents[()] = item
    return contents


def _dim(item: Item) -> Dim:
    return dim_of(sympy.sympify(item))


def _is_symbolic(contents: Contents) -> bool:
    return any(isinstance(item, sympy.Basic) for item in contents.reshape(-1))


def _selected(operands: Sequence[Parts]) -> list[Parts] | None:
    predicate = contents_of(operands[0][0])
    if predicate is None or not predicate.size or predicate.min() != predicate.max():
        return None
    chosen = operands[1 if predicate.all() else 2]
    same = static_shape(operands[1][0]) == static_shape(operands[2][0]) is not None
    return [chosen] if same and contents_of(chosen[0]) is not None else None


def _decided(em: Emitter, item: bool, arrays: Sequence[Contents | None]) -> list[Parts] | None:
    """`and` with False, `or` with True, on a scalar."""
    for array in arrays:
        if array is not None and array.ndim == 0 and array.item() is item:
            return [(em.scalar(item, oir.DataType.BOOL),)]
    return None


_DECIDED_BY = {"stablehlo.and": False, "stablehlo.or": True}

# -- elementwise -------------------------------------------------------------------------------


def _each(function: Function) -> Callable[[Op, list[Contents]], Contents | None]:
    def apply(op: Op, arrays: list[Contents]) -> Contents | None:
        grids = np.broadcast_arrays(*arrays)
        result = np.empty(grids[0].shape, object)
        for index in np.ndindex(result.shape):
            item = function(*(grid[index] for grid in grids))
            if item is None:
                return None
            result[index] = plain(item)
        return result

    return apply


def _reshape(op: Op, arrays: list[Contents]) -> Contents | None:
    return arrays[0].reshape(op.result_shape())  # type: ignore[arg-type]


def _slice(op: Op, arrays: list[Contents]) -> Contents | None:
    bounds = zip(
        *(op.attribute(name) for name in ("start_indices", "limit_indices", "strides")),
        strict=True,
    )
    return arrays[0][tuple(slice(*bound) for bound in bounds)]


def _broadcast(op: Op, arrays: list[Contents]) -> Contents | None:
    shape, axes = op.result_shape(), op.attribute("broadcast_dimensions")
    aligned = [1] * len(shape)
    for axis, extent in zip(axes, arrays[0].shape, strict=True):
        aligned[axis] = extent
    in_order = arrays[0].transpose(np.argsort(axes)) if len(axes) else arrays[0]
    return np.broadcast_to(in_order.reshape(aligned), shape)  # type: ignore[arg-type]


_OPS: Mapping[str, Callable[[Op, list[Contents]], Contents | None]] = {
    **{name: _each(function) for name, function in FORMULAS.items()},
    "concatenate": lambda op, arrays: np.concatenate(arrays, op.attribute("dimension")),
    "reshape": _reshape,
    "slice": _slice,
    "broadcast_in_dim": _broadcast,
}
"""Results of the ops with which programs compute shapes, on contents."""


def extent_contents(dim: Dim) -> Contents:
    """The content of a scalar that holds an extent."""
    return scalar_contents(dim if isinstance(dim, int) else expression(dim))
