"""Which nodes the target's kernels run as they are, with the right numbers."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.ranges import RANGE
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import FLOATS
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.decompositions.rounded_integers import RIGHT_HERE
from hlo2onnx.targets.decompositions.stable_top_k import is_stable_here
from hlo2onnx.targets.legalize.carriers import EXACT_IN_HALF
from hlo2onnx.targets.legalize.narrow_integers import WIDE, chooses_rightly, fits
from hlo2onnx.targets.target import main_dtype, node_key, node_pairs
from hlo2onnx.targets.workarounds.operand_limits import is_right_here
from hlo2onnx.targets.workarounds.top_k_padding import is_filled

_BOUNDS = frozenset({"Clip", "Max", "Min", "Relu"})


@dataclass(frozen=True)
class Kernels:
    """Answers whether the target's kernels run a node as it is.

    Attributes:
        builder: The builder of the graph, which knows the target.
        half: "xla" or "fast", see `hlo2onnx.options.Options.half`.
        nan: "default", "xla" or "runtime", see `hlo2onnx.options.Options.nan`.
        facts: Facts about the values of the graph.
    """

    builder: TargetBuilder
    half: str
    nan: str
    facts: Facts

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
        if node.meta.get(RIGHT_HERE):
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
        return is_right_here(node, self.facts, is_limited, target.flags.sums_in_f64)

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
