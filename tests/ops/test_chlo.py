"""CHLO ops: those that ONNX has, those that MLIR expands, and those that broadcast."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import jax
import ml_dtypes
import numpy as np
import pytest
import scipy.special
from accuracy import like_xla, ulps
from against_xla import Run, against_xla
from edge_values import edge_values, pairs
from jax import lax
from mlir_text import tensor

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]
Exact = Callable[..., np.ndarray]


def module(
    op: str, operands: Sequence[str], result: str, attributes: str = "", prefix: str = ""
) -> str:
    """A module whose main is one CHLO op."""
    parameters = ", ".join(f"%arg{i}: {operand}" for i, operand in enumerate(operands))
    names = ", ".join(f"%arg{i}" for i in range(len(operands)))
    return (
        f"module {{ func.func public @main({parameters}) -> {result} {{\n{prefix}"
        f'  %0 = "chlo.{op}"({names}) {{{attributes}}} : ({", ".join(operands)}) -> {result}\n'
        f"  return %0 : {result}\n}} }}"
    )


def apply(op: str, element: str, *operands: np.ndarray, result: str = "") -> Run:
    """One op on operands of one shape, in XLA and in ORT."""
    shape = operands[0].shape
    operand, result = tensor(shape, element), tensor(shape, result or element)
    return against_xla(module(op, [operand] * len(operands), result), *operands)


def sweep(element: str, low: float, high: float) -> np.ndarray:
    """Evenly spread values, and values that approach 0 from both sides."""
    near = 10.0 ** np.linspace(-4 if element == "f16" else -12, 0, 300)
    values = np.concatenate([np.linspace(low, high, 2001), near, -near])
    return values[(values >= low) & (values <= high)].astype(numpy_type(element))


# op: operator, exact function, where to look, ULP in f32 and in f64
NATIVE: dict[str, tuple[str, Exact, tuple[float, float], int, int]] = {
    "acos": ("Acos", np.arccos, (-1, 1), 5, 5),
    "acosh": ("Acosh", np.arccosh, (1, 50), 3, 3),
    "asin": ("Asin", np.arcsin, (-1, 1), 5, 5),
    "asinh": ("Asinh", np.arcsinh, (-50, 50), 3, 3),
    "atan": ("Atan", np.arctan, (-50, 50), 4, 5),
    "atanh": ("Atanh", np.arctanh, (-1, 1), 3, 4),
    "cosh": ("Cosh", np.cosh, (-80, 80), 3, 5),
    "erf": ("Erf", scipy.special.erf, (-6, 6), 2, 3),
    "sinh": ("Sinh", np.sinh, (-80, 80), 3, 5),
    "square": ("Mul", np.square, (-9, 9), 1, 1),
    "tan": ("Tan", np.tan, (-50, 50), 2, 7),
}


@pytest.mark.costly
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", NATIVE)
def test_native_accuracy(op: str, element: str) -> None:
    operator, exact, (low, high), in_f32, in_f64 = NATIVE[op]
    x = sweep(element, low, high)
    wide = np.longdouble if element == "f64" and exact is not scipy.special.erf else np.float64
    with np.errstate(all="ignore"):
        truth = exact(x.astype(wide))
    run = apply(op, element, x)
    if element == "f32":
        run.graph_is(operator)
    limit = {"f32": in_f32, "f64": in_f64}.get(element, 1)
    assert max(ulps(outputs[0], truth) for outputs in run.actual) <= limit


# op: exact function, where to look
EXPANDED: dict[str, tuple[Exact, tuple[float, float]]] = {
    "bessel_i1e": (scipy.special.i1e, (-50, 50)),
    "digamma": (scipy.special.digamma, (-9.9, 50)),
    "erf_inv": (scipy.special.erfinv, (-1, 1)),
    "erfc": (scipy.special.erfc, (-4, 9)),
    "lgamma": (scipy.special.gammaln, (-9.9, 1000)),
}


@pytest.mark.costly
@pytest.mark.parametrize("element", ["f32", "f64"])
@pytest.mark.parametrize("op", EXPANDED)
def test_expanded_accuracy(op: str, element: str) -> None:
    """XLA uses the same expansions, whose error is theirs: 60 ULP for erfc of 8 in f32, and much
    near the zeros of digamma and lgamma."""
    exact, (low, high) = EXPANDED[op]
    x = sweep(element, low, high)
    truth = exact(x.astype(np.float64))
    run = apply(op, element, x)
    theirs = ulps(run.expected[0], truth)
    assert max(ulps(outputs[0], truth) for outputs in run.actual) <= 2 * theirs + 4


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_erfc_of_every_half(dtype: Any) -> None:
    """All numbers of bf16 are rounded right, and all but 20 of f16; those are off by 1 ULP."""
    x = np.arange(1 << 16, dtype=np.uint16).view(dtype)
    program = hlo2onnx.translate(jax.jit(jax.lax.erfc), x)
    got = np.asarray(program(x))
    with np.errstate(all="ignore"):
        want = scipy.special.erfc(x.astype(np.float64)).astype(np.float32).astype(dtype)
    np.testing.assert_array_equal(np.isnan(got), np.isnan(want))
    apart = np.abs(got.view(np.int16).astype(int) - want.view(np.int16))[~np.isnan(want)]
    assert apart.max() <= 1
    assert np.count_nonzero(apart) <= (20 if dtype == np.float16 else 0)


@pytest.mark.costly
@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", [*NATIVE, *EXPANDED, "conj"])
def test_at_the_edges(op: str, element: str) -> None:
    like_xla(apply(op, element, edge_values(element)))


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("op", ["is_inf", "is_pos_inf", "is_neg_inf"])
def test_is_inf(op: str, element: str) -> None:
    run = apply(op, element, edge_values(element), result="i1").bit_exact()
    if element in ("f32", "f64"):
        run.graph_is("IsInf")


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_zeta(element: str) -> None:
    dtype = numpy_type(element)
    x, q = np.meshgrid(np.array([1.0, 1.5, 2, 7.25, 20, 0.5, -1]), np.linspace(-3, 20, 93))
    like_xla(apply("zeta", element, x.reshape(-1).astype(dtype), q.reshape(-1).astype(dtype)))


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_polygamma(element: str) -> None:
    dtype = numpy_type(element)
    n, x = np.meshgrid(np.array([0.0, 1, 2, 5, 0.5, -1]), np.linspace(0.25, 30, 120))
    like_xla(apply("polygamma", element, n.reshape(-1).astype(dtype), x.reshape(-1).astype(dtype)))


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16"])
def test_next_after(element: str) -> None:
    apply("next_after", element, *pairs(element)).bit_exact()


@pytest.mark.parametrize("element", ["f32", "f64", "f16"])
@pytest.mark.parametrize(
    ("x", "y"), [("-1.0", "2.0"), ("0.0", "-1.0"), ("3.0", "3.0"), ("1.0", "0x{inf}")]
)
def test_next_after_of_constants_is_a_constant(element: str, x: str, y: str) -> None:
    y = y.format(inf={"f16": "7C00", "f32": "7F800000", "f64": "7FF0000000000000"}[element])
    run = against_xla(f"""func.func public @main() -> tensor<2x{element}> {{
      %0 = stablehlo.constant dense<{x}> : tensor<2x{element}>
      %1 = stablehlo.constant dense<{y}> : tensor<2x{element}>
      %2 = chlo.next_after %0, %1 : tensor<2x{element}>, tensor<2x{element}> -> tensor<2x{element}>
      return %2 : tensor<2x{element}>
    }}""").bit_exact()  # fmt: skip
    assert run.program.report.opset < 26
    assert run.nodes.keys() <= {"Expand", "Identity"}


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "ui8", "ui16", "ui32"])
def test_mulhi(element: str) -> None:
    apply("mulhi", element, *pairs(element)).bit_exact()


BROADCAST = {
    "f32": ["add", "atan2", "divide", "maximum", "minimum", "multiply", "next_after", "power",
            "remainder", "subtract", "zeta"],
    "i32": ["add", "and", "divide", "maximum", "multiply", "or", "remainder", "shift_left",
            "shift_right_arithmetic", "shift_right_logical", "subtract", "xor"],
    "i1": ["and", "or", "xor"],
    "bf16": ["add", "polygamma"],
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize(
    ("op", "element"), [(op, element) for element, ops in BROADCAST.items() for op in ops]
)
@pytest.mark.parametrize("shapes", [((2, 3), (3,)), ((), (2, 3)), ((2, 3), (2, 3))])
def test_broadcast(op: str, element: str, shapes: Sequence[tuple[int, ...]]) -> None:
    rng = np.random.default_rng(0)
    dtype = numpy_type(element)
    operands = [rng.uniform(1, 5, shape).astype(dtype) for shape in shapes]
    types = [tensor(shape, element) for shape in shapes]
    result = tensor((2, 3), element)
    like_xla(against_xla(module(f"broadcast_{op}", types, result), *operands))


@pytest.mark.parametrize("element", ["i32", "ui8"])
def test_broadcast_to_equal_constants(element: str) -> None:
    """Which some ops take for a number; the shape is theirs all the same."""
    narrow, wide, result = (tensor(shape, element) for shape in ((2, 1), (3,), (2, 3)))
    lines = [f"%c{number} = stablehlo.constant dense<{number}> : {wide}" for number in (1, 2, 4)]
    names = []
    for op, number in itertools.product(BROADCAST["i32"], (1, 2, 4)):
        names.append(f"%{op}_{number}")
        lines.append(
            f'{names[-1]} = "chlo.broadcast_{op}"(%arg0, %c{number}) : ({narrow}, {wide}) ->'
            f" {result}"
        )
    types = ", ".join([result] * len(names))
    body = "\n".join([*lines, f"return {', '.join(names)} : {types}"])
    x = np.array([[77], [18]]).astype(numpy_type(element))
    against_xla(
        f"func.func public @main(%arg0: {narrow}) -> ({types}) {{\n{body}\n}}", x
    ).bit_exact()


def test_broadcast_is_the_operators_own() -> None:
    types = [tensor((2, 3), "f32"), tensor((3,), "f32")]
    against_xla(module("broadcast_add", types, types[0])).graph_is("Add")


@pytest.mark.parametrize(
    ("shapes", "axes"),
    [(((2, 3), (2,)), [0]), (((3,), (2, 3)), [1]), (((4, 2, 3), (4, 3)), [0, 2])],
)
def test_broadcast_dimensions(shapes: Sequence[tuple[int, ...]], axes: list[int]) -> None:
    """Against numpy: XLA, too, only takes trailing axes."""
    rng = np.random.default_rng(0)
    operands = [rng.standard_normal(shape).astype(np.float32) for shape in shapes]
    full = max(shapes, key=len)
    text = module(
        "broadcast_subtract",
        [tensor(shape, "f32") for shape in shapes],
        tensor(full, "f32"),
        f"broadcast_dimensions = array<i64: {', '.join(map(str, axes))}>",
    )
    placed = [
        x if x.shape == full else x.reshape([full[a] if a in axes else 1 for a in range(len(full))])
        for x in operands
    ]
    program = hlo2onnx.translate(text)
    np.testing.assert_array_equal(program(*operands), placed[0] - placed[1])


@pytest.mark.parametrize("direction", ["EQ", "NE", "LT", "GE"])
@pytest.mark.parametrize("element", ["f32", "i32"])
def test_broadcast_compare(element: str, direction: str) -> None:
    dtype = numpy_type(element)
    text = module(
        "broadcast_compare",
        [tensor((2, 3), element), tensor((3,), element)],
        tensor((2, 3), "i1"),
        f"comparison_direction = #chlo<comparison_direction {direction}>",
    )
    x, y = np.array([[1, 2, 3], [3, 2, 1]], dtype), np.array([1, 3, 2], dtype)
    against_xla(text, x, y).bit_exact()


def test_broadcast_select() -> None:
    """Against numpy: MLIR's expansion, which XLA runs, gets lost in the shape dialect."""
    text = module(
        "broadcast_select",
        [tensor((3,), "i1"), tensor((), "f32"), tensor((2, 3), "f32")],
        tensor((2, 3), "f32"),
    )
    chosen, x = np.array([True, False, True]), np.arange(6, dtype=np.float32).reshape(2, 3)
    program = hlo2onnx.translate(text)
    np.testing.assert_array_equal(program(chosen, np.float32(9), x), np.where(chosen, 9, x))


