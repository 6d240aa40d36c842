"""dot_general and convolution."""

from __future__ import annotations

import math
from collections.abc import Sequence

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import BOOL, COMMON_FLOATS, COMPLEX, INTEGERS, MODERATE
from tools.fuzzing.elementwise import away_from_edges
from tools.fuzzing.program import Grid, Made, Type, Value, ints

_WIDER = {
    "bf16": ["f32"], "f16": ["f32"], "i8": ["i32", "i16"], "ui8": ["i32", "ui32"],
    "f32": ["f64"], "i16": ["i32"], "i32": ["i64"],
}  # fmt: skip


def _result(b: Builder, x: Value, y: Value, shape: Sequence[int], count: int) -> Made:
    grid = None
    if x.grid is not None and y.grid is not None:
        terms = 2 if x.type.element in COMPLEX else 1
        bound = max(1, count) * terms * x.grid.bound * y.grid.bound
        grid = Grid(bound, x.grid.bits + y.grid.bits)
    element = x.type.element
    if element in _WIDER and b.rng.random() < 0.15:
        element = b.rng.choice(_WIDER[element])
    return b.result(element, shape, grid, inexact=True)


def dot_general(b: Builder) -> None:
    x = away_from_edges(b, b.operand(INTEGERS + COMMON_FLOATS + COMPLEX + BOOL, moderate=True))
    dims = x.type.shape
    axes = list(range(len(dims)))
    b.rng.shuffle(axes)
    batch = axes[: b.rng.choice([0, 0, 1, 2])]
    contracting = axes[len(batch) :][: b.rng.choice([0, 1, 1, 1, 2])]
    free = [axis for axis in range(len(dims)) if axis not in (*batch, *contracting)]
    free_y = [b.rng.choice([1, 2, 3, 4]) for _ in range(b.rng.choice([0, 1, 1, 2]))]
    # The axes of y, in an order of its own: pairs of (role, extent).
    roles = [("batch", axis) for axis in batch] + [("contracting", axis) for axis in contracting]
    roles += [("free", i) for i in range(len(free_y))]
    order = roles[:]
    if b.rng.random() < 0.7:
        b.rng.shuffle(order)
    shape = tuple(free_y[i] if role == "free" else dims[i] for role, i in order)
    if math.prod(shape) > 400:
        raise Unsuitable
    y = away_from_edges(b, b.like(Type(x.type.element, shape), moderate=True))
    free_order = [dim for (role, _), dim in zip(order, shape, strict=True) if role == "free"]
    result = [dims[i] for i in batch] + [dims[i] for i in free] + free_order
    count = math.prod(dims[i] for i in contracting)
    made = _result(b, x, y, result, count)
    text = (
        "dot_dimension_numbers = #stablehlo.dot<"
        f"lhs_batching_dimensions = {batch},"
        f" rhs_batching_dimensions = {[order.index(('batch', i)) for i in batch]},"
        f" lhs_contracting_dimensions = {contracting},"
        f" rhs_contracting_dimensions = {[order.index(('contracting', i)) for i in contracting]}>"
    )
    b.step("dot_general", [x, y], [made], text, scale=(count + 1) * MODERATE**2)


def convolution(b: Builder) -> None:
    rank = b.rng.choice([1, 1, 2, 2, 3])
    element = b.rng.choice(["f32", "f32", "f64", "f16", "bf16", "i8", "i32", "i64", "ui8"])
    groups = b.rng.choice([1, 1, 1, 2, 3])
    by_batch = groups > 1 and b.rng.random() < 0.3
    batch = b.rng.choice([1, 2]) * (groups if by_batch else 1)
    features_in = b.rng.choice([1, 2, 3]) * (1 if by_batch else groups)
    features_out = b.rng.choice([1, 2]) * groups
    kernel_in = features_in if by_batch else features_in // groups
    # XLA's kernel for f32 and f16 computes something else where padding is negative.
    may_cut = element not in ("f32", "f16")
    windows = [_window(b, may_cut) for _ in range(rank)]
    spatial = [str(i) for i in range(rank)]
    layouts = [_layout(b, ["b", "f", *spatial]), _layout(b, ["o", "i", *spatial])]
    layouts.append(_layout(b, ["b", "f", *spatial]))
    extents = [
        {"b": batch, "f": features_in} | {str(i): w["extent"] for i, w in enumerate(windows)},
        {"o": features_out, "i": kernel_in} | {str(i): w["size"] for i, w in enumerate(windows)},
        {"b": batch // groups if by_batch else batch, "f": features_out}
        | {str(i): w["out"] for i, w in enumerate(windows)},
    ]
    shapes = [
        tuple(sizes[axis] for axis in names) for names, sizes in zip(layouts, extents, strict=True)
    ]
    if any(math.prod(shape) > 300 for shape in shapes):
        raise Unsuitable
    x, y = (b.leaf(Type(element, shape), "finite") for shape in shapes[:2])
    count = kernel_in * math.prod(window["size"] for window in windows)
    made = _result(b, x, y, shapes[2], count)
    b.step(
        "convolution",
        [x, y],
        [made],
        _attributes(windows, layouts, groups, by_batch),
        scale=(count + 1) * MODERATE**2,
    )


def _window(b: Builder, may_cut: bool) -> dict[str, int]:
    plain = b.rng.random() < 0.5
    extent, size = b.rng.randint(1, 6), b.rng.randint(1, 3)
    stride = b.rng.choice([1, 1, 2, 3])
    lhs = 1 if plain else b.rng.choice([1, 1, 2, 3])
    rhs = 1 if plain else b.rng.choice([1, 1, 2])
    low, high = (b.rng.choice([0, 0, 1, 2, -1 if may_cut and not plain else 0]) for _ in range(2))
    room = (extent - 1) * lhs + 1 + low + high - (size - 1) * rhs - 1
    if (extent - 1) * lhs + 1 + low + high < 0:
        raise Unsuitable
    return {
        "extent": extent, "size": size, "stride": stride, "low": low, "high": high, "lhs": lhs,
        "rhs": rhs, "out": room // stride + 1 if room >= 0 else 0,
        "reversed": int(not plain and b.rng.random() < 0.3),
    }  # fmt: skip


def _layout(b: Builder, names: list[str]) -> list[str]:
    if b.rng.random() < 0.5:
        b.rng.shuffle(names)
    return names


def _attributes(
    windows: list[dict[str, int]], layouts: list[list[str]], groups: int, by_batch: bool
) -> str:
    def each(key: str) -> str:
        return ints([window[key] for window in windows])

    reversal = ", ".join(str(bool(window["reversed"])).lower() for window in windows)
    lhs, rhs, out = (f"[{', '.join(names)}]" for names in layouts)
    padding = [[window["low"], window["high"]] for window in windows]
    return (
        f"window_strides = {each('stride')}, padding = dense<{padding}> :"
        f" tensor<{len(windows)}x2xi64>, lhs_dilation = {each('lhs')},"
        f" rhs_dilation = {each('rhs')}, window_reversal = array<i1: {reversal}>,"
        f" dimension_numbers = #stablehlo.conv<{lhs}x{rhs}->{out}>,"
        f" feature_group_count = {1 if by_batch else groups} : i64,"
        f" batch_group_count = {groups if by_batch else 1} : i64"
    )


STEPS = {dot_general: 6, convolution: 3}
