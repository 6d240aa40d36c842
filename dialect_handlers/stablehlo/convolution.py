"""convolution: Conv, or ConvTranspose where the input is dilated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import onnx_ir as oir
from jaxlib.mlir.dialects import stablehlo

from dialect_handlers.common.contraction import (
    Operand,
    accumulate,
    complex_product,
    contract,
    zeros,
)
from dialect_handlers.common.windows import WindowAxis, lay_out, window_axes
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.dims import canonical, difference, fixed, is_static, product, quotient
from hlo2onnx.ir.shapes import INT64_MIN
from hlo2onnx.ir.values import FLOATS, Dim, Shape, dtype_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import dims_of
from hlo2onnx.targets.decompositions.convolution import (
    conv_as_matmul,
    conv_transpose_as_matmul,
    pad_spatial,
    swap_channels,
)


@dataclass(frozen=True)
class Convolution:
    """A convolution of real tensors.

    Attributes:
        layout: StableHLO's dimension numbers.
        windows: By spatial axis, how the kernel moves over the input.
        reversal: By spatial axis, whether the kernel is reversed.
    """

    layout: stablehlo.ConvDimensionNumbers
    windows: Sequence[WindowAxis]
    reversal: Sequence[bool]
    feature_groups: int
    batch_groups: int

    @property
    def group(self) -> int:
        """ONNX's group count; see `_input` for batch groups."""
        return max(self.feature_groups, self.batch_groups)

    def apply(self, em: Emitter, lhs: oir.Value, rhs: oir.Value) -> oir.Value:
        """The convolution of two tensors of one element type."""
        dims = self._dims(shape_of(lhs), shape_of(rhs))
        empty = 0 in (*shape_of(lhs), *shape_of(rhs), *dims)
        if empty or any(window.never_holds for window in self.windows):
            return zeros(em, dtype_of(lhs), dims)
        transposed = any(window.gap > 1 for window in self.windows)
        x, w = self._input(em, lhs), self._kernel(em, rhs, mirrored=transposed)
        if not self.windows:
            y = _matmul(em, x, w, self.group)
        elif transposed:
            y = _conv_transpose(em, x, w, self.windows, self.group)
        else:
            y = _conv(em, x, w, self.windows, self.group)
        layout = self.layout
        axes = (layout.output_batch_dimension, layout.output_feature_dimension)
        return em.transpose(y, np.argsort((*axes, *layout.output_spatial_dimensions)).tolist())

    def _dims(self, lhs: Shape, rhs: Shape) -> list[Dim]:
        """The extents of the result."""
        layout = self.layout
        batch = quotient(lhs[layout.input_batch_dimension], self.batch_groups)
        dims: list[Dim] = [0] * len(lhs)
        dims[layout.output_batch_dimension] = batch
        dims[layout.output_feature_dimension] = rhs[layout.kernel_output_feature_dimension]
        for axis, window in zip(layout.output_spatial_dimensions, self.windows, strict=True):
            dims[axis] = window.count
        return dims

    def _input(self, em: Emitter, lhs: oir.Value) -> oir.Value:
        """lhs as (batch, features, spatial...).

        Batch group g of the input and kernel group g make feature group g of the result, like a
        feature group of a smaller batch.
        """
        batch = self.layout.input_batch_dimension
        axes = (self.layout.input_feature_dimension, *self.layout.input_spatial_dimensions)
        if self.batch_groups == 1:
            return em.transpose(lhs, (batch, *axes))
        dims = shape_of(lhs)
        size = canonical(dims[batch] // self.batch_groups)
        x = em.reshape(lhs, [*dims[:batch], self.batch_groups, size, *dims[batch + 1 :]])
        x = em.transpose(x, [batch + 1, batch, *(axis + (axis > batch) for axis in axes)])
        _, groups, features, *spatial = shape_of(x)
        return em.reshape(x, [size, product((groups, features)), *spatial])

    def _kernel(self, em: Emitter, rhs: oir.Value, *, mirrored: bool) -> oir.Value:
        """rhs as (outputs, inputs per group, kernel...), reversed where the window is, and where
        it is not if `mirrored`."""
        layout = self.layout
        spatial = zip(layout.kernel_spatial_dimensions, self.windows, self.reversal, strict=True)
        axes = [
            axis
            for axis, window, is_reversed in spatial
            if is_reversed != mirrored and window.window != 1
        ]
        count = len(axes)
        w = em.slice(rhs, [-1] * count, [INT64_MIN] * count, [-1] * count, axes)
        channels = (layout.kernel_output_feature_dimension, layout.kernel_input_feature_dimension)
        return em.transpose(w, (*channels, *layout.kernel_spatial_dimensions))


def _matmul(em: Emitter, x: oir.Value, w: oir.Value, group: int) -> oir.Value:
    """A convolution without spatial axes: MatMul of (batch, features) and (outputs, inputs)."""
    if group == 1:
        return contract(em, Operand(x, (), (1,)), Operand(w, (), (1,)))
    (batch, features), (outputs, inputs) = shape_of(x), shape_of(w)
    x = em.reshape(x, [batch, group, quotient(features, group)])
    w = em.reshape(w, [group, quotient(outputs, group), inputs])
    y = contract(em, Operand(x, (1,), (2,)), Operand(w, (0,), (2,)))
    return em.reshape(em.transpose(y, (1, 0, 2)), [batch, outputs])


def _conv(
    em: Emitter, x: oir.Value, w: oir.Value, windows: Sequence[WindowAxis], group: int
) -> oir.Value:
    pads = fixed([window.low for window in windows] + [window.high for window in windows])
    x = pad_spatial(em, x, [min(edge, 0) for edge in pads])
    attributes = {
        "dilations": [window.step for window in windows],
        "pads": [max(edge, 0) for edge in pads],
        "strides": [window.stride for window in windows],
    }
    if dtype_of(x) not in FLOATS:
        _static_sizes(windows)
        return conv_as_matmul(em, x, w, group=group, **attributes)
    sizes = [window.window for window in windows]
    kernel_shape = fixed(sizes) if is_static(sizes) else None
    return em.Conv(x, w, group=group, kernel_shape=kernel_shape, **attributes)


def _conv_transpose(
    em: Emitter, x: oir.Value, w: oir.Value, windows: Sequence[WindowAxis], group: int
) -> oir.Value:
    """A convolution over a dilated input: ConvTranspose with the mirrored kernel and the dilation
    as stride computes it for window stride 1; of more, every stride-th result is kept.

    A full ConvTranspose keeps every output that an input reaches. `cuts` says how much of its low
    ends and its high ends is cut off; a negative number adds zeros.
    """
    sizes = _static_sizes(windows)
    reaches = fixed([difference(window.span, 1) for window in windows])
    low, high = (fixed(edges) for edges in zip(*((w.low, w.high) for w in windows), strict=True))
    cuts = [reach - edge for edge, reach in zip(low + high, reaches * 2, strict=True)]
    output_padding = [
        -cut if 0 < -cut < window.gap else 0
        for cut, window in zip(cuts[len(windows) :], windows, strict=True)
    ]
    attributes = {
        "dilations": [window.step for window in windows],
        "pads": [max(cut, 0) for cut in cuts],
        "strides": [window.gap for window in windows],
    }
    w = swap_channels(em, w, group)
    padding = output_padding if any(output_padding) else None
    if dtype_of(x) not in FLOATS:
        y = conv_transpose_as_matmul(em, x, w, group=group, output_padding=padding, **attributes)
    else:
        y = em.ConvTranspose(
            x, w, group=group, kernel_shape=sizes, output_padding=padding, **attributes
        )
    missing = [max(-cut, 0) for cut in cuts]
    for axis, extra in enumerate(output_padding, len(windows)):
        missing[axis] -= extra
    y = pad_spatial(em, y, missing)
    extents = shape_of(y)[2:]
    strides = [
        window.stride if extent != 1 else 1 for window, extent in zip(windows, extents, strict=True)
    ]
    return em.slice(y, [0] * len(windows), extents, strides, range(2, 2 + len(windows)))


def _static_sizes(windows: Sequence[WindowAxis]) -> list[int]:
    sizes = [window.window for window in windows]
    if not is_static(sizes):
        raise UnsupportedOp(
            "the kernel's extent is dynamic", "lower the function for a static kernel shape"
        )
    return fixed(sizes)


IGNORES = {"precision_config": "XLA computes at full precision on the CPU, whatever it says"}


@handles("stablehlo.convolution", ignores=IGNORES)
@handles("stablehlo.convolution", form="complex", ignores=IGNORES)
@handles("stablehlo.dynamic_conv", ignores=IGNORES)
@handles("stablehlo.dynamic_conv", form="complex", ignores=IGNORES)
def convolution(
    em: Emitter,
    op: Op,
    *,
    dimension_numbers: stablehlo.ConvDimensionNumbers,
    feature_group_count: int,
    batch_group_count: int,
    window_strides: Sequence[int] = (),
    padding: np.ndarray | None = None,
    lhs_dilation: Sequence[int] = (),
    rhs_dilation: Sequence[int] = (),
    window_reversal: Sequence[bool] = (),
) -> Parts:
    """convolution(lhs, rhs) -> Conv or ConvTranspose between Transposes to ONNX's layout.

    The padding of dynamic_conv(lhs, rhs, padding) is an operand.
    """
    types = parts_of(op.results[0].type)
    lhs, rhs, *amounts = (em.parts(operand) for operand in op.operands)
    if len(types) != len(lhs):
        raise unsupported("mixed parts")
    numbers = dimension_numbers
    rank = len(numbers.input_spatial_dimensions)
    edges: np.ndarray | list[list[Dim]] | None = padding
    if padding is not None:
        edges = np.reshape(padding, (rank, 2))
    if amounts:
        ((padding_value,),) = amounts
        flat = dims_of(em, padding_value)
        edges = [flat[2 * axis : 2 * axis + 2] for axis in range(rank)]
    windows = window_axes(
        [shape_of(lhs[0])[axis] for axis in numbers.input_spatial_dimensions],
        [shape_of(rhs[0])[axis] for axis in numbers.kernel_spatial_dimensions],
        window_strides,
        edges,
        lhs_dilation,
        rhs_dilation,
    )
    lhs, windows = _padded(em, lhs, numbers.input_spatial_dimensions, windows)
    reversal = window_reversal or [False] * rank
    groups = feature_group_count, batch_group_count
    conv = Convolution(numbers, windows, reversal, *groups)

    def real_product(x: oir.Value, y: oir.Value) -> oir.Value:
        return accumulate(em, lambda a, b: conv.apply(em, a, b), x, y, types[0].dtype)

    return complex_product(em, real_product, lhs, rhs)


def _padded(
    em: Emitter, x: Parts, axes: Sequence[int], windows: Sequence[WindowAxis]
) -> tuple[Parts, list[WindowAxis]]:
    """x with the padding that is symbolic, and its windows without this padding."""
    outside = {
        axis: window
        for axis, window in zip(axes, windows, strict=True)
        if not is_static((window.low, window.high))
    }
    x = tuple(lay_out(em, part, outside, em.scalar_like(0, part)) for part in x)
    inside = [
        replace(window, extent=window.padded, low=0, high=0) if axis in outside else window
        for axis, window in zip(axes, windows, strict=True)
    ]
    return x, inside
