"""Legalization: replaces nodes until the target runs each one and gives the right numbers.

A node without a kernel is decomposed, or cast to the cheapest carrier type in which the operator
gives the same bits, and back. Casts that cancel exactly are removed. A kernel that gives wrong
numbers counts as missing, unless facts about the operands show that it is right here. Flags and
`harmful_fusions` of the target switch on the workarounds.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import onnx_ir as oir

from hlo2onnx.analysis.facts import Facts
from hlo2onnx.analysis.loop_facts import LoopFacts
from hlo2onnx.analysis.ranges import RANGE
from hlo2onnx.errors import Refusal, TranslationError
from hlo2onnx.ir.forms import FORM_OPSET
from hlo2onnx.ir.provenance import note_rewrite
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import FLOATS, attributes_of, dtype_of, shape_of
from hlo2onnx.report import Report
from hlo2onnx.rewrite.licm import hoist_invariants
from hlo2onnx.rewrite.replace import remove_unused, replace
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions import DECOMPOSITIONS, Decompose
from hlo2onnx.targets.decompositions.rounded_integers import RIGHT_HERE
from hlo2onnx.targets.decompositions.stable_top_k import is_stable_here
from hlo2onnx.targets.legalize.carriers import EXACT_IN_HALF, carriers_of
from hlo2onnx.targets.legalize.casts import (
    cast_path,
    cast_through,
    collapse_casts,
    holds,
)
from hlo2onnx.targets.legalize.changes import Changes, label_of
from hlo2onnx.targets.legalize.control_flow import NEXT, control_flow_fault
from hlo2onnx.targets.legalize.half_moves import move_in_half
from hlo2onnx.targets.legalize.narrow_integers import (
    WIDE,
    chooses_rightly,
    fits,
    why_not,
)
from hlo2onnx.targets.legalize.older_opsets import first_opset, newer_decomposition, write_forms
from hlo2onnx.targets.legalize.operand_types import (
    apart_from_outputs,
    carried_inputs,
    carried_outputs,
)
from hlo2onnx.targets.legalize.scans import write_scans_as_loops
from hlo2onnx.targets.legalize.subgraph_types import carry_states
from hlo2onnx.targets.target import (
    OUTPUT,
    PAIR_PARAMETERS,
    Target,
    main_dtype,
    node_key,
    node_pairs,
)
from hlo2onnx.targets.workarounds import WORKAROUNDS
from hlo2onnx.targets.workarounds.cast_transposes import widen_before_transposing
from hlo2onnx.targets.workarounds.empty_constants import expand_empty_constants
from hlo2onnx.targets.workarounds.function_domains import guard_domain
from hlo2onnx.targets.workarounds.operand_limits import is_right_here
from hlo2onnx.targets.workarounds.reduce_nan import guard_nan
from hlo2onnx.targets.workarounds.top_k_padding import is_filled

__all__ = ["legalize"]

_BOUNDS = frozenset({"Clip", "Max", "Min", "Relu"})
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
        TranslationError: The target cannot run some operators on their types; lists all of them.
    """
    opset = model.graph.opset_imports[""]
    builder = TargetBuilder(model.graph, opset, target)
    builder.adopt(model.graph)
    refusals, changes = [], Changes()
    if target.flags.flattens_empty_constants:
        expand_empty_constants(model.graph, builder)
    write_scans_as_loops(model.graph, target, builder)
    builder.made.clear()
    carry_states(model.graph, target, builder)
    changes.cast("values of Loop and If", builder.made)
    facts = LoopFacts(model.graph) if target.flags.narrows_i64 else Facts()
    kernels = _Kernels(builder, half, nan, facts)
    if nan != "runtime":
        _guard(model.graph, builder, kernels.facts, changes)
    pending = list(all_nodes(model.graph))
    while pending:
        made: list[oir.Node] = []
        for node in pending:
            builder.made.clear()
            kernels.note_ranges(node)
            label = label_of(node)
            if _respelled(node, builder) or _decompose_newer(node, builder):
                changes.replaced(label, builder.made)
                made += builder.made
                continue
            if fault := control_flow_fault(node, target.flags, facts):
                refusals.append(_refusal(node, f"{target.name} runs no {fault}", NEXT))
                continue
            if node.domain or node.op_type in _STRUCTURAL or kernels.run(node):
                continue
            if _decompose(node, builder) or _carry(node, kernels):
                changes.replaced(label, builder.made)
                made += builder.made
            else:
                refusals.append(_refusal(node, *_no_kernel(node, kernels)))
        pending = made
    if refusals:
        raise TranslationError(refusals)
    collapse_casts(model.graph, opset)
    move_in_half(builder)
    if target.flags.fuses_cast_transposes:
        widen_before_transposing(model.graph, builder)
    hoist_invariants(model.graph)
    newer = f"use opset {FORM_OPSET} or newer"
    refusals = [_refusal(node, why, newer) for node, why in write_forms(model.graph, builder)]
    if refusals:
        raise TranslationError(refusals)
    remove_unused(model.graph)
    changes.write(report, all_nodes(model.graph))
    if nan == "default" and kernels.may_lose_nan(model.graph):
        report.note(f"{target.name}: Max, Min, Clip and Relu may lose NaN (nan='xla' refuses)")


