"""Weights of f32 that the user wants in 4 or 8 bits."""

from __future__ import annotations

from collections.abc import Mapping
from fnmatch import fnmatchcase

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import dtype_of, is_constant, static_shape
from hlo2onnx.ir.weight_storage import BLOCK_ROWS, IntegerBlocks, takes_elements
from hlo2onnx.ir.weights import ask, label, weight_of
from hlo2onnx.raising.engine import CONSTANT, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import operands

T = oir.DataType

_LEAST_BYTES = 1 << 16
"""Smaller matrices stay f32: they save no time."""

_STORED = "hlo2onnx.stored"
"""Where weights keep their dequantized form: several products may read them."""

_TYPES = {"int4": T.INT4, "int8": T.INT8}
_BLOCKED_OPSET = 21


class QuantizeWeights(Rule):
    """MatMul(x, w) -> MatMul(x, DequantizeLinear(q, s)), with s for each block of 32 rows of w

    Changes the numbers: done where the user asks for it by `weights_dtype=`. For f32 matrices of at
    least 64 KiB that only such products read: verification then knows what they stand for.

    Args:
        dtypes: "int4", "int8" or None by patterns of names; the last one that fits decides.

    Attributes:
        stored: The types of the weights that were quantized, by name.
    """

    name = "quantize-weights"
    anchors = frozenset({"MatMul"})
    sources = frozenset({CONSTANT})
    # After the rules that move weights.
    phase = 2

    def __init__(self, dtypes: Mapping[str, str | None]) -> None:
        self._dtypes = dtypes
        self.stored: dict[str, str] = {}

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        x, w = operands(node)
        dims, name = static_shape(w), _name(w)
        fitting = [kind for pattern, kind in self._dtypes.items() if fnmatchcase(name, pattern)]
        kind = needed([None, *fitting][-1], "its name is excluded", w)
        need(is_constant(w) and dtype_of(w) == T.FLOAT, "the weights are computed", w)
        need(dims is not None and len(dims) == 2, "the weights are not a matrix", w)
        assert dims is not None
        weight = weight_of(w)
        need(
            weight is None or takes_elements(weight),
            "the weights are not those of an f32 parameter",
            w,
        )
        need(4 * dims[0] * dims[1] >= _LEAST_BYTES, "the weights are few", w)
        need(dims[0] % BLOCK_ROWS == 0, f"its rows are not blocks of {BLOCK_ROWS}", w)
        dtype = _TYPES[kind]
        has_kernel = b.target.supports_pair("DequantizeLinear", dtype, T.FLOAT, b.opset)
        need(has_kernel and b.opset >= _BLOCKED_OPSET, "the opset or target lacks blocks", w)
        shared = [w, *(y for y in b.main_graph.initializers.values() if _shares(w, y))]
        need(all(map(_is_factor, shared)), "other nodes read the weights", w)
        need(ask(_is_finite, w), "a weight is not finite", w)
        made: oir.Value | None = w.meta.get(_STORED)
        if made is None or made.producer() is None or made.graph is None:
            blocks = IntegerBlocks(dtype)
            parameters = [b.derived(blocks, w, is_moved=True)]
            parameters.append(b.derived(blocks.scales, w, is_moved=True))
            if dtype == T.INT8:
                # ONNX Runtime wants zero points, see `write_zero_point`, and not to be shared.
                parameters.append(b.derived(blocks.zeros, w, is_moved=True))
            with b.at_start():
                made = b.DequantizeLinear(*parameters, axis=0, block_size=BLOCK_ROWS)
            w.meta[_STORED], self.stored[name] = made, kind
        return b.MatMul(x, made)

    def note(self, graph: oir.Graph) -> str:
        """Which weights are stored in which type."""
        large = [
            x
            for x in graph.initializers.values()
            if x.const_value is not None and x.const_value.nbytes >= _LEAST_BYTES
        ]
        wide = dict.fromkeys(_name(x) for x in large if dtype_of(x) == T.FLOAT)
        left = [name for name in wide if name not in self.stored]
        kinds = {kind: [x for x in self.stored if self.stored[x] == kind] for kind in _TYPES}
        texts = [f"in {kind}: {', '.join(found)}" for kind, found in kinds.items() if found]
        texts += [f"as they are: {', '.join(left)}"] if left else []
        return f"large weights are stored {'; '.join(texts)}" if texts else "no weights are large"


def _name(value: oir.Value) -> str:
    weight = weight_of(value)
    return str(value.name) if weight is None else label(weight)


def _shares(weight: oir.Value, value: oir.Value) -> bool:
    """Whether both hold f32 numbers of one parameter."""
    mine, its = weight_of(weight), weight_of(value)
    if mine is None or its is None or dtype_of(value) != T.FLOAT:
        return False
    return mine.parameters() == its.parameters() and len(value.uses()) > 0


def _is_factor(value: oir.Value) -> bool:
    """Whether only products of matrices read the value, as their right operand, or scale others."""
    uses = ((use.node.op_type, use.idx) for use in value.uses())
    return all(use in (("MatMul", 1), ("DequantizeLinear", 1)) for use in uses)


def _is_finite(array: np.ndarray) -> bool:
    return bool(np.isfinite(array).all())
