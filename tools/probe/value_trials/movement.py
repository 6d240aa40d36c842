"""Trials of operators that only move elements: every bit must arrive, -0 and NaN too."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
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
    specials,
    spread,
    summands,
)

Move = Callable[[Array], Array]


def _moves(
    op_type: str, *cases: tuple[tuple[int, ...], Sequence[Array], Mapping[str, Any], Move]
) -> Trials:
    """Cases of one tensor: its shape, the other inputs, the attributes, and what becomes of it."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for shape, others, attributes, move in cases:
            x = spread(specials(dtype), *shape)
            moved = np.ascontiguousarray(move(x)).reshape(move(x).shape)
            found.append(Trial(op_type, (x, *others), (moved,), attributes, zero_signs=True))
        return found

    return trials


def _concat(dtype: ir.DataType) -> list[Trial]:
    values = specials(dtype)
    x, y, z = spread(values, 4, VECTOR), spread(values, 4, 3), spread(values, 1, VECTOR)
    operands = [((x, y), 1), ((x, z), 0), ((x, z, z, x), 0), ((x[0], z[0]), -1)]
    return [
        Trial("Concat", given, (np.concatenate(given, axis),), {"axis": axis}, zero_signs=True)
        for given, axis in operands
    ]


def _split(dtype: ir.DataType) -> list[Trial]:
    x = spread(specials(dtype), 5, VECTOR)
    cuts = [(0, i64(2, 0, 3), (2, 2)), (1, i64(60, 7), (60,))]
    return [
        Trial("Split", (x, sizes), tuple(np.split(x, at, axis)), {"axis": axis}, zero_signs=True)
        for axis, sizes, at in cuts
    ]


def _pad(mode: str, numpy_mode: str) -> Trials:
    """Within limits, INT32 elements that only move may be any."""
    widths = ((2, 1), (3, 70 if mode != "reflect" else 60))

    def trials(dtype: ir.DataType) -> list[Trial]:
        values = specials(dtype)
        moved = every(dtype) if dtype == ir.DataType.INT32 else values
        x = spread(moved, 4, VECTOR)
        pads = i64(widths[0][0], widths[1][0], widths[0][1], widths[1][1])
        found = []
        for fill in [*values[:2], *values[-3:]] if mode == "constant" else values[:1]:
            extra: dict[str, Any] = {"constant_values": fill} if mode == "constant" else {}
            padded = np.pad(x, widths, numpy_mode, **extra)  # type: ignore[call-overload]
            inputs = (x, pads, np.asarray(fill)) if extra else (x, pads)
            found.append(Trial("Pad", inputs, (padded,), {"mode": mode}, zero_signs=True))
        return found

    return trials


def _one_hot(first: ir.DataType, second: ir.DataType | None = None) -> list[Trial]:
    """Of one element type, that of the values; of two, the indices' and the values'."""
    indices, values = (first, second) if second else (ir.DataType.INT64, first)
    off_on = spread(specials(values), 2)
    at = np.arange(-9, 9).astype(indices.numpy())
    row = np.arange(9)
    hot = np.where((at[:, None] % 9) == row, off_on[1], off_on[0])
    return [Trial("OneHot", (at, np.asarray(9, np.int64), off_on), (hot,), zero_signs=True)]


# -- gathers ---------------------------------------------------------------------------------------

_ROWS = np.array([[0, 4, -1], [2, 2, -5]])
_ELEMENTS = np.array([[1, -1, 0, 3, 66], [2, 0, -67, 5, 5]])
_TUPLES = np.array([[0, 66], [1, 0], [-1, -67]])


def _indices(array: Array) -> Array:
    return array.astype(np.int64)


_GATHERS: Mapping[str, Trials] = {
    "Gather": _moves(
        "Gather",
        ((5, VECTOR), [_indices(_ROWS)], {}, lambda x: x[_ROWS]),
        ((VECTOR, 5), [_indices(_ROWS)], {"axis": 1}, lambda x: x[:, _ROWS]),
        ((5,), [np.asarray(-2, np.int64)], {}, lambda x: x[-2]),
    ),
    "GatherElements": _moves(
        "GatherElements",
        (
            (2, VECTOR),
            [_indices(_ELEMENTS)],
            {"axis": 1},
            lambda x: np.take_along_axis(x, _ELEMENTS, 1),
        ),
        (
            (VECTOR, 2),
            [_indices(_ELEMENTS.T)],
            {},
            lambda x: np.take_along_axis(x, _ELEMENTS.T, 0),
        ),
    ),
    "GatherND": _moves(
        "GatherND",
        ((5, VECTOR), [_indices(_TUPLES)], {}, lambda x: x[_TUPLES[:, 0], _TUPLES[:, 1]]),
        ((5, VECTOR), [_indices(_TUPLES[:, :1])], {}, lambda x: x[_TUPLES[:, 0]]),
        (
            (3, 5, VECTOR),
            [_indices(_TUPLES)],
            {"batch_dims": 1},
            lambda x: np.stack([part[tuple(at)] for part, at in zip(x, _TUPLES, strict=True)]),
        ),
    ),
}

