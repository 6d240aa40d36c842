"""Symbolic extents as values of the graph.

Extents that the inputs' shapes determine are computed once, at the start of the main graph, also
for subgraphs. Extents that depend on the shape of another value are computed where they are needed.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial, reduce
from itertools import groupby

import onnx_ir as oir
import sympy

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.dims import Expression, dim_of, expression, symbol, trip_number
from hlo2onnx.ir.nodes import NodeBuilder
from hlo2onnx.ir.values import FLOATS, Dim, dtype_of, noted, shape_of


class Extents:
    """Makes int64 values of extents, for one builder.

    Args:
        builder: Makes the nodes.
    """

    def __init__(self, builder: NodeBuilder) -> None:
        self._builder = builder
        self._global: dict[Expression, oir.Value] = {}
        self._local: dict[Expression, oir.Value] = {}
        self._scalars: dict[Expression, oir.Value] = {}

    def extent_of(self, value: oir.Value, axis: int) -> oir.SymbolicDim:
        """A new symbol for an extent of a value that has just been made."""
        return self.held_by(self._builder.Shape(value, start=axis, end=axis + 1))

    def held_by(self, value: oir.Value) -> oir.SymbolicDim:
        """A new symbol for what an int64 value of shape (1,) holds."""
        dim = symbol(self._builder.names.unique("extent"), positive=False)
        self._local[expression(dim)] = value
        return dim

    def counted(self, trip: oir.Value, last: Dim) -> oir.SymbolicDim:
        """A new symbol for a loop's iteration number, an i64 scalar that ends with `last`."""
        dim = trip_number(self._builder.names.unique("trip"), last)
        self._scalars[expression(dim)] = trip
        return dim

    def scalar(self, dim: Dim) -> oir.Value:
        """The extent as a tensor of rank 0."""
        formula, b = expression(dim), self._builder
        if formula.is_Integer:
            return b.i64(int(formula))
        for trip in formula.free_symbols & self._scalars.keys():
            rest = sympy.expand(formula - trip)
            if rest == 0:
                return self._scalars[trip]
            if not rest.has(trip):
                return b.op("Add", self.scalar(dim_of(rest)), self._scalars[trip])
            rest = sympy.expand(formula + trip)
            if not rest.has(trip):
                return b.op("Sub", self.scalar(dim_of(rest)), self._scalars[trip])
        return b.op("Squeeze", self.value(dim), b.i64([0]))

    def vector(self, dims: Sequence[Dim]) -> oir.Value:
        """The extents as a tensor of rank 1."""
        builder = self._builder
        parts = []
        for static, run in groupby(dims, lambda dim: isinstance(dim, int)):
            items = list(run)
            parts += [builder.i64(items)] if static else [self.value(dim) for dim in items]  # type: ignore[arg-type]
        if len(parts) > 1:
            return builder.op("Concat", *parts, axis=0)
        return parts[0] if parts else builder.i64([])

    def value(self, dim: Dim) -> oir.Value:
        """The extent as a tensor of shape (1,).

        Raises:
            InternalError: A symbol is not the extent of any value in the graph.
        """
        value = self._value(dim)
        if not isinstance(dim, int):
            note_extent(value, dim)
        return value

    def _value(self, dim: Dim) -> oir.Value:
        formula = expression(dim)
        if formula.is_Integer:
            return self._builder.i64([int(formula)])
        if formula in self._scalars:
            b = self._builder
            return b.op("Reshape", self._scalars[formula], b.i64([1]))
        if any(item in self._local or item in self._scalars for item in formula.free_symbols):
            return self._computed(formula)
        known = self._global.get(formula)
        producer = None if known is None else known.producer()
        if known is None or producer is None or producer.graph is None:
            with self._builder.at_start():
                known = self._global[formula] = self._computed(formula)
        return known

    def _computed(self, formula: Expression) -> oir.Value:
        if formula in self._local:
            return self._local[formula]
        source = self._input_extent(formula)
        if source is not None:
            return source
        if formula.is_Symbol:
            return self._solved(formula)
        match formula:
            case sympy.Add():
                return self._sum(formula)
            case sympy.Mul():
                return self._chain("Mul", self._operands(formula))
            case sympy.Pow() if formula.exp.is_Integer and formula.exp > 0:
                return self._chain("Mul", self._operands(formula)[:1] * int(formula.exp))
            case sympy.Mod() | sympy.Max() | sympy.Min():
                return self._chain(formula.func.__name__, self._operands(formula))
            case sympy.floor():
                return self._quotient(formula.args[0])
        raise InternalError(f"the extent {formula} cannot be computed")

    def _chain(self, op_type: str, values: Sequence[oir.Value]) -> oir.Value:
        return reduce(partial(self._builder.op, op_type), values)

    def _sum(self, formula: Expression) -> oir.Value:
        """A sum. Subtracted terms come last."""
        terms = sorted(formula.args, key=_is_negative)
        result = self.value(dim_of(terms[0]))
        for term in terms[1:]:
            negative = _is_negative(term)
            operand = self.value(dim_of(-term if negative else term))
            result = self._builder.op("Sub" if negative else "Add", result, operand)
        return result

    def _operands(self, formula: Expression) -> list[oir.Value]:
        return [self.value(dim_of(part)) for part in formula.args]

    def _quotient(self, ratio: Expression) -> oir.Value:
        """floor(x / y) = (x - x mod y) / y, for a numerator of either sign."""
        numerator, denominator = sympy.together(ratio).as_numer_denom()
        b = self._builder
        x, y = self.value(dim_of(numerator)), self.value(dim_of(denominator))
        if not numerator.is_nonnegative:
            x = b.Sub(x, b.Mod(x, y))
        return b.Div(x, y)

    def _input_extent(self, formula: Expression) -> oir.Value | None:
        for x in self._builder.main_graph.inputs:
            for axis, dim in enumerate(shape_of(x)):
                if not isinstance(dim, int) and expression(dim) == formula:
                    found: oir.Value = self._builder.Shape(x, start=axis, end=axis + 1)
                    return found
        return None

    def _solved(self, wanted: Expression) -> oir.Value:
        """A symbol that is not an extent itself, from an extent k * symbol + rest."""
        for x in self._builder.main_graph.inputs:
            for dim in shape_of(x):
                rest = expression(dim)
                factor = rest.coeff(wanted)
                rest = sympy.expand(rest - factor * wanted)
                if factor.is_Integer and factor > 0 and wanted not in rest.free_symbols:
                    difference = self._builder.Sub(self.value(dim), self.value(dim_of(rest)))
                    if factor == 1:
                        return difference
                    return self._builder.Div(difference, self._builder.i64([int(factor)]))
        raise InternalError(f"no input has an extent that determines {wanted}")


_EXTENT = "hlo2onnx.extent"
_SAME_NUMBER = frozenset({"Cast", "Identity", "Reshape", "Squeeze", "Unsqueeze"})
_LEAST_BITS = 32


def note_extent(value: oir.Value, dim: Dim) -> None:
    """Notes which extent a value of one element holds."""
    value.meta.setdefault(_EXTENT, dim)


def noted_extent(value: oir.Value) -> Dim | None:
    """The noted extent that a value of one element holds, as a float or a wide enough integer."""
    while (dim := noted(value, _EXTENT)) is None:
        node, dtype = value.producer(), dtype_of(value)
        if node is None or node.op_type not in _SAME_NUMBER or node.inputs[0] is None:
            return None
        if dtype not in FLOATS and dtype.bitwidth < _LEAST_BITS:
            return None
        value = node.inputs[0]
    known: Dim = dim
    return known


def _is_negative(term: Expression) -> bool:
    return bool(term.as_coeff_Mul()[0] < 0)
