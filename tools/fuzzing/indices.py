"""Integers that are indices: inside and outside of what they index, all ways in which programs get
them. Their elements are known to the generator (`Builder.known`) wherever that is easy.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence

import numpy as np

from tools.fuzzing.builder import Builder
from tools.fuzzing.elements import INTEGERS, NUMPY, integer_range
from tools.fuzzing.movement import start_types
from tools.fuzzing.program import Quality, Type, Value, comparing, ints

LARGE = ("i16", "i32", "i32", "i32", "i64", "i64", "ui16", "ui32", "ui64")


def index_tensor(b: Builder, shape: Sequence[int], vector: int, limits: Sequence[int]) -> Value:
    """Index vectors along an axis, or single indices where there is no such axis.

    Args:
        vector: The axis of the index vectors; the rank where there is one index each.
        limits: The largest index inside, for each place of a vector.
    """
    # XLA compares the indices of a scatter with the limits in the indices' own type.
    fit = [name for name in start_types(b) if max(limits, default=0) <= integer_range(name)[1]]
    element = b.rng.choice([name for name in (*INTEGERS, *LARGE) if name in fit])
    type_ = Type(element, tuple(shape))
    way = b.rng.random()
    if not limits or 0 in shape or way < 0.45:
        made = b.given(type_, _vectors(b, type_, vector, limits), constant=b.rng.random() < 0.4)
    elif way < 0.52:
        made = b.like(type_)
    else:
        columns = [_column(b, type_, vector, limit) for limit in limits]
        made = columns[0]
        if len(columns) > 1:
            text = f"dimension = {vector} : i64"
            made = apply(
                b, "concatenate", columns, type_, lambda *xs: np.concatenate(xs, vector), text
            )
    if b.rng.random() < 0.1:
        target = Type(b.rng.choice([name for name in fit if name != element]), type_.shape)
        made = apply(b, "convert", [made], target, lambda x: x.astype(NUMPY[target.element]))
    return made


def start(b: Builder, element: str, limit: int) -> Value:
    """One index."""
    type_ = Type(element, ())
    if b.rng.random() < 0.3:
        return b.like(type_)
    return _column(b, type_, 0, limit)


# -- elements ---------------------------------------------------------------------------------


def _vectors(b: Builder, type_: Type, vector: int, limits: Sequence[int]) -> np.ndarray:
    """Arrays of index vectors, many of them distinct or inside."""
    batch = [extent for axis, extent in enumerate(type_.shape) if axis != vector]
    count, places = math.prod(batch), math.prod(limit + 1 for limit in limits)
    if limits and 0 < count <= places and b.rng.random() < 0.4:
        picked = b.rng.sample(range(places), count)
        if b.rng.random() < 0.3:
            picked.sort()
        columns = [c.tolist() for c in np.unravel_index(picked, [limit + 1 for limit in limits])]
    else:
        columns = [_numbers(b, type_.element, count, limit) for limit in limits]
    arrays = [np.array(column, NUMPY[type_.element]).reshape(batch) for column in columns]
    if vector == len(type_.shape):
        return arrays[0]
    return np.stack(arrays, vector) if arrays else np.zeros(type_.shape, NUMPY[type_.element])


def _numbers(b: Builder, element: str, count: int, limit: int) -> list[int]:
    low, high = integer_range(element)
    kind = b.rng.choice(["inside", "near", "near", "extreme", "same"])
    if kind == "same":
        return [b.rng.randint(max(low, -1), limit)] * count
    numbers = []
    for _ in range(count):
        number = b.rng.randint(0, limit)
        if kind == "near":
            number = b.rng.randint(max(low, -limit - 3), min(high, limit + 3))
        elif kind == "extreme" and b.rng.random() < 0.5:
            number = b.rng.choice([low, low + 1, high, high - 1, high // 2 + 1, high // 2])
        numbers.append(number)
    return numbers


def _column(b: Builder, type_: Type, vector: int, limit: int) -> Value:
    """The indices at one place of the vectors, in the form of a program's arithmetic."""
    shape = tuple(1 if axis == vector else dim for axis, dim in enumerate(type_.shape))
    type_ = Type(type_.element, shape)
    ways = [_raw, _raw, _fixed, _clamped, _wrapped, _masked, _remainder]
    if any(dim > 1 for dim in shape):
        ways += [_counted, _counted, _counted, _sorted_places]
    return b.rng.choice(ways)(b, type_, limit)


def _raw(b: Builder, type_: Type, limit: int) -> Value:
    numbers = _numbers(b, type_.element, math.prod(type_.shape), limit)
    array = np.array(numbers, NUMPY[type_.element]).reshape(type_.shape)
    return b.given(type_, array, constant=b.rng.random() < 0.4)


def _fixed(b: Builder, type_: Type, limit: int) -> Value:
    """One number everywhere."""
    (number,) = _numbers(b, type_.element, 1, limit)
    return filled(b, type_, number, constant=b.rng.random() < 0.5)


