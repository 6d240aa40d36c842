"""Conv and ConvTranspose as MatMul over windows, for element types without a Conv kernel.

Each function has the operands and result of the ONNX operator of that name, for any element type of
Pad, Slice, Gather and MatMul, and any number of spatial axes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.dims import canonical, fixed, is_static, product, quotient
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import Dim, present, rank_of, shape_of

_SLICES = 16
"""Up to this many windows are cut out one by one, more by one Gather. This limits the size of the
model; it is not a cost."""


def conv_as_matmul(
    builder: GraphBuilder,
    x: oir.Value,
    w: oir.Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
) -> oir.Value:
    """Conv(x, w): stacks windows of x, one spatial axis after the other, and multiplies them once.

    Args:
        x: (batch, channels, spatial...).
        w: (outputs, channels / group, kernel...), with static kernel extents.
        strides, dilations: One per spatial axis.
        pads: All low edges, then all high edges; negative ones crop.
        group: Number of channel groups.
    """
    x = pad_spatial(builder, x, pads)
    batch, _, *spatial = shape_of(x)
    outputs, channels, *_ = shape_of(w)
    kernel = fixed(shape_of(w)[2:])
    windows = [
        canonical((extent - (size - 1) * dilation - 1) // stride + 1)
        for extent, size, dilation, stride in zip(spatial, kernel, dilations, strides, strict=True)
    ]
    depth = product([channels, *kernel])
    groups = [group] if group > 1 else []
    x = builder.reshape(x, [batch, *groups, channels, *spatial])
    channel_axis, positions = 1 + len(groups), product(windows)
    w = builder.reshape(w, [*groups, quotient(outputs, group), depth])
    # Each finished axis has its stack in front of the spatial axes and its windows at the end.
    last = rank_of(x) - 1
    for size, dilation, window, stride in list(
        zip(kernel, dilations, windows, strides, strict=True)
    )[::-1]:
        stack = (size, dilation)
        x = _stack_windows(builder, x, last, channel_axis + 1, stack, (window, stride))
    result = builder.MatMul(w, builder.reshape(x, [batch, *groups, depth, positions]))
    return builder.reshape(result, [batch, outputs, *windows])


def conv_transpose_as_matmul(
    builder: GraphBuilder,
    x: oir.Value,
    w: oir.Value,
    *,
    strides: Sequence[int],
    pads: Sequence[int],
    dilations: Sequence[int],
    group: int = 1,
    output_padding: Sequence[int] | None = None,
) -> oir.Value:
    """ConvTranspose(x, w): the Conv of x spread out by the strides with the mirrored kernel.

    Args:
        x: (batch, channels, spatial...).
        w: (channels, outputs / group, kernel...), with static kernel extents.
        strides, dilations: One per spatial axis.
        pads: Elements cut off the output: all low edges, then all high edges.
        group: Number of channel groups.
        output_padding: Elements added to the high edges of the output.
    """
    kernel = fixed(shape_of(w)[2:])
    rank = len(kernel)
    w = swap_channels(builder, w, group)
    w = builder.slice(w, [-1] * rank, [INT64_MIN] * rank, [-1] * rank, range(2, 2 + rank))
    reach = [(size - 1) * dilation for size, dilation in zip(kernel, dilations, strict=True)]
    extra = output_padding or [0] * rank
    edges = [room - cut for room, cut in zip(reach, pads[:rank], strict=True)]
    edges += [r - cut + e for r, cut, e in zip(reach, pads[rank:], extra, strict=True)]
    return conv_as_matmul(
        builder,
        spread(builder, x, strides),
        w,
        strides=[1] * rank,
        pads=edges,
        dilations=dilations,
        group=group,
    )


def swap_channels(builder: GraphBuilder, w: oir.Value, group: int) -> oir.Value:
    """Converts the kernel of a ConvTranspose to that of a Conv, or back:
    (group * a, b, kernel...) -> (group * b, a, kernel...)."""
    rows, columns, *kernel = shape_of(w)
    kernel_axes = range(2, 2 + len(kernel))
    if group == 1:
        return builder.transpose(w, (1, 0, *kernel_axes))
    own = quotient(rows, group)
    w = builder.reshape(w, [group, own, columns, *kernel])
    w = builder.transpose(w, (0, 2, 1, *(axis + 1 for axis in kernel_axes)))
    return builder.reshape(w, [product([group, columns]), own, *kernel])


def spread(builder: GraphBuilder, x: oir.Value, factors: Sequence[int]) -> oir.Value:
    """Puts factor - 1 zeros between neighbours along each spatial axis."""
    if all(factor == 1 for factor in factors):
        return x
    batch, channels, *spatial = shape_of(x)
    columns: list[Dim] = [column for extent in spatial for column in (extent, 1)]
    x = builder.reshape(x, [batch, channels, *columns])
    gaps = [gap for factor in factors for gap in (0, factor - 1)]
    x = builder.Pad(x, builder.i64([0] * (4 + len(gaps)) + gaps))
    wide = [product(pair) for pair in zip(spatial, factors, strict=True)]
    x = builder.reshape(x, [batch, channels, *wide])
    limits = [canonical(extent - factor + 1) for extent, factor in zip(wide, factors, strict=True)]
    return builder.slice(x, [0] * len(wide), limits, axes=range(2, 2 + len(wide)))


def pad_spatial(builder: GraphBuilder, x: oir.Value, pads: Sequence[int]) -> oir.Value:
    """Zeros around the spatial axes: all low edges, then all high edges; negative ones crop."""
    rank = len(pads) // 2
    low, high = pads[:rank], pads[rank:]
    extents = shape_of(x)[2:]
    x = builder.slice(
        x,
        [max(-edge, 0) for edge in low],
        [canonical(extent + min(edge, 0)) for extent, edge in zip(extents, high, strict=True)],
        axes=range(2, 2 + rank),
    )
    added = [max(edge, 0) for edge in pads]
    if not any(added):
        return x
    return builder.Pad(x, builder.i64([0, 0, *added[:rank], 0, 0, *added[rank:]]))


def _stack_windows(
    builder: GraphBuilder,
    x: oir.Value,
    axis: int,
    stack_axis: int,
    stack: tuple[int, int],
    window: tuple[Dim, int],
) -> oir.Value:
    """Stacks windows of `axis` along a new axis in front of it.

    `stack` is (how many windows, distance between their starts), `window` (how many elements,
    distance between them).
    """
    (count, gap), (length, step) = stack, window
    if count > _SLICES and isinstance(length, int):
        indices = gap * np.arange(count)[:, None] + step * np.arange(length)
        x = builder.Gather(x, builder.const(indices), axis=axis)
        others = [other for other in range(rank_of(x)) if other != axis]
        return builder.transpose(x, [*others[:stack_axis], axis, *others[stack_axis:]])
    span = canonical((length - 1) * step + 1)
    windows = [
        builder.slice(x, [gap * index], [canonical(span + gap * index)], [step], [axis])
        for index in range(count)
    ]
    return builder.concat([builder.unsqueeze(one, [stack_axis]) for one in windows], stack_axis)


# -- the same for nodes of a graph ------------------------------------------------------------


def decompose_conv(builder: GraphBuilder, node: oir.Node) -> oir.Value | None:
    """The output of a Conv or ConvTranspose node from other operators; None where the kernel's
    extents are symbolic."""
    x, w, *bias = present(node.inputs)
    if not is_static(shape_of(w)[2:]):
        return None
    rank, given = rank_of(x) - 2, node.attributes
    attributes: dict[str, Any] = {
        "strides": given.get_ints("strides", [1] * rank),
        "pads": given.get_ints("pads", [0] * 2 * rank),
        "dilations": given.get_ints("dilations", [1] * rank),
        "group": given.get_int("group", 1),
    }
    if node.op_type == "Conv":
        y = conv_as_matmul(builder, x, w, **attributes)
    else:
        extra = given.get_ints("output_padding", [0] * rank)
        y = conv_transpose_as_matmul(builder, x, w, output_padding=extra, **attributes)
    return builder.Add(y, builder.unsqueeze(bias[0], range(1, rank + 1))) if bias else y
