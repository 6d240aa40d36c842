"""Maxima that only a softmax reads: whether they are NaN does not matter."""

from __future__ import annotations

from collections.abc import Collection, Iterator

import onnx_ir as oir

from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.values import dtype_of, shape_of
from hlo2onnx.targets.decompositions.integer_ops import reduced_axes

_T = oir.DataType
_HOLDS_NAN = frozenset({_T.BFLOAT16, _T.DOUBLE, _T.FLOAT, _T.FLOAT16})
"""Types that a Cast gives NaN for NaN."""


def is_of_softmax(node: oir.Node) -> bool:
    """Whether a maximum is that of a softmax or of its logarithm, perhaps rounded at each step.

    If a row has a NaN, so has x - max for any max, and then the sum of the exponentials is NaN.
    Every result of the row is divided by that sum, or its logarithm is subtracted: all are NaN. So
    no reader of the results sees which number the maximum was.
    """
    axes = reduced_axes(node)
    if node.op_type != "ReduceMax" or not axes:
        return False
    x, highest = node.inputs[0], node.outputs[0]
    assert x is not None
    kept = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape_of(x)))
    readers = list(_readers(highest, RESHAPES))
    return bool(readers) and all(
        reader is not None
        and reader.op_type == "Sub"
        and reader.inputs[0] is x
        and reader.inputs[1] is value
        and shape_of(value) == kept
        and _Rows(axes, kept).is_normalized(reader.outputs[0])
        for reader, value in readers
    )


class _Rows:
    """The rows along some axes, and the shape of one number for each."""

    def __init__(self, axes: Collection[int], kept: tuple[object, ...]) -> None:
        self._axes = axes
        self._kept = kept

    def is_normalized(self, shifted: oir.Value) -> bool:
        """Whether readers of x - max only make the softmax, or its logarithm."""
        return all(
            reader is not None
            and (
                (reader.op_type == "Exp" and self._is_divided(reader.outputs[0]))
                or (reader.op_type == "Sub" and self._is_less_logarithm(reader, value))
            )
            for reader, value in _readers(shifted, ("Cast",))
        )

    def _is_divided(self, exponential: oir.Value) -> bool:
        """Whether the readers are the sum of the rows, and divisions by it."""
        return all(
            reader is not None
            and (
                (reader.op_type == "ReduceSum" and reduced_axes(reader) == self._axes)
                or (
                    reader.op_type == "Div"
                    and reader.inputs[0] is value
                    and self._sums(reader.inputs[1], exponential)
                )
            )
            for reader, value in _readers(exponential, ("Cast",))
        )

    def _is_less_logarithm(self, difference: oir.Node, shifted: oir.Value) -> bool:
        """Whether the logarithm of the sum of the exponentials is subtracted from x - max."""
        left, right = difference.inputs
        if left is not shifted or right is None or shape_of(right) != self._kept:
            return False
        logarithm = _before(right, RESHAPES | {"Cast"}).producer()
        if logarithm is None or logarithm.op_type != "Log":
            return False
        added = _before(logarithm.inputs[0], RESHAPES | {"Cast"}).producer()
        if added is None or added.op_type != "ReduceSum" or reduced_axes(added) != self._axes:
            return False
        exponential = _before(added.inputs[0], ("Cast",)).producer()
        if exponential is None or exponential.op_type != "Exp":
            return False
        return _before(exponential.inputs[0], ("Cast",)) is _before(shifted, ("Cast",))

    def _sums(self, total: oir.Value | None, exponential: oir.Value) -> bool:
        """Whether a value is the sum of each row of exponentials."""
        added = _before(total, RESHAPES | {"Cast"}).producer()
        return (
            total is not None
            and shape_of(total) == self._kept
            and added is not None
            and added.op_type == "ReduceSum"
            and reduced_axes(added) == self._axes
            and _before(added.inputs[0], ("Cast",)) is exponential
        )


def _readers(
    value: oir.Value, through: Collection[str]
) -> Iterator[tuple[oir.Node | None, oir.Value]]:
    """The nodes that read a value behind nodes of some operators, and what each reads; None for an
    output of the graph. Casts to types without NaN count as readers."""
    if value.is_graph_output():
        yield None, value
    for reader in value.consumers():
        result = reader.outputs[0]
        if reader.op_type in through and dtype_of(result) in _HOLDS_NAN:
            yield from _readers(result, through)
        else:
            yield reader, value


def _before(value: oir.Value | None, through: Collection[str]) -> oir.Value:
    """The value in front of nodes of some operators, and of Casts of floats."""
    assert value is not None
    node = value.producer()
    while node is not None and node.op_type in through and dtype_of(value) in _HOLDS_NAN:
        value = node.inputs[0]
        assert value is not None
        node = value.producer()
    return value
