"""sort with comparators of all kinds, and top_k."""

from __future__ import annotations

from collections.abc import Sequence

from tools.fuzzing.builder import Builder, Unsuitable
from tools.fuzzing.elements import ALL, BOOL, COMMON_FLOATS, INTEGERS, REAL, SIGNED
from tools.fuzzing.program import Quality, Type, Value


def sort(b: Builder) -> None:
    key = b.operand(REAL + BOOL, range(1, 5))
    dims = key.type.shape
    axis = b.rng.randrange(len(dims))
    operands, keys = [key], [0]
    while b.rng.random() < 0.5 and len(operands) < 4:
        if b.rng.random() < 0.4:
            operands.append(b.iota(Type(b.rng.choice(["i32", "i32", "i64", "ui8"]), dims), axis))
        else:
            operands.append(b.like(Type(b.rng.choice(ALL), dims), Quality.CLOSE))
        value = operands[-1]
        if value.type.element in REAL and value.quality > Quality.CLOSE and b.rng.random() < 0.4:
            keys.append(len(operands) - 1)
    places = list(range(len(operands)))
    b.rng.shuffle(places)
    operands = [operands[place] for place in places]
    keys = [places.index(key) for key in keys]
    lines, result = _comparator(b, operands, keys)
    arguments = [
        f"%{side}{i}: tensor<{value.type.element}>"
        for i, value in enumerate(operands)
        for side in "ab"
    ]
    region = "\n".join(
        [
            f"  ^bb0({', '.join(arguments)}):",
            *(f"    {line}" for line in lines),
            f"    stablehlo.return {result} : tensor<i1>",
        ]
    )
    # Only of integers that are sorted by themselves nobody sees the order of equal ones.
    alone = len(operands) == 1 and key.type.element in INTEGERS
    stable = "false" if alone and b.rng.random() < 0.5 else "true"
    text = f"dimension = {axis} : i64, is_stable = {stable}"
    made = [value.made for value in operands]
    b.step("sort", operands, made, text, region, scale=max(value.scale for value in operands))


def _comparator(
    b: Builder, operands: Sequence[Value], keys: Sequence[int]
) -> tuple[list[str], str]:
    """Lines, and the name of what they compute: the keys decide one after the other."""
    lines: list[str] = []
    before = ""
    for place, key in reversed(list(enumerate(keys))):
        own, equal = _compared(b, operands[key], key, place, lines)
        if before:
            lines.append(f"%and{place} = stablehlo.and {equal}, {before} : tensor<i1>")
            lines.append(f"%or{place} = stablehlo.or {own}, %and{place} : tensor<i1>")
            own = f"%or{place}"
        before = own
    return lines, before


def _compared(
    b: Builder, operand: Value, key: int, place: int, lines: list[str]
) -> tuple[str, str]:
    """Appends the comparison of both sides; returns its name, and that of whether
    they are equal."""
    element = operand.type.element
    type_ = f"tensor<{element}>"
    sides = [f"%a{key}", f"%b{key}"]
    kind = "SIGNED" if element in SIGNED else "UNSIGNED"
    if element in COMMON_FLOATS:
        # With NaN a comparison of numbers is no order.
        ways = ["canonical"]
        ways += ["numbers"] if operand.grid is not None else []
        ways += ["total"] if operand.quality == Quality.BITS else []
        way = b.rng.choice(ways)
        kind = "FLOAT" if way == "numbers" else "TOTALORDER"
        if way == "canonical":
            sides = [_canonical(side, element, place, lines) for side in sides]
    direction = b.rng.choice(["LT", "GT"])
    signature = f"{kind} : ({type_}, {type_}) -> tensor<i1>"
    swapped = sides[::-1] if b.rng.random() < 0.15 else sides
    lines.append(f"%lt{place} = stablehlo.compare {direction}, {', '.join(swapped)}, {signature}")
    lines.append(f"%eq{place} = stablehlo.compare EQ, {', '.join(sides)}, {signature}")
    return f"%lt{place}", f"%eq{place}"


def _canonical(side: str, element: str, place: int, lines: list[str]) -> str:
    """As JAX sorts: -0 is 0, and all NaN are one."""
    type_, tag = f"tensor<{element}>", f"{place}_{side[1]}"
    bits = {"f16": "0x7E00", "bf16": "0x7FC0", "f32": "0x7FC00000", "f64": "0x7FF8000000000000"}
    lines += [
        f"%z{tag} = stablehlo.constant dense<0.0> : {type_}",
        f"%n{tag} = stablehlo.constant dense<{bits[element]}> : {type_}",
        f"%iz{tag} = stablehlo.compare EQ, {side}, %z{tag}, FLOAT :"
        f" ({type_}, {type_}) -> tensor<i1>",
        f"%c{tag} = stablehlo.select %iz{tag}, %z{tag}, {side} : tensor<i1>, {type_}",
        f"%in{tag} = stablehlo.compare NE, {side}, {side}, FLOAT :"
        f" ({type_}, {type_}) -> tensor<i1>",
        f"%d{tag} = stablehlo.select %in{tag}, %n{tag}, %c{tag} : tensor<i1>, {type_}",
    ]
    return f"%d{tag}"


def top_k(b: Builder) -> None:
    x = b.operand(REAL, range(1, 5), quality=Quality.BITS)
    dims = x.type.shape
    k = b.rng.randint(0 if b.rng.random() < 0.1 else 1, dims[-1]) if dims[-1] else 0
    if 0 in dims or not k:
        raise Unsuitable
    shape = (*dims[:-1], k)
    made = [
        (Type(x.type.element, shape), x.quality, x.grid),
        (Type("i32", shape), Quality.BITS, None),
    ]
    b.step("chlo.top_k", [x], made, f"k = {k} : i64", moderate=x.moderate)


STEPS = {sort: 4, top_k: 1}
