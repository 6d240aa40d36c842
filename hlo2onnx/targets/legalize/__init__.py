"""Legalization: makes every node one that the target can run and that gives the right numbers.

For a node without a kernel: a decomposition, where one is listed; else casts to the cheapest
carrier type in which the operator gives the same bits, and back. Then casts that cancel exactly
are removed. A kernel that gives wrong numbers is none, except where the facts about its operands
say that here it gives the right ones. Long float sums are split where the runtime adds naively,
maxima guarded where it loses NaN.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.errors import Refusal, TranslationError
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import attributes_of, dtype_of, shape_of
from hlo2onnx.report import Report
from hlo2onnx.rewrite.licm import hoist_invariants
from hlo2onnx.rewrite.replace import remove_unused, replace
from hlo2onnx.targets.decompositions import DECOMPOSITIONS
from hlo2onnx.targets.legalize.carriers import EXACT_IN_HALF, carriers_of
from hlo2onnx.targets.legalize.casts import (
    cast_path,
    cast_through,
    collapse_casts,
    holds,
    widen_before_transposing,
)
from hlo2onnx.targets.legalize.operand_types import (
    apart_from_outputs,
    carried_inputs,
    carried_outputs,
)
from hlo2onnx.targets.legalize.subgraph_types import carry_states
from hlo2onnx.targets.target import (
    OUTPUT,
    PAIR_PARAMETERS,
    Target,
    main_dtype,
    node_key,
    node_pairs,
)
from hlo2onnx.targets.workarounds.float_sums import split_long_sum
from hlo2onnx.targets.workarounds.fusions import (
    CONV_ADD,
    CONV_MUL,
    QUANTIZED_BIAS,
    keep_bias_apart,
    keep_factor_apart,
    keep_shift_apart,
    spell_out_normalization,
)
from hlo2onnx.targets.workarounds.int8_weights import MATMUL_DEQUANTIZE, spell_out_weights
from hlo2onnx.targets.workarounds.integer_reciprocal import DIV_MUL, spell_out_reciprocal
from hlo2onnx.targets.workarounds.matmul_scale import MATMUL_SCALE, spell_out_scale
from hlo2onnx.targets.workarounds.max_pool_padding import PAD, spell_out_axes
from hlo2onnx.targets.workarounds.operand_limits import is_right_here
from hlo2onnx.targets.workarounds.reduce_nan import guard_nan

__all__ = ["legalize"]

_STRUCTURAL = frozenset({"Constant", "If", "Loop", "Scan"})
"""Operators of every type (see `subgraph_types`); what is inside them is legalized on its own."""


def legalize(
    model: oir.Model, target: Target, half: str, report: Report, nan: str = "default"
) -> None:
    """Casts or decomposes, in place, the nodes that the target has no kernel for.

    Args:
        half: "xla" or "fast", see `hlo2onnx.options.Options.half`.
        nan: "runtime" leaves NaN to the target, see `hlo2onnx.options.Options.nan`.

    Raises:
        TranslationError: The target can run an operator on a type in no way; all of them.
    """
    opset = model.graph.opset_imports[""]
    builder = GraphBuilder(model.graph, opset)
    builder.adopt(model.graph)
    kernels = _Kernels(target, opset, half, Facts())
    refusals = []
    carry_states(model.graph, target, builder)
    if target.loses_nan and nan != "runtime":
        for node in all_nodes(model.graph):
            if node.op_type in ("ReduceMax", "ReduceMin"):
                guard_nan(node, builder, kernels.facts)
    pending = list(all_nodes(model.graph))
    _keep_apart(pending, target)
    while pending:
        made: list[oir.Node] = []
        for node in pending:
            builder.made.clear()
            if _respelled(node, target, builder):
                made += builder.made
                continue
            if node.domain or node.op_type in _STRUCTURAL or kernels.run(node):
                continue
            if _decompose(node, builder) or _carry(node, builder, kernels, report):
                made += builder.made
            else:
                refusals.append(_refusal(node, target))
        pending = made
    if refusals:
        raise TranslationError(refusals)
    collapse_casts(model.graph, opset)
    widen_before_transposing(model.graph, builder)
    hoist_invariants(model.graph)
    remove_unused(model.graph)


def _keep_apart(nodes: Iterable[oir.Node], target: Target) -> None:
    """Writes nodes so that the target does not fuse them, where that would be harmful."""
    for node in nodes:
        if node.op_type == "Mul" and CONV_MUL in target.harmful_fusions:
            keep_factor_apart(node)
        elif node.op_type == "Add" and CONV_ADD in target.harmful_fusions:
            keep_shift_apart(node)


def _respelled(node: oir.Node, target: Target, builder: GraphBuilder) -> bool:
    """Spells a node differently that the target runs badly for what stands around it."""
    if node.op_type in ("ReduceMean", "ReduceSum") and target.naive_sums:
        return split_long_sum(node, builder)
    fusions = target.harmful_fusions
    if node.op_type == "Div" and DIV_MUL in fusions and spell_out_reciprocal(node, builder):
        return True
    if node.op_type in ("Mul", "Div") and MATMUL_SCALE in fusions:
        return spell_out_scale(node, builder)
    if node.op_type == "Pad" and PAD in fusions:
        return spell_out_axes(node, builder)
    if node.op_type == "DequantizeLinear" and MATMUL_DEQUANTIZE in fusions:
        return spell_out_weights(node, builder)
    if node.op_type in ("Conv", "Gemm") and QUANTIZED_BIAS in fusions:
        return keep_bias_apart(node, builder)
    if node.op_type == "BatchNormalization":
        return spell_out_normalization(node, builder, fusions)
    return False


@dataclass(frozen=True)
class _Kernels:
    """What the target's kernels make of a node as it stands."""

    target: Target
    opset: int
    half: str
    facts: Facts

    def run(self, node: oir.Node) -> bool:
        """Whether the node can stay as it is."""
        return self.take(node) and not self.unmatched(node)

    def take(self, node: oir.Node) -> bool:
        """Whether there is a kernel for the main element type that gives the right numbers here.

        The runtime's own f16 kernels skip roundings between ops, so that f16 arithmetic goes
        through f32 and an explicit rounding, as bf16 does, unless `half` is "fast".
        """
        dtype, key = main_dtype(node), node_key(node)
        if dtype is None:
            return True
        if dtype == oir.DataType.FLOAT16 and self.half != "fast":
            return node.op_type in EXACT_IN_HALF and self.target.supports(key, dtype, self.opset)
        if self.target.supports(key, dtype, self.opset):
            return True
        return self.target.is_wrong(key, dtype, self.opset) and is_right_here(node, self.facts)

    def unmatched(self, node: oir.Node) -> list[tuple[str, oir.DataType, oir.DataType]]:
        """The `PAIR_PARAMETERS` whose element types no kernel takes together."""
        return [
            pair for pair in node_pairs(node) if not self.target.supports_pair(*pair, self.opset)
        ]


