"""Steps that only move data: what they read keeps its quality."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tools.fuzzing.builder import MAX_SIZE, Builder, Unsuitable
from tools.fuzzing.elements import ALL, SIGNED, SMALL_FLOATS, UNSIGNED
from tools.fuzzing.program import Quality, Type, Value, ints, together

ANY = ALL + SMALL_FLOATS


def moved(
    b: Builder,
    name: str,
    operands: Sequence[Value],
    shape: Sequence[int],
    attributes: str = "",
    indices: Sequence[Value] = (),
) -> list[Value]:
    """A step whose results hold elements of the operands, at places that the indices name."""
    if math.prod(shape) > MAX_SIZE:
        raise Unsuitable
    quality, grid, moderate = together(*operands)
    type_ = Type(operands[0].type.element, tuple(shape))
    scale = max(operand.scale for operand in operands)
    made = [(type_, quality, grid)]
    steps = [*operands, *indices]
    return b.step(name, steps, made, attributes, scale=scale, moderate=moderate)


def _source(b: Builder, ranks: Sequence[int] = range(9)) -> Value:
    return b.operand(ANY if b.rng.random() < 0.1 else ALL, ranks, quality=Quality.CLOSE)


def reshape(b: Builder) -> None:
    x = _source(b)
    size = math.prod(x.type.shape)
    dims: list[int] = []
    while size > 1 and len(dims) < 4:
        divisors = [d for d in range(2, size + 1) if size % d == 0]
        dims.append(b.rng.choice(divisors))
        size //= dims[-1]
    if size != 1:
        dims.append(size)
    for _ in range(b.rng.choice([0, 0, 1, 2])):
        dims.insert(b.rng.randint(0, len(dims)), 1)
    moved(b, "reshape", [x], dims)


def transpose(b: Builder) -> None:
    x = _source(b, range(1, 9))
    order = list(range(len(x.type.shape)))
    b.rng.shuffle(order)
    shape = [x.type.shape[axis] for axis in order]
    moved(b, "transpose", [x], shape, f"permutation = {ints(order)}")


def broadcast_in_dim(b: Builder) -> None:
    x = _source(b)
    rank = len(x.type.shape) + b.rng.choice([0, 1, 1, 2])
    axes = b.rng.sample(range(rank), len(x.type.shape))
    if b.rng.random() < 0.7:
        axes.sort()
    shape = list(b.shape(rank))
    for axis, extent in zip(axes, x.type.shape, strict=True):
        if extent != 1 or b.rng.random() < 0.4:
            shape[axis] = extent
    text = f"broadcast_dimensions = {ints(axes)}"
    moved(b, "broadcast_in_dim", [x], shape, text)


def slice_(b: Builder) -> None:
    x = _source(b)
    starts, limits, strides = [], [], []
    for extent in x.type.shape:
        whole = b.rng.random() < 0.4
        starts.append(0 if whole else b.rng.randint(0, extent))
        limits.append(extent if whole else b.rng.randint(starts[-1], extent))
        strides.append(b.rng.choice([1, 1, 2, 3]))
    shape = [-(-(hi - lo) // by) for lo, hi, by in zip(starts, limits, strides, strict=True)]
    text = (
        f"start_indices = {ints(starts)}, limit_indices = {ints(limits)}, strides = {ints(strides)}"
    )
    moved(b, "slice", [x], shape, text)


def concatenate(b: Builder) -> None:
    x = _source(b, range(1, 9))
    axis = b.rng.randrange(len(x.type.shape))
    parts = [x]
    for _ in range(b.rng.choice([0, 1, 1, 2])):
        shape = list(x.type.shape)
        if b.rng.random() < 0.5:
            shape[axis] = b.rng.randint(0, 3)
        parts.append(b.like(Type(x.type.element, tuple(shape)), Quality.CLOSE))
    b.rng.shuffle(parts)
    shape = list(x.type.shape)
    shape[axis] = sum(part.type.shape[axis] for part in parts)
    moved(b, "concatenate", parts, shape, f"dimension = {axis} : i64")


def pad(b: Builder) -> None:
    x = _source(b)
    fill = b.like(Type(x.type.element, ()), Quality.CLOSE)
    low, high, gaps, shape = [], [], [], []
    for extent in x.type.shape:
        gaps.append(b.rng.choice([0, 0, 0, 1, 2]))
        dilated = extent + max(extent - 1, 0) * gaps[-1]
        low.append(b.rng.choice([0, 0, 1, 2, -1]))
        high.append(b.rng.choice([0, 0, 1, 2, -1, -2]))
        shape.append(dilated + low[-1] + high[-1])
    if any(extent < 0 for extent in shape):
        raise Unsuitable
    text = (
        f"edge_padding_low = {ints(low)}, edge_padding_high = {ints(high)},"
        f" interior_padding = {ints(gaps)}"
    )
    moved(b, "pad", [x, fill], shape, text)


def reverse(b: Builder) -> None:
    x = _source(b, range(1, 9))
    rank = len(x.type.shape)
    axes = sorted(b.rng.sample(range(rank), b.rng.randint(1, rank)))
    moved(b, "reverse", [x], x.type.shape, f"dimensions = {ints(axes)}")


def start_types(b: Builder) -> tuple[str, ...]:
    """Element types of indices. In a block, whose constants XLA folds, it takes large unsigned ones
    for negative.
    """
    return SIGNED if b.depth else SIGNED + UNSIGNED


def is_dynamic_slice(b: Builder, x: Value) -> bool:
    """Whether a value is a dynamic_slice. XLA makes one op of two by adding their starts, before it
    clamps either."""
    return any(step.name == "dynamic_slice" and x.index in step.results for step in b.steps)


STEPS = {
    reshape: 3,
    transpose: 3,
    broadcast_in_dim: 4,
    slice_: 3,
    concatenate: 2,
    pad: 2,
    reverse: 1,
}
