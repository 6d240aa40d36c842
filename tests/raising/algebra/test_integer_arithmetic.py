"""Offsets are added up; quotients and remainders of natural numbers need no guards."""

from __future__ import annotations

import numpy as np
import pytest
from expressions import graph
from rewriting import Rewrite, fires
from rule_names import rule

from hlo2onnx.raising.engine import Rewriter

X = np.array([0, 1, 7, -8, 2**31 - 1, -(2**31)], np.int32)
INPUTS = {"i": X, "j": np.array([1, 2, 3, 5, 7, 11], np.int32), "f": X.astype(np.float32)}
CONSTANTS = {
    "EACH": X,
    "ONE": np.array([1], np.int32),
    "TWO": np.array([2], np.int32),
    "UNIT": np.ones((1, 1), np.int32),
    "SEVENS": np.full(6, 7, np.int32),
    "EIGHTS": np.full(6, 8, np.int32),
    "SEVEN": np.array([7], np.int32),
    "WIDE": np.array([[7]], np.int32),
    "BELOW": np.int32(-3),
}
NOTHING = "nothing"
NATURAL, POSITIVE = "Clip(i, 0, 2147483647)", "Clip(j, 1, 2147483647)"
SIGNS = "Not(Equal(Sign(x), Sign(y)))"
TRUNCATED, FLOORED = "x - x / y * y", "Mod(x, y, fmod=0)"


def let(result: str, **definitions: str) -> str:
    """An expression of values that are defined before."""
    return (
        f"[{', '.join(f'({name} := {text})' for name, text in definitions.items())}, {result}][-1]"
    )


def floor(
    x: str = NATURAL, y: str = POSITIVE, signs: str = SIGNS, rest: str = TRUNCATED,
    zero: str = "0",
) -> str:  # fmt: skip
    """x // y, as jnp.floor_divide has it."""
    chosen = f"Where(And({signs}, Not(Equal(r, {zero}))), q - 1, q)"
    rest = rest.replace("x / y", "q")
    return let(chosen, x=x, y=y, q="x / y", r=rest)


def modulo(y: str = "7", condition: str = "Less(r, 0)", shifted: str = "r + y", x: str = "i",
           rest: str = "x - x / y * y") -> str:  # fmt: skip
    """x % y, as JAX spells it."""
    return let(f"Where({condition}, {shifted}, r)", x=x, y=y, r=rest)


