"""Each equation on small graphs, and graphs that differ from it in one ingredient.

The numbers stay: of NaN, infinities, zeros of both signs and the largest integers.
"""

from __future__ import annotations

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from expressions import graph
from rewriting import Rewrite, fires, model_of, run_model
from rule_names import rule

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.values import const_of
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.targets import load_target

EDGES = np.array([-0.0, 0.0, 1.5, -1e-40, 1e38, np.inf, -np.inf, np.nan, 3e38], np.float32)
LARGE = np.array([0, 1, 5, -7, 2**31 - 1, -(2**31), 7, -8, 3], np.int32)
INPUTS = {
    "x": np.repeat(EDGES, 9),
    "y": np.tile(EDGES, 9),
    "i": np.repeat(LARGE, 9),
    "j": np.tile(LARGE, 9),
    "c": np.tile([True, False, True], 27),
    "d": np.repeat([True, False, True], 27),
    "u": np.tile(np.array([1, 2, 3], np.int64), 27),
}
CONSTANTS = {
    "EDGES": INPUTS["x"],
    "SHORT": EDGES[:1] + 1,
    "THREES": np.array([[3]], np.float32),
    "ONES": np.ones((1, 1), np.int32),
    "ZERO": np.zeros((1, 1), np.float32),
    "FEW": np.tile(np.array([1, 2, 1], np.int32), 27),
    "LONG": np.int64(1),
    "VECTOR": np.ones(1, np.float32),
    "NO": np.array(False),
    "YES": np.array(True),
}
NOTHING = "nothing"

