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
    node,
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
        found.append(node("MatMul", x, y, right=(_product(x, y),)))
    return found


def _product(x: Array, y: Array) -> Array:
    """In the type of the operands; the reference takes another one for bf16."""
    with np.errstate(all="ignore"):
        return np.asarray(np.matmul(x, y)).astype(x.dtype)


def _gemm(dtype: ir.DataType) -> list[Trial]:
    """The reference multiplies integers by a float, and bf16 in f32."""
    x, y, z = (summands(dtype, *shape) for shape in ((5, 9), (9, 4), (4,)))
    plain, moved = _product(x, y), _product(x, y) + z
    return [
        node("Gemm", x, y, right=(plain,)),
        node("Gemm", x, y, z, right=(moved,)),
        node("Gemm", x.T.copy(), y.T.copy(), z, right=(moved,), transA=1, transB=1),
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
    return [
        node(
            "Einsum",
            *(summands(dtype, *shape, seed=n) for n, shape in enumerate(shapes)),
            equation=equation,
        )
        for equation, shapes in _EQUATIONS.items()
    ]


def _matmul_integer(left: ir.DataType, right: ir.DataType) -> list[Trial]:
    """The largest numbers of both types and any others, with and without zero points."""
    x, y = mixed(left, 5, VECTOR), mixed(right, VECTOR, 6)
    ends = np.full_like(x, edges(left)[-1]), np.full_like(y, edges(right)[0])
    return [
        node("MatMulInteger", x, y),
        node("MatMulInteger", *ends),
        node("MatMulInteger", x, y, edges(left)[1], edges(right)[2]),
    ]


def _conv_integer(left: ir.DataType, right: ir.DataType) -> list[Trial]:
    return [node("ConvInteger", mixed(left, 1, 2, VECTOR), mixed(right, 3, 2, 4))]


def _conv(dtype: ir.DataType) -> list[Trial]:
    inputs = small(dtype, 2, 4, 9, VECTOR), small(dtype, 6, 2, 3, 2, seed=1), small(dtype, 6)
    return [
        node("Conv", *inputs, group=2),
        node("Conv", *inputs, group=2, strides=[2, 3]),
    ]


def _max_pool(dtype: ir.DataType) -> list[Trial]:
    """Finite numbers; windows plain, strided and apart, padded. The reference fails on them."""
    x = spread(edges(dtype), 2, 3, 9, VECTOR)
    found = [_max_pooled(x, (2, 3), (1, 1), (1, 1)), _max_pooled(x, (3, 2), (2, 3), (2, 5))]
    line = spread(edges(dtype), 1, 2, VECTOR)
    least = np.full((1, 2, 1), min(edges(dtype), key=float), line.dtype)
    padded = np.concatenate([least, line, least], axis=2)
    right = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2).max(axis=-1)
    return [*found, node("MaxPool", line, right=(right,), kernel_shape=[3], pads=[1, 1])]


def _max_pooled(
    x: Array, kernel: tuple[int, int], strides: tuple[int, int], apart: tuple[int, int]
) -> Trial:
    spans = tuple((size - 1) * step + 1 for size, step in zip(kernel, apart, strict=True))
    windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
    windows = windows[:, :, :: strides[0], :: strides[1], :: apart[0], :: apart[1]]
    attributes = {"kernel_shape": kernel, "strides": strides, "dilations": apart}
    return node("MaxPool", x, right=(windows.max(axis=(-2, -1)),), **attributes)


def _mean(dtype: ir.DataType) -> list[Trial]:
    """Means of two and of four, which halve whole numbers."""
    many = [small(dtype, 4, VECTOR, seed=n) for n in range(4)]
    return [node("Mean", *many[:count]) for count in (1, 2, 4)]


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
