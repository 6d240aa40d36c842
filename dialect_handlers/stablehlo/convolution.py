"""convolution: Conv, or ConvTranspose where the input is dilated."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.contraction import (
    Operand,
    accumulate,
    complex_product,
    contract,
    zeros,
)
from dialect_handlers.common.padding import pad
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.ir.dims import canonical, difference, is_static, multiple, product, quotient, total
from hlo2onnx.ir.shape_rules import INT64_MIN
from hlo2onnx.ir.values import FLOATS, Dim, Shape, dtype_of, rank_of, shape_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.lowering.shape_arithmetic import dims_of
from hlo2onnx.mlir.types import parts_of
from hlo2onnx.targets.decompositions.convolution import (
    conv_as_matmul,
    conv_transpose_as_matmul,
    pad_spatial,
    swap_channels,
)

_SYMBOLIC_KERNEL = (
    "the kernel's extent is dynamic",
    "lower the function for a static kernel shape",
)


@dataclass(frozen=True)
class Window:
    """How the window moves along one spatial axis, in the spec's terms.

    Attributes:
        extent: Of the input.
        size: Of the kernel.
        low, high: Padding around the dilated input; negative cuts.
    """

    extent: Dim
    size: Dim
    stride: int
    low: int
    high: int
    lhs_dilation: int
    rhs_dilation: int
    reversed: bool

    @property
    def reach(self) -> Dim:
        """Distance from the first to the last element under the window."""
        return multiple(difference(self.size, 1), self.rhs_dilation)

    @property
    def count(self) -> Dim:
        """How many windows there are."""
        spread = total(multiple(difference(self.extent, 1), self.lhs_dilation), 1)
        extent = spread if self.extent != 0 else 0
        room = canonical(extent + (self.low + self.high) - self.reach - 1)
        if isinstance(room, int):
            return max(room // self.stride + 1, 0)
        return canonical(room // self.stride + 1)

    @property
    def cut_low(self) -> int:
        """How much of the low end of a full ConvTranspose (where every output that an input
        reaches is kept) is cut off; negative where zeros are added."""
        return self._static_reach - self.low

    @property
    def cut_high(self) -> int:
        """The same at the high end."""
        return self._static_reach - self.high

    @property
    def _static_reach(self) -> int:
        if not isinstance(self.reach, int):
            raise UnsupportedOp(*_SYMBOLIC_KERNEL)
        return self.reach

    @property
    def sees_padding_only(self) -> bool:
        """Whether negative padding cuts off every element of the input."""
        if not isinstance(self.extent, int):
            return False
        return min(self.low, self.high) <= -((self.extent - 1) * self.lhs_dilation + 1)


@dataclass(frozen=True)
class Convolution:
    """A convolution of real tensors: axes, windows by spatial axis, groups.

    Attributes:
        layout: StableHLO's dimension numbers.
        windows: One per spatial axis.
    """

    layout: Any
    windows: tuple[Window, ...]
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
        if empty or any(window.sees_padding_only for window in self.windows):
            return zeros(em, dtype_of(lhs), dims)
        transposed = any(window.lhs_dilation > 1 for window in self.windows)
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

        Batch group g of the input meets kernel group g, and both make feature group g of the
        result: what a feature group of a smaller batch does.
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
        axes = [
            axis
            for axis, window in zip(layout.kernel_spatial_dimensions, self.windows, strict=True)
            if window.reversed != mirrored and window.size != 1
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
    em: Emitter, x: oir.Value, w: oir.Value, windows: Sequence[Window], group: int
) -> oir.Value:
    pads = [window.low for window in windows] + [window.high for window in windows]
    x = pad_spatial(em, x, [min(edge, 0) for edge in pads])
    attributes = {
        "dilations": [window.rhs_dilation for window in windows],
        "pads": [max(edge, 0) for edge in pads],
        "strides": [window.stride for window in windows],
    }
    if dtype_of(x) not in FLOATS:
        if not is_static(shape_of(w)[2:]):
            raise UnsupportedOp(*_SYMBOLIC_KERNEL)
        return conv_as_matmul(em, x, w, group=group, **attributes)
    sizes = [window.size for window in windows]
    kernel_shape = sizes if is_static(sizes) else None
    return em.Conv(x, w, group=group, kernel_shape=kernel_shape, **attributes)


def _conv_transpose(
    em: Emitter, x: oir.Value, w: oir.Value, windows: Sequence[Window], group: int
) -> oir.Value:
    """A convolution over a dilated input: ConvTranspose with the mirrored kernel and the dilation
    as stride computes it for window stride 1; of more, every stride-th result is kept."""
    cuts = [window.cut_low for window in windows] + [window.cut_high for window in windows]
    output_padding = [
        -window.cut_high if 0 < -window.cut_high < window.lhs_dilation else 0 for window in windows
    ]
    attributes: dict[str, Any] = {
        "dilations": [window.rhs_dilation for window in windows],
        "output_padding": output_padding if any(output_padding) else None,
        "pads": [max(cut, 0) for cut in cuts],
        "strides": [window.lhs_dilation for window in windows],
    }
    w = swap_channels(em, w, group)
    if dtype_of(x) not in FLOATS:
        y = conv_transpose_as_matmul(em, x, w, group=group, **attributes)
    else:
        kernel_shape = [window.size for window in windows]
        y = em.ConvTranspose(x, w, group=group, kernel_shape=kernel_shape, **attributes)
    missing = [max(-cut, 0) for cut in cuts]
    for axis, extra in enumerate(output_padding, len(windows)):
        missing[axis] -= extra
    y = pad_spatial(em, y, missing)
    extents = shape_of(y)[2:]
    return em.slice(
        y,
        [0] * len(windows),
        extents,
        [
            window.stride if extent != 1 else 1
            for window, extent in zip(windows, extents, strict=True)
        ],
        range(2, 2 + len(windows)),
    )


IGNORES = {"precision_config": "XLA computes at full precision on the CPU, whatever it says"}


@handles("stablehlo.convolution", ignores=IGNORES)
@handles("stablehlo.convolution", form="complex", ignores=IGNORES)
@handles("stablehlo.dynamic_conv", ignores=IGNORES)
@handles("stablehlo.dynamic_conv", form="complex", ignores=IGNORES)
def convolution(
    em: Emitter,
    op: Op,
    *,
    dimension_numbers: Any,
    feature_group_count: int,
    batch_group_count: int,
    window_strides: Sequence[int] = (),
    padding: Any = None,
    lhs_dilation: Sequence[int] = (),
    rhs_dilation: Sequence[int] = (),
    window_reversal: Sequence[bool] = (),
) -> Parts:
    """convolution(lhs, rhs) -> Conv or ConvTranspose between Transposes to ONNX's layout.

    dynamic_conv(lhs, rhs, padding) has its padding as an operand.
    """
    types = parts_of(op.results[0].type)
    lhs, rhs, *amounts = (em.parts(operand) for operand in op.operands)
    if len(types) != len(lhs):
        raise unsupported("mixed parts")
    rank = len(dimension_numbers.input_spatial_dimensions)
    edges: Any = np.zeros((rank, 2), int) if padding is None else np.reshape(padding, (rank, 2))
    if amounts:
        ((padding_value,),) = amounts
        edges = np.array(dims_of(em, padding_value), object)
        edges = edges.reshape(rank, 2)
    if not is_static(edges.reshape(-1).tolist()):
        if any(factor != 1 for factor in lhs_dilation):
            raise UnsupportedOp(
                "the padding around a dilated input depends on symbolic extents",
                "lower the function with static spatial extents",
            )
        axes = dimension_numbers.input_spatial_dimensions
        lhs = tuple(_padded(em, part, axes, edges) for part in lhs)
        edges = np.zeros((rank, 2), int)
    windows = tuple(
        Window(*row)
        for row in zip(
            (shape_of(lhs[0])[axis] for axis in dimension_numbers.input_spatial_dimensions),
            (shape_of(rhs[0])[axis] for axis in dimension_numbers.kernel_spatial_dimensions),
            window_strides or (1,) * rank,
            *edges.T.tolist(),
            lhs_dilation or (1,) * rank,
            rhs_dilation or (1,) * rank,
            window_reversal or (False,) * rank,
            strict=True,
        )
    )
    conv = Convolution(dimension_numbers, windows, feature_group_count, batch_group_count)

    def real_product(x: oir.Value, y: oir.Value) -> oir.Value:
        return accumulate(em, lambda a, b: conv.apply(em, a, b), x, y, types[0].dtype)

    return complex_product(em, real_product, lhs, rhs)


def _padded(em: Emitter, x: oir.Value, axes: Sequence[int], edges: Any) -> oir.Value:
    """x with zeros around its spatial axes, as many as these (low, high) extents."""
    low: list[Dim] = [0] * rank_of(x)
    high: list[Dim] = [0] * rank_of(x)
    for axis, (before, after) in zip(axes, edges.tolist(), strict=True):
        low[axis], high[axis] = before, after
    return pad(em, x, em.scalar_like(0, x), low, high, [0] * rank_of(x))