ROWS: dict[str, dict[str, str]] = {
    "add-neg-to-sub": {
        "x + Neg(y)": "Sub",
        "Neg(y) + x": "Sub",
        "x - Neg(y)": "Add",
        "i + Neg(j)": "Sub",
        "i - Neg(j)": "Add",
        "Neg(x) + Neg(y)": "Neg Sub",
        "(n := Neg(y), x + n, Abs(n))": "Neg Sub Abs",
        "y + Neg(x) * y": "Mul Sub",
        "y + y * Neg(x)": "Mul Sub",
        "y - Neg(x) * y": "Mul Add",
        "Neg(x) - y": NOTHING,
        "x + Abs(y)": NOTHING,
        "Abs(x) - y": NOTHING,
        "(p := Neg(x) * x, x + p, Abs(p))": NOTHING,
    },
    "fold-neg-into-constant": {
        **{f"Neg(x {op} {k})": name for op, name in (("*", "Mul"), ("/", "Div"))
           for k in ("0.1", "-3.0", "0.0", "-0.0", "inf")},
        **{f"{k} {op} Neg(x)": name for op, name in (("*", "Mul"), ("/", "Div"))
           for k in ("0.1", "-3.0", "0.0", "-0.0", "inf")},
        "Neg(3 / x)": "Div",
        "Neg(x) / 3": "Div",
        "(n := Neg(x), n * 3, Abs(n))": NOTHING,
        "(p := x * 3, Neg(p), Abs(p))": NOTHING,
        "Neg(x) * y": NOTHING,
        "Neg(x * y)": NOTHING,
        "Neg(EDGES) * Neg(x)": NOTHING,
        "Neg(i) / 3": NOTHING,
        "Neg(i / 3)": NOTHING,
        "Neg(x + 3)": NOTHING,
        "Neg(3 - x)": NOTHING,
    },
    "redundant-abs": {
        "Abs((a := Abs(x)) / (1e-4 * a + 1e-4))": "Abs Mul Add Div",
        "Abs(x * x)": "Mul",
        "Abs(Sqrt(Exp(x)))": "Exp Sqrt",
        "Abs(Abs(x) - 1)": NOTHING,
        "Abs(Abs(x) * x)": NOTHING,
        "Abs(Abs(x) * -0.0)": NOTHING,
        "Abs(Sqrt(x))": NOTHING,
        "Abs(Max(Abs(x), x))": NOTHING,
    },
    "power-to-product": {
        "Pow(x, 2)": "Mul",
        "Pow(Cast(x, DOUBLE), 2)": "Cast Mul",
        "Pow(x, 1)": "",
        "Pow(x, LONG)": "",
        "Pow(x, VECTOR)": "",
        "Pow(x, 3)": NOTHING,
        "Pow(x, 0.5)": NOTHING,
        "Pow(x, -1)": NOTHING,
        "Pow(x, Cast(FEW, FLOAT))": NOTHING,
        "Pow(x, THREES - 1)": NOTHING,
        "Pow(Clip(i, -9, 9), 2)": NOTHING,
    },
    "product-with-boolean": {
        "i * Cast(c, INT32)": "Where",
        "Cast(c, INT64) * u": "Where",
        "Cast(c, FLOAT) * 1e-6": "Where",
        "Cast(c, DOUBLE) * 0.0": "Where",
        "x * Cast(c, FLOAT)": NOTHING,
        "Cast(c, FLOAT) * -1": NOTHING,
        "Cast(c, FLOAT) * -0.0": NOTHING,
        "Cast(c, FLOAT) * inf": NOTHING,
        "Cast(c, FLOAT) * EDGES": NOTHING,
        "(n := Cast(c, INT32), i * n, Neg(n))": NOTHING,
        "Cast(Abs(i), FLOAT) * x": NOTHING,
    },
    "complement-of-boolean": {
        "1 - Cast(c, INT32)": "Not Cast",
        "1 - Cast(c, INT64)": "Not Cast",
        "1 - Cast(c, FLOAT)": "Not Cast",
        "1 - Cast(c, DOUBLE)": "Not Cast",
        "2 - Cast(c, INT32)": NOTHING,
        "ONES - Cast(c, INT32)": NOTHING,
        "FEW - Cast(c, INT32)": NOTHING,
        "Cast(c, INT32) - 1": NOTHING,
        "(n := Cast(c, INT32), 1 - n, Neg(n))": NOTHING,
        "1 - Cast(i, INT64)": NOTHING,
    },
    "where-of-not": {"Where(Not(c), i, j)": "Where", "Where(c, x, y)": NOTHING},
    "nested-where": {
        "Where(c, Where(c, x, y), Neg(x))": "Neg Where",
        "Where(c, x, Where(c, x, y))": "Where",
        "Where(c, Where(c, x, y), Where(c, x, y))": "Where",
        "Where(c, Where(d, x, y), y)": NOTHING,
        "Where(YES, Where(YES, SHORT, x), SHORT)": NOTHING,
    },
    "not-of-both": {
        "And(Not(c), Not(d))": "Not Or",
        "Or(Not(c), Not(d))": "Not And",
        "And(Not(c), d)": NOTHING,
        "(n := Not(c), Xor(And(n, Not(d)), n))": NOTHING,
    },
    "not-equal-zero": {
        "Not(Equal(i, 0))": "Cast",
        "Not(Equal(0, i))": "Cast",
        "Not(Equal(i, 1))": NOTHING,
        "Not(Equal(x, 0))": NOTHING,
        "(z := Equal(i, 0), Xor(Not(z), And(z, c)))": NOTHING,
        "Not(Equal(i, ONES - ONES))": NOTHING,
        "Not(Less(i, 0))": NOTHING,
    },
    "is-nan": {
        "Not(Equal(x, x))": "IsNaN",
        "Not(Equal(x, y))": NOTHING,
        "Not(Equal(i, i))": NOTHING,
        "(e := Equal(x, x), Xor(Not(e), And(e, c)))": NOTHING,
    },
    "reduce-of-not": {
        "ReduceMax(Not(Less(Unsqueeze(x, [1]), y)), [1], keepdims=0)":
            "Less Not ReduceMin Unsqueeze",
        "ReduceMin(Not(Less(Unsqueeze(x, [1]), y)), [1], keepdims=0)":
            "Less Not ReduceMax Unsqueeze",
        "ReduceMin(Not(Less(x, y)), keepdims=0)": "Less Not ReduceMax",
        "(n := Not(c), And(ReduceMax(n, [0], keepdims=1), n))": NOTHING,
    },
    "reduce-booleans": {
        "Cast(ReduceMax(Cast(c, UINT8), [0], keepdims=0), BOOL)": "ReduceMax",
        "Cast(ReduceMin(Cast(c, INT32), [0], keepdims=0), BOOL)": "ReduceMin",
        "Cast(ReduceSum(Cast(c, INT32), [0], keepdims=0), BOOL)": NOTHING,
        "Cast(ReduceMax(Cast(c, INT32), [0], keepdims=0), FLOAT)": NOTHING,
        "Cast(ReduceMax(Cast(i, FLOAT), [0], keepdims=0), BOOL)": NOTHING,
    },
    "compare-choices": {
        "Equal(Where(c, 2.0, 0.0), 2)": "",
        "Equal(Where(c, 2.0, 0.0), 0)": "Not",
        "Equal(Where(c, 2.0, 0.0), 1)": "Expand",
        "Less(Where(c, 2.0, nan), 3)": "",
        "Less(3, Where(c, 2.0, 9.0))": "Not",
        "GreaterOrEqual(3, Where(c, 3.0, 2.0))": "Expand",
        "GreaterOrEqual(Where(c, 3.0, 2.0), 3)": "",
        "Equal(Where(c, -0.0, 1.0), 0)": "",
        "Equal(Where(c, x, 2.0), 2)": NOTHING,
        "Equal(Where(c, FEW, 2), 2)": NOTHING,
        "Equal(Where(c, 1.0, 2.0), x)": NOTHING,
        "Equal(Where(c, 2.0, 0.0), Unsqueeze(SHORT, [1]))": NOTHING,
        "Greater(Cast(c, FLOAT), Cast(FEW, FLOAT))": NOTHING,
        "Greater(Cast(c, FLOAT), ZERO)": NOTHING,
        "Greater(Cast(Cast(c, INT8), FLOAT), 0.5)": NOTHING,
        "Less(0.5, Abs(Cast(c, FLOAT)))": NOTHING,
    },
    "redundant-not-equal": {
        **{f"And({op}(x, y), Not(Equal({pair})))": op for op in ("Less", "Greater")
           for pair in ("x, y", "y, x")},
        "And(Not(Equal(x, 1.5)), Less(x, 1.5))": "Less",
        "And(Less(x, 0), Not(Equal(ZERO, x)))": NOTHING,
        "And(LessOrEqual(x, y), Not(Equal(x, y)))": NOTHING,
        "And(Less(x, y), Not(Equal(x, 0)))": NOTHING,
        "And(Less(x, y), Equal(x, y))": NOTHING,
        "Or(Less(x, y), Not(Equal(x, y)))": NOTHING,
        "And(c, Not(Equal(x, y)))": NOTHING,
        "And(Less(x, y), Not(c))": NOTHING,
        "And(Less(x, y), Not(LessOrEqual(x, y)))": NOTHING,
        "And(Less(x, y), Not(Equal(x, x)))": NOTHING,
    },
    "fold-double-negation": {
        "Neg(Neg(x))": "",
        "Neg(Neg(i))": "",
        "Not(Not(c))": "",
        "Neg(Abs(Neg(x)))": NOTHING,
    },
    "fold-same-operands": {
        "Max(x, x)": "",
        "Min(i, i)": "",
        "And(c, c)": "",
        "Or(c, c)": "",
        "Xor(c, c)": "Expand",
        "i - i": "Expand",
        "x - x": NOTHING,
        "Max(i, Neg(i))": NOTHING,
        "Min(i, Neg(i))": NOTHING,
        "i - Neg(i)": NOTHING,
    },
}  # fmt: skip
CASES = [(name, text, left) for name, rows in ROWS.items() for text, left in rows.items()]


