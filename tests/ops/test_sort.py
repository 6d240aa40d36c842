"""sort by every kind of comparator, against XLA."""

from __future__ import annotations

from collections.abc import Sequence

import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax, against_xla
from edge_values import edge_values
from jax import lax
from mlir_text import tensor

import hlo2onnx
from hlo2onnx.frontend.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]
INTEGERS = ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"]
COMPLEX = ["complex<f32>", "complex<f64>"]


def sorts(
    shape: Sequence[int],
    elements: Sequence[str],
    comparator: str,
    dimension: int | None = None,
    is_stable: bool = True,
) -> str:
    """A module that sorts one argument per element type, along the last dimension by default; the
    comparator reads %l0, %r0, %l1, ... and makes %before."""
    dimension = len(shape) - 1 if dimension is None else dimension
    types = [tensor(shape, element) for element in elements]
    arguments = ", ".join(f"%arg{k}: {kind}" for k, kind in enumerate(types))
    operands = ", ".join(f"%arg{k}" for k in range(len(types)))
    scalars = ", ".join(f"%l{k}: tensor<{e}>, %r{k}: tensor<{e}>" for k, e in enumerate(elements))
    results = ", ".join(f"%s#{k}" for k in range(len(types)))
    kinds = ", ".join(types)
    return f"""
module {{ func.func public @main({arguments}) -> ({kinds}) {{
  %s:{len(types)} = "stablehlo.sort"({operands}) <{{
    dimension = {dimension} : i64, is_stable = {str(is_stable).lower()}}}> ({{
  ^bb0({scalars}):
    {comparator}
    stablehlo.return %before : tensor<i1>
  }}) : ({kinds}) -> ({kinds})
  return {results} : {kinds}
}} }}"""


def compares(direction: str, element: str, kind: str = "", k: int = 0, name: str = "before") -> str:
    """%name = l_k <direction> r_k"""
    kind = f", {kind}" if kind else ""
    typed = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    return f"%{name} = stablehlo.compare {direction}, %l{k}, %r{k}{kind} : {typed}"


