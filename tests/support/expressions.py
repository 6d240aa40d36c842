"""Small graphs written as Python expressions of ONNX operators."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as oir
from rewriting import Inputs, Rewrite

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.raising.engine import Rule

NOTHING = "nothing"


def graph(text: str, **constants: Any) -> Any:
    """The function that builds an expression.

    `graph("Neg(x) * 3")` reads the input x. `+ - * /` are Add, Sub, Mul and Div, and other
    operators have their ONNX names; keyword arguments are attributes. A number has the type of an
    operand beside it. Names in small letters are methods of the builder. A tuple or a list is
    several results.

    Args:
        constants: Arrays for names in the expression, and functions of the builder and values.
    """

    def build(b: GraphBuilder, **inputs: oir.Value) -> Any:
        known = {
            name: partial(each, b) if callable(each) else b.const(np.asarray(each))
            for name, each in constants.items()
            if name in text
        }
        values = {name: _term(b, value) for name, value in (known | inputs).items()}
        made = _plain(eval(text, {}, _Names(b, values)))
        return list(made) if isinstance(made, tuple) else made

    return build


def rewrites(
    text: str, left: str, inputs: Inputs, *rules: Rule, constants: Any = None, **options: Any
) -> Rewrite:
    """Asserts which operators some rules leave of an expression; NOTHING if none fires."""
    found = Rewrite(graph(text, **(constants or {})), inputs, *rules, **options)
    if left == NOTHING:
        found.nothing()
    else:
        found.gives(*left.split())
    return found


def _plain(item: Any) -> Any:
    """The value of a term; of a list, those of its items."""
    if isinstance(item, (tuple, list)):
        return type(item)(map(_plain, item))
    return item.value if isinstance(item, _Term) else item


def _term(b: GraphBuilder, item: Any) -> Any:
    """A value as a term, and a function of values as one of terms."""
    if callable(item):
        return lambda *operands, **options: _term(
            b, item(*_plain(operands), **{key: _plain(each) for key, each in options.items()})
        )
    if isinstance(item, (tuple, list)):
        return [_term(b, each) for each in item]
    return _Term(b, item)


@dataclass
class _Term:
    """A value with the operators of Python."""

    b: GraphBuilder
    value: oir.Value

    def __add__(self, other: Any) -> _Term:
        return _applied(self.b, "Add", self, other)

    def __radd__(self, other: Any) -> _Term:
        return _applied(self.b, "Add", other, self)

    def __sub__(self, other: Any) -> _Term:
        return _applied(self.b, "Sub", self, other)

    def __rsub__(self, other: Any) -> _Term:
        return _applied(self.b, "Sub", other, self)

    def __mul__(self, other: Any) -> _Term:
        return _applied(self.b, "Mul", self, other)

    def __rmul__(self, other: Any) -> _Term:
        return _applied(self.b, "Mul", other, self)

    def __truediv__(self, other: Any) -> _Term:
        return _applied(self.b, "Div", self, other)

    def __rtruediv__(self, other: Any) -> _Term:
        return _applied(self.b, "Div", other, self)


class _Names(dict[str, Any]):
    """The values of an expression, and any operator."""

    def __init__(self, b: GraphBuilder, values: Mapping[str, Any]) -> None:
        super().__init__(values, inf=math.inf, nan=math.nan, true=np.True_, false=np.False_)
        self._b = b

    def __missing__(self, op_type: str) -> Any:
        if not op_type[0].isupper():
            if not hasattr(self._b, op_type):
                raise KeyError(op_type)
            return _term(self._b, getattr(self._b, op_type))
        if op_type in oir.DataType.__members__:
            return oir.DataType[op_type]
        return lambda *operands, **attributes: _applied(self._b, op_type, *operands, **attributes)


def _applied(b: GraphBuilder, op_type: str, *operands: Any, **attributes: Any) -> _Term:
    """An operator; numbers get the type of the first operand that is a value of no booleans."""
    if op_type == "Cast":
        return _Term(b, b.op("Cast", operands[0].value, to=operands[1]))
    types = [dtype_of(x.value) for x in operands if isinstance(x, _Term)]
    dtype = next((each for each in types if each != oir.DataType.BOOL), oir.DataType.FLOAT)
    inputs = [x.value if isinstance(x, _Term) else _constant(b, x, dtype) for x in operands]
    return _Term(b, b.op(op_type, *inputs, **attributes))


def _constant(b: GraphBuilder, item: Any, dtype: oir.DataType) -> oir.Value | None:
    """A number of this type, a boolean, the axes in a list, or no operand."""
    if item is None:
        return None
    if isinstance(item, list):
        return b.i64(item)
    return b.const(item) if isinstance(item, np.bool_) else b.scalar(item, dtype)
