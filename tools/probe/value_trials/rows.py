"""Trials of operators that move, reduce, rank and multiply elements: rows of inputs.

Operators that only move must keep every bit, but for the sign of a zero. Integer sums and products
wrap; those of floats are of numbers so small that nothing is rounded.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    LIMITED,
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    every,
    i64,
    is_float,
    mixed,
    node,
    small,
    specials,
    spread,
    summands,
)

Values = Callable[..., Array]
"""Numbers of an element type, in a shape, by a seed."""
Row = tuple[Sequence[Any], Mapping[str, Any]]
"""The inputs and the attributes of a trial, which may include `outputs`, their number. An input is
an array, or the shape of numbers of the element type."""


@dataclass(frozen=True)
class Rows:
    """Trials of an operator.

    Attributes:
        values: Makes the numbers.
        same_type: Whether results are of the type of the first input, which the reference may
            widen.
    """

    op_type: str
    values: Values
    rows: Iterable[Row]
    same_type: bool = False

    def __call__(self, dtype: ir.DataType) -> list[Trial]:
        """The trials on an element type."""
        found = []
        for number, (inputs, attributes) in enumerate(self.rows):
            arrays = [
                self.values(dtype, *x, seed=3 * number + place) if isinstance(x, tuple) else x
                for place, x in enumerate(inputs)
            ]
            trial = node(self.op_type, *arrays, **attributes)
            if self.same_type:
                expected = tuple(x.astype(arrays[0].dtype) for x in trial.expected)
                trial = replace(trial, expected=expected)
            found.append(trial)
        return found


# -- numbers ---------------------------------------------------------------------------------------


def _specials(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    return spread(specials(dtype), *shape, seed=seed)


def _edges(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    return spread(edges(dtype), *shape, seed=seed)


def _not_zero(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Without float zeros, whose signs the reference tells apart."""
    known = edges(dtype)
    return spread(known[known != 0] if is_float(known.dtype) else known, *shape, seed=seed)


