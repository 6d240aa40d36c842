"""Scalar regions by name: which well-known function of two values a region computes.

A region of reduce, reduce_window, scatter or select_and_scatter takes the arguments
(lhs_0 … lhs_n-1, rhs_0 … rhs_n-1) and returns n values. Handlers of such ops ask

    recognise(em, block)       the name of the whole region, None if it has none
    recognise_each(em, block)  one name per result, for regions that combine n pairs independently
    neutral(combiner, dtype)   e with combine(e, x) == x for every x
    is_neutral(em, combiner, init)   whether `init` is provably that element

and apply a region without a name through `em.scalar_function(block)`. Regions are matched by
structure: equal expressions get equal numbers, in any order of commutative operands, and calls of
private functions are followed.
"""

from __future__ import annotations

from collections.abc import Sequence
from enum import StrEnum

import ml_dtypes
import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from dialect_handlers.common.region_expressions import BINARY, Expressions
from hlo2onnx.frontend.mlir.types import element_type, parts_of
from hlo2onnx.frontend.mlir.values import MlirValue
from hlo2onnx.ir.values import FLOATS, UNSIGNED, dtype_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

Number = int | float | np.generic | np.ndarray


class Combiner(StrEnum):
    """A function of two values. On booleans add and maximum are OR, multiply and minimum AND.

    MAXIMUM and MINIMUM let NaN win, as StableHLO does. ARGMAX and ARGMIN are regions over two
    pairs (value, index): equal values go to the lower index and the first NaN wins (JAX). The
    NAN_UNDEFINED ones have no rule for NaN: its outcome depends on the order of evaluation
    (TensorFlow, PyTorch/XLA).
    """

    ADD = "add"
    MULTIPLY = "multiply"
    MINIMUM = "minimum"
    MAXIMUM = "maximum"
    AND = "and"
    OR = "or"
    XOR = "xor"
    LHS = "lhs"
    RHS = "rhs"
    ARGMAX = "argmax"
    ARGMIN = "argmin"
    ARGMAX_NAN_UNDEFINED = "argmax, NaN undefined"
    ARGMIN_NAN_UNDEFINED = "argmin, NaN undefined"


ARG_EXTREMES = {
    Combiner.ARGMAX: Combiner.MAXIMUM,
    Combiner.ARGMAX_NAN_UNDEFINED: Combiner.MAXIMUM,
    Combiner.ARGMIN: Combiner.MINIMUM,
    Combiner.ARGMIN_NAN_UNDEFINED: Combiner.MINIMUM,
}
"""The regions over (value, index) pairs, each with its effect on the values."""


def promoted(
    em: Emitter, operands: Sequence[MlirValue], arguments: Sequence[MlirValue]
) -> list[Parts]:
    """Operands in the element types that the arguments of a region have."""
    return [
        tuple(
            em.cast(part, kind.dtype)
            for part, kind in zip(em.parts(operand), parts_of(argument.type), strict=True)
        )
        for operand, argument in zip(operands, arguments, strict=True)
    ]


def recognise(em: Emitter, block: ir.Block) -> Combiner | None:
    """The name of a region over one pair, or over (value, index) pairs; None if it has none."""
    each = recognise_each(em, block)
    if len(each) == 1:
        return each[0]
    return _arg_extreme(em, block) if len(each) == 2 else None


def recognise_each(em: Emitter, block: ir.Block) -> list[Combiner | None]:
    """For each result k the name of the function of arguments k and n + k that it is, or None."""
    expressions = Expressions(em.constants, em.context.functions)
    results = expressions.of_block(block)
    names: list[Combiner | None] = []
    for k, result in enumerate(results):
        lhs, rhs = expressions.argument(k), expressions.argument(len(results) + k)
        known = {
            lhs: Combiner.LHS,
            rhs: Combiner.RHS,
            **{expressions.node(name, lhs, rhs): Combiner(name) for name in BINARY},
        }
        name = known.get(result)
        boolean = element_type(block.arguments[k].type) == "i1"
        names.append(_ON_BOOLEANS.get(name, name) if boolean and name else name)
    return names


def neutral(combiner: Combiner, dtype: oir.DataType) -> np.generic:
    """The e of this type with combine(e, x) == x == combine(x, e) for every x, bit for bit.

    Defined for ADD, MULTIPLY, MINIMUM, MAXIMUM, AND, OR and XOR.
    """
    lowest, highest = _limits(dtype)
    elements: dict[Combiner, Number] = {
        Combiner.ADD: -0.0 if dtype in FLOATS else 0,
        Combiner.MULTIPLY: 1,
        Combiner.MINIMUM: highest,
        Combiner.MAXIMUM: lowest,
        Combiner.AND: highest if dtype in UNSIGNED or dtype == oir.DataType.BOOL else -1,
        Combiner.OR: 0,
        Combiner.XOR: 0,
    }
    result: np.generic = dtype.numpy().type(elements[combiner])
    return result


def is_neutral(em: Emitter, combiner: Combiner, init: oir.Value) -> bool:
    """Whether every element of `init` provably is the neutral element; the sign of zero is free."""
    if combiner not in MONOIDS:
        return False
    elements = em.facts.constant(init)
    return elements is not None and bool((elements == neutral(combiner, dtype_of(init))).all())


def _limits(dtype: oir.DataType) -> tuple[Number, Number]:
    """The least and the greatest element, infinities where the type has them."""
    if dtype == oir.DataType.BOOL:
        return False, True
    if dtype not in FLOATS:
        info = ml_dtypes.iinfo(dtype.numpy())
        return info.min, info.max
    infinity = np.array(np.inf).astype(dtype.numpy())
    if np.isinf(infinity):
        return -infinity, infinity
    limits = ml_dtypes.finfo(dtype.numpy())
    return limits.min, limits.max


MONOIDS = frozenset(map(Combiner, BINARY))
"""The combiners with a neutral element."""
_ON_BOOLEANS: dict[Combiner, Combiner] = {
    Combiner.ADD: Combiner.OR,
    Combiner.MAXIMUM: Combiner.OR,
    Combiner.MULTIPLY: Combiner.AND,
    Combiner.MINIMUM: Combiner.AND,
}


def _arg_extreme(em: Emitter, block: ir.Block) -> Combiner | None:
    """The region as an argmax or argmin over (value, index) pairs."""
    expressions = Expressions(em.constants, em.context.functions)
    found = tuple(expressions.of_block(block))
    node = expressions.node
    x, i, y, j = (expressions.argument(k) for k in range(4))
    equal = node("compare EQ", x, y)
    for largest in (True, False):
        wins = node("compare GT" if largest else "compare LT", x, y)
        wins_or_nan = node("or", wins, node("compare NE", x, x))
        first = node("and", equal, node("compare LT", i, j))
        jax_form = (
            node("select", wins_or_nan, x, y),
            node("select", node("or", wins_or_nan, first), i, j),
        )
        at_least = node("compare GE" if largest else "compare LE", x, y)
        picked = node("select", at_least, i, j)
        xla_form = (
            node("select", at_least, x, y),
            node("select", equal, node("minimum", i, j), picked),
        )
        if found == jax_form:
            return Combiner.ARGMAX if largest else Combiner.ARGMIN
        if found == xla_form:
            return Combiner.ARGMAX_NAN_UNDEFINED if largest else Combiner.ARGMIN_NAN_UNDEFINED
    return None
