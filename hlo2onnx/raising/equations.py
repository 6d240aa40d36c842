"""Rules that are equations, written as text: `pattern -> replacement`.

    Equations("where-of-not", "Where(Not(p), x, y) -> Where(p, y, x)")

Both sides are Python expressions:

* `p` and `q` are any booleans, `k` and `m` any constants, other names any values. A name stands for
  one value. `(p := Less(x, y))` names the result of an operator.
* `+ - * /` are Add, Sub, Mul and Div, and other operators have their ONNX names. Commutative ones
  match their operands in any order. `*axes` stands for more operands and for any attributes.
* A number matches a value if all elements are known to equal it, zeros with its sign.
* On the right, what is computed from constants alone is a constant. Cast is to the type of the
  result, and a number has the type of the operand beside it.

A replacement must have the shape of the result; with `expands` it is expanded to that shape.
"""

from __future__ import annotations

import ast
import functools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass
from math import copysign
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import (
    FLOATS,
    INTEGERS,
    attributes_of,
    dtype_of,
    shape_of,
    static_shape,
)
from hlo2onnx.raising.engine import (
    CONSTANT,
    Kind,
    Refusal,
    Rewriter,
    Rule,
    need,
)
from hlo2onnx.raising.match.views import is_private
from hlo2onnx.raising.patterns import As, Bindings, Boolean, Known, Literal, Name, Op, Pattern

_OPERATORS = {ast.Add: "Add", ast.Sub: "Sub", ast.Mult: "Mul", ast.Div: "Div"}
_FUNCTIONS: Mapping[str, Callable[..., Any]] = {
    "Add": np.add, "Sub": np.subtract, "Neg": np.negative,
    "log2": lambda x: np.log2(x).astype(x.dtype),
}  # fmt: skip

_CONSTANTS = frozenset("km")
_BOOLEANS = frozenset("pq")


@dataclass(frozen=True)
class Match:
    """Where an equation may be applied. `match["x"]` is the value of a name.

    Attributes:
        inner: The results of the operators that the pattern names, but the last one.
    """

    node: oir.Node
    b: Rewriter
    values: Bindings

    def __getitem__(self, name: str) -> oir.Value:
        return self.values[name]

    @property
    def inner(self) -> list[oir.Value]:
        """See above."""
        return [value for name, value in self.values.items() if name.startswith("@")]


Guard = Callable[[Match], None]
"""Refuses a match (through `need`) for which the equation is wrong, or saves nothing."""


def one_use(match: Match) -> None:
    """No other node reads the results that the replacement leaves out."""
    need(all(map(is_private, match.inner)), "an operand has other readers", match.node)


def floats(match: Match) -> None:
    """x is a float."""
    need(dtype_of(match["x"]) in FLOATS, "its operand is not a float", match["x"])


def integers(match: Match) -> None:
    """x is an integer."""
    need(dtype_of(match["x"]) in INTEGERS, "its operand is not an integer", match["x"])


def runs(*op_types: str, on: str = "x") -> Guard:
    """The target has these operators for the type of a value."""

    def guard(match: Match) -> None:
        dtype = dtype_of(match[on])
        for op_type in op_types:
            need(match.b.supports(op_type, dtype), f"the target has no such {op_type}", match.node)

    return guard


def _is_boolean(pattern: Pattern) -> bool:
    if isinstance(pattern, Literal):
        return isinstance(pattern.item, bool)
    return isinstance(pattern, Boolean)


