"""Notes on values and nodes: where they come from, their scopes, and half types computed in f32."""

from __future__ import annotations

import functools
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple, TypeAlias

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import const_number, const_of, dtype_of, noted

Path: TypeAlias = tuple[int, ...]
"""The place of an op in a program. The numbers are in turn the index of an op in its block, and the
region of this op that the next op is in. `CALLEE` instead of a region is the body of the called
function. `ARGUMENTS` instead of the last op means the arguments of the block."""

CALLEE = -1
ARGUMENTS = -1

STACKED = -1
"""Instead of a trip number: all trips, along the first axis."""

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
            trip number, or `STACKED`.
        view: Transpositions (by a permutation) and reshapes (to a shape) that make the content of
            the ONNX value from that of the program's value.
    """

    path: tuple[int, ...]
    number: int
    part: int = 0
    parts: int = 1
    trips: tuple[tuple[tuple[int, ...], int], ...] = ()
    view: tuple[tuple[str, tuple[int, ...]], ...] = ()


def note_held(path: Path, number: int, parts: tuple[oir.Value, ...]) -> None:
    """Notes that these ONNX values hold one value of the program."""
    for part, value in enumerate(parts):
        held = Held(path, number, part, len(parts))
        value.meta.data.setdefault(HELD, []).append(held)


def held_by(value: oir.Value) -> list[Held]:
    """The values of the program that an ONNX value holds. All of them are equal."""
    return noted(value, HELD) or []


def hold_also(old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` holds what `old` holds."""
    if old is not new and (held := noted(old, HELD)):
        new.meta.data.setdefault(HELD, []).extend(held)


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
    """Notes the loop of the program to which a trip number, an input of a body, belongs."""
    if path is not None:
        number.meta[_LOOP] = path


