"""Deprecated ops of StableHLO, which older programs still have."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from edge_values import edge_values
from mlir_text import tensor

from hlo2onnx import translate
from hlo2onnx.frontend.mlir.types import numpy_type

pytestmark = pytest.mark.wide


def einsum(config: str, dims: tuple[tuple[int, ...], ...], element: str = "f32") -> str:
    sizes: dict[str, int] = {}
    inputs, output = config.split("->")
    for letters, extents in zip(inputs.split(","), dims, strict=True):
        sizes.update(zip(letters, extents, strict=True))
    result = tensor(tuple(sizes[letter] for letter in output), element)
    types = [tensor(extents, element) for extents in dims]
    name = "einsum" if len(dims) == 2 else "unary_einsum"
    arguments = ", ".join(f"%arg{index}: {given}" for index, given in enumerate(types))
    operands = ", ".join(f"%arg{index}" for index in range(len(dims)))
    return f"""
    module {{ func.func public @main({arguments}) -> {result} {{
      %0 = "stablehlo.{name}"({operands}) {{einsum_config = "{config}"}}
        : ({", ".join(types)}) -> {result}
      return %0 : {result}
    }} }}
    """


def numbers(dims: tuple[int, ...], element: str, seed: int) -> np.ndarray:
    """Small integers, whose sums are exact in every type."""
    values = np.random.default_rng(seed).integers(0, 4, dims)
    return values.astype(numpy_type(element))


PRODUCTS = [
    ("ab,bc->ac", ((2, 3), (3, 4))),
    ("ab,cb->ca", ((2, 3), (4, 3))),
    ("abc,abd->adc", ((2, 3, 4), (2, 3, 5))),
    ("ab,ab->ab", ((2, 3), (2, 3))),
    ("ab,ab->", ((2, 3), (2, 3))),
    ("a,b->ab", ((2,), (3,))),
    (",ab->ba", ((), (2, 3))),
    ("ab,b->a", ((2, 0), (0,))),
]


@pytest.mark.parametrize(("config", "dims"), PRODUCTS)
@pytest.mark.parametrize("element", ["f32", "f64", "i32", "ui8", "complex<f32>", "bf16"])
def test_einsum(config: str, dims: tuple[tuple[int, ...], ...], element: str) -> None:
    arrays = [numbers(extents, element, seed) for seed, extents in enumerate(dims)]
    against_xla(einsum(config, dims, element), *arrays).bit_exact()


@pytest.mark.parametrize("config", ["ab->a", "ab->ba", "ab->", "ab->ab", "ab->b"])
@pytest.mark.parametrize("element", ["f32", "i32", "complex<f32>"])
def test_unary_einsum(config: str, element: str) -> None:
    """XLA has no such op any more; numpy says what it is."""
    x = numbers((3, 4), element, 0)
    np.testing.assert_array_equal(
        translate(einsum(config, ((3, 4),), element))(x), np.einsum(config, x)
    )


def select(x: str, index: str, result: str, dim: int, batch_dims: int) -> str:
    return f"""
    module {{ func.func public @main(%arg0: {x}, %arg1: {index}) -> {result} {{
      %0 = "stablehlo.torch_index_select"(%arg0, %arg1)
        {{dim = {dim} : i64, batch_dims = {batch_dims} : i64}} : ({x}, {index}) -> {result}
      return %0 : {result}
    }} }}
    """


@pytest.mark.parametrize(
    ("dims", "count", "dim", "batch_dims"),
    [
        ((4, 3), (5,), 0, 0),
        ((4, 3), (5,), 1, 0),
        ((4, 3, 2), (2, 5), 1, 0),
        ((2, 4, 3), (2, 5), 1, 1),
        ((2, 4, 3), (2, 5), 2, 1),
        ((2, 3, 4), (2, 3), 2, 2),
        ((4, 3), (0,), 0, 0),
        ((4,), (), 0, 0),
    ],
)
@pytest.mark.parametrize("element", ["f32", "i1", "complex<f32>"])
def test_torch_index_select(
    dims: tuple[int, ...], count: tuple[int, ...], dim: int, batch_dims: int, element: str
) -> None:
    """Indices outside are clamped."""
    x = np.resize(edge_values(element), dims)
    index = np.resize(np.array([0, 2, 7, 1, -3], np.int32), count)
    result = (*dims[:dim], *count[batch_dims:], *dims[dim + 1 :])
    types = tensor(dims, element), tensor(count, "i32"), tensor(result, element)
    against_xla(select(*types, dim, batch_dims), x, index).bit_exact()


OTHERS = {
    "dot": (
        "%t = stablehlo.transpose %arg0, dims = [1, 0] : (TYPE) -> tensor<3x2xf32>"
        '%0 = "stablehlo.dot"(%arg0, %t) : (TYPE, tensor<3x2xf32>) -> tensor<2x2xf32>',
        "tensor<2x2xf32>",
    ),
    "broadcast": (
        '%0 = "stablehlo.broadcast"(%arg0) {broadcast_sizes = array<i64: 4, 1>}'
        " : (TYPE) -> tensor<4x1x2x3xf32>",
        "tensor<4x1x2x3xf32>",
    ),
    "cross-replica-sum": (
        '%0 = "stablehlo.cross-replica-sum"(%arg0)'
        " {replica_groups = dense<[[0]]> : tensor<1x1xi64>} : (TYPE) -> TYPE",
        "tensor<2x3xf32>",
    ),
    "create_token": (
        "%t = stablehlo.create_token : !stablehlo.token"
        ' %u = "stablehlo.after_all"(%t) : (!stablehlo.token) -> !stablehlo.token'
        " %0 = stablehlo.add %arg0, %arg0 : TYPE",
        "tensor<2x3xf32>",
    ),
}


@pytest.mark.parametrize("name", OTHERS)
def test_what_mlir_replaces(name: str) -> None:
    body, result = OTHERS[name]
    text = f"""
    module {{ func.func public @main(%arg0: TYPE) -> {result} {{
      {body}
      return %0 : {result}
    }} }}
    """
    against_xla(text.replace("TYPE", "tensor<2x3xf32>")).close()
