"""Transposes sink to their readers until they meet another one, perhaps their inverse.

JAX programs keep channels last, ONNX convolutions second. The Transpose after one layer cancels the
Transpose before the next.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.op_families import BROADCASTING, UNARY
from hlo2onnx.ir.values import Shape, const_ints, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, Rule, need, needed
from hlo2onnx.raising.match.axis_layouts import splits
from hlo2onnx.raising.match.reductions import REDUCTIONS, keeps_axes, reduced_axes
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of
from hlo2onnx.raising.rules.shapes.reshape import moves_units_only, with_moved_units

_MOVABLE_PAST = BROADCASTING | UNARY | REDUCTIONS | RESHAPES
_MOVABLE_PAST |= {"Clip", "Concat", "Pad", "Slice", "Transpose"}


def _inverse(perm: Sequence[int]) -> list[int]:
    return [int(axis) for axis in np.argsort(perm)]


def _transposed(value: oir.Value | None) -> tuple[oir.Value, list[int]] | None:
    """x and p of Transpose(x, p), if the Transpose can sink past all its readers. A constant is
    transposed to suit the others instead."""
    node = None if value is None else value.producer()
    if value is None or node is None or node.op_type != "Transpose" or value.is_graph_output():
        return None
    if first(node).const_value is not None:
        return None
    readers = value.consumers()
    if len(readers) > 1 and not all(reader.op_type in _MOVABLE_PAST for reader in readers):
        return None
    perm = list(node.attributes["perm"].as_ints())
    if perm[-1] != len(perm) - 1 and any(_normalizes_rows(value, reader) for reader in readers):
        return None
    return first(node), perm


def _normalizes_rows(x: oir.Value, reader: oir.Node) -> bool:
    """Whether a node begins a LayerNormalization or RMSNormalization of x: the mean of x, or of its
    squares, along the last axis, used in further arithmetic.

    These operators need the axis last, so a Transpose that moves it there stays in front.
    """
    if reader.op_type == "Mul" and set(reader.inputs) == {x}:
        squares = reader.outputs[0]
        return any(_normalizes_rows(squares, user) for user in squares.consumers())
    if reader.op_type not in ("ReduceMean", "ReduceSum"):
        return False
    axes = const_ints(reader.inputs[1]) if len(reader.inputs) > 1 else None
    if axes is None or [axis % rank_of(x) for axis in axes] != [rank_of(x) - 1]:
        return False
    mean, divided = reader.outputs[0], reader.op_type == "ReduceMean"
    while len(users := mean.consumers()) == 1 and users[0].op_type in RESHAPES | {"Div", "Expand"}:
        divided |= users[0].op_type == "Div"
        mean = users[0].outputs[0]
    computes = RESHAPES | {"Add", "Expand", "Mul", "Neg", "Sub"}
    return divided and bool(users) and {user.op_type for user in users} <= computes


class ComposeTransposes(Rule):
    """Transpose(Transpose(x, p), q) -> Transpose(x, p after q)"""

    name = "compose-transposes"
    anchors = frozenset({"Transpose"})
    sources = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        inner = needed(maker_of(first(node), "Transpose"), "its operand is not a Transpose")
        before, after = inner.attributes["perm"].as_ints(), node.attributes["perm"].as_ints()
        return b.transpose(first(inner), [before[axis] for axis in after])


class SinkTranspose(Rule):
    """Add(Transpose(x), Transpose(y)) -> Transpose(Add(x, y)), likewise for elementwise operators
    and Concat; ReduceMean(Transpose(x), a) -> ReduceMean(x, a'), transposed if still needed;
    Pad(Transpose(x), pads) -> Transpose(Pad(x, pads')); Slice(Transpose(x), axes) ->
    Transpose(Slice(x, axes')); Reshape(Transpose(x)) -> Transpose(Reshape(x)) where the Reshape
    only splits or only joins axes, such as groups of channels

    The other operands of elementwise operators and of Concat must be transposed alike, constant, or
    such that the inverse moves only axes of extent 1. One operand of an elementwise operator may be
    any other value, which is transposed back, if all paths from the result lead to the inverse
    Transpose. For example, attention adds its result to an image between two convolutions. So may
    one of a Concat that only Transposes read, one of them the inverse, as where keys are appended
    to a cache. Pads and axes must be known, and joined axes follow each other in x too.
    """

    name = "sink-transpose"
    formerly = (
        "late-transpose", "sink-transpose-reduce", "reduce-transposed", "sink-transpose-concat",
        "concat-transposed", "sink-transpose-pad", "pad-transposed", "sink-transpose-slice",
        "slice-transposed", "sink-transpose-split-axes", "split-transposed",
        "sink-transpose-join-axes",
    )  # fmt: skip
    anchors = _MOVABLE_PAST - {"Transpose"}
    sources = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        if node.op_type not in _OF_ONE:
            return _of_several(node, b)
        x, perm = needed(_transposed(first(node)), "its operand is not transposed", node)
        made, order = _OF_ONE[node.op_type](node, x, perm, b)
        return b.transpose(made, order)


def _of_several(node: oir.Node, b: Rewriter) -> oir.Value:
    """An elementwise operator or a Concat."""
    perm = needed(
        next((found[1] for x in node.inputs if (found := _transposed(x))), None),
        "no operand is transposed",
        node,
    )
    need(len(perm) == rank_of(node.outputs[0]), "its result has more axes", node)
    others = [x for x in node.inputs if x is not None and _is_other(x, perm)]
    is_concat, result = node.op_type == "Concat", node.outputs[0]
    leads_back = _is_read_transposed if is_concat else _is_transposed_back
    joins = len(others) == 1 and leads_back(result, perm)
    earlier: list[oir.Value | None] = []
    for x in node.inputs:
        if x is not None and joins and x is others[0]:
            earlier.append(b.transpose(x, _inverse(perm)))
        else:
            earlier.append(None if x is None else _earlier(x, perm, b))
    if is_concat:
        axis = perm[node.attributes["axis"].as_int() % len(perm)]
        return b.transpose(b.concat([x for x in earlier if x is not None], axis), perm)
    return b.transpose(b.like(node, earlier), perm)


MOST_BETWEEN = 64
"""Nodes between an image and the convolutions that depend on it: a limit on compile time, not a
cost."""


def _is_other(x: oir.Value, perm: list[int]) -> bool:
    """Whether a value of this rank is computed and not transposed alike."""
    found = _transposed(x)
    computed = x.const_value is None and rank_of(x) == len(perm)
    return computed and (found is None or found[1] != perm) and 1 not in shape_of(x)[1:]


def _is_read_transposed(value: oir.Value, perm: list[int]) -> bool:
    """Whether only Transposes read a value, one of them the inverse of a permutation."""
    readers = value.consumers()
    if value.is_graph_output() or any(reader.op_type != "Transpose" for reader in readers):
        return False
    orders = [list(reader.attributes["perm"].as_ints()) for reader in readers]
    return _inverse(perm) in orders


def _is_transposed_back(value: oir.Value, perm: list[int]) -> bool:
    """Whether a permutation moves the channels of images to the end, and all paths from a value
    lead to its inverse through nodes that a Transpose can pass.

    With one axis besides the channels it is its own inverse: two Transposes would take turns.
    """
    back, seen, pending = _inverse(perm), {value}, [value]
    if len(perm) < 4 or perm != [0, *range(2, len(perm)), 1]:
        return False
    while pending:
        here = pending.pop()
        if here.is_graph_output() or not here.uses() or len(seen) > MOST_BETWEEN:
            return False
        for reader in here.consumers():
            result = reader.outputs[0]
            if reader.op_type == "Transpose" and rank_of(result) == len(perm):
                if list(reader.attributes["perm"].as_ints()) != back:
                    return False
            elif reader.op_type not in _MOVABLE_PAST | {"Expand", "Gather", "Resize"}:
                return False
            elif result not in seen:
                seen.add(result)
                pending.append(result)
    return True


def _earlier(x: oir.Value, perm: list[int], b: Rewriter) -> oir.Value:
    """x before the permutation."""
    found = _transposed(x)
    if found is not None and found[1] == perm:
        return found[0]
    if all(dim == 1 for dim in shape_of(x)):
        return x
    whole: Shape = (1,) * (len(perm) - rank_of(x)) + shape_of(x)
    back = _inverse(perm)
    is_free = moves_units_only(whole, back)
    cheap = is_free or x.const_value is not None
    need(cheap and b.reshapes_at_once(x, whole), "another operand is computed", x)
    reshaped = b.reshape(x, whole)
    # A Transpose could sink again and undo this.
    return with_moved_units(reshaped, back, b) if is_free else b.transpose(reshaped, back)


Past = tuple[oir.Value, list[int]]
"""What is transposed then, and the permutation."""


def _reduce(node: oir.Node, x: oir.Value, perm: list[int], b: Rewriter) -> Past:
    axes = sorted(perm[axis] for axis in reduced_axes(node))
    keepdims = keeps_axes(node)
    reduced = b.op(node.op_type, x, b.i64(axes), keepdims=int(keepdims))
    if keepdims:
        return reduced, perm
    left = [axis for axis in perm if axis not in axes]
    return reduced, [sorted(left).index(axis) for axis in left]


def _pad(node: oir.Node, x: oir.Value, perm: list[int], b: Rewriter) -> Past:
    pads = needed(const_ints(node.inputs[1]), "its pads are computed", node)
    need(len(node.inputs) < 4 or node.inputs[3] is None, "it pads some axes only", node)
    places = [side + place for side in (0, len(perm)) for place in _inverse(perm)]
    inputs = [x, b.i64([pads[place] for place in places]), *node.inputs[2:3]]
    return b.like(node, inputs), perm


def _slice(node: oir.Node, x: oir.Value, perm: list[int], b: Rewriter) -> Past:
    given = const_ints(node.inputs[3]) if len(node.inputs) > 3 else None
    axes = needed(given, "its axes are not known", node)
    moved = b.axes_beside(node.inputs[1], [perm[axis % len(perm)] for axis in axes])
    dims = tuple(shape_of(node.outputs[0])[place] for place in _inverse(perm))
    inputs = [x, *node.inputs[1:3], moved, *node.inputs[4:]]
    return b.like(node, inputs, [(dtype_of(x), dims)]), perm


def _reshape(node: oir.Node, x: oir.Value, perm: list[int], b: Rewriter) -> Past:
    old, new = shape_of(first(node)), shape_of(node.outputs[0])
    if len(new) > len(old):
        groups = splits(old, new)
        parts = [[new[axis] for axis in group] for group in groups]
        # The position of each axis of the result in the reshaped x.
        order = [axis for place in _inverse(perm) for axis in groups[place]]
    else:
        groups = [[perm[axis] for axis in group] for group in splits(new, old)]
        parts = [[shape_of(x)[axis] for axis in group] for group in groups]
        follow = all(group == list(range(group[0], group[-1] + 1)) for group in groups)
        need(follow, "it joins axes that are apart before the Transpose", node)
        order = sorted(range(len(groups)), key=lambda place: groups[place][0])
    real = any(sum(dim != 1 for dim in part) > 1 for part in parts)
    need(real, "it only adds or removes axes of extent 1", node)
    dims = [new[axis] for axis in order]
    need(b.reshapes_at_once(x, dims), "its shape is computed at run time", node)
    return b.reshape(x, dims), _inverse(order)


_OF_ONE: Mapping[str, Callable[[oir.Node, oir.Value, list[int], Rewriter], Past]] = {
    **dict.fromkeys(REDUCTIONS, _reduce),
    **dict.fromkeys(RESHAPES, _reshape),
    "Pad": _pad,
    "Slice": _slice,
}
"""Operators that a Transpose of their only tensor can pass."""
