"""Notes of the op whose result a value is, for ops that were expanded.

The expansion of a transcendental function cannot be recognised node by node, so rules ask here
instead. A note is about values and stays true when the nodes change.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.provenance import HELD, hold_also

_ORIGIN = "hlo2onnx.origin"
_SUCCESSOR = "hlo2onnx.successor"


def note_origin(value: oir.Value, op_name: str, operands: Sequence[oir.Value]) -> None:
    """Notes that `value` is the result of an op, such as chlo.erfc, on these operands."""
    value.meta[_ORIGIN] = (op_name, tuple(operands))


def origin_of(value: oir.Value) -> tuple[str, tuple[oir.Value, ...]] | None:
    """The op and its current operands, if the op was noted."""
    known = value.meta.get(_ORIGIN)
    return None if known is None else (known[0], tuple(map(_latest, known[1])))


def succeed(old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` has taken the place of `old`, which it equals."""
    old.meta[_SUCCESSOR] = new
    hold_also(old, new)
    for note, item in old.meta.items():
        if note not in (_SUCCESSOR, HELD):
            new.meta.setdefault(note, item)


def _latest(value: oir.Value) -> oir.Value:
    while (successor := value.meta.get(_SUCCESSOR)) is not None:
        value = successor
    return value
