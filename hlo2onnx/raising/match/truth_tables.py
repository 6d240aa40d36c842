"""What a condition implies, by a table of all truth values of the comparisons that it reads."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import INTEGERS, const_number, dtype_of, shape_of, size_of
from hlo2onnx.raising.match.views import RESHAPES, operands

MOST_ATOMS = 10
"""Conditions of a table, which has a row for each combination of them."""
MOST_DEPTH = 60
"""Values on the way to an atom."""

_BOOL = oir.DataType.BOOL
_LOGIC: dict[str, Callable[..., np.ndarray]] = {
    "And": np.logical_and, "Not": np.logical_not, "Or": np.logical_or, "Xor": np.logical_xor,
    "Equal": np.equal, "Where": np.where,
}  # fmt: skip


class TruthTable:
    """The values of a condition and of its parts for all truth values of its atoms.

    Atoms are the booleans of one element that are not made by logic from others. Integers are
    known if they are selected from constants. The table has rows that no inputs reach, as atoms
    may depend on one another.

    Attributes:
        atoms: Each with its column of the table.
        holds: The column of the condition; None if it has too many atoms.
    """

    def __init__(self, condition: oir.Value) -> None:
        self._parts: dict[oir.Value, list[oir.Value] | None] = {}
        found: dict[oir.Value, None] = {}
        self._collect(condition, found, set())
        self.atoms: dict[oir.Value, np.ndarray] = {}
        self.holds: np.ndarray | None = None
        if len(found) <= MOST_ATOMS:
            rows = np.arange(1 << len(found))
            self.atoms = {x: (rows >> k & 1).astype(bool) for k, x in enumerate(found)}
            self.holds = self._column(condition, {})

    def implies(self, atom: oir.Value, truth: bool) -> bool:
        """Whether an atom has this truth value in all rows where the condition holds."""
        assert self.holds is not None
        return bool((self.atoms[atom][self.holds] == truth).all())

    def _collect(self, x: oir.Value, atoms: dict[oir.Value, None], seen: set[oir.Value]) -> None:
        """Adds the atoms that x depends on."""
        if x in seen or const_number(x) is not None or len(atoms) > MOST_ATOMS:
            return
        seen.add(x)
        parts = self._parts_of(x, len(seen))
        if parts is None:
            atoms[x] = None
        for part in parts or ():
            self._collect(part, atoms, seen)

    def _column(self, x: oir.Value, known: dict[oir.Value, np.ndarray]) -> np.ndarray:
        """The values of x in all rows."""
        if x in self.atoms:
            return self.atoms[x]
        number = const_number(x)
        if number is not None:
            return np.array(number, bool if dtype_of(x) == _BOOL else np.int64)
        if x not in known:
            parts, node = self._parts[x], x.producer()
            assert parts is not None
            assert node is not None
            columns = [self._column(part, known) for part in parts]
            if node.op_type == "Cast":
                known[x] = columns[0].astype(bool if dtype_of(x) == _BOOL else np.int64)
            elif len(columns) == 1 and node.op_type != "Not":
                (known[x],) = columns
            else:
                known[x] = _LOGIC["Where" if node.op_type == "If" else node.op_type](*columns)
        return known[x]

    def _parts_of(self, x: oir.Value, depth: int) -> list[oir.Value] | None:
        """What a value is computed from by logic; None if it is computed otherwise."""
        if x not in self._parts:
            parts = _operands_of_logic(x) if depth < MOST_DEPTH else None
            is_known = parts is not None and all(self._is_known(part, depth + 1) for part in parts)
            self._parts[x] = parts if is_known else None
        return self._parts[x]

    def _is_known(self, x: oir.Value, depth: int) -> bool:
        """Whether the table can hold a value: a boolean, or an integer selected from constants."""
        if any(dim != 1 for dim in shape_of(x)):
            return False
        if dtype_of(x) == _BOOL:
            return True
        number = const_number(x)
        if number is not None:
            return dtype_of(x) in INTEGERS and abs(number) < 1 << 62
        return dtype_of(x) in INTEGERS and self._parts_of(x, depth) is not None


def _operands_of_logic(x: oir.Value) -> list[oir.Value] | None:
    """What a node of logic or a branch computes a value of one element from."""
    node = x.producer()
    if node is None or node.domain or size_of(x) != 1:
        return None
    if node.op_type == "If":
        index = x.index()
        assert index is not None
        graphs = [node.attributes[name].as_graph() for name in ("then_branch", "else_branch")]
        return [*operands(node), *(graph.outputs[index] for graph in graphs)]
    if node.op_type in RESHAPES | {"Identity"}:
        return operands(node)[:1]
    # An integer cast to another type may become another one.
    is_logic = node.op_type == "Cast" and _BOOL in (dtype_of(x), dtype_of(operands(node)[0]))
    return operands(node) if is_logic or node.op_type in _LOGIC else None
