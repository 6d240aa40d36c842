"""Resize operators: the modes whose weights a matrix or an index matches, and their nodes."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Final

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.values import Dim, Shape, dtype_of, rank_of, shape_of
from hlo2onnx.raising.engine import Rewriter, need

TOLERANCE: Final = 1e-6
"""Tolerance of weights, and of coordinates in f32."""


@dataclass(frozen=True)
class Mode:
    """Attributes of a Resize."""

    mode: str
    antialias: bool = False
    nearest_mode: str = ""

    @property
    def key(self) -> str:
        """The key for `Target.supports`."""
        kind = [] if self.mode == "nearest" else [self.mode]
        parts = [*kind, *(["antialias=1"] if self.antialias else [])]
        return f"Resize[{','.join(parts)}]" if parts else "Resize"

    @property
    def is_plain_linear(self) -> bool:
        """Whether ONNX Runtime has a kernel for channels last."""
        return self.mode == "linear" and not self.antialias

    @property
    def attributes(self) -> dict[str, Any]:
        """The attributes of the node that give the numbers of jax.image.resize."""
        found: dict[str, Any] = {
            "mode": self.mode,
            "coordinate_transformation_mode": "half_pixel",
        }
        if self.antialias:
            found |= {"antialias": 1, "exclude_outside": 1}
        if self.mode == "cubic":
            found["cubic_coeff_a"] = -0.5
        if self.nearest_mode:
            found["nearest_mode"] = self.nearest_mode
        return found


NEAREST: Final = Mode("nearest", nearest_mode="round_prefer_ceil")
"""The element whose pixel contains the coordinate; on a boundary, the later one."""
LINEAR: Final = Mode("linear")
LINEAR_ANTIALIASED: Final = Mode("linear", antialias=True)
CUBIC: Final = Mode("cubic", antialias=True)
"""For enlarging it equals the kernel without antialias."""


def _triangle(x: np.ndarray) -> np.ndarray:
    return np.asarray(np.maximum(0, 1 - np.abs(x)))


def _keys(x: np.ndarray) -> np.ndarray:
    """Keys' cubic kernel with a = -0.5."""
    x = np.abs(x)
    near = (1.5 * x - 2.5) * x * x + 1
    far = ((-0.5 * x + 2.5) * x - 4) * x + 2
    return np.where(x < 1, near, np.where(x < 2, far, 0))


KERNELS: Final = MappingProxyType[Mode, Callable[[np.ndarray], np.ndarray]](
    {LINEAR: _triangle, LINEAR_ANTIALIASED: _triangle, CUBIC: _keys}
)


def is_resampling(weights: np.ndarray) -> bool:
    """Whether each element of the result is a weighted mean."""
    # The first column suffices for the matrices of most layers.
    return all(
        np.allclose(part.sum(axis=0, dtype=np.float64), 1, rtol=0, atol=1e-4)
        for part in (weights[:, :1], weights)
    )


def weight_modes(weights: np.ndarray) -> tuple[Mode, ...]:
    """The modes of Resize with these weights, from elements before (rows) to after (columns)."""
    before, after = weights.shape
    if _coordinates(before, after) is None:
        return ()
    return tuple(
        mode
        for mode in KERNELS
        if np.abs(interpolation(mode, before, after) - weights).max() <= TOLERANCE
    )


def interpolation(mode: Mode, before: int, after: int) -> np.ndarray:
    """The weights of the elements before (rows) for those after (columns), in f64."""
    places = (np.arange(after) + 0.5) * (before / after) - 0.5
    stretch = max(before / after, 1) if mode.antialias else 1
    weights = KERNELS[mode]((places - np.arange(before)[:, None]) / stretch)
    return np.asarray(weights / weights.sum(axis=0))


def index_modes(index: np.ndarray, before: int) -> tuple[Mode, ...]:
    """The modes of Resize that take the elements `index` of `before` elements."""
    places = _coordinates(before, index.size)
    if places is None or not np.array_equal(_at(places), index):
        return ()
    # In f32 a coordinate may be on the other side of a boundary between elements.
    same = np.array_equal(_at(places - TOLERANCE), _at(places + TOLERANCE))
    is_clear = same or _is_exact(before, index.size)
    return (NEAREST,) if is_clear else ()


