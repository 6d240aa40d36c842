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
from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.graph.builder import INT64_MIN
from hlo2onnx.graph.values import FLOATS, dtype_of, static_shape
from hlo2onnx.lowering.emitter import Emitter, Parts
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles
from hlo2onnx.mlir.types import parts_of
from hlo2onnx.targets.decompositions.convolution import (
    conv_as_matmul,
    conv_transpose_as_matmul,
    pad_spatial,
    swap_channels,
)


@dataclass(frozen=True)
class Window:
    """How the window moves over one spatial axis, in the spec's terms.

    Attributes:
        extent: Of the input.
        size: Of the kernel.
        result: Extent of the result.
        low, high: Padding around the dilated input; negative cuts.
    """

    extent: int
    size: int
    result: int
    stride: int
    low: int
    high: int
    lhs_dilation: int
    rhs_dilation: int
    reversed: bool

    @property
    def dilated(self) -> int:
        """Extent of the dilated input."""
        return (self.extent - 1) * self.lhs_dilation + 1

    @property
    def reach(self) -> int:
        """Distance from the first to the last element of a window."""
        return (self.size - 1) * self.rhs_dilation

    @property
    def blind(self) -> bool:
        """Whether padding cuts off every element, or there is none."""
        return 0 in (self.extent, self.size, self.result) or min(self.low, self.high) <= -self.dilated


@dataclass(frozen=True)
class Convolution:
    """A convolution: layouts, windows by spatial axis, groups, and the result's extents."""

    numbers: Any
    windows: tuple[Window, ...]
    feature_groups: int
    batch_groups: int
    dims: tuple[int, ...]

    @property
    def group(self) -> int:
        """ONNX's group count: batch groups are made feature groups."""
        return max(self.feature_groups, self.batch_groups)

    def apply(self, em: Emitter, lhs: oir.Value, rhs: oir.Value) -> oir.Value:
        """The convolution of two real tensors of one element type."""
        if any(window.blind for window in self.windows) or 0 in (*_dims(lhs), *_dims(rhs)):
            return zeros(em, dtype_of(lhs), self.dims)
        x, w = self._input(em, lhs), self._kernel(em, rhs)
        if not self.windows:
            y = _grouped_matmul(em, x, w, self.group)
        elif all(window.lhs_dilation == 1 for window in self.windows):
            y = self._conv(em, x, w)
        else:
            y = self._conv_transpose(em, x, w)
        layout = (
            self.numbers.output_batch_dimension,
            self.numbers.output_feature_dimension,
            *self.numbers.output_spatial_dimensions,
        )
        return em.transpose(y, np.argsort(layout).tolist())

    def _input(self, em: Emitter, lhs: oir.Value) -> oir.Value:
        """(batch, features, spatial...); a batch group is a feature group of a smaller batch."""
        batch = self.numbers.input_batch_dimension
        axes = (self.numbers.input_feature_dimension, *self.numbers.input_spatial_dimensions)
        if self.batch_groups == 1:
            return em.transpose(lhs, (batch, *axes))
        dims = _dims(lhs)
        per_group = dims[batch] // self.batch_groups
        x = em.reshape(lhs, [*dims[:batch], self.batch_groups, per_group, *dims[batch + 1 :]])
        x = em.transpose(x, [axis + (axis > batch) for axis in (batch + 1, batch, *axes)]
        )
        return x

    def _kernel(self, em: Emitter, rhs: oir.Value) -> oir.Value:
        """(outputs, inputs per group, kernel...), reversed where the window is."""
        raise NotImplementedError
