"""Which nodes the target's kernels run as they are, with the right numbers."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Final

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import RANGE, range_of_type
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import FLOATS, INTEGERS, dtype_of, noted, present, shape_of
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.decompositions.integer_ops import reduced_axes
from hlo2onnx.targets.decompositions.order import is_stable_here
from hlo2onnx.targets.decompositions.rounded_integers import RIGHT_HERE
from hlo2onnx.targets.legalize.carriers import EXACT_IN_HALF, MOVES
from hlo2onnx.targets.legalize.control_flow import control_flow_fault
from hlo2onnx.targets.target import Target, main_dtype, node_key, node_pairs
from hlo2onnx.targets.workarounds.numerics import is_filled

# -- kernels ---------------------------------------------------------------------------------------

# Which nodes the target's kernels run as they are, with the right numbers.


STRUCTURAL: Final = frozenset({"Constant", "If", "Loop", "Scan"})
"""Operators of every type (see `subgraph_types`); what is inside them is legalized on its own."""
_BOUNDS = frozenset({"Clip", "Max", "Min", "Relu"})


@dataclass(frozen=True)
class Kernels:
    """Answers whether the target's kernels run a node as it is.

    Attributes:
        builder: The builder of the graph, which knows the target.
        half: "xla" or "fast", see `hlo2onnx.options.Options.half`.
        nan: "default", "xla" or "runtime", see `hlo2onnx.options.Options.nan`.
        facts: Facts about the values of the graph.
        is_mixed: Whether nodes without a kernel may run on the target's fallback.
    """

    builder: TargetBuilder
    half: str
    nan: str
    facts: Facts
    is_mixed: bool = True

    def can_run(self, node: oir.Node) -> bool:
        """Whether the node can stay as it is."""
        return self.can_compute(node) and not self.unmatched(node)

    def can_compute(self, node: oir.Node) -> bool:
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
        if noted(node, RIGHT_HERE):
            return True
        if target.flags.unstable_top_k and node.op_type == "TopK" and not is_stable_here(node):
            return False
        is_fused = target.flags.fuses_comparisons and node.op_type == "Where"
        if is_fused and not chooses_rightly(node, self.facts):
            return False
        return is_supported or self._is_right_here(node, dtype)

    def _is_right_here(self, node: oir.Node, dtype: oir.DataType) -> bool:
        """Whether a kernel that counts as missing gives the right numbers for these operands."""
        target, opset, key = self.builder.target, self.builder.opset, node_key(node)
        is_limited = target.is_limited(key, dtype, opset)
        if is_limited and target.flags.narrows_i64 and dtype in WIDE:
            return fits(node, self.facts, target, opset)
        if is_limited and node.op_type in _BOUNDS and dtype in FLOATS:
            return self.nan == "runtime" or (target.flags.misorders_nan and self.nan != "xla")
        if is_limited and target.flags.pads_top_k and node.op_type == "TopK":
            return is_filled(node)
        if not target.is_wrong(key, dtype, opset):
            return False
        return is_right_here(node, self.facts, is_limited, target.flags)

    def may_fall(self, node: oir.Node) -> bool:
        """Whether the runtime runs a node on the target's fallback, for want of a kernel."""
        target = self.builder.target
        is_allowed = self.is_mixed and target.fallback is not None
        return is_allowed and not has_kernel(node, target, self.builder.opset)

    def has_type(self, node: oir.Node) -> bool:
        """Whether the target computes in the main element type of a node, or casts it."""
        dtype, b = main_dtype(node), self.builder
        if dtype is None or b.supports("Identity", dtype):
            return True
        return b.target.supports_cast(dtype, T.INT32, b.opset)

    def note_ranges(self, node: oir.Node) -> None:
        """Notes the ranges of a node's integer results if the target narrows 64-bit integers.

        The nodes that replace this one have the same ranges, which may be harder to prove there.
        """
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
        """The `PAIR_PARAMETERS` whose two element types no kernel takes together."""
        b = self.builder
        if noted(node, RIGHT_HERE):
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


def has_kernel(node: oir.Node, target: Target, opset: int) -> bool:
    """Whether the runtime has a kernel of the target for a node, right or wrong."""
    dtype, key = main_dtype(node), node_key(node)
    if node.domain or node.op_type in STRUCTURAL or dtype is None:
        return not control_flow_fault(node, target.flags)
    pairs = all(target.supports_pair(*pair, opset) for pair in node_pairs(node))
    return pairs and (target.supports(key, dtype, opset) or target.is_wrong(key, dtype, opset))


# -- narrow integers -------------------------------------------------------------------------------

# For runtimes that compute 64-bit integers in 32 bits, and some integer operators in f32.
#
# Such a runtime computes a node correctly if the operands and results are small enough:
# * Numbers that are only moved must fit into 32 bits, and so must those of operators that the
#   runtime computes in 32-bit integers.
# * The numbers of all other operators must be exact in f32.
# * Such a runtime may hold u32 in i32, so numbers that are compared must fit into i32.


T = oir.DataType