def _at(places: np.ndarray) -> np.ndarray:
    return np.floor(places + 0.5).astype(np.int64)


def _coordinates(before: int, after: int) -> np.ndarray | None:
    """The centers of the elements after, in coordinates of those before; None if f32 is not exact
    enough."""
    places = (np.arange(after) + 0.5) * (before / after) - 0.5
    error = np.abs(_in_single(before, after) - places).max()
    return places if error <= TOLERANCE else None


def _is_exact(before: int, after: int) -> bool:
    """Whether the coordinates are exact in f32."""
    exact = (2 * np.arange(after) + 1) * before / (2 * after) - 0.5
    return bool(np.array_equal(_in_single(before, after), exact))


def _in_single(before: int, after: int) -> np.ndarray:
    scale = np.float32(after) / np.float32(before)
    half = np.float32(0.5)
    return np.asarray((np.arange(after, dtype=np.float32) + half) / scale - half)


def multiplications(rows: Sequence[int], columns: Sequence[int]) -> float:
    """Multiplications for each element of the result of products with matrices [before, after]."""
    return rows[0] + columns[0] * rows[0] / rows[1]


def layout_of_images(mode: Mode, axes: Sequence[int], rank: int) -> str | None:
    """The layout in which ONNX Runtime resizes these axes: channels "first", "last", or None."""
    if list(axes) == list(range(rank - len(axes), rank)) and (rank in (2, 4) or mode == NEAREST):
        return "first"
    if len(axes) == 2 and rank == 4 and list(axes) == [1, 2]:
        return "last"
    return None


def _to_the_end(axes: Sequence[int], rank: int) -> list[int]:
    """The permutation that moves these axes to the end."""
    return [axis for axis in range(rank) if axis not in axes] + list(axes)


def products(
    x: oir.Value, axes: Sequence[int], matrices: Sequence[np.ndarray], b: Rewriter
) -> oir.Value:
    """x resampled along two axes by products with matrices [before, after]."""
    rows, columns = matrices
    perm = _to_the_end(axes, rank_of(x))
    wide = b.MatMul(b.transpose(x, perm), b.const(np.ascontiguousarray(columns)))
    whole = b.MatMul(b.const(np.ascontiguousarray(rows.T)), wide)
    return b.transpose(whole, [int(axis) for axis in np.argsort(perm)])


def resized(x: oir.Value, sizes: dict[int, int], mode: Mode, b: Rewriter) -> oir.Value:
    """x with axes of these sizes, transposed before and after where the target does not take the
    axes there."""
    if rank_of(x) == 3:  # one image
        batch = b.unsqueeze(x, [0])
        small = resized(batch, {axis + 1: size for axis, size in sizes.items()}, mode, b)
        return b.squeeze(small, [0])
    axes = sorted(sizes)
    rank = rank_of(x)
    need(0 not in shape_of(x), "it is empty", x)
    perm = list(range(rank))
    if b.target.flags.images_only and layout_of_images(mode, axes, rank) is None:
        perm = _to_the_end(axes, rank)
        ends = range(rank - len(axes), rank)
        need(layout_of_images(mode, ends, rank) is not None, "Resize is wrong for this rank", x)
    x = b.transpose(x, perm)
    dims = [sizes.get(axis, shape_of(x)[place]) for place, axis in enumerate(perm)]
    known = [dim for dim in dims if isinstance(dim, int)]
    extents: list[oir.Value | None] = [None, None, b.i64(known)]
    if len(known) < rank:
        extents = [None, b.const(_scales(shape_of(x), dims))]
    types = [(dtype_of(x), tuple(dims))]
    found = b.op("Resize", x, *extents, types=types, **mode.attributes)
    assert isinstance(found, oir.Value)
    return b.transpose(found, [int(axis) for axis in np.argsort(perm)])


def _scales(before: Shape, after: Sequence[Dim]) -> np.ndarray:
    """The scale of each axis, for shapes that are not all known.

    Raises:
        Refusal: An extent computed from the scale would differ.
    """
    scales = np.ones(len(before), np.float32)
    for axis, (old, new) in enumerate(zip(before, after, strict=True)):
        if isinstance(old, int) and isinstance(new, int) and old:
            scales[axis] = np.float32(new) / np.float32(old)
            need(np.floor(scales[axis] * np.float32(old)) == new, "the extent is rounded")
    return scales