class Equation:
    """One row of a table."""

    def __init__(
        self, text: str, *guards: Guard, make: Callable[[Match], oir.Value] | None = None
    ) -> None:
        """`make` makes the replacement, if the text cannot say how."""
        self.text, self.guards = text, guards
        self.left, _, right = text.partition(" -> ")
        self._literals: dict[str, float] = {}
        pattern = self._pattern(ast.parse(self.left, mode="eval").body, "")
        assert isinstance(pattern, Op)
        self.pattern = pattern
        self._make = make or functools.partial(_replacement, ast.parse(right, mode="eval").body)

    def replacements(self, node: oir.Node, b: Rewriter, expands: bool) -> Iterator[oir.Value]:
        """The replacement of a node's result, once for each match that holds.

        Raises:
            Refusal: A guard refuses the last match.
        """
        refused: tuple[Any, ...] = ()
        for values in self.pattern.matches(node.outputs[0], {}):
            lacks = [x for name, x in self._literals.items() if not all_are(b, values[name], x)]
            if lacks:
                refused = f"no operand is {lacks[0]}", node
                continue
            match = Match(node, b, values)
            try:
                for guard in self.guards:
                    guard(match)
                made = self._make(match)
                if expands:
                    made = instead(b, node, made)
                is_whole = expands or shape_of(made) == shape_of(node.outputs[0])
                need(is_whole, "a dropped operand determines the shape", node)
            except Refusal as refusal:
                refused = refusal.args
            else:
                yield made
        if refused:
            raise Refusal(*refused)

    def fits(self, kind: Kind) -> bool:
        """Whether it may match a node. See `Rule.narrowed`."""
        operands = self.pattern.operands
        if kind.op_type != self.pattern.op_type:
            return False
        has_booleans = kind.op_type == "Where" and any(map(_is_boolean, operands[1:]))
        if has_booleans and kind.dtype != oir.DataType.BOOL:
            return False
        is_same = len(operands) == 2 and operands[0] == operands[1]
        return all(self._fits(x, kind) for x in operands) and (
            not is_same or len(kind.sources) == 1
        )

    def _fits(self, operand: Pattern, kind: Kind) -> bool:
        while isinstance(operand, As):
            operand = operand.pattern
        if isinstance(operand, Op):
            return operand.op_type in kind.sources
        assert isinstance(operand, Name)
        if isinstance(operand, Literal):
            return operand.may_be_in(kind)
        return CONSTANT in kind.sources or not isinstance(operand, Known)

    def _pattern(self, tree: ast.expr, name: str) -> Pattern:
        """The pattern of an expression, whose result gets this name."""
        number = _number(tree)
        if number is not None:
            name = f"={len(self._literals)}"
            self._literals[name] = number
            return Literal(name, number)
        if isinstance(tree, ast.Name):
            kind = Boolean if tree.id in _BOOLEANS else Known if tree.id in _CONSTANTS else Name
            return kind(tree.id)
        if isinstance(tree, ast.NamedExpr):
            return As(tree.target.id, self._pattern(tree.value, "@" + tree.target.id))
        op_type, arguments = _call(tree)
        rest = _rest(arguments)
        operands = enumerate(arguments[:-1] if rest else arguments)
        found = [self._pattern(x, f"{name}@{place}") for place, x in operands]
        made = Op(op_type, *found, rest=rest, **_attributes(tree))
        return As(name, made) if name else made


class Equations(Rule):
    """A rule that is one or more equations."""

    def __init__(
        self,
        name: str,
        *rows: str | Equation,
        guards: Sequence[Guard] = (),
        why: str = "",
        expands: bool = False,
        formerly: Sequence[str] = (),
        phase: int = 0,
    ) -> None:
        """
        Args:
            guards: Hold for every row, after its own.
            why: When the rule is legal and when it is done.
            expands: Whether the replacement is expanded to the shape of the result.
        """
        found = [Equation(row) if isinstance(row, str) else row for row in rows]
        for row in found:
            row.guards = (*row.guards, *guards)
        self.name, self.phase, self.formerly, self.rows = name, phase, tuple(formerly), found
        self.anchors = frozenset(row.pattern.op_type for row in found)
        self._why, self._expands = why, expands

    asks_numbers = True

    @property
    def doc(self) -> str:
        """See `Rule.doc`."""
        return "\n\n".join(filter(None, [";\n".join(row.text for row in self.rows), self._why]))

    def narrowed(self, kind: Kind) -> Rule | None:
        """The equations that may match."""
        found = copy(self)
        found.rows = [row for row in self.rows if row.fits(kind)]
        return found if found.rows else None

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        """Applies the first equation that holds."""
        refused: tuple[Any, ...] = f"it is not {self.rows[0].left}", node
        for row in self.rows:
            if row.pattern.fits(node.outputs[0]):
                try:
                    for made in row.replacements(node, b, self._expands):
                        return made
                except Refusal as refusal:
                    refused = refusal.args
        raise Refusal(*refused)


def all_are(b: Rewriter, value: oir.Value, item: float) -> bool:
    """Whether all elements are known to be this number, with this sign of 0 for floats."""
    dtype = dtype_of(value)
    if (dtype == oir.DataType.BOOL) != isinstance(item, bool):
        return False
    known = b.facts.constant(value)
    if known is None:
        return isinstance(item, bool) and b.facts.truth(value) == item
    if known.size == 1:  # as nearly always; numpy takes several times as long
        number = known.item()
        return bool(number == item) and (dtype not in FLOATS or _sign(number) == _sign(item))
    if not known.size or not (known == item).all():
        return False
    return dtype not in FLOATS or bool((np.signbit(known) == np.signbit(item)).all())