ROWS: dict[str, dict[str, str]] = {
    "reassociate-constants": {
        "f + 1 + -1": NOTHING,
        "(s := i + 1, Neg(s), s + 1)": NOTHING,
        "i + EACH + SEVENS": NOTHING,
        "i - j + 1": NOTHING,
        "i * 2 + 1": NOTHING,
        "UNIT - (i + UNIT)": "Sub",
        "TWO - i - ONE": "Sub",
        "ONE + (TWO + Neg(i))": "Neg Add",
    },
    "floor-divide": {
        floor(): "Div Clip Clip",
        floor(rest=FLOORED): "Div Clip Clip",
        floor(y="3", signs="Not(Equal(Sign(x), 1))", rest=FLOORED): "Div Clip",
        floor(signs="Not(Equal(Sign(y), Sign(x)))"): "Div Clip Clip",
        floor(signs="Not(Equal(1, Sign(x)))", rest=FLOORED): "Div Clip Clip",
        floor(x="i", y="j"): NOTHING,
        floor(x="i", y="BELOW"): NOTHING,
        floor(y="Clip(j, 0, 2147483647)"): NOTHING,
        floor(y="Clip(j, -1, 2147483647)"): NOTHING,
        floor(x="i", y="3", signs="Not(Equal(Sign(x), 1))", rest=FLOORED): NOTHING,
        floor(y="3", signs="Not(Equal(Sign(x), 1))", rest=FLOORED, zero="1"): NOTHING,
        floor(y="3", signs="Not(Equal(Sign(x), 1))", rest=FLOORED, zero="UNIT - UNIT"): NOTHING,
        floor(signs="Not(Equal(Sign(Abs(x)), Sign(y)))"): NOTHING,
        floor(signs="Not(Equal(Sign(x), Sign(Neg(x))))"): NOTHING,
        floor(signs="Not(Equal(Sign(x), 0))"): NOTHING,
        floor(signs="Not(Equal(Sign(x), -1))", rest=FLOORED): NOTHING,
        floor(signs="Equal(Sign(x), Sign(y))"): NOTHING,
        floor(signs="Not(Less(Sign(x), Sign(y)))"): NOTHING,
        floor(signs="Not(Not(Less(x, y)))"): NOTHING,
        floor(rest="x + y"): NOTHING,
        floor(rest="Mod(x, y, fmod=1)"): NOTHING,
        let("Where(Less(x, y), Neg(x / y), x / y)", x=NATURAL, y=POSITIVE): NOTHING,
        let(f"Where(Or({SIGNS}, Not(Equal(Mod(x, y), 0))), x, x / y)", x=NATURAL, y=POSITIVE):
            NOTHING,
        let(f"Where(And({SIGNS}, Less(x, y)), x, x / y)", x=NATURAL, y=POSITIVE): NOTHING,
    },
    "remainder": {
        let("x - SEVEN * (x / SEVEN)", x=NATURAL): "Clip Mod",
        let("x - SEVEN * (x / SEVEN)", x="Clip(i, -1, 9)"): NOTHING,
        let("x - x / SEVEN * (SEVEN - ONE)", x=NATURAL): NOTHING,
        let("x - x / SEVEN * TWO", x=NATURAL): NOTHING,
        let("x + x / SEVEN * SEVEN", x=NATURAL): NOTHING,
        let("i - x / SEVEN * SEVEN", x=NATURAL): NOTHING,
        let(TRUNCATED, x=NATURAL, y=POSITIVE): "Clip Clip Mod",
        let(TRUNCATED, x=NATURAL, y="Clip(j, 0, 2147483647)"): NOTHING,
        let(TRUNCATED, x="Clip(f, 0, 2147483647)", y="Clip(f, 1, 2147483647)"): NOTHING,
    },
    "floor-mod": {
        modulo(y="SEVEN"): "Mod",
        modulo(y="WIDE"): "Mod",
        modulo(y=POSITIVE): "Clip Mod",
        modulo(y=POSITIVE, shifted="y + r"): "Clip Mod",
        modulo(y="SEVEN", rest="Mod(x, y, fmod=0)"): "Mod",
        modulo(y="j"): NOTHING,
        modulo(y="BELOW"): NOTHING,
        modulo(y="Clip(j, 0, 2147483647)"): NOTHING,
        modulo(y="SEVEN", condition="Less(r, 1)"): NOTHING,
        modulo(y="SEVEN", condition="LessOrEqual(r, 0)"): NOTHING,
        modulo(y="SEVEN", condition="Less(0, r)"): NOTHING,
        modulo(y="SEVEN", condition="Less(r, y)"): NOTHING,
        modulo(y="SEVEN", condition="Less(y, 0)"): NOTHING,
        modulo(y="SEVEN", condition="And(Less(r, 0), Not(Equal(r, -1)))"): NOTHING,
        modulo(y="SEVEN", condition="And(Less(r, 0), Not(Equal(Neg(r), 0)))"): NOTHING,
        modulo(y="SEVEN", condition="And(Less(r, 0), Equal(r, 0))"): NOTHING,
        modulo(y="SEVEN", condition="Or(Less(r, 0), Not(Equal(r, 0)))"): NOTHING,
        modulo(y="SEVEN", shifted="r - y"): NOTHING,
        modulo(y="SEVEN", shifted="y + y"): NOTHING,
        modulo(y="SEVEN", shifted="x + y"): NOTHING,
        modulo(y="SEVEN", shifted="x"): NOTHING,
        modulo(y="SEVEN", shifted="r + EIGHTS"): NOTHING,
        modulo(y="SEVENS", shifted="r + EIGHTS"): NOTHING,
        modulo(y="SEVEN", shifted="r + j"): NOTHING,
        modulo(y="SEVEN", shifted="j + r"): NOTHING,
        modulo(y="SEVEN", rest="x"): NOTHING,
        modulo(y="SEVEN", rest="Mod(x, y, fmod=1)"): NOTHING,
        modulo(x="f", y="f * 0 + 7"): NOTHING,
    },
}  # fmt: skip
CASES = [(name, text, left) for name, rows in ROWS.items() for text, left in rows.items()]