# -- scatters --------------------------------------------------------------------------------------

_COMBINE: Mapping[str, Callable[[Array, Array], Array]] = {
    "none": lambda old, new: new,
    "add": np.add,
    "mul": np.multiply,
    "max": np.maximum,
    "min": np.minimum,
}


def _values_for(reduction: str, dtype: ir.DataType, *shape: int, seed: int) -> Array:
    if reduction in ("add", "mul"):
        return summands(dtype, *shape, seed=seed)
    return spread((specials if reduction == "none" else edges)(dtype), *shape, seed=seed)


def _scatter_elements(reduction: str) -> Trials:
    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for axis, shape, extent in ((0, (5, VECTOR), 5), (1, (5, VECTOR), VECTOR), (0, (9,), 9)):
            x = _values_for(reduction, dtype, *shape, seed=1)
            at = np.random.default_rng(0).integers(-extent, extent, size=shape)
            updates = _values_for(reduction, dtype, *shape, seed=2)
            right = x.copy()
            for place in np.ndindex(*shape):
                target = list(place)
                target[axis] = at[place]
                to = tuple(target)
                with np.errstate(all="ignore"):
                    right[to] = _COMBINE[reduction](right[to], updates[place])
            attributes = {"axis": axis, "reduction": reduction}
            found.append(
                Trial("ScatterElements", (x, at, updates), (right,), attributes,
                      zero_signs=reduction == "none")
            )  # fmt: skip
        return found

    return trials


def _scatter_nd(reduction: str) -> Trials:
    """Unique indices only: the kernel may take them in any order."""

    def trials(dtype: ir.DataType) -> list[Trial]:
        found = []
        for at, shape in ((i64(2, 0, -1)[:, None], (3, VECTOR)), (_indices(_TUPLES), (3,))):
            x = _values_for(reduction, dtype, 5, VECTOR, seed=1)
            updates = _values_for(reduction, dtype, *shape, seed=2)
            right, places = x.copy(), tuple(at.T)
            with np.errstate(all="ignore"):
                right[places] = _COMBINE[reduction](x[places], updates)
            found.append(
                Trial("ScatterND", (x, at, updates), (right,), {"reduction": reduction},
                      zero_signs=reduction == "none")
            )  # fmt: skip
        return found

    return trials


def _scatters() -> dict[str, Trials]:
    made = {}
    for reduction in _COMBINE:
        suffix = "" if reduction == "none" else f"[{reduction}]"
        made[f"ScatterElements{suffix}"] = _scatter_elements(reduction)
        made[f"ScatterND{suffix}"] = _scatter_nd(reduction)
    return made


def _with_indices(trials: Trials) -> Trials:
    """The trials on f32 with indices, starts and the like of another type."""

    def retyped(dtype: ir.DataType) -> list[Trial]:
        return [
            replace(trial, inputs=tuple(_as_index(array, dtype) for array in trial.inputs))
            for trial in trials(ir.DataType.FLOAT)
        ]

    return retyped


def _as_index(array: Array | None, dtype: ir.DataType) -> Array | None:
    return array if array is None or array.dtype != np.int64 else array.astype(dtype.numpy())


# -- tables ----------------------------------------------------------------------------------------