def _guard(graph: oir.Graph, builder: TargetBuilder, facts: Facts, changes: Changes) -> None:
    """Replaces nodes that lose NaN, or give numbers outside the domain of their function."""
    flags = builder.target.flags
    for node in list(all_nodes(graph)):
        guard: Decompose | None = None
        if flags.loses_nan and node.op_type in ("ReduceMax", "ReduceMin"):
            guard = partial(guard_nan, facts=facts)
        elif flags.ignores_domains:
            guard = partial(guard_domain, facts=facts)
        builder.made.clear()
        label = label_of(node)
        if guard is not None and _replaced(node, builder, guard):
            changes.replaced(label, builder.made)


def _respelled(node: oir.Node, builder: TargetBuilder) -> bool:
    """Replaces a node that the target computes wrongly among its neighbours; False for others."""
    known = () if node.domain else WORKAROUNDS.get(node.op_type, ())
    return any(
        builder.target.has(fault) and _replaced(node, builder, spell) for fault, spell in known
    )


def _decompose_newer(node: oir.Node, builder: TargetBuilder) -> bool:
    """Decomposes a node whose operator the opset lacks; False for others."""
    decompose = newer_decomposition(node, builder.opset)
    return decompose is not None and _replaced(node, builder, decompose)


def _replaced(node: oir.Node, builder: TargetBuilder, make: Decompose) -> bool:
    """Replaces a node by the outputs that a function makes in its place; False for None."""
    before = len(builder.made)
    with builder.before(node):
        made = make(builder, node)
    if made is None:
        return False
    note_rewrite(builder.made[before:], _name_of(make), [node])
    _put(node, [made] if isinstance(made, oir.Value) else made)
    return True


def _put(node: oir.Node, values: Sequence[oir.Value]) -> None:
    """Replaces a node by values, of which is known what is known of its outputs."""
    for old, new in zip(node.outputs, values, strict=True):
        if RANGE in old.meta:
            new.meta.setdefault(RANGE, old.meta[RANGE])
    replace(node, values)


def _name_of(make: Decompose) -> str:
    """The module of a decomposition or workaround, within `targets`."""
    function = make.func if isinstance(make, partial) else make
    return f"legalize: {function.__module__.removeprefix(_TARGETS)}"


_TARGETS = "hlo2onnx.targets."


@dataclass(frozen=True)
class _Kernels:
    """Answers whether the target's kernels run a node as it is."""

    builder: TargetBuilder
    half: str
    nan: str
    facts: Facts

    def run(self, node: oir.Node) -> bool:
        """Whether the node can stay as it is."""
        return self.take(node) and not self.unmatched(node)

    def take(self, node: oir.Node) -> bool:
        """Whether there is a kernel for the main element type that gives the right numbers here.

        Where the target's f16 kernels skip roundings between ops, f16 arithmetic goes through f32
        and an explicit rounding, as bf16 does, unless `half` is "fast".
        """
        dtype, key = main_dtype(node), node_key(node)
        if dtype is None:
            return True
        target, is_supported = self.builder.target, self.builder.supports(key, dtype)
        is_fast = self.half == "fast" or target.flags.rounds_half
        if dtype == oir.DataType.FLOAT16 and not is_fast:
            return node.op_type in EXACT_IN_HALF and is_supported
        if target.flags.narrows_f64 and dtype == oir.DataType.DOUBLE:
            return is_supported and node.op_type in ("Shape", "Size")
        if node.meta.get(RIGHT_HERE):
            return True
        if target.flags.unstable_top_k and node.op_type == "TopK" and not is_stable_here(node):
            return False
        is_fused = target.flags.fuses_comparisons and node.op_type == "Where"
        if is_fused and not chooses_rightly(node, self.facts):
            return False
        if is_supported:
            return True
        opset = self.builder.opset
        is_limited = target.is_limited(key, dtype, opset)
        if is_limited and target.flags.narrows_i64 and dtype in WIDE:
            return fits(node, self.facts, target, opset)
        if is_limited and node.op_type in _BOUNDS and dtype in FLOATS:
            return self.nan == "runtime" or (target.flags.misorders_nan and self.nan != "xla")
        if is_limited and target.flags.pads_top_k and node.op_type == "TopK":
            return is_filled(node)
        if not target.is_wrong(key, dtype, opset):
            return False
        return is_right_here(node, self.facts, is_limited, target.flags.sums_in_f64)

    def note_ranges(self, node: oir.Node) -> None:
        """Notes what is known of the integers that a node makes, where the target narrows them: it
        holds of the nodes in its place, and may be harder to see there."""
        if not self.builder.target.flags.narrows_i64:
            return
        for value in node.outputs:
            if value.dtype in WIDE and (known := self.facts.int_range(value)) is not None:
                value.meta[RANGE] = known

    def may_lose_nan(self, graph: oir.Graph) -> bool:
        """Whether the model has bounds of floats whose kernels order NaN wrongly."""
        target, opset = self.builder.target, self.builder.opset
        return target.flags.misorders_nan and any(
            node.op_type in _BOUNDS
            and (dtype := main_dtype(node)) in FLOATS
            and target.is_limited(node_key(node), dtype, opset)
            for node in all_nodes(graph)
        )

    def unmatched(self, node: oir.Node) -> list[tuple[str, oir.DataType, oir.DataType]]:
        """The `PAIR_PARAMETERS` whose element types no kernel takes together."""
        b = self.builder
        if node.meta.get(RIGHT_HERE):
            return []
        missing = [pair for pair in node_pairs(node) if not b.target.supports_pair(*pair, b.opset)]
        if not b.target.flags.narrows_i64:
            return missing
        return [
            pair
            for pair in missing
            if not (WIDE & {*pair[1:]} and b.target.is_limited_pair(*pair, b.opset))
            or not fits(node, self.facts, b.target, b.opset)
        ]