@pytest.mark.parametrize(("name", "text", "left"), CASES)
def test_equations(name: str, text: str, left: str) -> None:
    def build(b: GraphBuilder, **inputs: oir.Value) -> list[oir.Value]:
        made = graph(text, **CONSTANTS)(b, **inputs)
        values = made if isinstance(made, list) else [made]
        copies = [b.Identity(value) for value in values]
        floats = [x for x in values if x.dtype in (oir.DataType.FLOAT, oir.DataType.DOUBLE)]
        return [*copies, *(b.Reciprocal(x) for x in floats)]  # which tells the zeros apart

    rewrite = Rewrite(build, INPUTS, rule(name), tolerance=1e-6 if "Pow" in text else 0)
    if left == NOTHING:
        rewrite.nothing()
        return
    assert rewrite.fired
    ops = sorted(op for op in rewrite.nodes.elements() if op not in ("Identity", "Reciprocal"))
    assert ops == sorted(left.split())


SELECTIONS = {
    "Where(c, d, Less(x, y))": "Xor And",
    "Where(c, NO, d)": "And Not",
    "Where(c, d, YES)": "Or Not",
    "Where(c, c, d)": "Or",
    "Where(c, d, c)": "And",
    "Where(c, YES, d)": "Or",
    "Where(c, d, NO)": "And",
}


@pytest.mark.parametrize("text", SELECTIONS)
def test_booleans_are_selected_exactly(text: str) -> None:
    """ONNX Runtime does not run the graph before: numbers are selected beside it."""

    def both(b: GraphBuilder, **inputs: oir.Value) -> oir.Value:
        chosen = graph(text, **CONSTANTS)(b, **inputs)
        condition, *selected = chosen.producer().inputs
        numbers = [b.cast(value, oir.DataType.UINT8) for value in selected]
        return b.Equal(chosen, b.cast(b.Where(condition, *numbers), oir.DataType.BOOL))

    model = model_of(both, INPUTS)
    assert apply_rules(model, [rule("where-of-booleans")], load_target("ort-cpu"))
    (equal,) = run_model(model, INPUTS)
    assert equal.all()
    assert {*SELECTIONS[text].split()} <= {node.op_type for node in model.graph}


@pytest.mark.parametrize("dtype", [ml_dtypes.bfloat16, np.float16, ml_dtypes.float8_e5m2])
def test_constants_keep_their_type(dtype: type) -> None:
    model = model_of(graph("Neg(x * 2)"), {"x": np.ones(3, dtype)})
    apply_rules(model, [rule("fold-neg-into-constant")], load_target("ort-cpu"))
    (product,) = model.graph
    constant = const_of(product.inputs[1])
    assert constant is not None and constant.dtype == dtype and constant == -2


@pytest.mark.parametrize("extent", [0, None, "n"])
def test_a_reduction_of_no_booleans(extent: int | str | None) -> None:
    """ONNX Runtime rejects it."""
    text = "Cast(ReduceMax(Cast(c, UINT8), [0], keepdims=0), BOOL)"
    dims = {"c": (oir.SymbolicDim(extent) if extent != 0 else 0,)}
    model = model_of(graph(text), {"c": INPUTS["c"][:0]}, dims=dims)
    assert not apply_rules(model, [rule("reduce-booleans")], load_target("ort-cpu"))


def test_before_opset_20_nothing_reduces_booleans() -> None:
    text = "Cast(ReduceMax(Cast(c, UINT8), [0], keepdims=0), BOOL)"
    assert not fires(graph(text), INPUTS, rule("reduce-booleans"), opset=19)