@pytest.mark.parametrize(("name", "text", "left"), CASES)
def test_equations(name: str, text: str, left: str) -> None:
    rules = [rule(name)] + [rule("remainder")] * (left == "Div Clip Clip")
    rewrite = Rewrite(graph(text, **CONSTANTS), INPUTS, *rules)
    rewrite.nothing() if left == NOTHING else rewrite.gives(*left.split())


@pytest.mark.parametrize(
    ("text", "left"),
    [
        ("x + 2 + MOST", "Add"),
        ("2 + x - 5", "Add"),
        ("7 - x - 1", "Sub"),
        ("7 - (1 - x)", "Add"),
        ("LEAST - (x + 1)", "Sub"),
    ],
)
@pytest.mark.parametrize("dtype", [np.int32, np.uint8, np.int64])
def test_compose_offsets(text: str, left: str, dtype: type) -> None:
    limits = {"MOST": dtype(np.iinfo(dtype).max), "LEAST": dtype(np.iinfo(dtype).min)}
    build = graph(text, **limits)
    Rewrite(build, {"x": X.astype(dtype)}, rule("reassociate-constants")).gives(left)


def near(dtype: type) -> dict[str, np.ndarray]:
    limits = np.iinfo(dtype)
    return {"i": np.array([limits.min, limits.min + 1, *range(-8, 9), limits.max], dtype)}


@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
@pytest.mark.parametrize("number", [1, 3, 127])
def test_floor_divide_of_what_may_be_negative(number: int, dtype: type) -> None:
    """The remainder has the sign of x."""
    build = graph(floor(x="i", y="K"), K=dtype(number))
    if dtype is np.int8:  # the runtime has no kernels of this type
        assert fires(build, near(dtype), rule("floor-divide"))
        return
    found = Rewrite(build, near(dtype), rule("floor-divide"))
    if dtype is np.int64:  # it has no Clip of this type
        found.gives("Div", "Mul", "Sub", "Less", "Sub", "Where")
    else:
        found.gives("Clip", "BitwiseXor", "Div", "BitwiseXor")


@pytest.mark.parametrize(
    ("x", "also"), [("Clip(i, -100, 100)", "x"), ("i", "q"), ("i", "r")],
    ids=["bounds", "quotient", "remainder"],
)  # fmt: skip
def test_floor_divide_with_a_remainder(x: str, also: str) -> None:
    """Where quotient or remainder are needed, or bounds of the result may prove something."""
    text = floor(x=x, y="K").replace("][-1]", f"][-1], Neg({also})")
    found = Rewrite(graph(f"({text})", K=np.int32(3)), INPUTS, rule("floor-divide"))
    clip = ["Clip"] if "Clip" in x else []
    found.gives("Div", "Mul", "Sub", "Less", "Sub", "Where", "Neg", *clip)


@pytest.mark.parametrize(
    "condition", ["Less(r, 0)", "And(Less(r, 0), Not(Equal(r, 0)))",
                  "And(Not(Equal(0, r)), Less(r, 0))"],
)  # fmt: skip
@pytest.mark.parametrize("dtype", [np.int8, np.int32, np.int64])
def test_floor_remainder(dtype: type, condition: str) -> None:
    build = graph(modulo(y="K", condition=condition), K=dtype(7))
    Rewrite(build, near(dtype), rule("floor-mod"), rule("redundant-not-equal")).gives("Mod")


def test_targets_without_the_operator(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Rewriter, "supports", lambda *_: False)
    for text in (let(TRUNCATED, x=NATURAL, y=POSITIVE), modulo(y="SEVEN")):
        build = graph(text, **CONSTANTS)
        Rewrite(build, INPUTS, rule("remainder"), rule("floor-mod")).nothing()
