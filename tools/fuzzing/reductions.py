"""reduce and reduce_window."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import (
    BOOL,
    COMMON_FLOATS,
    COMPLEX,
    INTEGERS,
    MODERATE,
    REAL,
    integer_range,
)
from tools.fuzzing.program import Grid, Made, Type, Value, ints, together

_COMBINERS = {
    "add": REAL + COMPLEX + BOOL,
    "multiply": REAL + BOOL,
    "maximum": REAL + BOOL,
    "minimum": REAL + BOOL,
    "and": INTEGERS + BOOL,
    "or": INTEGERS + BOOL,
    "xor": INTEGERS + BOOL,
    "greater": INTEGERS,
}


_BODIES = {
    "set": "",
    "keep": "",
    "greater": """\
    %c{i} = stablehlo.compare GT, %a{i}, %b{i} : ({t}, {t}) -> tensor<i1>
    %r{i} = stablehlo.select %c{i}, %a{i}, %b{i} : tensor<i1>, {t}""",
    "from": "    %r{i} = stablehlo.subtract %b{i}, %a{i} : {t}",
    "twice": """\
    %c{i} = stablehlo.add %a{i}, %a{i} : {t}
    %r{i} = stablehlo.add %c{i}, %b{i} : {t}""",
}
"""Bodies that are more or less than one op."""


def body(combiners: Sequence[str], elements: Sequence[str]) -> str:
    """A block that combines each operand in its own way."""
    types = [f"tensor<{element}>" for element in elements]
    left = [f"%a{i}: {type_}" for i, type_ in enumerate(types)]
    right = [f"%b{i}: {type_}" for i, type_ in enumerate(types)]
    lines, names = [f"  ^bb0({', '.join(left + right)}):"], []
    for i, (combiner, type_) in enumerate(zip(combiners, types, strict=True)):
        plain = f"    %r{{i}} = stablehlo.{combiner} %a{{i}}, %b{{i}} : {{t}}"
        lines.append(_BODIES.get(combiner, plain).format(i=i, t=type_))
        names.append({"set": f"%b{i}", "keep": f"%a{i}"}.get(combiner, f"%r{i}"))
    lines.append(f"    stablehlo.return {', '.join(names)} : {', '.join(types)}")
    return "\n".join(filter(None, lines))


def neutral(combiner: str, element: str) -> complex:
    """The number that changes nothing."""
    if element in COMPLEX:
        return 0j
    is_float = element in COMMON_FLOATS
    low, high = (-np.inf, np.inf) if is_float else (0, 1)
    if element in INTEGERS:
        low, high = integer_range(element)
    ones = -1 if low < 0 else high
    return {
        "add": 0, "or": 0, "xor": 0, "multiply": 1, "maximum": low, "greater": low,
        "minimum": high, "and": ones,
    }[combiner]  # fmt: skip


def _operand(b: Builder, combiner: str, shape: Sequence[int] | None, ranks: range) -> Value:
    sums = combiner in ("add", "multiply")
    elements = _COMBINERS[combiner]
    if shape is None:
        x = b.operand(elements, ranks, moderate=sums)
    else:
        x = b.like(Type(b.rng.choice(elements), tuple(shape)), moderate=sums)
    if x.type.element in COMPLEX and x.grid is None:
        x = b.leaf(x.type, "grid")
    return x


def _init(b: Builder, combiner: str, x: Value) -> tuple[Value, bool]:
    """The initial value, and whether it is neutral.

    It has to be where XLA may take a sum apart (that of a concatenation, say) and start each part
    with it.
    """
    element = x.type.element
    type_ = Type(element, ())
    counts = combiner in ("add", "multiply", "xor") and not b.is_input(x)
    if counts or b.rng.random() < 0.7:
        return b.scalar(element, neutral(combiner, element)), True
    return b.like(type_, moderate=combiner in ("add", "multiply")), False


def _reduced(
    b: Builder,
    ranks: range,
    windows: Callable[[Builder, Sequence[int]], tuple[str, list[int], int]],
) -> tuple[list[Value], list[Made], str, str, float]:
    """Operands, results, attributes, region and scale of a reduction of one to three tensors.

    Args:
        windows: Gives the attributes, the shape of the results, and how many elements each sums.
    """
    combiners = [b.rng.choice(list(_COMBINERS))]
    xs = [_operand(b, combiners[0], None, ranks)]
    while b.rng.random() < 0.15 and len(xs) < 3:
        combiners.append(b.rng.choice(list(_COMBINERS)))
        xs.append(_operand(b, combiners[-1], xs[0].type.shape, ranks))
    inits = [_init(b, name, x) for name, x in zip(combiners, xs, strict=True)]
    text, shape, count = windows(b, xs[0].type.shape)
    made = []
    for name, x, (init, is_neutral) in zip(combiners, xs, inits, strict=True):
        _, grid, _ = together(x) if is_neutral else together(x, init)
        grid = combined_grid(name, x.type.element, grid, count)
        made.append(b.result(x.type.element, shape, grid, inexact=name in ("add", "multiply")))
    region = body(combiners, [x.type.element for x in xs])
    scale = MODERATE * (count + 1) if "add" in combiners else 0.0
    return [*xs, *(init for init, _ in inits)], made, text, region, scale


def combined_grid(combiner: str, element: str, grid: Grid | None, count: int) -> Grid | None:
    """The grid of a number that is combined with so many others on its grid."""
    if grid is None or combiner in ("set", "keep"):
        return grid
    if combiner == "multiply":
        factor = 2 if element in COMPLEX else 1
        bound = max(1.0, factor * grid.bound) ** min(count + 1, 40)
        return Grid(bound, grid.bits * (count + 1))
    is_sum = combiner in ("add", "subtract", "from")
    return Grid((count + 1) * grid.bound, grid.bits) if is_sum else grid if count else None


def reduce(b: Builder) -> None:
    b.step("reduce", *_reduced(b, range(9), _axes))


def _axes(b: Builder, dims: Sequence[int]) -> tuple[str, list[int], int]:
    axes = sorted(b.rng.sample(range(len(dims)), b.rng.randint(0, len(dims))))
    shape = [dim for axis, dim in enumerate(dims) if axis not in axes]
    return f"dimensions = {ints(axes)}", shape, math.prod(dims[axis] for axis in axes)


_ARG = """\
  ^bb0(%a: tensor<{x}>, %i: tensor<{n}>, %b: tensor<{x}>, %j: tensor<{n}>):
    %0 = stablehlo.compare {direction}, %a, %b : (tensor<{x}>, tensor<{x}>) -> tensor<i1>
    %1 = stablehlo.compare NE, %a, %a : (tensor<{x}>, tensor<{x}>) -> tensor<i1>
    %2 = stablehlo.or %0, %1 : tensor<i1>
    %3 = stablehlo.compare EQ, %a, %b : (tensor<{x}>, tensor<{x}>) -> tensor<i1>
    %4 = stablehlo.compare LT, %i, %j : (tensor<{n}>, tensor<{n}>) -> tensor<i1>
    %5 = stablehlo.and %3, %4 : tensor<i1>
    %6 = stablehlo.or %2, %5 : tensor<i1>
    %7 = stablehlo.select %2, %a, %b : tensor<i1>, tensor<{x}>
    %8 = stablehlo.select %6, %i, %j : tensor<i1>, tensor<{n}>
    stablehlo.return %7, %8 : tensor<{x}>, tensor<{n}>"""


def arg_extreme(b: Builder) -> None:
    """argmax and argmin, as JAX writes them."""
    x = b.operand(REAL, range(1, 9))
    element, dims = x.type.element, x.type.shape
    axis = b.rng.randrange(len(dims))
    if dims[axis] == 0:
        raise Unsuitable
    index = b.rng.choice(["i32", "i32", "i64", "ui32", "i8", "ui8", "i16"])
    largest = b.rng.random() < 0.5
    iota = b.iota(Type(index, dims), axis)
    worst = neutral("maximum" if largest else "minimum", element)
    inits = [b.scalar(element, worst), b.scalar(index, 0)]
    shape = (*dims[:axis], *dims[axis + 1 :])
    made = [b.result(element, shape, x.grid), b.result(index, shape, None)]
    region = _ARG.format(x=element, n=index, direction="GT" if largest else "LT")
    b.step("reduce", [x, iota, *inits], made, f"dimensions = {ints([axis])}", region)


def reduce_window(b: Builder) -> None:
    b.step("reduce_window", *_reduced(b, range(1, 5), _windows))


def _windows(b: Builder, dims: Sequence[int]) -> tuple[str, list[int], int]:
    """Attributes, the shape of the result, and the elements of a window."""
    sizes, strides, bases, dilations, padding, shape = [], [], [], [], [], []
    for extent in dims:
        plain = b.rng.random() < 0.5
        sizes.append(1 if b.rng.random() < 0.3 else b.rng.randint(1, max(1, extent) + plain))
        strides.append(b.rng.choice([1, 1, 2, 3]))
        bases.append(1 if plain else b.rng.choice([1, 1, 2, 3]))
        dilations.append(1 if plain else b.rng.choice([1, 1, 2, 3]))
        reach = (sizes[-1] - 1) * dilations[-1] + 1
        pads = [0, 0, reach - 1, reach - 1, min(1, reach - 1), reach, -1, -2]
        padding.append((b.rng.choice(pads), b.rng.choice(pads)))
        dilated = (extent - 1) * bases[-1] + 1 if extent else 0
        room = dilated + sum(padding[-1]) - reach
        shape.append(room // strides[-1] + 1 if room >= 0 else 0)
    text = (
        f"window_dimensions = {ints(sizes)}, window_strides = {ints(strides)},"
        f" base_dilations = {ints(bases)}, window_dilations = {ints(dilations)},"
        f" padding = dense<{[list(pair) for pair in padding]}> : tensor<{len(dims)}x2xi64>"
    )
    return text, shape, math.prod(sizes)


_COMPOSITION = """\
  ^bb0(%a: tensor<{x}>, %b: tensor<{x}>, %c: tensor<{x}>, %d: tensor<{x}>):
    %0 = stablehlo.multiply %a, %c : tensor<{x}>
    %1 = stablehlo.multiply %b, %c : tensor<{x}>
    %2 = stablehlo.add %1, %d : tensor<{x}>
    stablehlo.return %0, %2 : tensor<{x}>, tensor<{x}>"""


def composition(b: Builder) -> None:
    """The functions a x + b after each other, as linear recurrences: which comes first counts."""
    x = b.operand(INTEGERS, [1, 1, 1, 2, 3, 4])
    element, dims = x.type.element, x.type.shape
    y = b.like(x.type)
    inits = [b.scalar(element, number) for number in (1, 0)]
    # XLA goes through windows of several axes in an order of its own.
    whole = len(dims) > 1 or b.rng.random() < 0.3
    name, windows = ("reduce", _axes) if whole else ("reduce_window", _windows)
    text, shape, _ = windows(b, dims)
    made = [b.result(element, shape, None)] * 2
    b.step(name, [x, y, *inits], made, text, _COMPOSITION.format(x=element))


STEPS = {reduce: 5, arg_extreme: 2, reduce_window: 3, composition: 2}