def instead(b: Rewriter, node: oir.Node, x: oir.Value) -> oir.Value:
    """x in the shape of the node's result."""
    dims = static_shape(node.outputs[0])
    if dims is None:
        need(shape_of(x) == shape_of(node.outputs[0]), "its shape is dynamic", node)
        return x
    return b.expand(x, dims)


def filled(b: Rewriter, node: oir.Node, item: float) -> oir.Value:
    """The node's result with this number in all elements."""
    return instead(b, node, b.scalar(item, dtype_of(node.outputs[0])))


def _sign(number: float) -> float:
    return copysign(1, number)


def _replacement(tree: ast.expr, match: Match) -> oir.Value:
    return _made(tree, match, dtype_of(match.node.outputs[0]))


def _made(tree: ast.expr, match: Match, dtype: oir.DataType) -> oir.Value:
    """The value of an expression.

    Args:
        dtype: The type of a number.
    """
    if (number := _number(tree)) is not None:
        return match.b.scalar(number, dtype)
    if isinstance(tree, ast.Name):
        return match[tree.id]
    names = [x.id for x in ast.walk(tree) if isinstance(x, ast.Name) and x.id in match.values]
    if _CONSTANTS.issuperset(names):
        compute = functools.partial(_computed, tree, names)
        return match.b.derived(compute, *(match[name] for name in names))
    op_type, arguments = _call(tree)
    if op_type == "Cast":
        return match.b.cast(_made(arguments[0], match, dtype), dtype_of(match.node.outputs[0]))
    rest = _rest(arguments)
    arguments = arguments[:-1] if rest else arguments
    made = {x: _made(x, match, dtype) for x in arguments if _number(x) is None}
    dtype = next(map(dtype_of, reversed(made.values())), dtype)
    inputs = [made[x] if x in made else _made(x, match, dtype) for x in arguments]
    if rest:
        return _with_rest(match, op_type, inputs, match[rest])
    return match.b.op(op_type, *inputs, **_attributes(tree))


def _with_rest(
    match: Match, op_type: str, inputs: Sequence[oir.Value], like: oir.Value
) -> oir.Value:
    """An operator with more operands and the attributes of another one."""
    node = like.producer()
    assert node is not None
    types = [(dtype_of(inputs[0]), shape_of(like))]
    more = node.inputs[len(inputs) :]
    return match.b.op(op_type, *inputs, *more, types=types, **attributes_of(node))


def _computed(tree: ast.expr, names: Sequence[str], *arrays: np.ndarray) -> np.ndarray:
    """The array of an expression of constants."""
    if (number := _number(tree)) is not None:
        return np.asarray(number)
    if isinstance(tree, ast.Name):
        return arrays[names.index(tree.id)]
    op_type, arguments = _call(tree)
    made: np.ndarray = _FUNCTIONS[op_type](*(_computed(x, names, *arrays) for x in arguments))
    return made


def _number(tree: ast.expr) -> float | None:
    """The number that an expression is."""
    if isinstance(tree, ast.Constant) and isinstance(tree.value, int | float):
        return tree.value
    if isinstance(tree, ast.UnaryOp):
        inner = _number(tree.operand)
        return None if inner is None else -inner
    return math.inf if isinstance(tree, ast.Name) and tree.id == "inf" else None


def _rest(arguments: Sequence[ast.expr]) -> str:
    """The name that stands for more operands; "" if there is none."""
    last = arguments[-1]
    return (
        last.value.id if isinstance(last, ast.Starred) and isinstance(last.value, ast.Name) else ""
    )


def _call(tree: ast.expr) -> tuple[str, list[ast.expr]]:
    """The operator and the operands of an expression."""
    if isinstance(tree, ast.BinOp):
        return _OPERATORS[type(tree.op)], [tree.left, tree.right]
    if isinstance(tree, ast.UnaryOp):
        return "Neg", [tree.operand]
    assert isinstance(tree, ast.Call) and isinstance(tree.func, ast.Name), ast.dump(tree)
    return tree.func.id, tree.args


def _attributes(tree: ast.expr) -> dict[str, Any]:
    keywords = tree.keywords if isinstance(tree, ast.Call) else []
    return {str(x.arg): ast.literal_eval(x.value) for x in keywords}
