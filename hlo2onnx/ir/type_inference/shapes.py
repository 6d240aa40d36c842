"""Type rules of the operators that move, select, reduce or contract."""

from __future__ import annotations

import math
from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.errors import InternalError
from hlo2onnx.ir.dims import fixed, total
from hlo2onnx.ir.op_families import REDUCTIONS
from hlo2onnx.ir.shapes import broadcast_shapes, common_dim, sliced_extent
from hlo2onnx.ir.type_inference.registry import Attributes, Inputs, ValueType, need, operand, rule
from hlo2onnx.ir.values import Dim, Shape, const_ints, const_of, dtype_of, rank_of, shape_of


def _ints(inputs: Inputs, index: int, what: str) -> tuple[int, ...]:
    ints = const_ints(operand(inputs, index))
    need(ints is not None, f"{what} is not constant; give types=")
    return ints or ()


def _axis(axis: int, rank: int) -> int:
    need(-rank <= axis < max(rank, 1), f"axis {axis} is outside rank {rank}")
    return axis % rank if rank else 0


def _size(dims: Sequence[Dim]) -> int | None:
    """Number of elements, None when an extent is dynamic."""
    static = [dim for dim in dims if isinstance(dim, int)]
    return math.prod(static) if len(static) == len(dims) else None


@rule("Reshape")
def _reshape(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape: list[Dim] = list(_ints(inputs, 1, "the shape"))
    if 0 in shape and not attributes.get("allowzero"):
        shape = [shape_of(x)[axis] if dim == 0 else dim for axis, dim in enumerate(shape)]
    size = _size(shape_of(x))
    if -1 in shape:
        known = _size([dim for dim in shape if dim != -1])
        if size is None or known is None:
            raise InternalError("-1 needs static shapes")
        shape[shape.index(-1)] = size // max(known, 1)
    if size is not None and _size(shape) not in (None, size):
        raise InternalError(f"cannot reshape to {shape}")
    return [(dtype_of(x), tuple(shape))]


@rule("Transpose")
def _transpose(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = shape_of(x)
    perm = attributes.get("perm", tuple(reversed(range(len(shape)))))
    need(sorted(perm) == list(range(len(shape))), f"{perm} does not permute rank {len(shape)}")
    return [(dtype_of(x), tuple(shape[axis] for axis in perm))]


@rule("Expand")
def _expand(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    return [(dtype_of(x), broadcast_shapes(shape_of(x), _ints(inputs, 1, "the shape")))]


@rule("Tile")
def _tile(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, repeats = operand(inputs, 0), _ints(inputs, 1, "repeats")
    return [(dtype_of(x), tuple(d * r for d, r in zip(shape_of(x), repeats, strict=True)))]


@rule("Squeeze")
def _squeeze(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = shape_of(x)
    axes = {_axis(axis, len(shape)) for axis in _ints(inputs, 1, "axes")}
    need(all(shape[axis] == 1 for axis in axes), f"squeezed axes {sorted(axes)} are not all 1")
    return [(dtype_of(x), tuple(dim for axis, dim in enumerate(shape) if axis not in axes))]


@rule("Unsqueeze")
def _unsqueeze(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, given = operand(inputs, 0), _ints(inputs, 1, "axes")
    rank = len(shape_of(x)) + len(given)
    axes = {_axis(axis, rank) for axis in given}
    dims = iter(shape_of(x))
    return [(dtype_of(x), tuple(1 if axis in axes else next(dims) for axis in range(rank)))]


@rule("Slice")
def _slice(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = list(shape_of(x))
    starts, ends = _ints(inputs, 1, "starts"), _ints(inputs, 2, "ends")
    axes = _ints(inputs, 3, "axes") if len(inputs) > 3 else tuple(range(len(starts)))
    steps = _ints(inputs, 4, "steps") if len(inputs) > 4 else (1,) * len(starts)
    for start, end, axis, step in zip(starts, ends, axes, steps, strict=True):
        dim = shape[_axis(axis, len(shape))]
        need(isinstance(dim, int), "slicing a dynamic axis; give types=")
        shape[axis] = sliced_extent(dim, start, end, step)
    return [(dtype_of(x), tuple(shape))]


@rule("Concat")
def _concat(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    dtype, shape = dtype_of(operand(inputs, 0)), shape_of(operand(inputs, 0))
    axis = _axis(attributes["axis"], len(shape))
    result = list(shape)
    for index in range(1, len(inputs)):
        x = operand(inputs, index)
        need(dtype_of(x) == dtype, "unlike types")
        need(rank_of(x) == len(result), "unlike ranks")
        result = [
            total(one, two) if place == axis else common_dim(one, two)
            for place, (one, two) in enumerate(zip(result, shape_of(x), strict=True))
        ]
    return [(dtype, tuple(result))]


@rule("Split")
def _split(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    axis = _axis(attributes.get("axis", 0), len(shape_of(x)))
    sizes = _ints(inputs, 1, "the split")
    need(len(sizes) == n_outputs and sum(sizes) == shape_of(x)[axis], f"cannot split into {sizes}")
    shape = shape_of(x)
    return [(dtype_of(x), (*shape[:axis], size, *shape[axis + 1 :])) for size in sizes]


@rule("Pad")
def _pad(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, pads = operand(inputs, 0), _ints(inputs, 1, "pads")
    shape = list(shape_of(x))
    axes = _ints(inputs, 3, "axes") if len(inputs) > 3 else tuple(range(len(shape)))
    need(len(pads) == 2 * len(axes), "pads do not fit the axes")
    for index, axis in enumerate(axes):
        extra = pads[index] + pads[index + len(axes)]
        if extra:
            shape[axis] = total(shape[axis], extra)
    return [(dtype_of(x), tuple(shape))]


@rule("Gather")
def _gather(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, indices = operand(inputs, 0), operand(inputs, 1)
    shape = shape_of(x)
    axis = _axis(attributes.get("axis", 0), len(shape))
    return [(dtype_of(x), (*shape[:axis], *shape_of(indices), *shape[axis + 1 :]))]


@rule("GatherElements")
def _gather_elements(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(dtype_of(operand(inputs, 0)), shape_of(operand(inputs, 1)))]


@rule("GatherND")
def _gather_nd(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, indices = operand(inputs, 0), operand(inputs, 1)
    batch = attributes.get("batch_dims", 0)
    *outer, depth = shape_of(indices)
    need(isinstance(depth, int), "the depth of indices is dynamic")
    return [(dtype_of(x), (*outer, *shape_of(x)[batch + sum(fixed([depth])) :]))]


@rule(*REDUCTIONS)
def _reduce(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = shape_of(x)
    has_axes = len(inputs) > 1 and inputs[1] is not None
    axes = {_axis(axis, len(shape)) for axis in _ints(inputs, 1, "axes")} if has_axes else set()
    if not axes and not attributes.get("noop_with_empty_axes"):
        axes = set(range(len(shape)))
    return [(dtype_of(x), _reduced(shape, axes, attributes.get("keepdims", 1)))]


@rule("ArgMax", "ArgMin")
def _arg_reduce(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    shape = shape_of(operand(inputs, 0))
    axis = _axis(attributes.get("axis", 0), len(shape))
    return [(oir.DataType.INT64, _reduced(shape, {axis}, attributes.get("keepdims", 1)))]


def _reduced(shape: Shape, axes: set[int], keepdims: int) -> Shape:
    kept = [None if axis in axes else dim for axis, dim in enumerate(shape)]
    return tuple(1 if dim is None else dim for dim in kept if dim is not None or keepdims)


@rule("TopK")
def _top_k(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, (k,) = operand(inputs, 0), _ints(inputs, 1, "k")
    shape = list(shape_of(x))
    shape[_axis(attributes.get("axis", -1), len(shape))] = k
    return [(dtype_of(x), tuple(shape)), (oir.DataType.INT64, tuple(shape))]


@rule("MatMul")
def _matmul(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    a, b = operand(inputs, 0), operand(inputs, 1)
    left, right = shape_of(a), shape_of(b)
    need(dtype_of(a) == dtype_of(b), "operands of different types")
    need(len(left) >= 2 and len(right) >= 2, "MatMul is emitted for rank >= 2 only")
    common_dim(left[-1], right[-2])
    batch = broadcast_shapes(left[:-2], right[:-2]) if len(left) + len(right) > 4 else ()
    return [(dtype_of(a), (*batch, left[-2], right[-1]))]


@rule("Gemm")
def _gemm(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    a, b = operand(inputs, 0), operand(inputs, 1)
    rows = shape_of(a)[1 if attributes.get("transA") else 0]
    columns = shape_of(b)[0 if attributes.get("transB") else 1]
    return [(dtype_of(a), (rows, columns))]


@rule("Conv")
def _conv(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, w = operand(inputs, 0), operand(inputs, 1)
    need(dtype_of(x) == dtype_of(w), "operands of different types")
    dims = _windows(shape_of(x)[2:], shape_of(w)[2:], attributes)
    return [(dtype_of(x), (shape_of(x)[0], shape_of(w)[0], *dims))]


@rule("ConvTranspose")
def _conv_transpose(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, w = operand(inputs, 0), operand(inputs, 1)
    rank = len(shape_of(x)) - 2
    pads = attributes.get("pads", (0,) * 2 * rank)
    strides = attributes.get("strides", (1,) * rank)
    dilations = attributes.get("dilations", (1,) * rank)
    extra = attributes.get("output_padding", (0,) * rank)
    dims = [
        strides[i] * (dim - 1) + extra[i] + (size - 1) * dilations[i] + 1 - pads[i] - pads[i + rank]
        for i, (dim, size) in enumerate(zip(shape_of(x)[2:], shape_of(w)[2:], strict=True))
    ]
    channels = shape_of(w)[1] * attributes.get("group", 1)
    return [(dtype_of(x), (shape_of(x)[0], channels, *dims))]


@rule("MaxPool", "AveragePool", "LpPool")
def _pool(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    dims = _windows(shape_of(x)[2:], attributes["kernel_shape"], attributes)
    pooled: ValueType = (dtype_of(x), (*shape_of(x)[:2], *dims))
    return [pooled, (oir.DataType.INT64, pooled[1])][:n_outputs]


def _windows(dims: Shape, kernel: Sequence[Dim], attributes: Attributes) -> list[Dim]:
    rank = len(dims)
    pads = attributes.get("pads", (0,) * 2 * rank)
    strides = attributes.get("strides", (1,) * rank)
    dilations = attributes.get("dilations", (1,) * rank)
    need(not attributes.get("ceil_mode") and "auto_pad" not in attributes, "explicit pads only")
    result: list[Dim] = []
    for i, dim in enumerate(dims):
        room = dim + (pads[i] + pads[i + rank] - (kernel[i] - 1) * dilations[i] - 1)
        result.append(room // strides[i] + 1 if strides[i] != 1 else room + 1)
    return result


@rule("GlobalAveragePool", "GlobalMaxPool")
def _global_pool(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = shape_of(x)
    return [(dtype_of(x), (*shape[:2], *(1 for _ in shape[2:])))]


@rule("Shape")
def _shape(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    rank = len(shape_of(operand(inputs, 0)))
    start, end, _ = slice(attributes.get("start", 0), attributes.get("end")).indices(rank)
    return [(oir.DataType.INT64, (max(end - start, 0),))]


@rule("Size")
def _size_of(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    return [(oir.DataType.INT64, ())]


@rule("Range")
def _range(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    bounds = [const_of(operand(inputs, index)) for index in range(3)]
    need(all(item is not None for item in bounds), "Range with run-time bounds; give types=")
    start, limit, delta = (item.item() for item in bounds if item is not None)
    return [(dtype_of(operand(inputs, 0)), (max(math.ceil((limit - start) / delta), 0),))]


@rule("OneHot")
def _one_hot(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    indices, (depth,) = operand(inputs, 0), _ints(inputs, 1, "depth")
    shape: list[Dim] = list(shape_of(indices))
    shape.insert(_axis(attributes.get("axis", -1), len(shape) + 1), depth)
    return [(dtype_of(operand(inputs, 2)), tuple(shape))]


@rule("DepthToSpace")
def _depth_to_space(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x, block = operand(inputs, 0), attributes["blocksize"]
    n, c, h, w = shape_of(x)
    return [(dtype_of(x), (n, c // (block * block), h * block, w * block))]


@rule("DFT")
def _dft(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    x = operand(inputs, 0)
    shape = list(shape_of(x))
    given = _ints(inputs, 2, "the axis")[0] if len(inputs) > 2 else attributes.get("axis", 1)
    axis = _axis(given, len(shape))
    inverse, onesided = bool(attributes.get("inverse")), bool(attributes.get("onesided"))
    extent = shape[axis]
    if len(inputs) > 1 and inputs[1] is not None:
        extent = _ints(inputs, 1, "the length")[0]
    elif inverse and onesided:
        need(isinstance(extent, int), "the extent is dynamic; give types=")
        extent = 2 * (fixed([extent])[0] - 1)
    if onesided and not inverse:
        need(isinstance(extent, int), "the extent is dynamic; give types=")
        extent = fixed([extent])[0] // 2 + 1
    shape[axis], shape[-1] = extent, 1 if inverse and onesided else 2
    return [(dtype_of(x), tuple(shape))]


@rule("If")
def _if(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    branches = zip(
        attributes["then_branch"].outputs, attributes["else_branch"].outputs, strict=True
    )
    types: list[ValueType] = []
    for first, second in branches:
        need(dtype_of(first) == dtype_of(second), "the branches have different element types")
        pairs = zip(shape_of(first), shape_of(second), strict=True)
        types.append((dtype_of(first), tuple(_either(one, other) for one, other in pairs)))
    need(len(types) == n_outputs, "the branches have another number of outputs")
    return types


def _either(first: Dim, second: Dim) -> Dim:
    return first if first == second else oir.SymbolicDim(None)


@rule("Loop")
def _loop(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    """The state as the body declares it; stacked outputs have as many rows as there are trips."""
    body = attributes["body"]
    state = list(body.inputs)[2:]
    results = list(body.outputs)[1:]
    need(len(results) == n_outputs, "the body has another number of results")
    need(len(state) == len(inputs) - 2, "the body has another number of states")
    for before, after in zip(state, results, strict=False):
        need(dtype_of(before) == dtype_of(after), "a state changes its element type")
        pairs = zip(shape_of(before), shape_of(after), strict=True)
        changed = [
            p for p in pairs if isinstance(p[0], int) and isinstance(p[1], int) and p[0] != p[1]
        ]
        need(not changed, "a state changes its shape")
    types: list[ValueType] = [(dtype_of(x), shape_of(x)) for x in state]
    # With a condition the loop may end early.
    trips = const_ints(inputs[0]) if inputs[1] is None else None
    rows: Dim = trips[0] if trips else oir.SymbolicDim(None)
    return types + [(dtype_of(x), (rows, *shape_of(x))) for x in results[len(state) :]]