def _decompose(node: oir.Node, builder: TargetBuilder) -> bool:
    dtype = main_dtype(node)
    assert dtype is not None
    decompose = DECOMPOSITIONS.get((node.op_type, dtype))
    return decompose is not None and _replaced(node, builder, decompose)


def _carry(node: oir.Node, kernels: _Kernels) -> bool:
    """Runs the node on other element types; False when there are none."""
    builder = kernels.builder
    if node.op_type == "Cast":
        path = cast_path(node, builder.target, builder.opset)
        if path is not None:
            cast_through(node, path, builder)
        return path is not None
    if kernels.take(node):
        return all(_match(node, *pair, builder) for pair in kernels.unmatched(node))
    dtype, key = main_dtype(node), node_key(node)
    assert dtype is not None
    carriers = carriers_of(key, dtype)
    ready = [carrier for carrier in carriers if builder.supports(key, carrier)]
    # The node in its carrier is legalized in turn.
    ready += [carrier for carrier in carriers if (node.op_type, carrier) in DECOMPOSITIONS]
    if not ready:
        return False
    _in_carrier(node, dtype, ready[0], builder)
    return True


_PARTNERS = (oir.DataType.FLOAT, oir.DataType.DOUBLE, oir.DataType.INT32, oir.DataType.INT64)


def _match(
    node: oir.Node,
    key: str,
    first: oir.DataType,
    second: oir.DataType,
    builder: TargetBuilder,
) -> bool:
    """Casts the second of two parameters (the exponent of Pow, the scale of BatchNormalization) to
    a type that holds its values and that a kernel takes with the first; False if there is none."""
    position = PAIR_PARAMETERS[key][1]
    shared = [] if position == OUTPUT else apart_from_outputs(node, position, builder.opset)
    for partner in (first, *_PARTNERS):
        if holds(partner, second) and builder.target.supports_pair(
            key, first, partner, builder.opset
        ):
            with builder.before(node):
                for index in shared:
                    x = node.inputs[index]
                    assert x is not None
                    node.replace_input_with(index, builder.cast(x, partner))
            return bool(shared)
    return False


def _in_carrier(
    node: oir.Node, dtype: oir.DataType, carrier: oir.DataType, builder: TargetBuilder
) -> None:
    """Replaces the node by casts, the node in the carrier type, and casts back."""
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
    note_rewrite(builder.made[before:], f"legalize: computed in {carrier.name.lower()}", [node])
    _put(node, values)


def _no_kernel(node: oir.Node, kernels: _Kernels) -> tuple[str, str]:
    """Why the node cannot run, and what the user can do."""
    since = first_opset(node)
    builder = kernels.builder
    if builder.opset < since:
        return f"opset {builder.opset} has no {node_key(node)}", f"use opset {since} or newer"
    dtype, name = main_dtype(node), builder.target.name
    if dtype == oir.DataType.DOUBLE and builder.target.flags.narrows_f64:
        return (
            f"{name} computes f64 in f32",
            "convert to float32 before this op if that is precise enough (JAX does where"
            " jax_enable_x64 is off), or choose another target",
        )
    if dtype in WIDE and builder.target.is_limited(node_key(node), dtype, builder.opset):
        return why_not(dtype, name)
    return (
        f"{name} has no kernel for it in this type, and no exact detour is known",
        "convert to another element type before this op, or translate with target='onnx'",
    )


def _refusal(node: oir.Node, why: str, next: str) -> Refusal:
    types = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in node.inputs)
    source = node.metadata_props.get("jax.source", "")
    return Refusal(node.op_type, f"({types})", f"{source}  {node.name}".strip(), why, next)