def _decompose(node: oir.Node, builder: GraphBuilder) -> bool:
    dtype = main_dtype(node)
    assert dtype is not None
    decompose = DECOMPOSITIONS.get((node.op_type, dtype))
    if decompose is None:
        return False
    with builder.before(node):
        made = decompose(builder, node)
    if made is None:
        return False
    replace(node, [made] if isinstance(made, oir.Value) else made)
    return True


def _carry(node: oir.Node, builder: GraphBuilder, kernels: _Kernels, report: Report) -> bool:
    """Runs the node on other element types; False when there are none."""
    target, opset = kernels.target, kernels.opset
    if node.op_type == "Cast":
        path = cast_path(node, target, opset)
        if path is not None:
            cast_through(node, path, builder)
        return path is not None
    if kernels.take(node):
        return all(_match(node, *pair, builder, target) for pair in kernels.unmatched(node))
    dtype, key = main_dtype(node), node_key(node)
    assert dtype is not None
    carriers = carriers_of(key, dtype)
    ready = [carrier for carrier in carriers if target.supports(key, carrier, opset)]
    # The node in its carrier is legalized in turn.
    ready += [carrier for carrier in carriers if (node.op_type, carrier) in DECOMPOSITIONS]
    if not ready:
        return False
    replacement = _in_carrier(node, dtype, ready[0], builder)
    report.casts[f"{node.op_type} {dtype.short_name()}"] += replacement
    return True


_PARTNERS = (oir.DataType.FLOAT, oir.DataType.DOUBLE, oir.DataType.INT32, oir.DataType.INT64)


def _match(
    node: oir.Node,
    key: str,
    first: oir.DataType,
    second: oir.DataType,
    builder: GraphBuilder,
    target: Target,
) -> bool:
    """Casts the second of two parameters to a type that holds its values and that a kernel takes
    beside the first (the exponent of Pow, the scale of BatchNormalization); False if none does."""
    position = PAIR_PARAMETERS[key][1]
    shared = [] if position == OUTPUT else apart_from_outputs(node, position, builder.opset)
    for partner in (first, *_PARTNERS):
        if holds(partner, second) and target.supports_pair(key, first, partner, builder.opset):
            with builder.before(node):
                for index in shared:
                    x = node.inputs[index]
                    assert x is not None
                    node.replace_input_with(index, builder.cast(x, partner))
            return bool(shared)
    return False


def _in_carrier(
    node: oir.Node, dtype: oir.DataType, carrier: oir.DataType, builder: GraphBuilder
) -> int:
    """Replaces the node by casts, the node in the carrier type, and casts back; returns how many
    casts that took."""
    inputs = list(node.inputs)
    before = len(builder.made)
    with builder.before(node):
        for index in carried_inputs(node, builder.opset):
            x = inputs[index]
            if x is not None and dtype_of(x) == dtype:
                inputs[index] = builder.cast(x, carrier)
        carried = carried_outputs(node, builder.opset)
        types: list[ValueType] = [
            (carrier if index in carried else dtype_of(value), shape_of(value))
            for index, value in enumerate(node.outputs)
        ]
        made = builder.node(node.op_type, inputs, attributes_of(node), types)
        values = [builder.cast(x, dtype_of(y)) for x, y in zip(made, node.outputs, strict=True)]
    replace(node, values)
    return sum(new.op_type == "Cast" for new in builder.made[before:])


def _refusal(node: oir.Node, target: Target) -> Refusal:
    types = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in node.inputs)
    source = node.metadata_props.get("jax.source", "")
    return Refusal(
        node.op_type,
        f"({types})",
        f"{source}  {node.name}".strip(),
        f"{target.name} has no kernel for it in this type, and no exact detour is known",
        "convert to another element type before this op, or translate with target='onnx'",
    )