def _depth_to_space(x: Array, crd: bool) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape((n, c // 4, 2, 2, h, w) if crd else (n, 2, 2, c // 4, h, w))
    order = (0, 1, 4, 2, 5, 3) if crd else (0, 3, 4, 1, 5, 2)
    return parts.transpose(order).reshape(n, c // 4, 2 * h, 2 * w)


def _space_to_depth(x: Array) -> Array:
    n, c, h, w = x.shape
    parts = x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4)
    return parts.reshape(n, 4 * c, h // 2, w // 2)


def _reversed(x: Array) -> Array:
    lengths = (1, 5, 3)
    columns = [
        np.concatenate([x[:length, i][::-1], x[length:, i]]) for i, length in enumerate(lengths)
    ]
    return np.stack(columns, axis=1)


def _nonzero(dtype: ir.DataType) -> list[Trial]:
    x = spread(specials(dtype), 6, VECTOR)
    return [Trial("NonZero", (x,), (np.array(np.nonzero(x), np.int64),))]


def _unique(dtype: ir.DataType) -> list[Trial]:
    x = spread(edges(dtype), VECTOR)
    x = x[x != 0] if is_float(x.dtype) else x
    found = np.unique(x, return_index=True, return_inverse=True, return_counts=True)
    return [Trial("Unique", (x,), (found[0], *(part.astype(np.int64) for part in found[1:])))]


def _range(dtype: ir.DataType) -> list[Trial]:
    """Bounds that an f64 holds: the kernel counts in f64, and nobody has that many elements."""
    bounds = [(0, VECTOR, 1), (9, -8, -2), (-4, 5, 3)]
    if not is_float(dtype.numpy()):
        top = min(int(np.iinfo(dtype.numpy()).max), 2**53)
        bounds += [(top - 9, top, 2), (-top, -top + 7, 3)]
    return [
        Trial("Range", tuple(np.asarray(n, dtype.numpy()) for n in given), (right,))
        for given in bounds
        for right in [np.array(range(*given), dtype.numpy())]
    ]


_IMAGE = (2, 4, 6, 8)
_CUT = [i64(66, 4), i64(0, 0), i64(1, 0), i64(-3, -2)]

_TRIALS: Mapping[str, Trials] = {
    "Compress": _moves(
        "Compress",
        ((4, VECTOR), [np.array([1, 0, 1, 1], bool)], {"axis": 0}, lambda x: x[[0, 2, 3]]),
        ((4, 3), [np.array([0, 1] * 6, bool)], {}, lambda x: x.reshape(-1)[1::2]),
    ),
    "Concat": _concat,
    "DepthToSpace": _moves(
        "DepthToSpace", (_IMAGE, [], {"blocksize": 2}, lambda x: _depth_to_space(x, False))
    ),
    "DepthToSpace[CRD]": _moves(
        "DepthToSpace",
        (_IMAGE, [], {"blocksize": 2, "mode": "CRD"}, lambda x: _depth_to_space(x, True)),
    ),
    "Expand": _moves(
        "Expand",
        ((3, 1), [i64(2, 3, VECTOR)], {}, lambda x: np.broadcast_to(x, (2, 3, VECTOR))),
        ((VECTOR,), [i64(4, VECTOR)], {}, lambda x: np.broadcast_to(x, (4, VECTOR))),
        ((), [i64(9)], {}, lambda x: np.broadcast_to(x, (9,))),
    ),
    "Flatten": _moves("Flatten", ((2, 3, 9), [], {}, lambda x: x.reshape(2, 27))),
    **_GATHERS,
    "NonZero": _nonzero,
    "OneHot": _one_hot,
    "Pad": _pad("constant", "constant"),
    "Pad[edge]": _pad("edge", "edge"),
    "Pad[reflect]": _pad("reflect", "reflect"),
    "Pad[wrap]": _pad("wrap", "wrap"),
    "Range": _range,
    "Reshape": _moves("Reshape", ((4, 9), [i64(6, -1)], {}, lambda x: x.reshape(6, 6))),
    "ReverseSequence": _moves("ReverseSequence", ((6, 3, 9), [i64(1, 5, 3)], {}, _reversed)),
    **_scatters(),
    "Slice": _moves(
        "Slice",
        ((5, VECTOR), _CUT, {}, lambda x: x[4:0:-2, 66:0:-3]),
        ((5, VECTOR), [i64(1, 2), i64(9, 60)], {}, lambda x: x[1:9, 2:60]),
        ((VECTOR,), [i64(-1), i64(-99), i64(0), i64(-1)], {}, lambda x: x[::-1]),
    ),
    "SpaceToDepth": _moves("SpaceToDepth", (_IMAGE, [], {"blocksize": 2}, _space_to_depth)),
    "Split": _split,
    "Squeeze": _moves("Squeeze", ((1, 9, 1), [i64(2)], {}, lambda x: x[:, :, 0])),
    "Tile": _moves("Tile", ((3, VECTOR), [i64(2, 3)], {}, lambda x: np.tile(x, (2, 3)))),
    "Transpose": _moves(
        "Transpose",
        ((4, VECTOR), [], {}, lambda x: x.T),
        ((3, 4, 9), [], {"perm": [1, 2, 0]}, lambda x: x.transpose(1, 2, 0)),
        ((3, 4, 2, 9), [], {"perm": [0, 2, 1, 3]}, lambda x: x.transpose(0, 2, 1, 3)),
    ),
    "Trilu": _moves(
        "Trilu",
        ((4, 9), [], {}, np.triu),
        ((2, 4, 9), [np.asarray(-1, np.int64)], {"upper": 0}, lambda x: np.tril(x, -1)),
    ),
    "Unique": _unique,
    "Unsqueeze": _moves("Unsqueeze", ((9, 2), [i64(1)], {}, lambda x: x[:, None])),
}

TRIALS: Mapping[str, Trials] = {
    **_TRIALS,
    "Gather.indices": _with_indices(_TRIALS["Gather"]),
    "GatherElements.indices": _with_indices(_TRIALS["GatherElements"]),
    "ScatterElements.indices": _with_indices(_TRIALS["ScatterElements"]),
    "Slice.starts": _with_indices(_TRIALS["Slice"]),
}