def hold_trip(number: oir.Value, trip: int, old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` holds what `old`, a value of a loop's body, holds in one trip.

    Args:
        number: The trip number, an input of the body.
        trip: Its value, or `STACKED`.
    """
    loop, held = noted(number, _LOOP), held_by(old)
    if loop is None or not held or new.const_value is not None:
        return
    known = new.meta.setdefault(HELD, [])
    for item in held:
        inside = item.path[: len(loop)] == loop and len(item.path) > len(loop)
        if inside and (trip != STACKED or not item.view):
            at_trip = item._replace(trips=(*item.trips, (loop, trip)))
            if at_trip not in known:
                known.append(at_trip)


def note_rewrite(made: Iterable[oir.Node], name: str, replaced: Iterable[oir.Node]) -> None:
    """Notes that a rewrite has made nodes instead of others, with the rewrites of those."""
    names = [name, *(each for node in replaced for each in rewrites_of(node))]
    for node in made:
        node.meta.data[_REWRITES] = tuple(dict.fromkeys((*names, *rewrites_of(node))))


def rewrites_of(node: oir.Node) -> tuple[str, ...]:
    """The names of the rewrites that led to a node, the last one first."""
    return noted(node, _REWRITES) or ()


_ORIGIN = "hlo2onnx.origin"
_SUCCESSOR = "hlo2onnx.successor"


def note_origin(value: oir.Value, op_name: str, operands: Sequence[oir.Value]) -> None:
    """Notes that `value` is the result of an op, such as chlo.erfc, on these operands."""
    value.meta[_ORIGIN] = (op_name, tuple(operands))


def origin_of(value: oir.Value) -> tuple[str, tuple[oir.Value, ...]] | None:
    """The op and its current operands, if the op was noted."""
    known = noted(value, _ORIGIN)
    return None if known is None else (known[0], tuple(map(_latest, known[1])))


def succeed(old: oir.Value, new: oir.Value) -> None:
    """Notes that `new` has taken the place of `old`, which it equals."""
    notes = old.meta.data
    notes[_SUCCESSOR] = new
    hold_also(old, new)
    for note, item in notes.items():
        if note not in (_SUCCESSOR, HELD):
            new.meta.data.setdefault(note, item)


def _latest(value: oir.Value) -> oir.Value:
    while (successor := noted(value, _SUCCESSOR)) is not None:
        value = successor
    return value


HALF_TYPES = frozenset({oir.DataType.BFLOAT16, oir.DataType.FLOAT16})

_EXACT = frozenset(
    {"Abs", "Clip", "Compress", "Concat", "DepthToSpace", "Expand", "Flatten", "Gather",
     "GatherElements", "GatherND", "Identity", "If", "Loop", "Max", "MaxPool", "Min", "Neg", "Pad",
     "ReduceMax", "ReduceMin", "Relu", "Reshape", "ReverseSequence", "Scan", "ScatterElements",
     "ScatterND", "Slice", "SpaceToDepth", "Split", "Squeeze", "TensorScatter", "Tile", "Transpose",
     "Trilu", "Unsqueeze", "Where"}
)  # fmt: skip
"""Operators that do not round: each element of the result is one of an operand, up to its sign."""

_SELECTING = frozenset({"none", "max", "min"})
"""Reductions of updates that do not round, unlike sums and products."""

_KEPT = "hlo2onnx.kept_rounding"
_UNROUNDED = "hlo2onnx.unrounded"
_HALF_TYPE = "hlo2onnx.half_type"
_HALF_CONSTANTS = "hlo2onnx.half_constants"
_HALF_NUMBERS = "hlo2onnx.half_numbers"


def keep_rounding(value: oir.Value) -> oir.Value:
    """Notes that a Cast makes this value of a rounded number, or rounds, also if others do not.

    Examples are reduce_precision, and numbers that become integers or are sorted.
    """
    value.meta[_KEPT] = True
    return value


def is_kept(value: oir.Value) -> bool:
    """Whether `keep_rounding` noted the value."""
    return noted(value, _KEPT) is not None


def is_exact(node: oir.Node) -> bool:
    """Whether a node does not round: the elements of its results are those of its operands."""
    return node.op_type in _EXACT and node.attributes.get_string("reduction", "none") in _SELECTING


def note_half_type(value: oir.Value, dtype: oir.DataType) -> None:
    """Notes the half type that an f32 value has in the program."""
    value.meta[_HALF_TYPE] = dtype


def note_left_out(node: oir.Node) -> None:
    """Notes that the program rounds the result of a node to a half type, and the model does not."""
    node.meta[_UNROUNDED] = True


def merges_unrounded(made: Iterable[oir.Node], replaced: Iterable[oir.Node]) -> bool:
    """Whether a rewrite merges several nodes that `note_left_out` noted; notes those in their
    place."""
    unrounded = sum(bool(noted(node, _UNROUNDED)) for node in replaced)
    if unrounded:
        for node in made:
            if not is_exact(node):
                note_left_out(node)
    return unrounded > 1


def half_type(value: oir.Value) -> oir.DataType | None:
    """The half type that an f32 value has in the program; None for others."""
    found: oir.DataType | None = noted(value, _HALF_TYPE)
    return found


def note_half_constant(graph: oir.Graph, value: oir.Value, is_approximate: bool) -> None:
    """Notes that a graph has a constant of a half type.

    Args:
        is_approximate: Whether it also stands for the numbers that round to it.
    """
    array, dtype = const_of(value), dtype_of(value)
    if array is None:
        return
    graph.meta.setdefault(_HALF_CONSTANTS, set()).add(dtype)
    if is_approximate and array.size == 1:
        numbers: dict[float, set[oir.DataType]] = graph.meta.setdefault(_HALF_NUMBERS, {})
        numbers.setdefault(abs(float(array.reshape(()))), set()).add(dtype)


def half_constants(graph: oir.Graph) -> frozenset[oir.DataType]:
    """The half types of constants that `note_half_constant` noted."""
    return frozenset(graph.meta.get(_HALF_CONSTANTS, ()))


def is_rounding_of(value: oir.Value, number: float) -> bool:
    """Whether a constant is a number that the program has in a half type, to which it rounds.

    The constant may be its negative. False in models that keep the roundings of half types.
    """
    found = const_number(value)
    if found is None or value.graph is None:
        return False
    known: Mapping[float, set[oir.DataType]] = value.graph.meta.get(_HALF_NUMBERS, {})
    return any(
        float(np.asarray(number).astype(dtype.numpy())) == found
        for dtype in known.get(abs(float(found)), ())
    )


_STRUCTURE = re.compile(r"while|body|cond|scan|branch_\d+_fun|closed_call|call|eval_jaxpr")
"""Segments that JAX makes for control flow."""
_RULES = re.compile(r"checkpoint|remat\d*|custom_[jv]+p_call")
_WRAPPED = re.compile(r"(p?jit|vmap)\((.*)\)")
_TRANSFORM = re.compile(r"\w+\((.*)\)")
_OF_NO_NAME = re.compile(r"<.*>")


@functools.lru_cache(maxsize=4096)  # an op asks twice, and each use of a function has the same ops
def split_scope(scope: str) -> tuple[str, ...]:
    """Splits a name stack at the slashes outside of parentheses."""
    segments, depth, start = [], 0, 0
    for position, char in enumerate(scope):
        if char == "(":
            depth += 1
        elif char == ")":
            depth -= 1
        elif char == "/" and depth <= 0:
            segments.append(scope[start:position])
            start = position + 1
    segments.append(scope[start:])
    return tuple(segment for segment in segments if segment)


def common_callers(nodes: Iterable[Mapping[str, str]]) -> int:
    """Count of the outermost functions that the call stacks of all nodes share, except the last
    one.

    These functions called JAX; they are not part of the program.

    Args:
        nodes: The metadata of the nodes.
    """
    stacks = {stack for metadata in nodes if (stack := metadata.get("jax.stack"))}
    functions = [_functions(stack) for stack in stacks]
    # Positions at which all stacks have the same function; the first other one ends them.
    same = [len(set(places)) == 1 for places in zip(*functions, strict=False)]
    return max([*same, False].index(False) - 1, 0)


def scope_of(name: str, metadata: Mapping[str, str], callers: int = 0) -> tuple[str, ...]:
    """The scope of a node, the outermost part first.

    These are the named scopes and modules in the name of the node, without the parts that JAX adds
    for control flow, transformations and einsum. If there are none, these are the functions on the
    call stack of the node.

    Args:
        name: The name of the node ("Net/Dense_0/add").
        metadata: Its metadata, with `jax.stack` and `jax.source`.
        callers: Count of the outermost functions to leave out.
    """
    parts = [part for segment in split_scope(name)[:-1] if (part := _part(segment)).text]
    if all(part.is_jit for part in parts):
        functions = _functions(metadata.get("jax.stack", ""))[callers:]
        inner = [part.text for part in parts if part.text not in functions]
        return (*functions, *inner) or tuple(filter(None, [metadata.get("jax.source", "")]))
    return tuple(part.text for part in parts)


class _Part(NamedTuple):
    """A part of a name stack: its text, or "" if users have not named it, and whether it is the
    name of a jitted function."""

    text: str
    is_jit: bool


def _part(segment: str) -> _Part:
    is_jit, text = False, segment
    while match := _WRAPPED.fullmatch(text):
        is_jit = is_jit or match[1] != "vmap"
        text = match[2]
    inner = text
    while match := _TRANSFORM.fullmatch(inner):  # "transpose(jvp(Net))"
        inner = match[1]
    is_structure = _STRUCTURE.fullmatch(text) or _RULES.fullmatch(text) or "->" in text
    return _Part("" if is_structure or not inner else text, is_jit)


def _functions(stack: str) -> list[str]:
    """The functions of a call stack, the outermost first. Lambdas have no names."""
    found: list[str] = []
    for line in reversed(stack.splitlines()):
        _, known, function = line.partition(" in ")
        parts = [part for part in function.split(".") if not _OF_NO_NAME.fullmatch(part)]
        if not known or not parts:
            continue
        last = parts[-2] if parts[-1] == "__call__" and len(parts) > 1 else parts[-1]
        if found[-1:] != [last]:
            found.append(last)
    return found


# -- quotients ----------------------------------------------------------------------------------

BY_RECIPROCAL = "hlo2onnx.by_reciprocal"
"""The key of quotients of the program, which XLA computes by 1 / c for a constant c."""


def note_quotient(node: oir.Node, copy: oir.Value) -> None:
    """Makes a copy of a quotient of the program one, too."""
    maker = copy.producer()
    if noted(node, BY_RECIPROCAL) and maker is not None:
        maker.meta[BY_RECIPROCAL] = True
