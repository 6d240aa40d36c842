"""Legalization: replaces nodes until the target runs each one and gives the right numbers.

A node without a kernel is decomposed, or cast to the cheapest carrier type in which the operator
gives the same bits, and back. Casts that cancel exactly are removed. A kernel that gives wrong
numbers counts as missing, unless facts about the operands show that it is right here. Flags and
`harmful_fusions` of the target switch on the workarounds.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

import onnx_ir as oir

from hlo2onnx.errors import Refusal, TranslationError
from hlo2onnx.ir.code_motion import hoist_invariants
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.loop_facts import LoopFacts
from hlo2onnx.ir.notes import note_rewrite
from hlo2onnx.ir.op_families import FORM_OPSET
from hlo2onnx.ir.ranges import RANGE
from hlo2onnx.ir.replace import remove_unused, replace
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.type_inference import ValueType
from hlo2onnx.ir.values import dtype_of, noted, present, shape_of
from hlo2onnx.report import Report
from hlo2onnx.targets.builder import Decompose, Outputs, TargetBuilder
from hlo2onnx.targets.decompositions import DECOMPOSITIONS
from hlo2onnx.targets.legalize.carriers import (
    apart_from_outputs,
    carried,
    carriers_of,
    cast_tables,
    cast_through,
    collapse_casts,
    holds,
)
from hlo2onnx.targets.legalize.changes import (
    count_casts,
    label_of,
    note_casts,
    note_replaced,
)
from hlo2onnx.targets.legalize.control_flow import (
    NEXT,
    carry_states,
    control_flow_fault,
    write_loops_as_scans,
    write_scans_as_loops,
)
from hlo2onnx.targets.legalize.kernels import STRUCTURAL, WIDE, Kernels, why_not
from hlo2onnx.targets.legalize.opsets import first_opset, newer_decomposition, write_forms
from hlo2onnx.targets.target import (
    OUTPUT,
    PAIR_PARAMETERS,
    Target,
    main_dtype,
    node_key,
)
from hlo2onnx.targets.workarounds import GUARDS, WORKAROUNDS, rows_of
from hlo2onnx.targets.workarounds.constants import expand_empty_constants
from hlo2onnx.targets.workarounds.graph_fusions import widen_before_transposing

__all__ = ["legalize"]

SATURATES = (
    "on x64 processors without VNNI, plain ONNX Runtime saturates in products of int8: set its"
    " option session.x64quantprecision to 1 (sessions of hlo2onnx do)"
)


def legalize(
    model: oir.Model,
    target: Target,
    half: str,
    report: Report,
    nan: str = "default",
    placement: str = "mixed",
) -> None:
    """Casts or decomposes, in place, the nodes that the target has no kernel for.

    Args:
        half: "xla" or "fast", see `hlo2onnx.options.Options.half`.
        nan: "runtime" leaves NaN to the target, see `hlo2onnx.options.Options.nan`.
        placement: "mixed" or "strict", see `hlo2onnx.options.Options.placement`.

    Raises:
        TranslationError: The target cannot run some operators on their types; lists all of them.
    """
    graph = model.graph
    builder = TargetBuilder(graph, graph.opset_imports[""], target)
    builder.adopt(graph)
    _prepare(graph, builder)
    facts = LoopFacts(graph) if target.flags.narrows_i64 else Facts()
    kernels = Kernels(builder, half, nan, facts, placement == "mixed")
    _raise(_replace_nodes(graph, kernels, report))
    collapse_casts(graph)
    if target.flags.fuses_cast_transposes:
        widen_before_transposing(graph, builder)
    hoist_invariants(graph)
    newer = f"use opset {FORM_OPSET} or newer"
    _raise([_refusal(node, why, newer) for node, why in write_forms(graph, builder)])
    remove_unused(graph)
    count_casts(report, all_nodes(graph))
    if nan == "default" and kernels.may_lose_nan(graph):
        report.note(f"{target.name}: Max, Min, Clip and Relu may lose NaN (nan='xla' refuses)")
    if target.flags.saturates_int8 and any(map(_multiplies_int8, all_nodes(graph))):
        report.note(SATURATES)
    builder.forget()


def _multiplies_int8(node: oir.Node) -> bool:
    """Whether the runtime makes a product of quantized numbers of a node, the second ones int8."""
    makers = [x.producer() for x in present(node.inputs)[:2]]
    stored = [x.inputs[0] for x in makers if x is not None and x.op_type == "DequantizeLinear"]
    is_product = node.op_type in ("Conv", "Gemm", "MatMul") and len(stored) == 2
    return is_product and stored[1] is not None and dtype_of(stored[1]) == oir.DataType.INT8


def _raise(refusals: Sequence[Refusal]) -> None:
    """Raises a TranslationError if there are refusals."""
    if refusals:
        raise TranslationError(refusals)


def _prepare(graph: oir.Graph, builder: TargetBuilder) -> None:
    """Writes empty constants, Scans and the states of control flow in the form of the target."""
    target = builder.target
    if target.flags.flattens_empty_constants:
        expand_empty_constants(graph, builder)
    write_loops_as_scans(graph, target, builder)
    write_scans_as_loops(graph, target, builder)
    builder.made.clear()
    cast_tables(graph, builder)
    carry_states(graph, target, builder)
    note_casts(builder.made, "values of Loop and If")


def _replace_nodes(graph: oir.Graph, kernels: Kernels, report: Report) -> list[Refusal]:
    """Replaces nodes, and then the new ones, until the target runs all that are left.

    Returns:
        The nodes that it cannot run, and that nothing can replace.
    """
    refusals: list[Refusal] = []
    workarounds = rows_of(kernels.builder.target, WORKAROUNDS)
    guards = {} if kernels.nan == "runtime" else rows_of(kernels.builder.target, GUARDS)
    pending = list(all_nodes(graph))
    while pending:
        made: list[oir.Node] = []
        for node in pending:
            kernels.builder.made.clear()
            label = label_of(node)
            tried = [partial(guard, facts=kernels.facts) for guard in guards.get(node.op_type, ())]
            found = _replace_node(node, kernels, [*tried, *workarounds.get(node.op_type, ())])
            if isinstance(found, Refusal):
                refusals.append(found)
            elif found:
                note_replaced(report, label, kernels.builder.made)
                made += kernels.builder.made
        pending, guards = made, {}
    return refusals


def _replace_node(
    node: oir.Node, kernels: Kernels, workarounds: Sequence[Callable[..., Outputs]]
) -> bool | Refusal:
    """Whether a node was replaced; False if it stays. A refusal if neither is possible."""
    builder = kernels.builder
    kernels.note_ranges(node)
    for make in () if node.domain else workarounds:
        if _replaced(node, builder, make):
            return True
    newer = newer_decomposition(node, builder.opset)
    if newer is not None and _replaced(node, builder, newer):
        return True
    may_fall = kernels.may_fall(node)
    if may_fall and (builder.target.flags.shares_memory or not kernels.has_type(node)):
        return _on_fallback(node, kernels)
    if fault := control_flow_fault(node, builder.target.flags):
        return _refusal(node, f"{builder.target.name} runs no {fault}", NEXT)
    if node.domain or node.op_type in STRUCTURAL or kernels.can_run(node):
        return False
    dtype = main_dtype(node)
    assert dtype is not None
    decompose = DECOMPOSITIONS.get((node.op_type, dtype))
    if decompose is not None and _replaced(node, builder, decompose):
        return True
    if _carry(node, kernels):
        return True
    return _on_fallback(node, kernels) if may_fall else _refusal(node, *_no_kernel(node, kernels))


def _on_fallback(node: oir.Node, kernels: Kernels) -> bool | Refusal:
    """What `_replace_node` gives for the fallback of the target."""
    fallback = kernels.builder.target.fallback
    assert fallback is not None
    with kernels.builder.on(fallback):
        return _replace_node(node, kernels, ())


def _replaced(node: oir.Node, builder: TargetBuilder, make: Decompose) -> bool:
    """Replaces a node by the values that a function makes; False if the function returns None."""
    before = len(builder.made)
    with builder.before(node):
        made = make(builder, node)
    if made is None:
        return False
    note_rewrite(builder.made[before:], _name_of(make), [node])
    _put(node, [made] if isinstance(made, oir.Value) else made)
    return True


def _put(node: oir.Node, values: Sequence[oir.Value]) -> None:
    """Replaces a node by values, which get the known ranges of its outputs."""
    for old, new in zip(node.outputs, values, strict=True):
        if (known := noted(old, RANGE)) is not None:
            new.meta.setdefault(RANGE, known)
    replace(node, values)


def _name_of(make: Decompose) -> str:
    """The name of a decomposition or workaround: its module within `hlo2onnx.targets`."""
    function = make.func if isinstance(make, partial) else make
    return f"legalize: {function.__module__.removeprefix(_TARGETS)}"


_TARGETS = "hlo2onnx.targets."


def _carry(node: oir.Node, kernels: Kernels) -> bool:
    """Computes the node in other element types; False if there are none."""
    builder = kernels.builder
    if node.op_type == "Cast":
        return _replaced(node, builder, cast_through)
    if kernels.can_compute(node):
        return all(_match(node, *pair, builder) for pair in kernels.unmatched(node))
    dtype, key = main_dtype(node), node_key(node)
    assert dtype is not None
    carriers = carriers_of(key, dtype)
    if not builder.has_f64:
        carriers = [carrier for carrier in carriers if carrier != oir.DataType.DOUBLE]
    ready = [carrier for carrier in carriers if builder.supports(key, carrier)]
    # The node in its carrier is legalized in turn; not in a type that it came from.
    passed = (*node.meta.get(_PASSED, ()), dtype)
    rest = [carrier for carrier in carriers if carrier not in passed]
    ready += [carrier for carrier in rest if (node.op_type, carrier) in DECOMPOSITIONS]
    if not ready:
        return False
    _in_carrier(node, dtype, ready[0], builder).meta[_PASSED] = passed
    return True


_PASSED = "hlo2onnx.passed_types"
"""In `Node.meta`: the element types from which a node was brought into that of its carrier."""


_PARTNERS = (oir.DataType.FLOAT, oir.DataType.DOUBLE, oir.DataType.INT32, oir.DataType.INT64)


def _match(
    node: oir.Node,
    key: str,
    first: oir.DataType,
    second: oir.DataType,
    builder: TargetBuilder,
) -> bool:
    """Casts the second of two parameters, so that a kernel takes it with the first.

    Examples are the exponent of Pow and the scale of BatchNormalization. The new type holds all
    values of the old one.

    Returns:
        False if there is no such type.
    """
    position = PAIR_PARAMETERS[key][1]
    shared = [] if position == OUTPUT else apart_from_outputs(node, position, builder.opset)
    for partner in (first, *_PARTNERS):
        if holds(partner, second) and builder.target.supports_pair(
            key, first, partner, builder.opset
        ):
            with builder.before(node):
                for index, x in enumerate(node.inputs):
                    if x is not None and index in shared:
                        node.replace_input_with(index, builder.cast(x, partner))
            return bool(shared)
    return False


def _in_carrier(
    node: oir.Node, dtype: oir.DataType, carrier: oir.DataType, builder: TargetBuilder
) -> oir.Node:
    """Replaces the node by casts, the node in the carrier type, and casts back.

    Returns:
        The node in the carrier type.
    """
    inputs = list(node.inputs)
    before = len(builder.made)
    with builder.before(node):
        moved, results = carried(node, builder.opset)
        for index in moved:
            x = inputs[index]
            if x is not None and dtype_of(x) == dtype:
                inputs[index] = builder.cast(x, carrier)
        types: list[ValueType] = [
            (carrier if index in results else dtype_of(value), shape_of(value))
            for index, value in enumerate(node.outputs)
        ]
        made = builder.copy_of(node, inputs, types)
        values = [builder.cast(x, dtype_of(y)) for x, y in zip(made, node.outputs, strict=True)]
    note_rewrite(builder.made[before:], f"legalize: computed in {carrier.name.lower()}", [node])
    _put(node, values)
    again = made[0].producer()
    assert again is not None
    return again


def _no_kernel(node: oir.Node, kernels: Kernels) -> tuple[str, str]:
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
    other = "translate with target='onnx'"
    if not kernels.is_mixed and builder.target.fallback is not None:
        other = "run it on the CPU with placement='mixed'"
    return (
        f"{name} has no kernel for it in this type, and no exact replacement is known",
        f"convert to another element type before this op, or {other}",
    )


def _refusal(node: oir.Node, why: str, next: str) -> Refusal:
    types = ", ".join("-" if x is None else f"{x.dtype}{x.shape}" for x in node.inputs)
    source = node.metadata_props.get("jax.source", "")
    return Refusal(node.op_type, f"({types})", f"{source}  {node.name}".strip(), why, next)
