"""Constants that a runtime reads, stores or folds wrongly."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.code_motion import RANDOM
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.traversal import all_nodes, subgraphs
from hlo2onnx.ir.values import (
    const_of,
    dtype_of,
    is_constant,
    present,
    rank_of,
    size_of,
    static_shape,
)
from hlo2onnx.ir.weights import SMALL_ELEMENTS, ask

# -- int8 weights ----------------------------------------------------------------------------------

# Stored weights of products with floats, for runtimes that do not compute them in floats.
#
# ONNX Runtime 1.31 makes MatMulNBits of a MatMul with a dequantized constant, and quantizes the
# other operand on the way: the result is off by half a percent. Other weights it dequantizes in
# every run, while it folds a Cast and a Mul of constants when it loads the model.


def spell_out_weights(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DequantizeLinear of constants that meet no other dequantized values as
    (q - zero) * scale; None for others. The runtime folds that when it loads the model."""
    q, scale, zero = (*node.inputs, None)[:3]
    dims = None if q is None else static_shape(q)
    if q is None or scale is None or dims is None or not is_constant(q) or not is_constant(scale):
        return None
    if zero is not None and not is_constant(zero):
        return None
    if all(_meets_quantized(reader, node) for reader in node.outputs[0].consumers()):
        return None
    rank = rank_of(q)
    axis, block = node.attributes.get_int("axis", 1) % max(rank, 1), 1
    if "block_size" in node.attributes:
        block = node.attributes.get_int("block_size", 0)
        if dims[axis] % block:
            return None

    def beside(array: np.ndarray) -> np.ndarray:
        """Scales or zero points in a shape that broadcasts."""
        if block > 1:
            return np.expand_dims(array, axis + 1)
        return array.reshape([-1] + [1] * (rank - 1 - axis)) if array.ndim else array

    value = q
    if block > 1:
        blocks = [*dims[:axis], dims[axis] // block, block, *dims[axis + 1 :]]
        value = builder.derived(lambda array: array.reshape(blocks), q, is_moved=True)
    if zero is not None and not ask(_is_zero, zero):
        # f32 holds the difference of numbers of up to 16 bits, which all zero points are.
        exact = oir.DataType.FLOAT if dtype_of(scale) in _WIDE else oir.DataType.INT32
        zeros = builder.derived(beside, zero, is_moved=True)
        if (size_of(zeros) or 0) <= SMALL_ELEMENTS:
            zeros = builder.derived(lambda array: _cast(array, exact), zeros)
        value = builder.Sub(builder.cast(value, exact), builder.cast(zeros, exact))
    factors = builder.derived(beside, scale, is_moved=True)
    value = builder.Mul(builder.cast(value, dtype_of(scale)), factors)
    if block > 1:
        value = builder.reshape(value, dims)
    return value


def write_zero_point(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """A DequantizeLinear of int8 with several scales and no zero point, with one of zeros.

    Where ONNX Runtime makes int8 unsigned (`session.x64quantprecision`), it adds one zero point for
    all scales, and then refuses the node.
    """
    q, scale, zero = (*node.inputs, None)[:3]
    dims = None if scale is None else static_shape(scale)
    if q is None or zero is not None or dtype_of(q) != oir.DataType.INT8 or not dims:
        return None
    return builder.like(node, [q, scale, builder.const(np.zeros(dims, np.int8))])


_WIDE = frozenset({oir.DataType.FLOAT, oir.DataType.DOUBLE})


def _cast(array: np.ndarray, dtype: oir.DataType) -> np.ndarray:
    """Integers of any width in another type; ml_dtypes has no casts between its own and all."""
    return array.astype(np.int32).astype(dtype.numpy())


def _is_zero(array: np.ndarray) -> bool:
    return not array.any()


def _meets_quantized(reader: oir.Node, node: oir.Node) -> bool:
    """Whether a reader has another operand that is dequantized, or quantizes what it reads: the
    runtime may compute it in integers."""
    others = [x.producer() for x in reader.inputs if x is not None and x is not node.outputs[0]]
    quantizes = reader.op_type == "QuantizeLinear"
    return quantizes or any(x is not None and x.op_type == "DequantizeLinear" for x in others)


# -- empty constants -------------------------------------------------------------------------------

# Constants without elements, for runtimes that take them for scalars.


def expand_empty_constants(graph: oir.Graph, b: GraphBuilder) -> None:
    """c -> Expand(0, dims) in place, for constants without elements.

    Vectors of INT64 stay: they are shapes and axes, which runtimes want to be constants.
    """
    made: dict[oir.Value, oir.Value] = {}
    for node in list(all_nodes(graph)):
        for place, x in enumerate(node.inputs):
            array = None if x is None else const_of(x)
            if x is None or array is None or array.size or _is_shape(x):
                continue
            if x not in made:
                types = [(dtype_of(x), array.shape)]
                with b.before(graph[0]):
                    zero = b.scalar(0, dtype_of(x))
                    made[x] = b.op("Expand", zero, b.i64(list(array.shape)), types=types)
            node.replace_input_with(place, made[x])


def _is_shape(x: oir.Value) -> bool:
    return dtype_of(x) == oir.DataType.INT64 and rank_of(x) == 1


# -- constant conditions ---------------------------------------------------------------------------

# Conditions that a runtime knows when it loads a model.
#
# A runtime folds constants, and inlines the branch that an If with a constant condition takes. ONNX
# Runtime crashes if such an If is in a branch of another If.


_OF_SHAPES = frozenset({"Shape", "Size"})


def conceal_conditions(model: oir.Model) -> None:
    """Passes the conditions of Ifs that a runtime may know through a Loop of one trip. A runtime
    does not fold Loops. Calls may give a function constants."""
    for graph in each_graph(model):
        known = set() if graph is model.graph else set(graph.inputs)
        ifs = [node for node in all_nodes(graph) if node.op_type == "If"]
        found = [(node, x) for node in ifs for x in present(node.inputs) if _is_known(x, known)]
        if not found:
            continue
        builder = GraphBuilder(graph, graph.opset_imports[""])
        builder.adopt(graph)
        concealed: dict[oir.Value, oir.Value] = {}
        for node, condition in found:
            if condition not in concealed:
                concealed[condition] = _concealed(builder, condition)
            node.replace_input_with(0, concealed[condition])


def _is_known(value: oir.Value, known: set[oir.Value]) -> bool:
    """Whether a value depends on constants, static shapes and known values alone; these, too, are
    known then."""
    seen: set[oir.Value] = set()
    pending = [value]
    while pending:
        x = pending.pop()
        if x.const_value is not None or x in seen or x in known:
            continue
        node = x.producer()
        if node is None or node.op_type in RANDOM or subgraphs(node):
            return False
        seen.add(x)
        operands = present(node.inputs)
        if node.op_type not in _OF_SHAPES or static_shape(operands[0]) is None:
            pending += operands
    known |= seen
    return True


def _concealed(b: GraphBuilder, condition: oir.Value) -> oir.Value:
    """The same condition, after a Loop."""
    maker = condition.producer()
    with b.at_start() if maker is None else b.after(maker):
        trip, going = b.value("trip", oir.DataType.INT64, []), b.value("on", oir.DataType.BOOL, [])
        state = b.value("condition", oir.DataType.BOOL, [])
        with b.subgraph([trip, going, state], "concealed") as body:
            body.outputs.extend([b.Identity(going), b.Identity(state)])
        return b.op("Loop", b.i64(1), None, condition, body=body)