def _clamped(b: Builder, type_: Type, limit: int) -> Value:
    scalar = Type(type_.element, ())
    low, high = (filled(b, scalar, number) for number in (0, limit))
    x = b.like(type_) if b.rng.random() < 0.5 else _raw(b, type_, limit)
    return apply(b, "clamp", [low, x, high], type_, lambda lo, x, hi: np.clip(x, lo, hi))


def _masked(b: Builder, type_: Type, limit: int) -> Value:
    """The low bits."""
    mask = filled(b, type_, (1 << limit.bit_length()) - 1)
    return apply(b, "and", [b.like(type_), mask], type_, np.bitwise_and)


def _remainder(b: Builder, type_: Type, limit: int) -> Value:
    """Of either sign; now and then brought back into 0 .. limit, as `jnp.remainder` does."""
    extent = min(limit + 1, integer_range(type_.element)[1])
    operands = [_raw(b, type_, limit), filled(b, type_, extent)]
    made = apply(b, "remainder", operands, type_, np.fmod)
    return normalized(b, made, extent) if b.rng.random() < 0.6 else made


def _wrapped(b: Builder, type_: Type, limit: int) -> Value:
    """Negative indices count from the end."""
    x = _raw(b, type_, limit)
    _, most = integer_range(type_.element)
    return normalized(b, x, min(limit + 1, most))


def normalized(b: Builder, x: Value, extent: int) -> Value:
    """x where it is not negative, x + extent elsewhere, as JAX writes it."""
    type_ = x.type
    zero, end = (filled(b, type_, number) for number in (0, extent))
    text = comparing("LT", type_.element)
    negative = apply(b, "compare", [x, zero], Type("i1", type_.shape), np.less, text)
    moved = apply(b, "add", [x, end], type_, np.add)
    return apply(b, "select", [negative, moved, x], type_, np.where)


def _counted(b: Builder, type_: Type, limit: int) -> Value:
    """0, 1, 2, ... along an axis, shifted, stretched or reversed."""
    axis = b.rng.choice([axis for axis, dim in enumerate(type_.shape) if dim > 1])
    count = b.iota(type_, axis)
    if b.rng.random() < 0.3:
        count = apply(
            b, "reverse", [count], type_, lambda x: np.flip(x, axis), f"dimensions = {ints([axis])}"
        )
    if b.rng.random() < 0.4:
        by = filled(b, type_, b.rng.choice([1, 2, max(0, limit - type_.shape[axis] + 1)]))
        name, function = b.rng.choice([("add", np.add), ("subtract", np.subtract)])
        order = [count, by] if b.rng.random() < 0.7 else [by, count]
        count = apply(b, name, order, type_, function)
    if b.rng.random() < 0.2:
        count = apply(b, "multiply", [count, filled(b, type_, 2)], type_, np.multiply)
    return count


_SORT = """\
  ^bb0(%a: tensor<{x}>, %b: tensor<{x}>, %i: tensor<{n}>, %j: tensor<{n}>):
    %c = stablehlo.compare LT, %a, %b : (tensor<{x}>, tensor<{x}>) -> tensor<i1>
    stablehlo.return %c : tensor<i1>"""


def _sorted_places(b: Builder, type_: Type, limit: int) -> Value:
    """The places of elements in ascending order, as argsort gives them."""
    axis = b.rng.choice([axis for axis, dim in enumerate(type_.shape) if dim > 1])
    x = b.like(Type(b.rng.choice(INTEGERS), type_.shape))
    count = b.iota(type_, axis)
    results = [(value.type, Quality.BITS, None) for value in (x, count)]
    text = f"dimension = {axis} : i64, is_stable = true"
    region = _SORT.format(x=x.type.element, n=type_.element)
    return b.step("sort", [x, count], results, text, region)[1]


# -- steps whose elements are known -----------------------------------------------------------


def apply(
    b: Builder,
    name: str,
    operands: Sequence[Value],
    type_: Type,
    function: Callable[..., np.ndarray],
    attributes: str = "",
) -> Value:
    """An op on integers, and its elements where those of its operands are known."""
    (made,) = b.step(name, operands, [(type_, Quality.BITS, None)], attributes)
    arrays = [b.known.get(operand.index) for operand in operands]
    known = [array for array in arrays if array is not None]
    if len(known) == len(arrays):
        with np.errstate(all="ignore"):
            b.known[made.index] = np.asarray(function(*known))
    return made


def filled(b: Builder, type_: Type, number: int, constant: bool = True) -> Value:
    """One number everywhere; wrapped where the type does not hold it."""
    scalar = np.array(number % (1 << 64), np.uint64).astype(NUMPY[type_.element])
    constant = constant or b.rng.random() < 0.4
    if constant and (not type_.shape or b.rng.random() < 0.5):
        return b.given(type_, scalar, constant=True)
    made = b.given(Type(type_.element, ()), scalar, constant=constant)
    return b.spread(made, type_) if type_.shape else made
