"""The changes: each function yields what may stand in the place of a node of the syntax tree."""

from __future__ import annotations

import ast
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Swap:
    """Two neighbours change places, and what is between them stays."""

    first: ast.expr
    second: ast.expr


Change = tuple[str, ast.AST | Swap | str]
"""What kind of change it is, and the node or the text that replaces the old one."""

_COMPARISONS: dict[type[ast.cmpop], tuple[str, type[ast.cmpop]]] = {
    ast.Lt: ("off by one", ast.LtE),
    ast.LtE: ("off by one", ast.Lt),
    ast.Gt: ("off by one", ast.GtE),
    ast.GtE: ("off by one", ast.Gt),
    ast.Eq: ("negated", ast.NotEq),
    ast.NotEq: ("negated", ast.Eq),
    ast.Is: ("negated", ast.IsNot),
    ast.IsNot: ("negated", ast.Is),
    ast.In: ("negated", ast.NotIn),
    ast.NotIn: ("negated", ast.In),
}

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub,
    ast.Sub: ast.Add,
    ast.Mult: ast.FloorDiv,
    ast.FloorDiv: ast.Mult,
    ast.LShift: ast.RShift,
    ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr,
    ast.BitOr: ast.BitAnd,
}

_ORDERED = (ast.Sub, ast.Div, ast.FloorDiv, ast.Mod, ast.Pow, ast.LShift, ast.RShift, ast.MatMult)

_OPPOSITES = {
    one: other
    for pair in (
        ("min", "max"),
        ("Min", "Max"),
        ("minimum", "maximum"),
        ("any", "all"),
        ("floor", "ceil"),
        ("Floor", "Ceil"),
        ("ReduceMin", "ReduceMax"),
        ("ArgMin", "ArgMax"),
        ("argmin", "argmax"),
        ("And", "Or"),
        ("logical_and", "logical_or"),
    )
    for one, other in (pair, pair[::-1])
}

_DROPPED = frozenset({"sorted", "reversed"})
"""Functions that put things in an order; the change leaves the order as it is."""

_SYMMETRIC = frozenset(
    {"Add", "Mul", "Min", "Max", "And", "Or", "Xor", "Equal", "Sum", "Mean"}
    | {"BitwiseAnd", "BitwiseOr", "BitwiseXor"}
    | {"NotImplementedError", "InternalError", "Refusal"}
)


def _comparison(node: ast.Compare) -> Iterator[Change]:
    for index, op in enumerate(node.ops):
        kind, other = _COMPARISONS[type(op)]
        ops = [*node.ops[:index], other(), *node.ops[index + 1 :]]
        yield kind, ast.Compare(node.left, ops, node.comparators)


def _boolean(node: ast.BoolOp) -> Iterator[Change]:
    other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
    yield "and/or swapped", ast.BoolOp(other, node.values)
    if len(node.values) > 2:
        for index in range(len(node.values)):
            rest = [*node.values[:index], *node.values[index + 1 :]]
            yield "condition dropped", ast.BoolOp(node.op, rest)
    else:
        yield "condition dropped", node.values[0]
        yield "condition dropped", node.values[1]


def _negation(node: ast.UnaryOp) -> Iterator[Change]:
    if isinstance(node.op, ast.Not):
        yield "negated", node.operand
    elif isinstance(node.op, ast.USub) and not isinstance(node.operand, ast.Constant):
        yield "sign dropped", node.operand


def _arithmetic(node: ast.BinOp) -> Iterator[Change]:
    if isinstance(node.op, _ORDERED):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)
    elif isinstance(node.op, ast.Add) and _is_sequence(node.left, node.right):
        yield "operands swapped", ast.BinOp(node.right, node.op, node.left)
        return
    if type(node.op) in _ARITHMETIC and not _is_sequence(node.left, node.right):
        yield "operator changed", ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right)


def _is_sequence(*nodes: ast.expr) -> bool:
    kinds = (ast.List, ast.Tuple, ast.ListComp, ast.JoinedStr)
    return any(
        isinstance(node, kinds) or (isinstance(node, ast.Constant) and isinstance(node.value, str))
        for node in nodes
    )


def _constant(node: ast.Constant) -> Iterator[Change]:
    value = node.value
    if isinstance(value, bool):
        yield "constant changed", ast.Constant(not value)
    elif isinstance(value, int):
        yield "constant changed", ast.Constant(value + 1)
    elif isinstance(value, float):
        yield "constant changed", ast.Constant(value * 2 if value else 1.0)


def _sequence(node: ast.List | ast.Tuple) -> Iterator[Change]:
    items = node.elts
    if isinstance(node.ctx, ast.Load) and len(items) > 1:
        for index in range(len(items) - 1):
            one, other = items[index : index + 2]
            if ast.dump(one) != ast.dump(other):
                yield "items swapped", Swap(one, other)


def _call(node: ast.Call) -> Iterator[Change]:
    name = name_of_call(node)
    if name in _OPPOSITES:
        other: ast.expr = ast.Name(_OPPOSITES[name])
        if isinstance(node.func, ast.Attribute):
            other = ast.Attribute(node.func.value, _OPPOSITES[name])
        yield "min/max swapped", ast.Call(other, node.args, node.keywords)
    if name in _DROPPED and isinstance(node.func, ast.Name):
        yield "order dropped", ast.Call(ast.Name("list"), node.args[:1], [])
    is_operator = isinstance(node.func, ast.Attribute) and name[:1].isupper()
    arguments = node.args
    starred = any(isinstance(argument, ast.Starred) for argument in arguments[:2])
    if is_operator and name not in _SYMMETRIC and len(arguments) > 1 and not starred:
        yield "operands swapped", Swap(arguments[0], arguments[1])
    if name == "Where" and len(arguments) == 3:
        yield "operands swapped", Swap(arguments[1], arguments[2])


def name_of_call(node: ast.Call) -> str:
    """The name of the called function or method; "" for other expressions."""
    if isinstance(node.func, ast.Name):
        return node.func.id
    return node.func.attr if isinstance(node.func, ast.Attribute) else ""


def _conditional(node: ast.IfExp) -> Iterator[Change]:
    yield "condition forced", node.body
    yield "condition forced", node.orelse


def _expression_statement(node: ast.Expr) -> Iterator[Change]:
    """Drops a guard: `need(condition, ...)`."""
    if isinstance(node.value, ast.Call) and name_of_call(node.value).startswith(("need", "_need")):
        yield "guard dropped", "pass"


OPERATORS: dict[type[ast.AST], Callable[[Any], Iterator[Change]]] = {
    ast.Compare: _comparison,
    ast.BoolOp: _boolean,
    ast.UnaryOp: _negation,
    ast.BinOp: _arithmetic,
    ast.Constant: _constant,
    ast.List: _sequence,
    ast.Tuple: _sequence,
    ast.Call: _call,
    ast.IfExp: _conditional,
    ast.Expr: _expression_statement,
}


def changes_of(node: ast.AST) -> Iterator[Change]:
    """What may stand in the place of a node."""
    change = OPERATORS.get(type(node))
    if change is not None:
        yield from change(node)


def changes_of_test(node: ast.expr) -> Iterator[Change]:
    """What may stand in the place of the condition of an `if`, a `while` or a comprehension."""
    yield "condition forced", ast.Constant(True)
    yield "condition forced", ast.Constant(False)
