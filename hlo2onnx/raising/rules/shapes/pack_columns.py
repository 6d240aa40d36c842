"""Vectors that are computed component by component."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import product
from hlo2onnx.ir.values import shape_of, size_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, operands
from hlo2onnx.raising.vectorize.packing import Lanes, Packer, elements_before, moved
from hlo2onnx.rewrite.large_graphs import replace_input


class PackColumns(Rule):
    """Concat(a0 * b1 - a1 * b0, a1 * b2 - a2 * b1, ...) -> a * b[1, 2, 0] - a[1, 2, 0] * b

    Legal as each component is computed by the same operators in the same order. x - y in one
    component and x + y in another are x + sign * y. Done if fewer nodes run, and gathering the
    columns takes less than the nodes that are saved. Components that others read are split off the
    vector. All terms of a sum may be one product, of which a Split gives each. Cross products,
    products of quaternions, and rotations are written like this.
    """

    name = "pack-columns"
    anchors = frozenset({"Concat"})
    phase = 2

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        lanes, shape = tuple(operands(node)), shape_of(node.outputs[0])
        axis = node.attributes["axis"].as_int() % len(shape) - len(shape)
        need(all(shape_of(lane)[axis] == 1 for lane in lanes), "a part has several columns", node)
        need(len(lanes) > 1 and _is_computed(lanes), "the parts are not computed alike", node)
        tried = [_packed(b, node, lanes, axis, joins_terms) for joins_terms in (False, True)]
        forms = [form for form in tried if form is not None and form.saved > 0]
        need(forms, "it would have more nodes", node)
        per_node = b.costs.joined_elements_per_node
        forms = [form for form in forms if form.copied <= form.saved * per_node]
        need(forms, "it would gather more", node)
        pack = max(forms, key=lambda form: form.saved)
        packed, made, others = pack.packed, pack.made, pack.others
        if others:
            _move_before(node, [user for _, (user, _) in others], made, pack.read)
            sizes = b.i64([1] * len(lanes))
            with b.after(made[-1]):
                parts = b.outputs("Split", packed, sizes, axis=axis, n_outputs=len(lanes))
            for lane, (user, index) in others:
                replace_input(user, index, parts[lanes.index(lane)])
        return packed


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


def _packed(
    b: Rewriter, node: oir.Node, lanes: Lanes, axis: int, joins_terms: bool
) -> _Pack | None:
    """The vector of the lanes of a Concat; None if there are no terms to join.

    Raises:
        Refusal: The lanes do not fit together.
    """
    shape = shape_of(node.outputs[0])
    packer, results = _packer(b, lanes, axis)
    packer.joins_terms = joins_terms
    try:
        packed = packer.pack(results)
    except Refusal:
        if joins_terms:
            return None
        raise
    dims = shape_of(packed)
    is_whole = len(dims) >= -packer.axis and dims[packer.axis] == len(lanes)
    need(is_whole, "all parts are equal", node)
    before = elements_before(node.outputs[0], axis)
    if elements_before(packed, packer.axis) != before:
        packed, _ = moved(b, packed, len(shape_of(packed)) + packer.axis, before)
    packed = b.reshape(packed, shape)
    need(packer.read.isdisjoint(lanes), "a part is an operand of another", node)
    made = _living(b, packed)
    tried = set(b.made).difference(made)
    gone = _dead(node, set(lanes), tried)
    unneeded = gone | tried
    others = [(lane, use) for lane in lanes for use in lane.uses() if use[0] not in unneeded]
    saved = len(gone) - len(made) - bool(others)
    return _Pack(packed, made, packer.read, others, saved)


def _is_computed(lanes: Lanes) -> bool:
    """Whether two of the lanes are results of operators, perhaps reshaped."""
    makers = [maker.op_type for lane in lanes[:2] if (maker := _unreshaped(lane).producer())]
    return len(makers) == 2 and not {"Split", "Slice", "Gather", "Concat"}.intersection(makers)


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


def _living(b: Rewriter, packed: oir.Value) -> list[oir.Node]:
    """The new nodes that the pack needs, without those that were tried."""
    made, pending = set(b.made), [packed]
    found: dict[oir.Node, None] = {}
    while pending:
        node = pending.pop().producer()
        if node is not None and node in made and node not in found:
            found[node] = None
            pending.extend(operands(node))
    return [node for node in b.made if node in found]


def _dead(concat: oir.Node, replaced: set[oir.Value], tried: set[oir.Node]) -> set[oir.Node]:
    """The nodes that nothing needs without a Concat.

    Args:
        replaced: Values that other readers get from elsewhere.
        tried: New nodes that nothing needs.
    """
    gone, pending = {concat}, [concat]
    while pending:
        for maker in _makers(pending.pop()):
            if (
                maker not in gone
                and maker.graph is concat.graph
                and _is_dead(maker, gone | tried, replaced)
            ):
                gone.add(maker)
                pending.append(maker)
    return gone


def _makers(node: oir.Node) -> Iterator[oir.Node]:
    for x in node.inputs:
        maker = None if x is None else x.producer()
        if maker is not None:
            yield maker


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
    need(all(reader.graph is graph for reader in readers), "other graphs read a part", concat)
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