def values(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    """Few different values, so that many are equal: edge values, floats with NaN of both signs."""
    edges = edge_values(element)
    if numpy_type(element).kind not in "biuc":
        edges = np.concatenate([edges, -edges[-1:]])
    picks = np.random.default_rng(seed).integers(0, edges.size, shape)
    return edges[picks].reshape(shape)


def without_nan(element: str, shape: Sequence[int], seed: int = 0) -> np.ndarray:
    x = values(element, shape, seed)
    return np.where(np.isnan(x.astype(np.float64)), np.ones_like(x), x)


def places(shape: Sequence[int]) -> np.ndarray:
    """A different number for each element, which shows who came from where."""
    return np.arange(np.prod(shape), dtype=np.int32).reshape(shape)


# -- comparisons of one operand ----------------------------------------------------------------


@pytest.mark.parametrize("element", [*INTEGERS, "i1"])
@pytest.mark.parametrize("direction", ["LT", "GT"])
@pytest.mark.parametrize("shape, dimension", [((3, 40), 1), ((17, 2, 3), 0), ((2, 9, 4), 1)])
def test_integers(direction: str, element: str, shape: Sequence[int], dimension: int) -> None:
    text = sorts(shape, [element, "i32"], compares(direction, element), dimension)
    against_xla(text, values(element, shape), places(shape)).bit_exact()


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_floats_without_nan(direction: str, element: str) -> None:
    """-0 and +0 are equal, and keep their order."""
    text = sorts((4, 50), [element, "i32"], compares(direction, element, "FLOAT"))
    against_xla(text, without_nan(element, (4, 50)), places((4, 50))).bit_exact().has_no("BitCast")


@pytest.mark.parametrize("element", FLOATS)
@pytest.mark.parametrize("direction", ["LT", "GT"])
def test_total_order(direction: str, element: str) -> None:
    """-0 comes before +0, NaN goes to the end that its sign says."""
    text = sorts((4, 50), [element, "i32"], compares(direction, element, "TOTALORDER"))
    run = against_xla(text, values(element, (4, 50)), places((4, 50))).bit_exact()
    assert run.nodes["TopK"] == 1


def test_sides_in_the_other_order() -> None:
    swapped = "%before = stablehlo.compare LT, %r0, %l0 : (tensor<i32>, tensor<i32>) -> tensor<i1>"
    text = sorts((5, 9), ["i32", "i8"], swapped)
    x = np.random.default_rng(0).integers(0, 4, (5, 9), np.int32)
    run = against_xla(text, x, np.arange(45, dtype=np.int8).reshape(5, 9)).bit_exact()
    run.graph_is("TopK", "GatherElements")


def test_negative_dimension() -> None:
    """Counted from the end, as the verifier allows; XLA reads memory at random then."""
    x = np.random.default_rng(0).integers(0, 4, (2, 9, 4), np.int32)
    text = sorts((2, 9, 4), ["i32"], compares("LT", "i32"), -2)
    assert (hlo2onnx.translate(text)(x) == np.sort(x, axis=1)).all()


@pytest.mark.parametrize("shape, dimension", [((0,), 0), ((1,), 0), ((3, 0), 1), ((0, 4), 1)])
def test_nothing_to_sort(shape: Sequence[int], dimension: int) -> None:
    for comparator in (compares("LT", "f32"), UNNAMED.format(element="f32")):
        text = sorts(shape, ["f32", "i32"], comparator, dimension)
        against_xla(text, values("f32", shape), places(shape)).bit_exact().graph_is(
            "Identity", "Identity"
        )


@pytest.mark.parametrize("element", ["f32", "i16"])
def test_unstable(element: str) -> None:
    text = sorts((3, 40), [element], compares("LT", element), is_stable=False)
    against_xla(text, without_nan(element, (3, 40))).close()


# -- JAX's comparators -------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize("element", [*FLOATS, *INTEGERS, "i1", *COMPLEX])
def test_jax_sort_and_argsort(element: str) -> None:
    x = values(element, (3, 40))
    against_jax(jnp.sort, x).bit_exact().has_no("BitCast")
    against_jax(lambda x: jnp.argsort(x, axis=0), x).bit_exact()
    against_jax(lambda x: jnp.sort(x, descending=True), x).bit_exact()
    against_jax(lambda x: jnp.argsort(x, descending=True), x).bit_exact()
    against_jax(lambda x: lax.sort((x, places((3, 40))), num_keys=1), x).bit_exact()


def test_the_graphs_of_jax_sort() -> None:
    x = values("f32", (3, 40))
    against_jax(jnp.sort, x).graph_is("Cast", "Min", "IsNaN", "Where", "TopK", "GatherElements")
    against_jax(jnp.sort, x.astype(np.float32).view(np.int32)).graph_is("TopK")
    against_jax(jnp.argsort, x.view(np.int32)).graph_is("TopK")
    whole = against_jax(lambda x: jnp.sort(x.astype(np.float32)), x.view(np.int32))
    whole.bit_exact().graph_is("Cast", "TopK")
    finite = against_jax(jnp.sort, without_nan("f32", (3, 40)), nan="runtime")
    finite.bit_exact().graph_is("TopK")


def test_several_keys() -> None:
    shape = (4, 60)
    keys = [values(e, shape, seed) for seed, e in enumerate(["f32", "i1", "i8", "f16", "ui64"])]
    small = [np.random.default_rng(s).integers(0, 3, shape).astype(np.int32) for s in range(3)]
    mixed = [small[0], keys[0], keys[1], keys[2], keys[3], keys[4]]
    for count in (1, 2, 3, 6):
        against_jax(lambda *a, n=count: lax.sort(a, num_keys=n, dimension=0), *mixed).bit_exact()
    against_jax(lambda *a: jnp.lexsort(a), *mixed[:3]).bit_exact()


@pytest.mark.parametrize("first, second", [("LT", "GT"), ("GT", "LT"), ("GT", "GT")])
@pytest.mark.parametrize("form", ["or", "select", "select NE"])
def test_keys_in_different_directions(form: str, first: str, second: str) -> None:
    elements = ["i8", "ui8"]
    pairs = [
        compares(first, "i8", k=0, name="less"),
        compares(second, "ui8", k=1, name="rest"),
        compares("NE" if form == "select NE" else "EQ", "i8", k=0, name="same"),
    ]
    last = {
        "or": "%both = stablehlo.and %rest, %same : tensor<i1>\n"
        "%before = stablehlo.or %both, %less : tensor<i1>",
        "select": "%before = stablehlo.select %same, %rest, %less : tensor<i1>, tensor<i1>",
        "select NE": "%before = stablehlo.select %same, %less, %rest : tensor<i1>, tensor<i1>",
    }[form]
    x = [np.random.default_rng(s).integers(0, 4, (3, 60)) for s in range(2)]
    text = sorts((3, 60), [*elements, "i32"], "\n".join([*pairs, last]))
    run = against_xla(text, x[0].astype(np.int8), x[1].astype(np.uint8), places((3, 60)))
    assert run.bit_exact().nodes["TopK"] == 2


def test_a_function_of_each_side() -> None:
    """The key is |x|."""
    magnitude = """
    %a = stablehlo.abs %l0 : tensor<i32>
    %b = stablehlo.abs %r0 : tensor<i32>
    %before = stablehlo.compare LT, %a, %b : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
    x = np.random.default_rng(0).integers(-5, 5, (4, 30), np.int32)
    text = sorts((4, 30), ["i32"], magnitude)
    against_xla(text, x).bit_exact().graph_is("Abs", "TopK", "GatherElements")


# -- comparators without a name ----------------------------------------------------------------

UNNAMED = """
    %difference = stablehlo.subtract %l0, %r0 : tensor<{element}>
    %zero = stablehlo.constant dense<0> : tensor<i32>
    %whole = stablehlo.convert %difference : (tensor<{element}>) -> tensor<i32>
    %before = stablehlo.compare LT, %whole, %zero : (tensor<i32>, tensor<i32>) -> tensor<i1>"""
RESIDUES = """
    %modulus = stablehlo.constant dense<7> : tensor<i32>
    %a = stablehlo.remainder %l0, %modulus : tensor<i32>
    %b = stablehlo.remainder %r0, %modulus : tensor<i32>
    %ab = stablehlo.subtract %b, %a : tensor<i32>
    %one = stablehlo.constant dense<1> : tensor<i32>
    %before = stablehlo.compare GE, %ab, %one : (tensor<i32>, tensor<i32>) -> tensor<i1>"""


@pytest.mark.parametrize(
    "shape, dimension",
    [((2,), 0), ((3, 7, 2), 1), ((60, 3), 0), ((4, 257), 1), ((300, 2), 0), ((513,), 0)],
)
@pytest.mark.parametrize("comparator", [UNNAMED.format(element="i32"), RESIDUES])
def test_any_comparator(comparator: str, shape: Sequence[int], dimension: int) -> None:
    """By a stable network."""
    x = np.random.default_rng(0).integers(0, 20, shape).astype(np.int32)
    run = against_xla(sorts(shape, ["i32", "i32"], comparator, dimension), x, places(shape))
    run.bit_exact()
    assert run.nodes["Scan"] == 1


def test_a_comparator_without_a_name_of_one_operand() -> None:
    x = np.random.default_rng(0).permutation(7).astype(np.int32)
    against_xla(sorts((7,), ["i32"], RESIDUES), x).bit_exact()


@pytest.mark.parametrize("extent", [5, 300])
def test_any_comparator_of_complex_numbers(extent: int) -> None:
    body = """
    %a = stablehlo.abs %l0 : (tensor<complex<f32>>) -> tensor<f32>
    %b = stablehlo.abs %r0 : (tensor<complex<f32>>) -> tensor<f32>
    %d = stablehlo.subtract %a, %b : tensor<f32>
    %half = stablehlo.constant dense<-0.5> : tensor<f32>
    %before = stablehlo.compare LT, %d, %half : (tensor<f32>, tensor<f32>) -> tensor<i1>"""
    x = np.random.default_rng(0).permutation(extent).astype(np.complex64)
    text = sorts((extent,), ["complex<f32>", "i32"], body)
    against_xla(text, x * 1j, places((extent,))).bit_exact()
