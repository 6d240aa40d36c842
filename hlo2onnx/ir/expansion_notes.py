"""Which op of the program a value is the result of, where its expansion no longer shows that.

What a transcendental function is expanded into cannot be recognised node by node; rules ask here
instead. The note stays true whatever becomes of the nodes, as it speaks of values.
"""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

_ORIGIN = "hlo2onnx.origin"
_SUCCESSOR = "hlo2onnx.successor"


def note_origin(value: oir.Value, op_name: str, operands: Sequence[oir.Value]) -> None:
    """Notes that `value` is what an op, such as chlo.erfc, makes of these operands."""
    value.meta[_ORIGIN] = (op_name, tuple(operands))


def origin_of(value: oir.Value) -> tuple[str, tuple[oir.Value, ...]] | None:
    """The op and its operands as they are now, if it is known."""
    known = value.meta.get(_ORIGIN)
    return None if known is None else (known[0], tuple(map(_latest, known[1])))


def succeed(old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` has taken the place of `old`, which it equals."""
    old.meta[_SUCCESSOR] = new
    for note, item in old.meta.items():
        if note != _SUCCESSOR:
            new.meta.setdefault(note, item)


def _latest(value: oir.Value) -> oir.Value:
    while (successor := value.meta.get(_SUCCESSOR)) is not None:
        value = successor
    return value
