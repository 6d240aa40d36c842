"""Vectors that are computed component by component."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.traversal import replace_input
from hlo2onnx.ir.values import rank_of, shape_of, size_of, static_shape
from hlo2onnx.raising.engine import Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands
from hlo2onnx.raising.vectorize.packing import Lanes, Packer, elements_before

_MOVING = frozenset({"Concat", "Gather", "Slice", "Split"})
"""Operators whose columns the Concat may read directly."""


class PackColumns(Rule):
    """Concat(a0 * b1 - a1 * b0, a1 * b2 - a2 * b1, ...) -> a * b[1, 2, 0] - a[1, 2, 0] * b

    Legal as each component is computed by the same operators in the same order. x - y in one
    component and x + y in another are x + sign * y. Done if fewer nodes run, and gathering the
    columns takes less than the nodes that are saved. Components that others read are split off the
    vector. Cross products, products of quaternions, and rotations are written like this.
    """

    name = "pack-columns"
    anchors = frozenset({"Concat"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        lanes, rank = tuple(operands(node)), rank_of(node.outputs[0])
        axis = node.attributes["axis"].as_int() % rank - rank
        are_alike = len(lanes) > 1 and all(_may_be_alike(lanes[0], x, axis) for x in lanes)
        need(are_alike, "the parts are not computed alike, or have several columns", node)
        pack = _packed(b, node, lanes, axis)
        need(pack.saved > 0, "it would save no nodes", node)
        per_node = b.costs.joined_elements_per_node
        need(pack.copied <= pack.saved * per_node, "the gathers cost too much", node)
        packed, made, others = pack.packed, pack.made, pack.others
        if others:
            _move_before(node, [user for _, (user, _) in others], made, pack.read)
            sizes = b.i64([1] * len(lanes))
            with b.after(made[-1]):
                split = b.outputs("Split", packed, sizes, axis=axis, n_outputs=len(lanes))
            for lane, (user, index) in others:
                replace_input(user, index, split[lanes.index(lane)])
        return packed


def _may_be_alike(one: oir.Value, other: oir.Value, axis: int) -> bool:
    """Whether two parts are columns and results of operators that a vector may compute."""
    ops = [_operator(part) for part in (one, other)]
    is_column = all(shape_of(part)[axis] == 1 for part in (one, other))
    is_same = ops[0] == ops[1] or set(ops) == {"Add", "Sub"}
    return is_column and ops[0] is not None and is_same


def _operator(lane: oir.Value) -> str | None:
    """The operator that computes a lane, which may be reshaped; None if it is only moved."""
    maker = _unreshaped(lane).producer()
    return None if maker is None or maker.op_type in _MOVING else maker.op_type


@dataclass(frozen=True)
class _Pack:
    """A Concat that is computed as a vector.

    Attributes:
        packed: The vector, in the shape of the Concat.
        made: The new nodes that it needs.
        read: The values that it is computed from.
        others: Other uses of the lanes.
        saved: How many nodes fewer run.
    """

    packed: oir.Value
    made: list[oir.Node]
    read: set[oir.Value]
    others: Sequence[tuple[oir.Value, tuple[oir.Node, int]]]
    saved: int

    @property
    def copied(self) -> int:
        """The elements that new nodes copy."""
        copies = (one for one in self.made if one.op_type in ("Gather", "Concat", "Split"))
        return sum(size_of(x) or 0 for one in copies for x in one.outputs)


def _packed(b: Rewriter, node: oir.Node, lanes: Lanes, axis: int) -> _Pack:
    """The vector of the parts of a Concat.

    Raises:
        Refusal: The lanes do not fit together.
    """
    packer, results = _packer(b, lanes, axis)
    make = packer.pack(results)
    need(packer.read.isdisjoint(lanes), "a part is an operand of another", node)
    gone = _dead(node, packer.read)
    others = [(lane, use) for lane in lanes for use in lane.uses() if use[0] not in gone]
    most = len(gone) - bool(others)
    need(packer.least < most, "it would save no nodes", node)
    packed = make()
    dims = shape_of(packed)
    is_whole = len(dims) >= -packer.axis and dims[packer.axis] == len(lanes)
    need(is_whole, "all parts are equal", node)
    before = elements_before(node.outputs[0], axis)
    need(elements_before(packed, packer.axis) == before, "axes would change their order", node)
    packed = b.reshape(packed, shape_of(node.outputs[0]))
    made = list(b.made)
    return _Pack(packed, made, packer.read, others, most - len(made))


def _unreshaped(lane: oir.Value) -> oir.Value:
    node = maker_of(lane, *RESHAPES)
    return lane if node is None else first(node)


def _packer(b: Rewriter, lanes: Lanes, axis: int) -> tuple[Packer, Lanes]:
    """The packer for a Concat along an axis, and what it packs: the lanes, or what they reshape."""
    inner = tuple(map(_unreshaped, lanes))
    dims, have = shape_of(lanes[0]), static_shape(inner[0])
    is_reshaped = all(x is not lane for x, lane in zip(inner, lanes, strict=True))
    if not is_reshaped or have is None or any(shape_of(x) != have for x in inner):
        return Packer(b, axis, inserted=False), lanes
    place = len(dims) + axis
    if have == (*dims[:place], *dims[place + 1 :]):
        return Packer(b, axis, inserted=True), inner
    units = [k for k in reversed(range(len(have))) if have[k] == 1]
    in_place = [k for k in units if product(have[:k]) == product(dims[:place])]
    if not units:
        return Packer(b, axis, inserted=False), lanes
    return Packer(b, (in_place or units)[0] - len(have), inserted=False), inner


def _dead(concat: oir.Node, read: set[oir.Value]) -> set[oir.Node]:
    """The nodes that nothing needs without a Concat, and the Concat.

    Other readers get its parts from elsewhere.

    Args:
        read: Values that are needed.
    """
    replaced = set(operands(concat))
    gone, pending = {concat}, list(replaced)
    while pending:
        maker = pending.pop().producer()
        if (
            maker is not None
            and maker not in gone
            and maker.graph is concat.graph
            and read.isdisjoint(maker.outputs)
            and _is_dead(maker, gone, replaced)
        ):
            gone.add(maker)
            pending.extend(operands(maker))
    return gone


def _is_dead(node: oir.Node, gone: set[oir.Node], replaced: set[oir.Value]) -> bool:
    return all(
        not x.is_graph_output() and (x in replaced or all(user in gone for user in x.consumers()))
        for x in node.outputs
    )


def _move_before(
    concat: oir.Node,
    readers: list[oir.Node],
    made: list[oir.Node],
    read: set[oir.Value],
) -> None:
    """Moves new nodes from the Concat in front of the first of other readers.

    Raises:
        Refusal: What they read is not computed there, or the readers are in other graphs.
    """
    graph = concat.graph
    need(all(reader.graph is graph for reader in readers), "a part is read elsewhere", concat)
    assert isinstance(graph, oir.Graph)
    index = {one: place for place, one in enumerate(graph)}
    earliest = min(readers, key=index.__getitem__)
    if index[earliest] > index[made[0]]:
        return
    makers = (maker for x in read if (maker := x.producer()) is not None and maker.graph is graph)
    known = all(index[maker] < index[earliest] for maker in makers if maker not in made)
    need(known, "a part is read before another one can be computed", concat)
    for one in made:
        graph.remove(one)
        graph.insert_before(earliest, one)
