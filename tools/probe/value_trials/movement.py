"""Trials of operators that only move elements: every bit must arrive, -0 and NaN too."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as ir

from tools.probe.value_trials.data import (
    VECTOR,
    Array,
    Trial,
    Trials,
    edges,
    every,
    i64,
    is_float,
    node,
    specials,
    spread,
    summands,
)

_ROWS = np.array([[0, 4, -1], [2, 2, -5]])
_ELEMENTS = np.array([[1, -1, 0, 3, 66], [2, 0, -67, 5, 5]])
_TUPLES = np.array([[0, 66], [1, 0], [-1, -67]])
_IMAGE = (2, 4, 6, 8)
_CUT = [i64(66, 4), i64(0, 0), i64(1, 0), i64(-3, -2)]

_Case = tuple[tuple[int, ...], Sequence[Any], Mapping[str, Any]]
_MOVES: Mapping[str, Sequence[_Case]] = {
    "Compress": [
        ((4, VECTOR), [np.array([1, 0, 1, 1], bool)], {"axis": 0}),
        ((4, 3), [np.array([0, 1] * 6, bool)], {}),
    ],
    "DepthToSpace": [(_IMAGE, [], {"blocksize": 2})],
    "DepthToSpace[CRD]": [(_IMAGE, [], {"blocksize": 2, "mode": "CRD"})],
    "Expand": [
        ((3, 1), [i64(2, 3, VECTOR)], {}),
        ((VECTOR,), [i64(4, VECTOR)], {}),
        ((), [i64(9)], {}),
    ],
    "Flatten": [((2, 3, 9), [], {})],
    "Gather": [
        ((5, VECTOR), [_ROWS], {}),
        ((VECTOR, 5), [_ROWS], {"axis": 1}),
        ((5,), [np.asarray(-2)], {}),
    ],
    "GatherND": [
        ((5, VECTOR), [_TUPLES], {}),
        ((5, VECTOR), [_TUPLES[:, :1]], {}),
        ((3, 5, VECTOR), [_TUPLES], {"batch_dims": 1}),
    ],
    "Reshape": [((4, 9), [i64(6, -1)], {})],
    "ReverseSequence": [((6, 3, 9), [i64(1, 5, 3)], {})],
    "Slice": [
        ((5, VECTOR), _CUT, {}),
        ((5, VECTOR), [i64(1, 2), i64(9, 60)], {}),
        ((VECTOR,), [i64(-1), i64(-99), i64(0), i64(-1)], {}),
    ],
    "SpaceToDepth": [(_IMAGE, [], {"blocksize": 2})],
    "Squeeze": [((1, 9, 1), [i64(2)], {})],
    "Tile": [((3, VECTOR), [i64(2, 3)], {})],
    "Transpose": [
        ((4, VECTOR), [], {}),
        ((3, 4, 9), [], {"perm": [1, 2, 0]}),
        ((3, 4, 2, 9), [], {"perm": [0, 2, 1, 3]}),
    ],
    "Trilu": [((4, 9), [], {}), ((2, 4, 9), [np.asarray(-1)], {"upper": 0})],
    "Unsqueeze": [((9, 2), [i64(1)], {})],
}
"""The shape of the tensor, the other inputs, and the attributes."""


def _move(key: str, dtype: ir.DataType) -> list[Trial]:
    return [
        node(
            key.partition("[")[0],
            spread(specials(dtype), *shape),
            *others,
            zero_signs=True,
            **attributes,
        )
        for shape, others, attributes in _MOVES[key]
    ]


def _gather_elements(dtype: ir.DataType) -> list[Trial]:
    """The reference takes at most 64 elements along the axis."""
    found = []
    for axis, at in ((1, _ELEMENTS), (0, _ELEMENTS.T)):
        x = spread(specials(dtype), *((2, VECTOR) if axis else (VECTOR, 2)))
        right = np.ascontiguousarray(np.take_along_axis(x, at, axis))
        given = {"axis": 1} if axis else {}
        found.append(node("GatherElements", x, at, right=(right,), zero_signs=True, **given))
    return found


def _concat(dtype: ir.DataType) -> list[Trial]:
    values = specials(dtype)
    x, y, z = spread(values, 4, VECTOR), spread(values, 4, 3), spread(values, 1, VECTOR)
    operands = [((x, y), 1), ((x, z), 0), ((x, z, z, x), 0), ((x[0], z[0]), -1)]
    return [node("Concat", *given, axis=axis, zero_signs=True) for given, axis in operands]


def _split(dtype: ir.DataType) -> list[Trial]:
    x = spread(specials(dtype), 5, VECTOR)
    cuts = [(0, i64(2, 0, 3)), (1, i64(60, 7))]
    return [
        node("Split", x, sizes, outputs=len(sizes), axis=axis, zero_signs=True)
        for axis, sizes in cuts
    ]


def _pad(mode: str, dtype: ir.DataType) -> list[Trial]:
    """Within limits, INT32 elements that only move may be any."""
    values = specials(dtype)
    x = spread(every(dtype) if dtype == ir.DataType.INT32 else values, 4, VECTOR)
    pads = i64(2, 3, 1, 60 if mode == "reflect" else 70)
    fills = [(fill,) for fill in (*values[:2], *values[-3:])] if mode == "constant" else [()]
    return [node("Pad", x, pads, *fill, mode=mode, zero_signs=True) for fill in fills]


def _one_hot(first: ir.DataType, second: ir.DataType | None = None) -> list[Trial]:
    """Of one element type, that of the values; of two, the indices' and the values'. The reference
    computes with the values."""
    indices, values = (first, second) if second else (ir.DataType.INT64, first)
    off_on = spread(specials(values), 2)
    at = np.arange(-9, 9).astype(indices.numpy())
    hot = np.where((at[:, None] % 9) == np.arange(9), off_on[1], off_on[0])
    return [node("OneHot", at, np.asarray(9), off_on, right=(hot,), zero_signs=True)]


# -- scatters --------------------------------------------------------------------------------------


def _values_for(reduction: str, dtype: ir.DataType, *shape: int, seed: int) -> Array:
    if reduction in ("add", "mul"):
        return summands(dtype, *shape, seed=seed)
    return spread((specials if reduction == "none" else edges)(dtype), *shape, seed=seed)


def _scatter_elements(reduction: str, dtype: ir.DataType) -> list[Trial]:
    found = []
    for axis, shape, extent in ((0, (5, VECTOR), 5), (1, (5, VECTOR), VECTOR), (0, (9,), 9)):
        x, updates = (_values_for(reduction, dtype, *shape, seed=n) for n in (1, 2))
        at = np.random.default_rng(0).integers(-extent, extent, size=shape)
        given = {"axis": axis, "reduction": reduction, "zero_signs": reduction == "none"}
        found.append(node("ScatterElements", x, at, updates, **given))
    return found


def _scatter_nd(reduction: str, dtype: ir.DataType) -> list[Trial]:
    """Unique indices only: the kernel may take them in any order."""
    found = []
    for at, shape in ((i64(2, 0, -1)[:, None], (3, VECTOR)), (_TUPLES, (3,))):
        x = _values_for(reduction, dtype, 5, VECTOR, seed=1)
        updates = _values_for(reduction, dtype, *shape, seed=2)
        given = {"reduction": reduction, "zero_signs": reduction == "none"}
        found.append(node("ScatterND", x, at, updates, **given))
    return found


def _with_indices(trials: Trials, dtype: ir.DataType) -> list[Trial]:
    """The trials on f32 with indices, starts and the like of another type."""

    def retyped(array: Array | None) -> Array | None:
        return array if array is None or array.dtype != np.int64 else array.astype(dtype.numpy())

    return [
        replace(trial, inputs=tuple(map(retyped, trial.inputs)))
        for trial in trials(ir.DataType.FLOAT)
    ]


# -- what counts and finds elements ----------------------------------------------------------------


def _nonzero(dtype: ir.DataType) -> list[Trial]:
    return [node("NonZero", spread(specials(dtype), 6, VECTOR))]


def _unique(dtype: ir.DataType) -> list[Trial]:
    x = spread(edges(dtype), VECTOR)
    return [node("Unique", x[x != 0] if is_float(x.dtype) else x, outputs=4)]


def _range(dtype: ir.DataType) -> list[Trial]:
    """Bounds that an f64 holds: the kernel counts in f64, and nobody has that many elements."""
    bounds = [(0, VECTOR, 1), (9, -8, -2), (-4, 5, 3)]
    if not is_float(dtype.numpy()):
        top = min(int(np.iinfo(dtype.numpy()).max), 2**53)
        bounds += [(top - 9, top, 2), (-top, -top + 7, 3)]
    return [node("Range", *(np.asarray(n, dtype.numpy()) for n in given)) for given in bounds]


_TRIALS: dict[str, Trials] = {
    **{key: partial(_move, key) for key in _MOVES},
    "Concat": _concat,
    "GatherElements": _gather_elements,
    "NonZero": _nonzero,
    "OneHot": _one_hot,
    "Pad": partial(_pad, "constant"),
    **{f"Pad[{mode}]": partial(_pad, mode) for mode in ("edge", "reflect", "wrap")},
    "Range": _range,
    "ScatterElements": partial(_scatter_elements, "none"),
    "ScatterND": partial(_scatter_nd, "none"),
    **{
        f"ScatterElements[{r}]": partial(_scatter_elements, r) for r in ("add", "mul", "max", "min")
    },
    **{f"ScatterND[{r}]": partial(_scatter_nd, r) for r in ("add", "mul", "max", "min")},
    "Split": _split,
    "Unique": _unique,
}
_WITH_INDICES = ("Gather.indices", "GatherElements.indices", "ScatterElements.indices")

TRIALS: Mapping[str, Trials] = {
    **_TRIALS,
    **{
        key: partial(_with_indices, _TRIALS[key.partition(".")[0]])
        for key in (*_WITH_INDICES, "Slice.starts")
    },
}