@pytest.mark.parametrize(
    ("element", "value", "dense"),
    [("f32", "1.5 : f32", "1.5"), ("bf16", "1.5 : bf16", "1.5"), ("i32", "-7 : i32", "-7")],
)
def test_constants(element: str, value: str, dense: str) -> None:
    """constant and constant_like, whose bf16 content only XLA can read for us."""
    kind = tensor((2, 3), element)
    against_xla(
        f"""
module {{ func.func public @main(%arg0: tensor<2x3xf32>) -> ({kind}, {kind}) {{
  %0 = "chlo.constant_like"(%arg0) {{value = {value}}} : (tensor<2x3xf32>) -> {kind}
  %1 = "chlo.constant"() {{value = dense<{dense}> : {kind}}} : () -> {kind}
  return %0, %1 : {kind}, {kind}
}} }}"""
    ).bit_exact()


@pytest.mark.parametrize("shape", [(), (0, 3), (2, 2)])
@pytest.mark.parametrize("op", ["erf", "erfc", "lgamma", "sinh"])
def test_shapes(op: str, shape: tuple[int, ...]) -> None:
    like_xla(apply(op, "f32", np.full(shape, 0.75, np.float32)))


def test_an_expansion_holds_scalar_constants_only() -> None:
    run = apply("erfc", "f32", np.linspace(-3, 3, 77, dtype=np.float32)).has_no("Expand")
    sizes = {value.const_value.size for value in run.program.model.graph.initializers.values()}
    assert sizes == {1}


def test_what_mlir_does_not_expand_is_refused() -> None:
    kind = tensor((4,), "f8E4M3FN")
    with pytest.raises(TranslationError, match=r"chlo\.bessel_i1e.*no such operator"):
        hlo2onnx.translate(module("bessel_i1e", [kind], kind))


def test_erf_inv_of_many_numbers_is_that_of_few() -> None:
    """Of many, both polynomials are computed instead of selecting their coefficients."""
    edges = np.array([1, -1, 0, -0.0, np.nan, 2, np.nextafter(np.float32(1), 0)], np.float32)
    few = np.concatenate([edges, np.random.default_rng(0).uniform(-1, 1, 1500).astype(np.float32)])
    many = np.concatenate([few, few])
    programs = [hlo2onnx.translate(lax.erf_inv, x) for x in (few, many)]
    assert programs[0].report.nodes["Where"] > programs[1].report.nodes["Where"] == 2
    of_few, of_many = (program(x) for program, x in zip(programs, (few, many), strict=True))
    np.testing.assert_allclose(np.concatenate([of_few, of_few]), of_many, rtol=5e-7)
    np.testing.assert_allclose(of_few, jax.jit(lax.erf_inv)(few), rtol=1e-6)
