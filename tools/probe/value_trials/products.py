"""Trials of matrix products, contractions and pooling: integers wrap, floats are small numbers."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    mixed,
    small,
    spread,
    summands,
)


def _matmul(dtype: ir.DataType) -> list[Trial]:
    shapes = [
        ((5, VECTOR), (VECTOR, 6)),
        ((VECTOR,), (VECTOR,)),
        ((3, 2, 9), (3, 9, 4)),
        ((3, 2, 9), (9, 4)),
        ((1, VECTOR), (VECTOR, 1)),
        ((2, 1, 3, 4), (5, 4, 3)),
    ]
    found = []
    for left, right in shapes:
        x, y = summands(dtype, *left, seed=1), summands(dtype, *right, seed=2)
        with np.errstate(all="ignore"):
            found.append(Trial("MatMul", (x, y), (np.asarray(np.matmul(x, y)),)))
    return found


def _gemm(dtype: ir.DataType) -> list[Trial]:
    x, y, z = (summands(dtype, *shape) for shape in ((5, 9), (9, 4), (4,)))
    turned = {"transA": 1, "transB": 1}
    return [
        Trial("Gemm", (x, y), (x @ y,)),
        Trial("Gemm", (x, y, z), (x @ y + z,)),
        Trial("Gemm", (x.T.copy(), y.T.copy(), z), (x @ y + z,), turned),
    ]


_EQUATIONS: Mapping[str, tuple[tuple[int, ...], ...]] = {
    "ij,jk->ik": ((5, VECTOR), (VECTOR, 6)),
    "bij,bjk->bik": ((3, 2, 9), (3, 9, 4)),
    "ijk,jkl->il": ((2, 3, 9), (3, 9, 4)),
    "ij,ij->": ((4, 9), (4, 9)),
    "ij->": ((5, VECTOR),),
    "ij->j": ((5, VECTOR),),
    "ijk->j": ((3, 4, 9),),
    "ii->i": ((5, 5),),
    "i,j->ij": ((5,), (VECTOR,)),
    "ij->ji": ((5, VECTOR),),
}


def _einsum(dtype: ir.DataType) -> list[Trial]:
    found = []
    for equation, shapes in _EQUATIONS.items():
        operands = tuple(summands(dtype, *s, seed=n) for n, s in enumerate(shapes))
        # numpy's einsum lacks the types of ml_dtypes. The sums of small numbers are exact in f64.
        known = operands[0].dtype.isbuiltin == 1
        wide = operands if known else tuple(x.astype(np.float64) for x in operands)
        with np.errstate(all="ignore"):
            right = np.asarray(np.einsum(equation, *wide, dtype=wide[0].dtype))
        right = np.ascontiguousarray(right.astype(operands[0].dtype)).reshape(right.shape)
        found.append(Trial("Einsum", operands, (right,), {"equation": equation}))
    return found


def _matmul_integer(left: ir.DataType, right: ir.DataType) -> list[Trial]:
    """The largest numbers of both types and any others, with and without zero points."""
    x, y = mixed(left, 5, VECTOR), mixed(right, VECTOR, 6)
    ends = np.full_like(x, edges(left)[-1]), np.full_like(y, edges(right)[0])
    points = np.asarray(edges(left)[1]), np.asarray(edges(right)[2])
    found = []
    for a, b, zeros in ((x, y, ()), (*ends, ()), (x, y, points)):
        shifts = [int(zero) for zero in zeros] or [0, 0]
        product = (a.astype(np.int32) - shifts[0]) @ (b.astype(np.int32) - shifts[1])
        found.append(Trial("MatMulInteger", (a, b, *zeros), (product.astype(np.int32),)))
    return found


def _known(x: Array) -> Array:
    """Small numbers in a type that numpy has."""
    return x if x.dtype.isbuiltin == 1 else x.astype(np.float32)


def _conv_integer(left: ir.DataType, right: ir.DataType) -> list[Trial]:
    x, w = mixed(left, 1, 2, VECTOR), mixed(right, 3, 2, 4)
    windows = np.lib.stride_tricks.sliding_window_view(x.astype(np.int32), 4, axis=2)
    right_sum = np.einsum("nclk,fck->nfl", windows, w.astype(np.int32))
    return [Trial("ConvInteger", (x, w), (right_sum.astype(np.int32),))]


def _conv(dtype: ir.DataType) -> list[Trial]:
    x, w, bias = small(dtype, 2, 4, 9, VECTOR), small(dtype, 6, 2, 3, 2, seed=1), small(dtype, 6)
    windows = np.lib.stride_tricks.sliding_window_view(_known(x), (3, 2), axis=(2, 3))
    groups = windows.reshape(2, 2, 2, *windows.shape[2:])
    weights = _known(w).reshape(2, 3, 2, 3, 2)
    right = np.einsum("ngchwij,gfcij->ngfhw", groups, weights).reshape(2, 6, *windows.shape[2:4])
    right = (right + _known(bias)[:, None, None]).astype(x.dtype)
    thinned = np.ascontiguousarray(right[:, :, ::2, ::3])
    return [
        Trial("Conv", (x, w, bias), (right,), {"group": 2}),
        Trial("Conv", (x, w, bias), (thinned,), {"group": 2, "strides": [2, 3]}),
    ]


def _max_pool(dtype: ir.DataType) -> list[Trial]:
    """Finite numbers; windows plain, strided and apart, padded."""
    x = spread(edges(dtype), 2, 3, 9, VECTOR)
    found = [_max_pooled(x, (2, 3), (1, 1), (1, 1)), _max_pooled(x, (3, 2), (2, 3), (2, 5))]
    line = spread(edges(dtype), 1, 2, VECTOR)
    least = np.full((1, 2, 1), min(edges(dtype), key=float), line.dtype)
    padded = np.concatenate([least, line, least], axis=2)
    right = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2).max(axis=-1)
    attributes = {"kernel_shape": [3], "pads": [1, 1]}
    return [*found, Trial("MaxPool", (line,), (right,), attributes)]


def _max_pooled(
    x: Array, kernel: tuple[int, int], strides: tuple[int, int], apart: tuple[int, int]
) -> Trial:
    spans = tuple((size - 1) * step + 1 for size, step in zip(kernel, apart, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: apart[0], :: apart[1]]
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": apart}
    return Trial("MaxPool", (x,), (windows.max(axis=(-2, -1)),), attributes)


def _mean(dtype: ir.DataType) -> list[Trial]:
    """Means of two and of four, which halve whole numbers."""
    many = [small(dtype, 4, VECTOR, seed=n) for n in range(4)]
    return [
        Trial(
            "Mean", tuple(many[:count]), (sum(many[1:count], many[0]) / many[0].dtype.type(count),)
        )
        for count in (1, 2, 4)
    ]


TRIALS: Mapping[str, Trials] = {
    "Conv": _conv,
    "ConvInteger.w": _conv_integer,
    "Einsum": _einsum,
    "Gemm": _gemm,
    "MatMul": _matmul,
    "MatMulInteger.B": _matmul_integer,
    "MaxPool": _max_pool,
    "Mean": _mean,
}
