"""dot_general against XLA: axes, element types, empty extents, and which nodes it takes."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import Run, against_xla
from edge_values import edge_values, pairs

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.runtime.sessions import OrtProgram

Dims = Sequence[int]


def module(lhs: str, rhs: str, result: str, attributes: str) -> str:
    types = f"(tensor<{lhs}>, tensor<{rhs}>) -> tensor<{result}>"
    return f"""
module {{ func.func public @main(%arg0: tensor<{lhs}>, %arg1: tensor<{rhs}>) -> tensor<{result}> {{
  %0 = stablehlo.dot_general %arg0, %arg1, {attributes} : {types}
  return %0 : tensor<{result}>
}} }}
"""


def tensor(dims: Dims, element: str) -> str:
    return "x".join([*map(str, dims), element])


def dot(
    lhs: Dims,
    rhs: Dims,
    contracting: tuple[Dims, Dims],
    batching: tuple[Dims, Dims] = ((), ()),
    elements: tuple[str, str, str] = ("f32", "f32", "f32"),
    attributes: str = "",
) -> str:
    """A module with one dot_general."""
    free = [
        dim
        for dims, side in ((lhs, 0), (rhs, 1))
        for axis, dim in enumerate(dims)
        if axis not in (*contracting[side], *batching[side])
    ]
    result = [lhs[axis] for axis in batching[0]] + free
    pairs = [
        f"{name} = {list(left)} x {list(right)}"
        for name, (left, right) in (("batching_dims", batching), ("contracting_dims", contracting))
    ]
    return module(
        tensor(lhs, elements[0]),
        tensor(rhs, elements[1]),
        tensor(result, elements[2]),
        ", ".join([*pairs, *filter(None, [attributes])]),
    )


def numbers(dims: Dims, element: str, seed: int = 0) -> np.ndarray:
    """Random elements of the whole range of an integer type, normal ones of a float type."""
    dtype = numpy_type(element)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 2, dims).astype(bool)
    if dtype.kind in "iu":
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, dims, dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


def of_jax(function, *dims: Dims) -> Run:  # type: ignore[no-untyped-def]
    """A jitted function of random f32 arrays."""
    arguments = [numbers(d, "f32", seed) for seed, d in enumerate(dims)]
    return against_xla(jax.jit(function).lower(*arguments).as_text(), *arguments).close()


AXES = {
    "matrices": ((3, 4), (4, 5), ((1,), (0,))),
    "lhs transposed": ((4, 3), (4, 5), ((0,), (0,))),
    "rhs transposed": ((3, 4), (5, 4), ((1,), (1,))),
    "both transposed": ((4, 3), (5, 4), ((0,), (1,))),
    "vectors": ((4,), (4,), ((0,), (0,))),
    "matrix, vector": ((3, 4), (4,), ((1,), (0,))),
    "vector, matrix": ((4,), (4, 3), ((0,), (0,))),
    "scalars": ((), (), ((), ())),
    "scalar, matrix": ((), (2, 3), ((), ())),
    "outer": ((3,), (4, 2), ((), ())),
    "dense": ((2, 3, 4), (4, 5), ((2,), (0,))),
    "dense, two outputs": ((2, 3, 4), (4, 5, 2), ((2,), (0,))),
    "dense, two inputs": ((2, 3, 4, 2), (4, 2, 5), ((2, 3), (0, 1))),
    "dense, two inputs in another order": ((2, 3, 4, 2), (4, 2, 5), ((3, 2), (1, 0))),
    "dense, two inputs in unlike orders": ((2, 4, 2), (2, 4, 5), ((1, 2), (1, 0))),
    "all contracted": ((2, 3, 4), (4, 2, 3), ((0, 1, 2), (1, 2, 0))),
    "batch": ((2, 3, 4), (2, 4, 5), ((2,), (1,)), ((0,), (0,))),
    "batch only": ((2, 3), (3, 2), ((), ()), ((0, 1), (1, 0))),
    "batch, vectors": ((2, 4), (2, 4), ((1,), (1,)), ((0,), (0,))),
    "batch, two rows": ((2, 3, 6, 4), (2, 4, 5), ((3,), (1,)), ((0,), (0,))),
    "batch, two columns": ((2, 3, 4), (2, 4, 5, 6), ((2,), (1,)), ((0,), (0,))),
    "batch in front and behind": ((4, 3, 2), (4, 5, 2), ((0,), (0,)), ((2,), (2,))),
    "batch axes in another order": ((2, 3, 4, 5), (3, 2, 5), ((3,), (2,)), ((1, 0), (0, 1))),
    "batch, outer": ((2, 3), (2, 4), ((), ()), ((0,), (0,))),
    "unit extents": ((1, 4, 1), (1, 4, 1), ((1,), (1,)), ((0,), (0,))),
    "empty rows": ((0, 4), (4, 5), ((1,), (0,))),
    "empty columns": ((3, 4), (4, 0), ((1,), (0,))),
    "empty contraction": ((3, 0), (0, 5), ((1,), (0,))),
    "empty vectors": ((0,), (0,), ((0,), (0,))),
    "empty batch": ((0, 3, 4), (0, 4, 5), ((2,), (1,)), ((0,), (0,))),
    "one contraction of two empty": ((3, 2, 0), (0, 2, 5), ((1, 2), (1, 0))),
}


@pytest.mark.costly
@pytest.mark.parametrize("case", AXES.values(), ids=AXES.keys())
def test_axes(case: tuple) -> None:  # type: ignore[type-arg]
    lhs, rhs, *axes = case
    against_xla(dot(lhs, rhs, *axes)).close().has_no("Einsum")
    integers = dot(lhs, rhs, *axes, elements=("i32", "i32", "i32"))
    against_xla(integers, numbers(lhs, "i32"), numbers(rhs, "i32", 1)).bit_exact()


EXACT = [
    *((element, element, element) for element in ("i8", "i16", "i32", "i64")),
    *((element, element, element) for element in ("ui8", "ui16", "ui32", "ui64")),
    ("i1", "i1", "i1"),
    ("i1", "i1", "i32"),
    ("i8", "i8", "i32"),
    ("ui8", "i8", "i32"),
    ("i8", "i8", "ui32"),
    ("i32", "i32", "i64"),
    ("ui32", "ui32", "ui64"),
    ("i32", "i32", "i8"),
    ("i8", "i8", "i1"),
]


@pytest.mark.costly
@pytest.mark.parametrize("elements", EXACT, ids="_".join)
@pytest.mark.parametrize("axes", ["matrices", "outer", "empty contraction", "batch"])
def test_integers_wrap(elements: tuple[str, str, str], axes: str) -> None:
    lhs, rhs, *rest = AXES[axes]
    text = dot(lhs, rhs, *rest, elements=elements)
    against_xla(text, numbers(lhs, elements[0]), numbers(rhs, elements[1], 1)).bit_exact()


FLOATS = [
    *((element, element, element) for element in ("f64", "f32", "f16", "bf16")),
    ("bf16", "bf16", "f32"),
    ("f16", "f16", "f32"),
    ("f16", "bf16", "f32"),
    ("bf16", "f32", "f32"),
    ("f32", "f32", "bf16"),
    ("f64", "f64", "f32"),
    ("f32", "f32", "f64"),
    ("f8E4M3FN", "f8E4M3FN", "f32"),
    ("f8E4M3FN", "f8E5M2", "bf16"),
    ("f8E5M2", "f8E5M2", "f8E5M2"),
    ("i8", "i8", "f32"),
    ("i1", "f32", "f32"),
    ("f32", "i32", "f32"),
]


@pytest.mark.costly
@pytest.mark.parametrize("elements", FLOATS, ids="_".join)
def test_floats(elements: tuple[str, str, str]) -> None:
    lhs, rhs = (5, 64), (64, 7)
    text = dot(lhs, rhs, ((1,), (0,)), elements=elements)
    against_xla(text, numbers(lhs, elements[0]), numbers(rhs, elements[1], 1)).close()


@pytest.mark.parametrize("element", ["f32", "f64", "bf16", "f16"])
def test_nan_and_infinities(element: str) -> None:
    """Sums of two products of every pair; not the largest numbers, whose products overflow
    before or after a fused addition."""
    left, right = (side.astype(np.float64) for side in pairs(element))
    kept = ~(np.isfinite(left) & (abs(left) > 1e3)) & ~(np.isfinite(right) & (abs(right) > 1e3))
    lhs = np.stack([left[kept], right[kept]], 1).astype(numpy_type(element))
    rhs = edge_values(element)[:8].reshape(2, 4)
    against_xla(dot(lhs.shape, (2, 4), ((1,), (0,)), elements=(element,) * 3), lhs, rhs).close()


@pytest.mark.parametrize("element", ["complex<f32>", "complex<f64>"])
@pytest.mark.parametrize("axes", ["matrices", "batch", "outer", "vectors", "empty contraction"])
def test_complex(element: str, axes: str) -> None:
    lhs, rhs, *rest = AXES[axes]
    text = dot(lhs, rhs, *rest, elements=(element,) * 3)
    against_xla(text, numbers(lhs, element), numbers(rhs, element, 1)).close()


ALGORITHM = (
    "algorithm = <lhs_precision_type = {0}, rhs_precision_type = {0}, accumulation_type = f32,"
    " lhs_component_count = 1, rhs_component_count = 1, num_primitive_operations = {1},"
    " allow_imprecise_accumulation = false>"
)


@pytest.mark.parametrize(
    "attributes",
    [
        "precision = [DEFAULT, DEFAULT]",
        "precision = [HIGHEST, HIGH]",
        ALGORITHM.format("f32", 1),
        ALGORITHM.format("bf16", 1),
        ALGORITHM.format("bf16", 6),
        ALGORITHM.format("tf32", 3),
    ],
)
def test_precision_is_full_whatever_is_asked_for(attributes: str) -> None:
    text = dot((5, 64), (64, 7), ((1,), (0,)), attributes=attributes)
    against_xla(text).close().graph_is("MatMul")


@pytest.mark.parametrize(
    ("types", "why"),
    [
        (("3x4xf32", "4x5xf32", "3x5xi32"), "integer result"),
        (("3x4xcomplex<f32>", "4x5xf32", "3x5xcomplex<f32>"), "complex, others real"),
        (("3x4xcomplex<f32>", "4x5xcomplex<f32>", "3x5xf32"), "complex, others real"),
    ],
)
def test_refusals(types: tuple[str, str, str], why: str) -> None:
    with pytest.raises(TranslationError, match=why):
        against_xla(module(*types, "contracting_dims = [1] x [0]"))


@pytest.mark.parametrize("name", ["dense", "batch", "vectors"])
def test_dynamic_extents(name: str) -> None:
    """An extent known at run time only, a batch size or a number of rows, changes no node."""
    lhs, rhs, *axes = AXES[name]
    text = dot(lhs, rhs, *axes)
    run = against_xla(text).close()
    leading = f"{lhs[0]}x"
    program = hlo2onnx.translate(text.replace(f"<{leading}", "<?x"))
    assert program.report.nodes == run.nodes
    content = program.model_proto.SerializeToString()
    outputs = OrtProgram(content)(dict(zip(program.input_names, run.inputs, strict=True)))
    np.testing.assert_array_equal(outputs[0], run.actual[0][0])


def test_joining_dynamic_axes() -> None:
    """Rows that become one axis beside a batch of unknown size are taken apart again."""
    text = dot(*AXES["batch, two rows"])
    run = against_xla(text).close()
    program = hlo2onnx.translate(text.replace("tensor<2x", "tensor<?x"))
    assert program.verify(*run.inputs).ok


# -- the shape of the graph -------------------------------------------------------------------

NODES = {
    "matrices": ["MatMul"],
    "lhs transposed": ["Transpose", "MatMul"],
    "rhs transposed": ["Transpose", "MatMul"],
    "both transposed": ["MatMul", "Transpose"],
    "vectors": ["MatMul"],
    "matrix, vector": ["Unsqueeze", "MatMul", "Squeeze"],  # ORT is slow with a bare vector
    "vector, matrix": ["MatMul"],
    "dense": ["MatMul"],
    "dense, two outputs": ["Reshape", "MatMul", "Reshape"],
    "dense, two inputs": ["Reshape", "Reshape", "MatMul"],
    "dense, two inputs in another order": ["Reshape", "Reshape", "MatMul"],
    "batch": ["MatMul"],
    "outer": ["Unsqueeze", "Mul"],
}


@pytest.mark.parametrize("name", NODES)
def test_graph(name: str) -> None:
    against_xla(dot(*AXES[name])).graph_is(*NODES[name])


READ = """
func.func @main(%x: tensor<3x4xE>, %y: tensor<5x4xE>) -> tensor<5x3xE> {
  %0 = stablehlo.dot_general %x, %y, contracting_dims = [1] x [1]
    : (tensor<3x4xE>, tensor<5x4xE>) -> tensor<3x5xE>
  %1 = stablehlo.transpose %0, dims = [1, 0] : (tensor<3x5xE>) -> tensor<5x3xE>
  return %1 : tensor<5x3xE>
}"""


@pytest.mark.parametrize(("element", "transposes"), [("f32", 1), ("complex<f32>", 2)])
def test_a_product_in_the_order_of_its_reader(element: str, transposes: int) -> None:
    """The operands change places: what reads the result takes it as it is."""
    x, y = np.arange(12).reshape(3, 4), np.arange(20).reshape(5, 4)
    kind = np.float32 if element == "f32" else np.complex64
    run = against_xla(READ.replace("E", element), x.astype(kind), y.astype(kind)).bit_exact()
    assert run.program.report.nodes["Transpose"] == transposes


def test_a_transpose_falls_on_the_weights() -> None:
    """Contracting axes in unlike orders: the activations stay as they are."""
    run = against_xla(dot(*AXES["dense, two inputs in unlike orders"]))
    (node,) = (node for node in run.program.model.graph if node.op_type == "Transpose")
    assert node.inputs[0] is run.program.model.graph.inputs[1]


def test_attention_with_heads_behind() -> None:
    """Queries, keys and values one Transpose each, and one for the result."""
    shape = (2, 6, 3, 4)
    run = of_jax(lambda q, k: jnp.einsum("bqhd,bkhd->bhqk", q, k), shape, shape)
    run.graph_is("Transpose", "Transpose", "MatMul")
    run = of_jax(lambda p, v: jnp.einsum("bhqk,bkhd->bqhd", p, v), (2, 3, 6, 6), shape)
    run.graph_is("Transpose", "MatMul", "Transpose")


def test_gradient_of_a_dense_layer() -> None:
    """JAX computes dw as (gᵀx)ᵀ; xᵀg needs one Transpose."""

    def dw(x: jax.Array, g: jax.Array) -> jax.Array:
        return jax.vjp(lambda w: x @ w, jnp.ones((4, 5)))[1](g)[0]

    of_jax(dw, (3, 4), (3, 5)).graph_is("Transpose", "MatMul")


def test_a_constant_is_transposed_once_and_for_all() -> None:
    weights = numbers((5, 4), "f32")
    of_jax(lambda x: x @ weights.T, (3, 4)).graph_is("MatMul")
