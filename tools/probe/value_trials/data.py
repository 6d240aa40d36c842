"""Trials, and the numbers they are made of."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper
from onnx.reference import ReferenceEvaluator

Array = np.ndarray[Any, np.dtype[Any]]
"""An array; element types that numpy lacks are those of ml_dtypes."""


@dataclass(frozen=True)
class Trial:
    """One node: its inputs and attributes, and the outputs that are right.

    Attributes:
        also: Outputs that are as good, where XLA itself rounds twice.
        constants: Whether all inputs but the first are constants of the model; that one, too, if it
            is alone.
        computed: Whether the first input is the result of another node.
        used: Whether the outputs are those of casts to INT32, which read the node's.
        tolerance: How far, relative to the largest right number, others may be off.
    """

    op_type: str
    inputs: tuple[Array | None, ...]
    expected: tuple[Array, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    also: tuple[Array, ...] | None = None
    constants: bool = False
    computed: bool = False
    used: bool = False
    tolerance: float = 0.0


def node(
    op_type: str,
    *inputs: Array | None,
    outputs: int = 1,
    right: tuple[Array, ...] | None = None,
    tolerance: float = 0.0,
    **attributes: Any,
) -> Trial:
    """A trial whose right outputs are those of ONNX's reference implementation.

    Args:
        outputs: How many there are.
        right: The outputs, where the reference is wrong or takes less.
    """
    arrays = tuple(None if x is None else np.asarray(x) for x in inputs)
    if right is None:
        right = _reference(op_type, arrays, outputs, attributes)
    return Trial(op_type, arrays, right, attributes, tolerance=tolerance)


def _reference(
    op_type: str, inputs: tuple[Array | None, ...], outputs: int, attributes: Mapping[str, Any]
) -> tuple[Array, ...]:
    """What the reference implementation gives."""
    names = ["" if x is None else f"x{position}" for position, x in enumerate(inputs)]
    results = [f"y{position}" for position in range(outputs)]
    made = helper.make_node(op_type, names, results, **attributes)
    evaluator = ReferenceEvaluator(made, opsets={"": onnx.defs.onnx_opset_version()})
    feeds = {name: x for name, x in zip(names, inputs, strict=True) if x is not None}
    with np.errstate(all="ignore"):
        found = evaluator.run(results, feeds)
    return tuple(np.ascontiguousarray(x).reshape(np.shape(x)) for x in found)


Trials = Callable[..., list[Trial]]
"""Makes the trials of an operator from its element type or types."""

VECTOR = 67
"""Elements that fill vector registers several times, and a rest."""

_POWERS = (7, 8, 15, 16, 23, 24, 31, 32, 52, 53, 62, 63)


LIMITED: ContextVar[bool] = ContextVar("LIMITED", default=False)
"""Whether trials keep to operands that a runtime computes rightly in f32: integers of 32 bits and
more that f32 holds, with sums and products of them; no denormals, infinities and NaN; no ties of
keys."""

DENORMALS: ContextVar[bool] = ContextVar("DENORMALS", default=True)
"""Whether trials have denormal floats."""


def is_float(dtype: np.dtype[Any]) -> bool:
    """Whether numbers of that type are floats, of 8 bits and less too."""
    return dtype.kind == "f" or "float" in dtype.name or "bfloat" in dtype.name


def edges(dtype: ir.DataType) -> Array:
    """Numbers at which kernels go wrong: the ends of the type and of narrower ones, next to powers
    of two, both zeros, ties of rounding. Finite ones only."""
    numpy_type = dtype.numpy()
    if dtype == ir.DataType.BOOL:
        return np.array([False, True])
    if is_float(numpy_type):
        return _float_edges(numpy_type)
    info = ml_dtypes.iinfo(numpy_type)
    if LIMITED.get() and dtype.bitwidth >= 32:
        inside = [n for n in _NARROW if n >= info.min]
        return np.array(inside).astype(numpy_type)
    near = [sign * 2**k + step for k in _POWERS for sign in (1, -1) for step in (-1, 0, 1)]
    ends = [info.min, info.min + 1, info.max - 1, info.max, int(info.max) // 3]
    numbers = sorted({*range(-3, 8), 100, -100, *near, *map(int, ends)})
    inside = np.array([n for n in numbers if info.min <= n <= info.max], object)
    return inside.astype(np.int64 if info.min else np.uint64).astype(numpy_type)


_NARROW = sorted({*range(-3, 8), 100, -100, 127, 128, 255, 256, -256, 4095, -4096})


def every(dtype: ir.DataType) -> Array:
    """The edges, large ones too within limits."""
    token = LIMITED.set(False)
    try:
        return edges(dtype)
    finally:
        LIMITED.reset(token)


def _float_edges(numpy_type: np.dtype[Any]) -> Array:
    info = ml_dtypes.finfo(numpy_type)
    sizes = [0.0, 0.25, 0.5, 0.75, 1.0, 1.5, 2.0, 2.5, 3.0, 3.5, 5.5, 6.0]
    sizes += [2.0**24 + 2, 4503599627370497.5, 0.49999999999999994, 1e30]
    sizes += [float(info.max), float(info.smallest_normal)]
    numbers = np.array([*sizes, *(-size for size in sizes)])
    with np.errstate(over="ignore"):
        narrow = numbers.astype(numpy_type)
    return narrow[np.isfinite(narrow.astype(np.float64))]


def specials(dtype: ir.DataType) -> Array:
    """The edges, and for floats infinities, NaN and denormals, where the type has them."""
    found = edges(dtype)
    if not is_float(found.dtype):
        return found
    if LIMITED.get():
        return found
    extra = [np.inf, -np.inf, np.nan]
    if DENORMALS.get():
        least = float(ml_dtypes.finfo(found.dtype).smallest_subnormal)
        extra += [least, -least]
    return np.concatenate([found, np.array(extra).astype(found.dtype)])


def spread(values: Array, *shape: int, seed: int = 0) -> Array:
    """An array drawn from values."""
    rng = np.random.default_rng(seed)
    return values[rng.integers(len(values), size=shape)]


def mixed(dtype: ir.DataType, *shape: int, seed: int = 0) -> Array:
    """Edges and numbers of any bits (floats: edges only)."""
    drawn = spread(edges(dtype), *shape, seed=seed)
    if is_float(drawn.dtype) or dtype == ir.DataType.BOOL or dtype.bitwidth < 8:
        return drawn
    if LIMITED.get() and dtype.bitwidth >= 32:
        return drawn
    rng = np.random.default_rng(seed + 1)
    size = int(np.prod(shape)) * drawn.itemsize
    noise = rng.integers(256, size=size, dtype=np.uint8).view(drawn.dtype).reshape(shape)
    return np.where(rng.random(shape) < 0.5, drawn, noise)


def small(dtype: ir.DataType, *shape: int, seed: int = 0) -> Array:
    """Whole numbers so small that no float sum or product of a few dozen is rounded."""
    low = 0 if dtype.name.startswith("U") or dtype == ir.DataType.BOOL else -3
    high = 2 if dtype == ir.DataType.BOOL else 4
    return np.random.default_rng(seed).integers(low, high, size=shape).astype(dtype.numpy())


def summands(dtype: ir.DataType, *shape: int, seed: int = 0) -> Array:
    """Numbers to add up: integers that overflow, floats that are exact."""
    is_small = is_float(dtype.numpy()) or (LIMITED.get() and dtype.bitwidth >= 32)
    make = small if is_small else mixed
    return make(dtype, *shape, seed=seed)


def i64(*numbers: int) -> Array:
    return np.array(numbers, np.int64)
