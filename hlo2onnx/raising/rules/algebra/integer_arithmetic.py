"""Integer arithmetic in shorter equivalent forms."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.values import UNSIGNED, const_number, dtype_of
from hlo2onnx.raising.engine import Rule, need
from hlo2onnx.raising.equations import Equation, Equations, Match, integers, one_use, runs
from hlo2onnx.raising.match.views import is_only_for, source_of

_SIGNS_AND_REST = "Where(And(Not(Equal(Sign(x), s)), Not(Equal((rest := {}), 0))), less, quotient)"
_TRUNCATED = _SIGNS_AND_REST.format("x - x / y * y")
_FLOORED = _SIGNS_AND_REST.format("Mod(x, y, fmod=0)")


class Row(Equations):
    """A row of this table."""


def _are_numbers(match: Match) -> None:
    for name in "km":
        need(const_number(match[name]) is not None, "a constant has many elements", match[name])


def _positive_divisor(match: Match) -> None:
    divisor = match.b.facts.int_range(match["y"])
    need(divisor is not None and divisor.low > 0, "the divisor may be negative", match["y"])


def _natural(match: Match) -> None:
    """x is not negative and y is positive."""
    known = match.b.facts.int_range(match["x"])
    need(known is not None and known.low >= 0, "an operand may be negative", match["x"])
    _positive_divisor(match)


def _compares_signs(match: Match) -> None:
    """s is the sign of y, which may be known to be 1."""
    is_sign = source_of(match["s"], "Sign") is match["y"]
    need(is_sign or match.b.facts.int_range(match["s"]) == (1, 1), "it does not compare signs")


def _rounded_down(match: Match) -> oir.Value:
    """The quotient by a positive number."""
    b, x, rest = match.b, match["x"], match["rest"]
    known, dtype = b.facts.int_range(x), dtype_of(x)
    is_any = dtype not in UNSIGNED and (known is None or known.low <= -(1 << dtype.bitwidth - 2))
    is_any = is_any and all(b.supports(op_type, dtype) for op_type in ("BitwiseXor", "Clip"))
    if is_any and is_only_for(match.node, x):
        sign = b.Clip(x, *(b.scalar_like(bound, x) for bound in (-1, 0)))
        return b.BitwiseXor(b.Div(b.BitwiseXor(x, sign), match["y"]), sign)
    return b.Where(b.Less(rest, b.scalar_like(0, rest)), match["less"], match["quotient"])


RULES: tuple[Rule, ...] = (
    Row(
        "reassociate-constants",
        "x + k + m -> x + (k + m)",
        "x - k + m -> x + (m - k)",
        "k - x + m -> (k + m) - x",
        "x + k - m -> x + (k - m)",
        "x - k - m -> x - (k + m)",
        "k - x - m -> (k - m) - x",
        "m - (x + k) -> (m - k) - x",
        "m - (x - k) -> (m + k) - x",
        "m - (k - x) -> x + (m - k)",
        guards=[integers, _are_numbers, one_use],
        why="Legal for integers, which wrap. Nothing is saved if others read the inner sum.",
        formerly=["compose-offsets"],
    ),
    Row(
        "floor-divide",
        Equation(f"{_TRUNCATED} -> quotient", _compares_signs, _natural),
        Equation(f"{_FLOORED} -> quotient", _compares_signs, _natural),
        Equation(
            f"{_TRUNCATED} -> Where(rest < 0, less, quotient)",
            _compares_signs,
            _positive_divisor,
            make=_rounded_down,
        ),
        why="""JAX rounds a quotient of integers down like this. Legal for x >= 0 and y > 0: the
signs differ only for x = 0, which leaves no remainder. For any x, and y > 0, the condition becomes
rest < 0, as the remainder of a truncating division has the sign of x. If nothing else needs
quotient or remainder, and no bounds of x are known that prove something about the result:
~(~x / y) where x < 0, by exclusive or with -1 there. ~x is -x - 1, which never overflows.""",
    ),
    Row(
        "remainder",
        "x - x / y * y -> Mod(x, y)",
        guards=[integers, _natural, runs("Mod")],
        why="""Legal for integers x >= 0 and y > 0. Mod has the sign of y, the remainder the sign of
x.""",
    ),
    Row(
        "floor-mod",
        "Where(Less((rest := x - x / y * y), 0), rest + y, rest) -> Mod(x, y)",
        "Where(Less((rest := Mod(x, y, fmod=0)), 0), rest + y, rest) -> Mod(x, y)",
        guards=[integers, _positive_divisor, runs("Mod")],
        why="""JAX gives a remainder the sign of the divisor like this. Legal for integers and
y > 0, as Mod takes the sign of the divisor.""",
        formerly=["floor-remainder"],
    ),
)
