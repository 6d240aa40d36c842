"""Nodes that only read results of a branch move into both branches."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.evaluator import known_array
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_of, dtype_of, is_constant, origin, shape_of
from hlo2onnx.ir.weights import SMALL_ELEMENTS
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule
from hlo2onnx.raising.match.copies import copy_nodes, output_of
from hlo2onnx.raising.match.views import both_orders, operands
from hlo2onnx.raising.rules.algebra.simplification import FoldIdentityOperand
from hlo2onnx.rewrite.large_graphs import use_count
from hlo2onnx.rewrite.licm import is_repeatable
from hlo2onnx.rewrite.replace import remove_makers, replace

_LONGEST = 4
"""Nodes of a chain that move at once: a limit on the translation's time, no cost."""

_Outcome = oir.Value | np.ndarray


class SinkIntoBranches(Rule):
    """Not(If(c, p, False)) -> If(c, Not(p), True); If(c, 1, s) * x -> If(c, x, s * x)

    Legal because one branch runs, if nodes read nothing but its results and constants. Done for a
    node, or for a chain of nodes, if a branch runs fewer nodes than now, and no branch runs more:
    some become constants there, or one of their operands is the identity element. Solvers reset
    steps and flags in one branch like this.
    """

    name = "sink-into-branches"
    anchors = frozenset({"If"})
    # After `where-to-branch`.
    phase = 7

    def rewrite(self, node: oir.Node, b: Rewriter) -> Sequence[oir.Value]:
        readers = dict.fromkeys(user for x in node.outputs for user in x.consumers())
        chain = next(filter(None, (_chain(node, reader) for reader in readers)), None)
        if chain is None:
            raise Refusal("no branch runs less if it runs what reads the results", node)
        for branch in subgraphs(node):
            with b.at_end(branch):
                branch.outputs.append(output_of(b, branch, _sunk(b, node, branch, chain)))
        types = [(dtype_of(x), shape_of(x)) for x in (*node.outputs, chain[-1].outputs[0])]
        graphs = {name: item.as_graph() for name, item in node.attributes.items()}
        *results, last = b.node("If", node.inputs, graphs, types)
        before = operands(chain[-1])
        replace(chain[-1], [last])
        remove_makers(before)
        return results


def _sunk(b: Rewriter, node: oir.Node, branch: oir.Graph, chain: Sequence[oir.Node]) -> oir.Value:
    """Writes a chain at the end of a branch of an If; returns its result there."""
    values = dict(zip(node.outputs, branch.outputs, strict=True))
    for each, outcome in _outcomes(node, branch, chain).items():
        if outcome is None:
            copy_nodes(b, [each], values)
        else:
            result = outcome if isinstance(outcome, oir.Value) else b.const(outcome)
            values[each.outputs[0]] = result
    return values[chain[-1].outputs[0]]


def _chain(node: oir.Node, reader: oir.Node) -> list[oir.Node] | None:
    """The shortest chain of nodes from a reader of an If on that is worth to move."""
    chain: list[oir.Node] = []
    while len(chain) < _LONGEST and _may_move(node, reader, chain):
        chain.append(reader)
        if _is_worth(node, chain):
            return chain
        result = reader.outputs[0]
        if use_count(result) != 1 or result.is_graph_output():
            return None
        (reader,) = result.consumers()
    return None


def _may_move(node: oir.Node, reader: oir.Node, chain: Iterable[oir.Node]) -> bool:
    """Whether a node reads only results of an If and of a chain, and constants."""
    if reader.graph is not node.graph or len(reader.outputs) != 1 or not is_repeatable(reader):
        return False
    # Runtimes fuse a Transpose with a product in the same graph. An Identity makes a result of the
    # graph that equals another one.
    if subgraphs(reader) or reader.op_type in ("Identity", "Transpose") or None in reader.inputs:
        return False
    known = {*node.outputs, *(each.outputs[0] for each in chain)}
    return all(x in known or is_constant(x) for x in operands(reader))


def _is_worth(node: oir.Node, chain: Sequence[oir.Node]) -> bool:
    """Whether a branch runs fewer nodes than now with the chain, and no branch more."""
    after = []
    for branch in subgraphs(node):
        outcomes = _outcomes(node, branch, chain)
        made = sum(outcome is None for outcome in outcomes.values())
        is_copied = isinstance(outcomes[chain[-1]], oir.Value)
        after.append(made + is_copied)
    return max(after) <= len(chain) and min(after) < len(chain)


def _outcomes(
    node: oir.Node, branch: oir.Graph, chain: Sequence[oir.Node]
) -> dict[oir.Node, _Outcome | None]:
    """What the nodes of a chain give in a branch of an If: a constant, the operand whose other
    operand is the identity element, or, for nodes that must run, None."""
    values: dict[oir.Value, _Outcome] = {}
    for x, inner in zip(node.outputs, branch.outputs, strict=True):
        known = known_array(inner, SMALL_ELEMENTS)
        values[x] = origin(inner) if known is None else np.asarray(known)
    found: dict[oir.Node, _Outcome | None] = {}
    for each in chain:
        found[each] = outcome = _outcome(each, values)
        if outcome is not None:
            values[each.outputs[0]] = outcome
    return found


def _outcome(node: oir.Node, values: Mapping[oir.Value, _Outcome]) -> _Outcome | None:
    """The same for one node.

    Args:
        values: What results of the If and of the chain are in the branch.
    """
    result = node.outputs[0]
    given = {x: known for x in operands(node) if isinstance(known := values.get(x), np.ndarray)}
    constant = known_array(result, SMALL_ELEMENTS, given)
    if constant is not None:
        return np.asarray(constant)
    item = FoldIdentityOperand.neutral.get(node.op_type)
    if item is None:
        return None
    for x, other in both_orders(node)[: 1 if node.op_type in ("Div", "Sub") else 2]:
        content, kept = given.get(other, const_of(other)), values.get(x)
        if content is None or not isinstance(kept, oir.Value):
            continue
        if _consists_of(content, item) and shape_of(kept) == shape_of(result):
            return kept
    return None


def _consists_of(content: np.ndarray, item: float) -> bool:
    """Whether all elements are a number, with its sign of 0 for floats."""
    is_float = not np.issubdtype(content.dtype, np.integer) and content.dtype != bool
    same_sign = not is_float or bool((np.signbit(content) == np.signbit(item)).all())
    return same_sign and bool((content == item).all())