_NARROWED: Final = {T.INT64: T.INT32, T.UINT64: T.UINT32}
WIDE: Final = frozenset({T.INT32, T.INT64, T.UINT32, T.UINT64})
_ORDERS: Final = frozenset({"Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_COMPARES: Final = _ORDERS | {"Equal"}
_LARGEST: Final = 1 << 24
"""f32 holds all whole numbers up to it."""


def fits(node: oir.Node, facts: Facts, target: Target, opset: int) -> bool:
    """Whether the integers of a node are provably so small that the runtime computes it correctly.

    The runtime must compute the operator correctly for small numbers.
    """
    values = node.outputs if node.op_type in MOVES else (*node.inputs, *node.outputs)
    wide = [x for x in values if x is not None and x.dtype in WIDE]
    low, high = range_of_type(T.INT32)
    held = {*_NARROWED, T.UINT32} if node.op_type in _ORDERS else {*_NARROWED}
    if not all(_is_within(x, facts, low, high) for x in wide if x.dtype in held):
        return False
    if node.op_type == "Cast" and _is_narrow(node.outputs[0]):
        low, high = range_of_type(dtype_of(node.outputs[0]))
        return all(_is_within(x, facts, low, high) for x in present(node.inputs))
    if _is_exact_in_32_bits(node, target, opset):
        return True
    small = [_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in wide]
    # Rounding keeps the order, and no number beyond 2^24 rounds to one below it.
    return any(small) if node.op_type in _COMPARES else all(small)


def _is_narrow(x: oir.Value) -> bool:
    return dtype_of(x) in INTEGERS and dtype_of(x).bitwidth < 32


def chooses_rightly(node: oir.Node, facts: Facts) -> bool:
    """Whether a Where is right in a runtime that fuses it with a comparison, in f32."""
    condition, *chosen = present(node.inputs)
    if condition.producer() is None or dtype_of(chosen[0]) not in WIDE:
        return True
    return all(_is_within(x, facts, 1 - _LARGEST, _LARGEST - 1) for x in chosen)


def _is_exact_in_32_bits(node: oir.Node, target: Target, opset: int) -> bool:
    """Whether the runtime computes the node in 32-bit integers, and not in f32."""
    pairs = node_pairs(node)
    if not pairs:
        own = T.UINT32 if main_dtype(node) == T.UINT32 else T.INT32
        return target.supports(node_key(node), own, opset)
    return all(
        target.supports_pair(key, _NARROWED.get(first, first), _NARROWED.get(second, second), opset)
        for key, first, second in pairs
    )


def _is_within(x: oir.Value, facts: Facts, low: int, high: int) -> bool:
    known = facts.int_range(x)
    return known is not None and known.within(low, high)


def why_not(dtype: oir.DataType, target: str) -> tuple[str, str]:
    """Why integers that do not fit are refused, and what the user can do."""
    if dtype in _NARROWED:
        return (
            f"{target} computes 64-bit integers in 32 bits, and these may not fit",
            "convert to int32 before this op, or clamp to numbers of 32 bits",
        )
    return (
        f"{target} computes large integers in f32, and these may not fit",
        "convert to int16 before this op, or clamp to numbers below 2^24",
    )


# -- operand limits --------------------------------------------------------------------------------

# Kernels that give wrong numbers for some operands: the operands for which they are right.
#
# Measured in ONNX Runtime 1.31 (`wrong` in ort-cpu.json): kernels that order INT64 elements compare
# low halves as signed numbers where the high halves are equal, so they are right within 32 bits.
# Kernels that add integers do it in f64 and saturate, so they are right if all sums are exact in
# f64 and the type holds the last one.


_COMPARED_IN_HALVES = frozenset({"Clip", "Max", "Min", "ReduceMax", "ReduceMin", "Relu", "Sign"})
_SUMS = frozenset({"ReduceL1", "ReduceSum", "ReduceSumSquare"})

_EXACT_IN_F64 = 1 << 53
_ANY_EXTENT = 1 << 31
"""More elements than a dynamic extent can have."""


def is_right_here(node: oir.Node, facts: Facts, is_limited: bool, flags: Flags) -> bool:
    """Whether a kernel that gives wrong numbers is right for all operands this node can have.

    Args:
        is_limited: Whether it is right for integers that fit into 32 bits, or, where reductions are
            computed in f32, into this.
        flags: Those of the target.
    """
    if node.op_type in _COMPARED_IN_HALVES and is_limited:
        operands = node.inputs[:1] if node.op_type.startswith("Reduce") else node.inputs
        low, high = range_of_type(oir.DataType.INT32)
        if flags.reduces_in_f32:
            low, high = -_LARGEST, _LARGEST
        bounds = [facts.int_range(x) for x in operands if x is not None]
        return all(known is not None and known.within(low, high) for known in bounds)
    if node.op_type not in _SUMS or not (flags.sums_in_f64 or flags.reduces_in_f32):
        return False
    return _sums_fit(node, facts, _LARGEST if flags.reduces_in_f32 else _EXACT_IN_F64)


def _sums_fit(node: oir.Node, facts: Facts, largest: int) -> bool:
    x, axes = node.inputs[0], reduced_axes(node)
    assert x is not None
    bounds = facts.int_range(x)
    if bounds is None or axes is None:
        return False
    extents = [shape_of(x)[axis] for axis in axes]
    count = math.prod(extent if isinstance(extent, int) else _ANY_EXTENT for extent in extents)
    size = max(-bounds.low, bounds.high)
    term = size * size if node.op_type == "ReduceSumSquare" else size
    return term * count <= min(range_of_type(dtype_of(x)).high, largest)
