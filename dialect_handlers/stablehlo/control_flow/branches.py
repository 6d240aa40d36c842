"""if and case: one of several regions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

import onnx_ir as oir

from dialect_handlers.common.subgraphs import (
    flat,
    grouped,
    known_integer,
    set_outputs,
)
from hlo2onnx.graph.values import dtype_of
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.mlir.types import parts_of


@handles("stablehlo.if", form="any")
def if_(em: Emitter, op: Op) -> list[Parts]:
    """if(pred, true_branch, false_branch) -> If."""
    known = known_integer(em, op.operands[0])
    if known is not None:
        return em.inline(op.block(0 if known else 1), [])
    return _either(em, op, em.operand(op), op.block(0), op.block(1))


@handles("stablehlo.case", form="any")
def case(em: Emitter, op: Op) -> list[Parts]:
    """case(index, branches) -> If, in a balanced tree of comparisons where there are many; an
    index that no branch has takes the last one."""
    branches = [op.block(region) for region in range(op.block_count)]
    known = known_integer(em, op.operands[0])
    if known is not None:
        return em.inline(branches[int(known) if 0 <= known < len(branches) else -1], [])
    index = em.operand(op)
    if len(branches) == 2:
        predicate = _predicate(index)
        if predicate is not None:
            return _either(em, op, predicate, branches[1], branches[0])
        return _either(em, op, em.Equal(index, em.scalar_like(0, index)), *branches)
    bounds = em.facts.int_range(index)
    if len(branches) > 1 and (bounds is None or bounds.low < 0):
        last = em.scalar_like(len(branches) - 1, index)
        index = em.Where(em.Less(index, em.scalar_like(0, index)), last, index)
    return _choose(em, op, index, branches, 0)


def _predicate(index: oir.Value) -> oir.Value | None:
    """The boolean that an index was made of, as `lax.cond` does."""
    node = index.producer()
    if node is None or node.op_type != "Cast" or node.inputs[0] is None:
        return None
    return node.inputs[0] if dtype_of(node.inputs[0]) == oir.DataType.BOOL else None


def _choose(
    em: Emitter, op: Op, index: oir.Value, branches: Sequence[Any], first: int
) -> list[Parts]:
    """The branch at position `index - first`, which is not negative."""
    if len(branches) == 1:
        return em.inline(branches[0], [])
    half = len(branches) // 2
    return _if(
        em,
        op,
        em.Less(index, em.scalar_like(first + half, index)),
        partial(_choose, em, op, index, branches[:half], first),
        partial(_choose, em, op, index, branches[half:], first + half),
    )


def _either(em: Emitter, op: Op, condition: oir.Value, then: Any, otherwise: Any) -> list[Parts]:
    return _if(em, op, condition, partial(em.inline, then, []), partial(em.inline, otherwise, []))


def _if(
    em: Emitter,
    op: Op,
    condition: oir.Value,
    then: Callable[[], list[Parts]],
    otherwise: Callable[[], list[Parts]],
) -> list[Parts]:
    """If, whose branches hold what these functions emit; nothing where it has no results. In a
    scalar region applied to tensors each element chooses for itself."""
    types = [result.type for result in op.results]
    if not any(map(parts_of, types)):
        return [() for _ in types]
    if em.walker.in_scalar_region:
        pairs = zip(flat(then()), flat(otherwise()), strict=True)
        return grouped([em.Where(condition, one, other) for one, other in pairs], types)
    graphs = []
    for name, emit in (("then", then), ("else", otherwise)):
        with em.subgraph([], f"{em.scope}/{name}") as graph:
            set_outputs(em, graph, flat(emit()))
        graphs.append(graph)
    count = len(graphs[0].outputs)
    made = em.op("If", condition, then_branch=graphs[0], else_branch=graphs[1], n_outputs=count)
    return grouped([made] if count == 1 else made, types)