def _factors(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to multiply: integers that overflow, floats that are exact."""
    if not is_float(dtype.numpy()):
        return mixed(dtype, *shape, seed=seed) | np.ones((), dtype.numpy())
    return spread(np.array([1, -1]), *shape, seed=seed).astype(dtype.numpy())


def _ordered(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to compare, with ties, the least and the largest not always among them."""
    values = edges(dtype)
    few = spread(values, max(len(values) // 4, 2), seed=seed)
    return spread(few, *shape, seed=seed + 1)


def _distinct(dtype: ir.DataType, *shape: int, seed: int) -> Array:
    """Numbers to compare, all of them different. Those of INT32 need all bits."""
    count = int(np.prod(shape))
    numbers = np.random.default_rng(seed).permutation(count)
    if dtype == ir.DataType.INT32:
        near = np.where(numbers % 2, numbers, -numbers)  # next to both ends
        numbers = np.where(numbers % 2, 2**31 - 1 - near, -(2**31) - near)
    return numbers.astype(dtype.numpy()).reshape(shape)


# -- movement --------------------------------------------------------------------------------------

_V = VECTOR
_ROWS = np.array([[0, 4, -1], [2, 2, -5]])
_ELEMENTS = np.array([[1, -1, 0, 3, 59], [2, 0, -60, 5, 5]])  # the reference takes 64 at most
_TUPLES = np.array([[0, 66], [1, 0], [-1, -67]])
_IMAGE = (2, 4, 6, 8)
_ALONG_1: Mapping[str, Any] = {"axis": 1}

_MOVES: Mapping[str, Sequence[Row]] = {
    "Compress": [
        ([(4, _V), np.array([1, 0, 1, 1], bool)], {"axis": 0}),
        ([(4, 3), np.array([0, 1] * 6, bool)], {}),
    ],
    "Concat": [
        ([(4, _V), (4, 3)], _ALONG_1),
        ([(4, _V), (1, _V)], {"axis": 0}),
        ([(4, _V), (1, _V), (1, _V), (4, _V)], {"axis": 0}),
        ([(_V,), (_V,)], {"axis": -1}),
    ],
    "DepthToSpace": [([_IMAGE], {"blocksize": 2})],
    "DepthToSpace[CRD]": [([_IMAGE], {"blocksize": 2, "mode": "CRD"})],
    "Expand": [
        ([(3, 1), i64(2, 3, _V)], {}),
        ([(_V,), i64(4, _V)], {}),
        ([(), i64(9)], {}),
    ],
    "Flatten": [([(2, 3, 9)], {})],
    "Gather": [
        ([(5, _V), _ROWS], {}),
        ([(_V, 5), _ROWS], _ALONG_1),
        ([(5,), np.asarray(-2)], {}),
    ],
    "GatherElements": [([(2, 60), _ELEMENTS], _ALONG_1), ([(60, 2), _ELEMENTS.T], {})],
    "GatherND": [
        ([(5, _V), _TUPLES], {}),
        ([(5, _V), _TUPLES[:, :1]], {}),
        ([(3, 5, _V), _TUPLES], {"batch_dims": 1}),
    ],
    "NonZero": [([(6, _V)], {})],
    "Reshape": [([(4, 9), i64(6, -1)], {})],
    "ReverseSequence": [([(6, 3, 9), i64(1, 5, 3)], {})],
    "Slice": [
        ([(5, _V), i64(66, 4), i64(0, 0), i64(1, 0), i64(-3, -2)], {}),
        ([(5, _V), i64(1, 2), i64(9, 60)], {}),
        ([(_V,), i64(-1), i64(-99), i64(0), i64(-1)], {}),
    ],
    "SpaceToDepth": [([_IMAGE], {"blocksize": 2})],
    "Split": [
        ([(5, _V), i64(2, 0, 3)], {"axis": 0, "outputs": 3}),
        ([(5, _V), i64(60, 7)], {"axis": 1, "outputs": 2}),
    ],
    "Squeeze": [([(1, 9, 1), i64(2)], {})],
    "Tile": [([(3, _V), i64(2, 3)], {})],
    "Transpose": [
        ([(4, _V)], {}),
        ([(3, 4, 9)], {"perm": [1, 2, 0]}),
        ([(3, 4, 2, 9)], {"perm": [0, 2, 1, 3]}),
    ],
    "Trilu": [([(4, 9)], {}), ([(2, 4, 9), np.asarray(-1)], {"upper": 0})],
    "Unsqueeze": [([(9, 2), i64(1)], {})],
}


_FLAGS = spread(np.array([False, True]), 6, _V)
_WHERE: Sequence[Row] = [
    ([_FLAGS, (6, _V), (6, _V)], {}),
    ([_FLAGS[0], (6, _V), (6, _V)], {}),
    ([_FLAGS[:, :1], (6, _V), (_V,)], {}),
    *(([_FLAGS, (), (6, _V)], {}) for _ in range(4)),
    ([_FLAGS, (6, _V), ()], {}),
    ([_FLAGS[0, :3], (3,), (3,)], {}),
    ([_FLAGS[0, 0], (6, _V), (6, _V)], {}),
]


def _pad(mode: str, dtype: ir.DataType) -> list[Trial]:
    """Within limits, INT32 elements that only move may be any."""
    values = specials(dtype)
    x = spread(every(dtype) if dtype == ir.DataType.INT32 else values, 4, VECTOR)
    pads = i64(2, 3, 1, 60 if mode == "reflect" else 70)
    fills = [(fill,) for fill in (*values[:2], *values[-3:])] if mode == "constant" else [()]
    return [node("Pad", x, pads, *fill, mode=mode) for fill in fills]


def _one_hot(first: ir.DataType, second: ir.DataType | None = None) -> list[Trial]:
    """Of one element type, that of the values; of two, the indices' and the values'. The reference
    computes with the values."""
    indices, values = (first, second) if second else (ir.DataType.INT64, first)
    off_on = spread(specials(values), 2)
    at = np.arange(-9, 9).astype(indices.numpy())
    hot = np.where((at[:, None] % 9) == np.arange(9), off_on[1], off_on[0])
    return [node("OneHot", at, np.asarray(9), off_on, right=(hot,))]


def _scatters() -> dict[str, Trials]:
    """Indices of ScatterND are unique: the kernel may take updates in any order."""
    rng = np.random.default_rng(0)
    found: dict[str, Trials] = {}
    reductions = {"none": _specials, "add": summands, "mul": summands, "max": _edges, "min": _edges}
    for name, values in reductions.items():
        given = {"reduction": name}
        elements: list[Row] = [
            ([shape, rng.integers(-extent, extent, shape), shape], {"axis": axis, **given})
            for axis, extent, shape in ((0, 5, (5, _V)), (1, _V, (5, _V)), (0, 9, (9,)))
        ]
        tuples: list[Row] = [
            ([(5, _V), i64(2, 0, -1)[:, None], (3, _V)], given),
            ([(5, _V), _TUPLES, (3,)], given),
        ]
        for op_type, rows in (("ScatterElements", elements), ("ScatterND", tuples)):
            key = op_type if name == "none" else f"{op_type}[{name}]"
            found[key] = Rows(op_type, values, rows)
    return found


def _range(dtype: ir.DataType) -> list[Trial]:
    """Bounds that an f64 holds: the kernel counts in f64, and nobody has that many elements."""
    bounds = [(0, VECTOR, 1), (9, -8, -2), (-4, 5, 3)]
    if not is_float(dtype.numpy()):
        top = min(int(np.iinfo(dtype.numpy()).max), 2**53)
        bounds += [(top - 9, top, 2), (-top, -top + 7, 3)]
    return [node("Range", *(np.asarray(n, dtype.numpy()) for n in given)) for given in bounds]


def _with_indices(trials: Trials, dtype: ir.DataType) -> list[Trial]:
    """The trials on f32 with indices, starts and the like of another type."""

    def retyped(array: Array | None) -> Array | None:
        return array if array is None or array.dtype != np.int64 else array.astype(dtype.numpy())

    return [
        replace(trial, inputs=tuple(map(retyped, trial.inputs)))
        for trial in trials(ir.DataType.FLOAT)
    ]


# -- reductions, cumulative sums, and what ranks elements ------------------------------------------

_REDUCED: Sequence[Row] = [
    ([shape] if axes is None else [shape, i64(*axes)], {"keepdims": number % 2})
    for number, (shape, axes) in enumerate(
        (
            ((_V,), (0,)),
            ((5, _V), (1,)),
            ((_V, 5), (0,)),
            ((5, _V), (0,)),
            ((3, 4, 9), (1,)),
            ((3, 4, 9), (0, 2)),
            ((3, 4, 9), (0, 1)),
            ((3, 4, 9), (1, 2)),
            ((3, 4, 9), None),
            ((2, 3), (1,)),
        )
    )
]
"""Axes: last, first, in the middle, several, all; long and short."""
_CUMULATIVE: Sequence[Row] = [
    ([shape, np.asarray(axis)], {"exclusive": exclusive, "reverse": reverse})
    for shape, axis in (((_V,), 0), ((5, _V), 1), ((9, 4), 0))
    for exclusive in (0, 1)
    for reverse in (0, 1)
]
_RANKED = (((_V,), 0), ((5, _V), 1), ((_V, 5), 0), ((3, 9, 4), 1))


def _arg_extremes(last: int) -> list[Row]:
    return [([s], {"axis": axis, "keepdims": 1, "select_last_index": last}) for s, axis in _RANKED]


def _top_k(dtype: ir.DataType) -> list[Trial]:
    """Among equals the first comes first."""
    found = []
    for number, (shape, axis) in enumerate(_RANKED):
        x = (_distinct if LIMITED.get() else _ordered)(dtype, *shape, seed=number)
        if LIMITED.get() and len(np.unique(x)) < x.size:  # the type has too few numbers
            return []
        for largest in (0, 1):
            for k in (1, 4, shape[axis]):
                found.append(node("TopK", x, i64(k), outputs=2, axis=axis, largest=largest))
    return found


# -- products and means ----------------------------------------------------------------------------

_MATMULS: Sequence[Row] = [
    ([(5, _V), (_V, 6)], {}),
    ([(_V,), (_V,)], {}),
    ([(3, 2, 9), (3, 9, 4)], {}),
    ([(3, 2, 9), (9, 4)], {}),
    ([(1, _V), (_V, 1)], {}),
    ([(2, 1, 3, 4), (5, 4, 3)], {}),
]
_EINSUMS: Sequence[Row] = [
    ([(5, _V), (_V, 6)], {"equation": "ij,jk->ik"}),
    ([(3, 2, 9), (3, 9, 4)], {"equation": "bij,bjk->bik"}),
    ([(2, 3, 9), (3, 9, 4)], {"equation": "ijk,jkl->il"}),
    ([(4, 9), (4, 9)], {"equation": "ij,ij->"}),
    ([(5, _V)], {"equation": "ij->"}),
    ([(5, _V)], {"equation": "ij->j"}),
    ([(3, 4, 9)], {"equation": "ijk->j"}),
    ([(5, 5)], {"equation": "ii->i"}),
    ([(5,), (_V,)], {"equation": "i,j->ij"}),
    ([(5, _V)], {"equation": "ij->ji"}),
]
_CONVOLVED = [(2, 4, 9, _V), (6, 2, 3, 2), (6,)]


def _gemm(dtype: ir.DataType) -> list[Trial]:
    """The reference multiplies integers by a float, and bf16 in f32."""
    x, y, z = (summands(dtype, *shape) for shape in ((5, 9), (9, 4), (4,)))
    with np.errstate(all="ignore"):
        plain = np.matmul(x, y).astype(x.dtype)
        moved = plain + z
    return [
        node("Gemm", x, y, right=(plain,)),
        node("Gemm", x, y, z, right=(moved,)),
        node("Gemm", x.T.copy(), y.T.copy(), z, right=(moved,), transA=1, transB=1),
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


def _max_pool(dtype: ir.DataType) -> list[Trial]:
    """Finite numbers; windows plain, strided and apart, padded. The reference fails on them."""
    x, found = spread(edges(dtype), 2, 3, 9, VECTOR), []
    for kernel, strides, apart in (((2, 3), (1, 1), (1, 1)), ((3, 2), (2, 3), (2, 5))):
        spans = tuple((size - 1) * step + 1 for size, step in zip(kernel, apart, strict=True))
        windows = np.lib.stride_tricks.sliding_window_view(x, spans, axis=(2, 3))
        windows = windows[:, :, :: strides[0], :: strides[1], :: apart[0], :: apart[1]]
        given = {"kernel_shape": kernel, "strides": strides, "dilations": apart}
        found.append(node("MaxPool", x, right=(windows.max(axis=(-2, -1)),), **given))
    line = spread(edges(dtype), 1, 2, VECTOR)
    least = np.full((1, 2, 1), min(edges(dtype), key=float), line.dtype)
    padded = np.concatenate([least, line, least], axis=2)
    right = np.lib.stride_tricks.sliding_window_view(padded, 3, axis=2).max(axis=-1)
    return [*found, node("MaxPool", line, right=(right,), kernel_shape=[3], pads=[1, 1])]


_TRIALS: dict[str, Trials] = {
    **{k: Rows(k.partition("[")[0], _specials, rows) for k, rows in _MOVES.items()},
    **_scatters(),
    "OneHot": _one_hot,
    "Pad": partial(_pad, "constant"),
    **{f"Pad[{mode}]": partial(_pad, mode) for mode in ("edge", "reflect", "wrap")},
    "Range": _range,
    "Unique": Rows("Unique", _not_zero, [([(_V,)], {"outputs": 4})]),
    **{op: Rows(op, _ordered, _arg_extremes(0)) for op in ("ArgMax", "ArgMin")},
    **{
        f"{op}[select_last_index=1]": Rows(op, _ordered, _arg_extremes(1))
        for op in ("ArgMax", "ArgMin")
    },
    "CumProd": Rows("CumProd", _factors, _CUMULATIVE),
    "CumSum": Rows("CumSum", summands, _CUMULATIVE),
    **{op: Rows(op, _ordered, _REDUCED, same_type=True) for op in ("ReduceMax", "ReduceMin")},
    **{
        op: Rows(op, summands, _REDUCED, same_type=True)
        for op in ("ReduceL1", "ReduceSum", "ReduceSumSquare")
    },
    "ReduceProd": Rows("ReduceProd", _factors, _REDUCED, same_type=True),
    "TopK": _top_k,
    "Where": Rows("Where", _specials, _WHERE),
    "Conv": Rows("Conv", small, [(_CONVOLVED, {"group": 2}),
                                 (_CONVOLVED, {"group": 2, "strides": [2, 3]})]),
    "ConvInteger.w": _conv_integer,
    "Einsum": Rows("Einsum", summands, _EINSUMS),
    "Gemm": _gemm,
    "MatMul": Rows("MatMul", summands, _MATMULS, same_type=True),
    "MatMulInteger.B": _matmul_integer,
    "MaxPool": _max_pool,
    # Means of two and of four halve whole numbers.
    "Mean": Rows("Mean", small, [([(4, _V)] * count, {}) for count in (1, 2, 4)]),
    "Sum": Rows("Sum", small, [([(4, _V)] * count, {}) for count in (1, 2, 3)]
                + [([(4, _V), (_V,), ()], {})]),
}  # fmt: skip
_WITH_INDICES = ("Gather", "GatherElements", "ScatterElements")

TRIALS: Mapping[str, Trials] = {
    **_TRIALS,
    **{f"{op}.indices": partial(_with_indices, _TRIALS[op]) for op in _WITH_INDICES},
    "Slice.starts": partial(_with_indices, _TRIALS["Slice"]),
}
