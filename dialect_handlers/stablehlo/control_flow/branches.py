"""if and case: one of several regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import onnx_ir as oir

from dialect_handlers.common.subgraphs import grouped, set_outputs
from dialect_handlers.common.tensors import flat
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.ranges import range_of_type
from hlo2onnx.ir.values import dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

Branch = Callable[[], list[Parts]]
"""Emits a branch."""


@handles("stablehlo.if", form="any")
def if_(em: Emitter, op: Op) -> list[Parts]:
    """if(pred, true_branch, false_branch) -> If."""
    then, otherwise = (partial(em.inline, op.block(region), []) for region in range(2))
    return _if(em, op, em.operand(op), then, otherwise)


@handles("stablehlo.case", form="any")
def case(em: Emitter, op: Op) -> list[Parts]:
    """case(index, branches) -> If; a balanced tree of Ifs for more than two branches.

    An index out of range takes the last branch.
    """
    branches = [partial(em.inline, op.block(region), []) for region in range(op.block_count)]
    index, last = em.operand(op), len(branches) - 1
    if len(branches) == 2:
        predicate = _predicate(index)
        if predicate is not None:
            return _if(em, op, predicate, *branches[::-1])
        return _if(em, op, em.Equal(index, em.scalar_like(0, index)), *branches)
    bounds = em.facts.int_range(index) or range_of_type(dtype_of(index))
    if bounds.low < 0 and last:
        end = em.scalar_like(last, index)
        index = em.Where(em.Less(index, em.scalar_like(0, index)), end, index)
    return _choose(em, op, index, 0, branches)


def _predicate(index: oir.Value) -> oir.Value | None:
    """The boolean from which `lax.cond` made an index."""
    node = index.producer()
    if node is None or node.op_type != "Cast" or node.inputs[0] is None:
        return None
    return node.inputs[0] if dtype_of(node.inputs[0]) == oir.DataType.BOOL else None


def _choose(
    em: Emitter, op: Op, index: oir.Value, first: int, branches: Sequence[Branch]
) -> list[Parts]:
    """The branch of this number, counted from `first`; for a greater number, the last branch."""
    if len(branches) == 1:
        return branches[0]()
    half = len(branches) // 2
    return _if(
        em,
        op,
        em.Less(index, em.scalar_like(first + half, index)),
        partial(_choose, em, op, index, first, branches[:half]),
        partial(_choose, em, op, index, first + half, branches[half:]),
    )


def _if(
    em: Emitter,
    op: Op,
    condition: oir.Value,
    then: Branch,
    otherwise: Branch,
) -> list[Parts]:
    """If, with branches that these functions emit; no node if it has no results. In a scalar region
    applied to tensors each element chooses its branch."""
    known = em.facts.truth(condition)
    if known is not None:
        return (then if known else otherwise)()
    types = [result.type for result in op.results]
    if not any(map(parts_of, types)):
        return [() for _ in types]
    if em.context.in_scalar_region:
        pairs = zip(flat(then()), flat(otherwise()), strict=True)
        return grouped([em.Where(condition, one, other) for one, other in pairs], types)
    graphs = []
    for name, emit in (("then", then), ("else", otherwise)):
        with em.subgraph([], f"{em.scope}/{name}") as graph:
            set_outputs(em, graph, flat(emit()))
        graphs.append(graph)
    count = len(graphs[0].outputs)
    made = em.outputs(
        "If", condition, then_branch=graphs[0], else_branch=graphs[1], n_outputs=count
    )
    return grouped(made, types)
