"""Notes of where values and nodes come from: the program's value, and the rewrites.

The lowering notes for each ONNX value which value of the program it holds. Rules and legalization
note their names on the nodes that they make. The notes are metadata in memory only. Saved models do
not have them.
"""

# No `from __future__ import annotations`: pdoc cannot resolve a named tuple's types from strings.
from collections.abc import Iterable
from typing import NamedTuple, TypeAlias

import onnx_ir as oir

Path: TypeAlias = tuple[int, ...]
"""The place of an op in a program. The numbers are in turn the index of an op in its block, and the
region of this op that the next op is in. `CALLEE` instead of a region is the body of the called
function. `ARGUMENTS` instead of the last op means the arguments of the block."""

CALLEE = -1
ARGUMENTS = -1

STACKED = -1
"""Instead of the number of a trip: all trips, along the first axis."""

LATER_TRIPS = "The first trip runs in front of this loop."
"""Documentation of a body whose trip 0 is the program's trip 1. Saved models have it."""

HELD = "hlo2onnx.held"
_LOOP = "hlo2onnx.loop"
_REWRITES = "hlo2onnx.rewrites"


class Held(NamedTuple):
    """The value of the program that an ONNX value holds.

    Attributes:
        path: The op that makes it, or the block whose argument it is.
        number: Its number among the results or arguments.
        part: 0; 1 for the imaginary part.
        parts: Count of the ONNX values that hold the program's value: 2 if it is complex.
        trips: For a value in a loop that the model does not have, the path of the loop with the
            number of the trip, or `STACKED`.
        view: Transpositions (by a permutation) and reshapes (to a shape) that make the content of
            the ONNX value from that of the program's value.
    """

    path: Path
    number: int
    part: int = 0
    parts: int = 1
    trips: tuple[tuple[Path, int], ...] = ()
    view: tuple[tuple[str, tuple[int, ...]], ...] = ()


def note_held(path: Path, number: int, parts: tuple[oir.Value, ...]) -> None:
    """Notes that these ONNX values hold one value of the program."""
    for part, value in enumerate(parts):
        held = Held(path, number, part, len(parts))
        value.meta.data.setdefault(HELD, []).append(held)


def held_by(value: oir.Value) -> list[Held]:
    """The values of the program that an ONNX value holds. All of them are equal."""
    found: list[Held] = value.meta.data.get(HELD, [])
    return found


def hold_also(old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` holds what `old` holds."""
    if old is not new and (held := old.meta.data.get(HELD)):
        new.meta.setdefault(HELD, []).extend(held)


def hold_view(node: oir.Node) -> None:
    """Notes that the input of a move, such as Transpose, holds what its output holds, moved back.

    Called when the node is removed.
    """
    if node.op_type not in _MOVES or node.domain or not (held := held_by(node.outputs[0])):
        return
    (x, *_) = node.inputs
    dims = None if x is None or x.shape is None else tuple(x.shape)
    if x is None or dims is None or x.const_value is not None:
        return
    steps: tuple[tuple[str, tuple[int, ...]], ...] = ()
    if node.op_type == "Transpose":
        order = tuple(range(len(dims)))[::-1]
        if "perm" in node.attributes:
            order = tuple(node.attributes["perm"].as_ints())
        steps = (("transpose", tuple(order.index(axis) for axis in range(len(dims)))),)
    elif node.op_type != "Identity":
        sizes = tuple(dim for dim in dims if isinstance(dim, int))
        if len(sizes) != len(dims):
            return
        steps = (("reshape", sizes),)
    known = x.meta.setdefault(HELD, [])
    for item in held:
        viewed = item._replace(view=(*item.view, *steps))
        if viewed not in known:
            known.append(viewed)


_MOVES = frozenset({"Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})


def note_loop(number: oir.Value, path: Path | None) -> None:
    """Notes the loop of the program that the number of a trip, an input of a body, belongs to."""
    if path is not None:
        number.meta[_LOOP] = path


def hold_trip(number: oir.Value, trip: int, old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` holds what `old`, a value of a loop's body, holds in one trip.

    Args:
        number: The number of the trip, an input of the body.
        trip: The trip, or `STACKED`.
    """
    loop, held = number.meta.get(_LOOP), held_by(old)
    if loop is None or not held or new.const_value is not None:
        return
    known = new.meta.setdefault(HELD, [])
    for item in held:
        inside = item.path[: len(loop)] == loop and len(item.path) > len(loop)
        if inside and (trip != STACKED or not item.view):
            noted = item._replace(trips=(*item.trips, (loop, trip)))
            if noted not in known:
                known.append(noted)


def note_rewrite(made: Iterable[oir.Node], name: str, replaced: Iterable[oir.Node]) -> None:
    """Notes that a rewrite has made nodes instead of others, with the rewrites of those."""
    names = {name: None}
    for node in replaced:
        names.update(dict.fromkeys(rewrites_of(node)))
    for node in made:
        node.meta[_REWRITES] = tuple(dict.fromkeys((*rewrites_of(node), *names)))


def rewrites_of(node: oir.Node) -> tuple[str, ...]:
    """The names of the rewrites that led to a node, the last one first."""
    found: tuple[str, ...] = node.meta.data.get(_REWRITES, ())
    return found
