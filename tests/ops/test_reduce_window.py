"""reduce_window in every geometry, element type, region and NaN policy."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values
from mlir_text import tensor
from window_case import FLOATS, Case, like, program, spelt, values

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type


def edges(case: Case, seed: int = 0) -> np.ndarray:
    """Edge values, more than one of a kind next to each other. Sums and products of floats go
    without the largest and the smallest, which overflow in one order and not in another."""
    rng = np.random.default_rng(seed)
    pool = edge_values(case.element)
    if case.element in FLOATS:
        if case.region in ("add", "multiply"):
            pool = np.concatenate([pool[:5], pool[-3:]])
        pool = np.concatenate([pool, pool[-3:], pool[-3:]])  # the infinities and NaN
    return rng.choice(pool, case.shape)


# -- geometry: every attribute, alone and together ---------------------------------------------

NHWC = {"shape": [2, 9, 8, 3], "window": [1, 3, 2, 1]}
NCHW = {"shape": [2, 3, 9, 8], "window": [1, 1, 3, 2]}
GEOMETRIES = {
    "nhwc": Case(**NHWC),
    "nhwc, strides": Case(**NHWC, stride=[1, 2, 3, 1]),
    "nhwc, same": Case(**NHWC, stride=[1, 2, 2, 1], padding=[(0, 0), (1, 1), (0, 1), (0, 0)]),
    "nchw": Case(**NCHW, padding=[(0, 0), (0, 0), (2, 1), (1, 0)]),
    "nchw, dilated": Case(**NCHW, step=[1, 1, 2, 3], padding=[(0, 0), (0, 0), (1, 2), (1, 1)]),
    "gaps": Case([4, 5], [2, 3], gap=[2, 3], padding=[(1, 0), (2, 2)]),
    "gaps and dilation": Case([4, 5], [2, 3], gap=[3, 2], step=[2, 3], stride=[2, 1]),
    "gaps of nothing": Case([1, 5], [1, 2], gap=[3, 1]),
    "negative padding": Case([9, 9], [2, 3], padding=[(-2, 1), (-1, -3)]),
    "gaps cut": Case([5, 5], [2, 2], gap=[3, 2], padding=[(-1, -2), (-3, 2)]),
    "all cut": Case([4, 3], [2, 1], padding=[(-5, 6), (0, 0)]),
    "wide padding": Case([3, 3], [2, 2], padding=[(4, 3), (0, 5)]),
    "windows of padding": Case([1, 2, 2, 1], [1, 2, 1, 1], step=[1, 3, 1, 1],
                               padding=[(0, 0), (1, 1), (0, 0), (0, 0)]),
    "stride on an axis with windows of 1": Case([4, 6, 2], [1, 2, 1], stride=[3, 2, 1]),
    "padding on an axis with windows of 1": Case([4, 6], [1, 2], padding=[(2, -1), (0, 0)]),
    "windows of 1": Case([4, 6], [1, 1]),
    "windows of 1, strides": Case([4, 6], [1, 1], stride=[2, 3], padding=[(1, 1), (-1, 2)]),
    "every axis": Case([2, 3, 4, 5], [2, 2, 2, 2], padding=[(1, 0), (0, 1), (1, 1), (0, 0)]),
    "rank 0": Case([], []),
    "rank 1": Case([9], [4], stride=[2]),
    "rank 2 pooled": Case([6, 7], [2, 2], stride=[2, 2]),
    "rank 3, channels last": Case([6, 7, 3], [2, 2, 1], stride=[2, 2, 1]),
    "rank 3, batch first": Case([3, 6, 7], [1, 2, 2], stride=[1, 2, 2]),
    "rank 5 volume": Case([1, 4, 4, 5, 2], [1, 2, 2, 3, 1], stride=[1, 2, 1, 2, 1]),
    "pooled axes apart": Case([5, 3, 6], [2, 1, 3], padding=[(1, 0), (0, 0), (1, 1)]),
    "empty operand": Case([0, 3], [2, 1], padding=[(2, 2), (0, 0)]),
    "no windows": Case([3, 3], [4, 1]),
    "empty axis apart": Case([4, 0], [2, 1]),
    "whole": Case([3, 8, 5], [1, 8, 5]),
    "whole, wide": Case([3, 40], [1, 40]),
    "tiles": Case([3, 40], [1, 8], stride=[1, 8]),
    "tiles with rests": Case([43, 2], [7, 1], stride=[9, 1], padding=[(1, 0), (0, 0)]),
    "last tile cut short": Case([33], [6], stride=[9]),
    "long": Case([70, 2], [23, 1], padding=[(4, 5), (0, 0)]),
    "long, strided and dilated": Case([70], [17], stride=[3], step=[2], padding=[(9, 30)]),
    "large image windows": Case([1, 20, 24, 2], [1, 17, 19, 1],
                                padding=[(0, 0), (8, 8), (9, 9), (0, 0)]),
    "cumulative": Case([3, 11], [1, 11], padding=[(0, 0), (10, 0)]),
    "cumulative, reverse": Case([11, 3], [11, 1], padding=[(0, 10), (0, 0)]),
    "cumulative, exclusive": Case([11, 3], [11, 1], padding=[(11, -1), (0, 0)]),
    "cumulative, exclusive and reverse": Case([3, 11], [1, 11], padding=[(0, 0), (-1, 11)]),
    "cumulative, wider than the axis": Case([5], [9], padding=[(8, 0)]),
    "cumulative twice": Case([6, 7], [6, 7], padding=[(5, 0), (0, 6)]),
    "short cumulative": Case([3, 2], [3, 2], padding=[(2, 0), (1, 0)]),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("region", ["add", "maximum"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometry(name: str, region: str) -> None:
    for element in ("i32", "f32"):
        case = like(GEOMETRIES[name], element=element, region=region)
        case.run(values(case)).bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometry_of_an_unnamed_region(name: str) -> None:
    case = like(GEOMETRIES[name], element="f32", region="logaddexp", init="lowest")
    case.run(values(case)).close()


@pytest.mark.costly
@pytest.mark.parametrize("name", GEOMETRIES)
def test_counts(name: str) -> None:
    """Sums of ones are known from the geometry alone."""
    for element in ("i32", "f16"):
        case = like(GEOMETRIES[name], element=element)
        ones = f"stablehlo.constant dense<{spelt('1', element)}> : {tensor(case.shape, element)}"
        text = case.text.replace("{\n", f"{{\n  %ones = {ones}\n", 1).replace('"(%arg0', '"(%ones')
        run = against_xla(text, values(case)).bit_exact()
        run.has_no("Conv", "CumSum", "Slice", "Pad")


@pytest.mark.costly
@pytest.mark.parametrize("name", sorted(set(GEOMETRIES) - {"rank 0", "whole", "whole, wide"}))
def test_order(name: str) -> None:
    """Subtraction is not associative; XLA subtracts in row-major order (but of whole operands)."""
    case = like(GEOMETRIES[name], element="i32", region="subtract", init="100")
    if case.window != [1, 8, 5]:
        case.run(values(case)).bit_exact()


# -- element types and init values -------------------------------------------------------------

INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
FORMS = {
    "pooled": Case(**NHWC, padding=[(0, 0), (1, 1), (0, 1), (0, 0)]),
    "cumulative": Case([2, 13], [1, 13], padding=[(0, 0), (12, 0)]),
    "doubled": Case([70, 2], [23, 1], padding=[(4, 5), (0, 0)]),
    "tiles": Case([3, 40], [1, 8], stride=[1, 10], padding=[(0, 0), (0, 1)]),
}


@pytest.mark.costly
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1"])
def test_element_types(element: str, form: str) -> None:
    regions = ["add", "multiply", "maximum", "minimum"]
    if element not in FLOATS:
        regions += ["and", "or", "xor"]
    cases = [like(FORMS[form], element=element, region=region) for region in regions]
    run = against_xla(program(*cases), values(cases[0]), nan="xla")
    if element in FLOATS:
        run.close()  # a product may be 2 ** 23, which is no f16
    else:
        run.bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("element", [*FLOATS, "i8", "i32", "ui8"])
def test_edge_values(element: str, form: str) -> None:
    """NaN wins, infinities count, integers wrap."""
    for regions in (["add", "multiply"], ["maximum", "minimum"]):
        cases = [like(FORMS[form], element=element, region=region) for region in regions]
        run = against_xla(program(*cases), edges(cases[0]), nan="xla")
        if element in FLOATS:
            run.close()
        else:
            run.bit_exact()


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("region", ["add", "multiply", "maximum", "minimum"])
def test_init_counts_once(region: str, form: str) -> None:
    """An init value that is not neutral is one more element of each window; holes are none."""
    if form == "cumulative" and region in ("add", "multiply"):
        form = "doubled"  # of these XLA takes the init value more than once
    for element, inits in (("f32", ("1.5", "-1.5")), ("i32", ("2", "-1"))):
        cases = [like(FORMS[form], element=element, region=region, init=init) for init in inits]
        against_xla(program(*cases), values(cases[0])).close()


def test_init_of_a_cumulative_sum_counts_once() -> None:
    """XLA adds it once for each level of its tree; on up to 16 elements that is once."""
    case = Case([16], [16], padding=[(15, 0)], element="i32", init="5")
    np.testing.assert_array_equal(
        case.run(np.arange(16, dtype=np.int32)).bit_exact().expected[0], np.cumsum(range(16)) + 5
    )


def test_init_is_an_argument() -> None:
    text = Case([4, 6], [2, 3], region="maximum", padding=[(1, 1), (0, 0)]).text
    text = text.replace("%arg0: tensor<4x6xf32>", "%arg0: tensor<4x6xf32>, %init0: tensor<f32>")
    text = "\n".join(line for line in text.splitlines() if "constant" not in line)
    x = np.arange(24, dtype=np.float32).reshape(4, 6)
    for init in (0.0, 12.5, -np.inf, np.nan):
        against_xla(text, x, np.float32(init)).bit_exact()


# -- the graphs that layers become -------------------------------------------------------------


@pytest.mark.parametrize(
    ("case", "nodes"),
    [
        (Case(**NCHW, padding=[(0, 0), (0, 0), (1, 1), (1, 0)], region="maximum"), "MaxPool"),
        (Case(**NHWC, region="maximum"), "Transpose MaxPool Transpose"),
        (Case(**NCHW, region="minimum"), "Neg MaxPool Neg"),
        (Case(**NCHW, padding=[(0, 0), (0, 0), (1, 1), (1, 0)]), "Conv"),
        (Case(**NHWC), "Transpose Conv Transpose"),
        (Case([2, 7, 6, 3], [1, 7, 6, 1]), "ReduceSum ReduceSum"),
        (Case([6, 3], [6, 1], padding=[(5, 0), (0, 0)]), "CumSum"),
        (Case([6, 3], [6, 1], padding=[(0, 5), (0, 0)], element="i32"), "CumSum"),
        (Case([6, 3], [1, 1]), "Identity"),
        (Case([6, 3], [1, 1], stride=[2, 1]), "Slice"),
        (Case([4], [2], region="maximum", element="i32"), "Slice Slice Max"),
        (Case([64], [16], region="maximum", element="i32"), "Slice Slice Max " * 4),
    ],
)  # fmt: skip
def test_graph(case: Case, nodes: str) -> None:
    case.run(values(case)).bit_exact().graph_is(*nodes.split())


@pytest.mark.parametrize("region", ["maximum", "add", "logaddexp"])
def test_long_scans_take_few_nodes(region: str) -> None:
    init = "lowest" if region == "logaddexp" else None
    case = Case([1000], [1000], padding=[(999, 0)], region=region, init=init)
    run = case.run(values(case)).close()
    assert sum(run.nodes.values()) <= 250


@pytest.mark.parametrize("element", ["f32", "i32"])
@pytest.mark.parametrize("form", [(0, 1), (1, 0)])
def test_long_sums_stay_accurate(form: tuple[int, int], element: str) -> None:
    n = 100_003
    edge = [(n - 1) * side for side in form]
    case = Case([2, n], [1, n], padding=[(0, 0), edge], element=element)
    x = np.random.default_rng(0).uniform(0, 100, case.shape).astype(numpy_type(element))
    exact = np.cumsum(x[:, ::-1] if form[1] else x, 1, np.float64)
    program = hlo2onnx.translate(case.text)
    (result,) = _run(program, x)
    np.testing.assert_allclose(result, exact[:, ::-1] if form[1] else exact, rtol=2e-6)
    assert program.report.nodes["CumSum"] == (2 if element == "f32" else 1)


def _run(program: hlo2onnx.OnnxProgram, *inputs: np.ndarray) -> list[np.ndarray]:
    result = program(*inputs)
    return [
        np.asarray(item) for item in (result if isinstance(result, (list, tuple)) else [result])
    ]


# -- regions over several operands, complex numbers, promotion ---------------------------------

JVP = """
module {{ func.func public @main(%x: {x}, %t: {x}) -> ({y}, {y}) {{
  %lowest = stablehlo.constant dense<0xFF800000> : tensor<f32>
  %zero = stablehlo.constant dense<0.0> : tensor<f32>
  %0:2 = "stablehlo.reduce_window"(%x, %t, %lowest, %zero) ({{
  ^bb0(%a: tensor<f32>, %p: tensor<f32>, %b: tensor<f32>, %q: tensor<f32>):
    {body}
    stablehlo.return %v, %w : tensor<f32>, tensor<f32>
  }}) {{ {attributes} }} : ({x}, {x}, tensor<f32>, tensor<f32>) -> ({y}, {y})
  return %0#0, %0#1 : {y}, {y}
}} }}
"""
SELECT = """
    %c = stablehlo.compare GE, %a, %b, FLOAT : (tensor<f32>, tensor<f32>) -> tensor<i1>
    %v = stablehlo.select %c, %a, %b : tensor<i1>, tensor<f32>
    %w = stablehlo.select %c, %p, %q : tensor<i1>, tensor<f32>"""
BOTH = """
    %v = stablehlo.maximum %a, %b : tensor<f32>
    %w = stablehlo.add %p, %q : tensor<f32>"""


@pytest.mark.parametrize("body", [SELECT, BOTH])
@pytest.mark.parametrize(
    "case",
    [
        Case([1, 8, 8, 3], [1, 3, 3, 1], [1, 2, 2, 1], padding=[(0, 0), (0, 1), (1, 1), (0, 0)]),
        Case([12, 13], [9, 9], padding=[(4, 4), (4, 4)]),
        Case([12, 13], [9, 9]),
        Case([12, 13, 2], [9, 8, 1], [2, 1, 1], padding=[(3, 5), (0, 0), (0, 0)]),
        Case([3, 25], [1, 25], padding=[(0, 0), (24, 0)]),
    ],
)
def test_pairs(case: Case, body: str) -> None:
    """The JVP of max pooling, and two regions side by side; NaN, infinities and ties included."""
    x, y = tensor(case.shape, "f32"), tensor(case.results, "f32")
    text = JVP.format(x=x, y=y, body=body, attributes=case.attributes)
    rng = np.random.default_rng(0)
    keys = rng.integers(-3, 3, case.shape).astype(np.float32)
    keys[rng.uniform(size=case.shape) < 0.05] = np.nan
    keys[rng.uniform(size=case.shape) < 0.2] = -np.inf
    if body == SELECT and case.padding and case.window[-1] == 25:
        # Long cumulative windows are re-associated, by us and by XLA: no ties, no NaN.
        keys = rng.permuted(np.arange(75, dtype=np.float32)).reshape(case.shape)
    against_xla(text, keys, rng.integers(-9, 9, case.shape).astype(np.float32)).bit_exact()


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("region", ["add", "multiply"])
@pytest.mark.parametrize(
    "case",
    [
        Case([1, 5, 6, 2], [1, 2, 3, 1], padding=[(0, 0), (1, 0), (0, 2), (0, 0)]),
        Case([3, 20], [1, 20], padding=[(0, 0), (19, 0)]),
    ],
)
def test_complex(case: Case, region: str, element: str) -> None:
    init = "(0.0, 0.0)" if region == "add" else "(1.0, 0.0)"
    case = like(case, element=element, region=region)
    text = case.text.replace(f"dense<{init[1:4]}>", f"dense<{init}>")
    rng = np.random.default_rng(0)
    x = rng.standard_normal(case.shape) + 1j * rng.standard_normal(case.shape)
    against_xla(text, x.astype(numpy_type(element))).close()


def test_promotion() -> None:
    """The region may compute in a wider type than the operands', which XLA does not take."""
    case = Case([2, 5], [1, 3], element="bf16")
    text = case.text.replace("bf16>", "f32>").replace(
        "%arg0: tensor<2x5xf32>", "%arg0: tensor<2x5xbf16>"
    )
    text = text.replace(": (tensor<2x5xf32>", ": (tensor<2x5xbf16>")
    x = np.random.default_rng(0).standard_normal((2, 5)).astype(ml_dtypes.bfloat16)
    (result,) = _run(hlo2onnx.translate(text), x)
    wide = x.astype(np.float32)
    np.testing.assert_array_equal(result, wide[:, :-2] + wide[:, 1:-1] + wide[:, 2:])
