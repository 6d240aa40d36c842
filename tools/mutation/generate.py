"""Makes the mutants of a file.

Some parts stay, as no test can or should notice a change: annotations, docstrings and other texts,
reasons of errors and refusals, assertions, imports, `__all__`, the type checker's `cast`, and
limits of cost (a module's constant that is a plain number).
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace

from tools.mutation.mutant import Mutant, Span, normalised, replaced
from tools.mutation.operators import Change, Swap, changes_of, changes_of_test, name_of_call

_SKIPPED = (ast.Assert, ast.Import, ast.ImportFrom, ast.Raise, ast.JoinedStr, ast.Global)
_NUMBERS = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
_WEAK = (ast.BoolOp, ast.BinOp, ast.Compare, ast.IfExp, ast.Lambda, ast.UnaryOp)
"""Expressions that need parentheses inside of others."""

_TEXT_CALLS = frozenset({"Refusal", "InternalError", "UnsupportedError", "cast", "TypeVar"})
_NUMBERLESS = frozenset({"strict", "frozen", "slots", "maxsize", "order", "eq", "repr"})
"""Keywords that carry no behaviour of the translation: `zip(strict=)`, `dataclass(frozen=)`."""


def mutants_of(file: str, text: str) -> list[Mutant]:
    """Every mutant of a file, in the order of its lines."""
    visitor = _Visitor(file, text)
    visitor.visit(ast.parse(text), False)
    seen: Counter[str] = Counter()
    found = []
    for mutant in visitor.found:
        if mutant.original != mutant.mutant:
            found.append(replace(mutant, occurrence=seen[mutant.key]))
            seen[mutant.key] += 1
    return found


def sample(mutants: list[Mutant], count: int | None, seed: int = 0) -> list[Mutant]:
    """Some mutants, the same ones every time, in their order. A larger sample contains the smaller
    ones."""
    if count is None or count >= len(mutants):
        return mutants
    order = sorted(mutants, key=lambda mutant: _rank(seed, mutant.key))
    chosen = {mutant.key for mutant in order[:count]}
    return [mutant for mutant in mutants if mutant.key in chosen]


def _rank(seed: int, key: str) -> str:
    return hashlib.sha256(f"{seed} {key}".encode()).hexdigest()


class _Visitor:
    """Walks the tree and collects the changes of each node."""

    def __init__(self, file: str, text: str) -> None:
        self._file = file
        self._lines = text.split("\n")
        self._scopes: list[ast.FunctionDef | ast.ClassDef] = []
        self._statement = 1
        self.found: list[Mutant] = []

    def visit(self, node: ast.AST, nested: bool, changing: bool = True) -> None:
        """Collects the changes of a node and of its parts.

        Args:
            nested: Whether the node is part of a larger expression.
            changing: Whether the node itself changes, or only its parts.
        """
        if isinstance(node, _SKIPPED) or _is_text(node) or _is_limit(node):
            return
        if isinstance(node, ast.stmt):
            self._statement = node.lineno
        for change in changes_of(node) if changing else ():
            self._add(node, change, nested)
        scope = isinstance(node, ast.FunctionDef | ast.ClassDef)
        if scope:
            self._scopes.append(node)  # type: ignore[arg-type]
        inner = isinstance(node, ast.expr | ast.keyword | ast.comprehension)
        for child, is_test in _parts(node):
            if is_test and not isinstance(node, ast.IfExp):
                for change in changes_of_test(child):  # type: ignore[arg-type]
                    self._add(child, change, True)
            self.visit(
                child, inner, not (is_test and _is_negatable(child)) and _counts(node, child)
            )
        if scope:
            self._scopes.pop()

    def _add(self, node: ast.AST, change: Change, nested: bool) -> None:
        operator, new = change
        if isinstance(new, Swap):
            span, text = self._swapped(new)
        else:
            span = self._span(node)
            text = new if isinstance(new, str) else self._text_of(new)
        if nested and isinstance(new, _WEAK) and not self._is_in_parentheses(span):
            text = f"({text})"
        old = self._lines[span.line - 1 : span.end_line]
        new = replaced(old, span.of_lines(), text)
        self.found.append(
            Mutant(
                self._file,
                ".".join(scope.name for scope in self._scopes),
                operator,
                span.line,
                span.end_line,
                self._statement,
                _lines_of(self._scopes[-1]) if self._scopes else None,
                normalised(old),
                normalised(new),
                span,
                text,
            )
        )

    def _text_of(self, node: ast.AST) -> str:
        """A node's text: as it is written, if it is a part of the file."""
        if not hasattr(node, "lineno"):
            return ast.unparse(node)
        return self._content(self._span(node))

    def _swapped(self, swap: Swap) -> tuple[Span, str]:
        one, other = self._span(swap.first), self._span(swap.second)
        between = Span(one.end_line, one.end_column, other.line, other.column)
        text = "".join(map(self._content, (other, between, one)))
        return Span(one.line, one.column, other.end_line, other.end_column), text

    def _content(self, span: Span) -> str:
        lines = self._lines[span.line - 1 : span.end_line]
        lines[-1] = lines[-1][: span.end_column]
        lines[0] = lines[0][span.column :]
        return "\n".join(lines)

    def _is_in_parentheses(self, span: Span) -> bool:
        before = self._lines[span.line - 1][: span.column]
        after = self._lines[span.end_line - 1][span.end_column :]
        return before.endswith("(") and after.startswith(")")

    def _span(self, node: ast.AST) -> Span:
        first, last = node.lineno, node.end_lineno  # type: ignore[attr-defined]
        start = self._lines[first - 1].encode()[: node.col_offset]  # type: ignore[attr-defined]
        end = self._lines[last - 1].encode()[: node.end_col_offset]  # type: ignore[attr-defined]
        return Span(first, len(start.decode()), last, len(end.decode()))


def _lines_of(scope: ast.FunctionDef | ast.ClassDef) -> tuple[int, int]:
    return scope.lineno, scope.end_lineno or scope.lineno


def _is_negatable(test: ast.AST) -> bool:
    """Whether the only change of a condition itself is its negation, which notices less than the
    condition forced to be true and to be false."""
    negatable = (ast.Eq, ast.NotEq, ast.Is, ast.IsNot, ast.In, ast.NotIn)
    if isinstance(test, ast.Compare):
        return len(test.ops) == 1 and isinstance(test.ops[0], negatable)
    return isinstance(test, ast.UnaryOp) and isinstance(test.op, ast.Not)


def _counts(node: ast.AST, child: ast.AST) -> bool:
    """Whether the order of a sequence in this place matters: not where it is searched or run
    through, and hardly in the lists of the rules."""
    if not isinstance(child, ast.List | ast.Tuple):
        return True
    if isinstance(node, ast.Compare):
        return not isinstance(node.ops[-1], ast.In | ast.NotIn)
    if isinstance(node, ast.For | ast.comprehension):
        return child is not node.iter
    if isinstance(node, ast.Assign):
        return not isinstance(node.targets[0], ast.Tuple)
    if isinstance(node, ast.AnnAssign):
        return not ast.unparse(node.target).endswith("RULES")
    unordered = ("isinstance", "frozenset", "set", "startswith", "any", "all")
    return not (isinstance(node, ast.Call) and name_of_call(node) in unordered)


def _is_limit(node: ast.AST) -> bool:
    """Whether a statement sets a limit: NAME = number. What it is worth, benchmarks tell."""
    return (
        isinstance(node, ast.Assign)
        and isinstance(node.targets[0], ast.Name)
        and node.targets[0].id.isupper()
        and all(isinstance(part, _NUMBERS) for part in ast.walk(node.value))
    )


def _parts(node: ast.AST) -> Iterator[tuple[ast.AST, bool]]:
    """The parts of a node that may change, each with whether it is a condition."""
    for name, value in ast.iter_fields(node):
        if name in ("annotation", "returns", "type_params", "bases", "ctx"):
            continue
        if isinstance(node, ast.Call) and name == "args" and name_of_call(node).startswith("need"):
            value = value[:1]
        for part in value if isinstance(value, list) else [value]:
            if isinstance(part, ast.AST):
                is_test = name == "test" or (name == "ifs" and isinstance(node, ast.comprehension))
                yield part, is_test


def _is_text(node: ast.AST) -> bool:
    """Whether a node only speaks to people or to the type checker."""
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant):
        return True
    if isinstance(node, ast.Assign | ast.AnnAssign):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        return any(isinstance(target, ast.Name) and target.id == "__all__" for target in targets)
    if isinstance(node, ast.keyword):
        return node.arg in _NUMBERLESS
    return isinstance(node, ast.Call) and name_of_call(node) in _TEXT_CALLS
