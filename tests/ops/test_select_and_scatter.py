"""select_and_scatter over windows, selections and combiners."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import Run, against_xla
from mlir_text import tensor
from scatter_case import REGIONS, values

from hlo2onnx import translate

SELECTS = {
    **{
        name: f"%p = stablehlo.compare {name}, %a, %b : ({{s}}, {{s}}) -> tensor<i1>"
        " stablehlo.return %p : tensor<i1>"
        for name in ("GE", "GT", "LE", "LT")
    },
    "odd": (
        "%n = stablehlo.negate %b : {s} %c = stablehlo.add %a, %a : {s}"
        " %p = stablehlo.compare GE, %n, %c : ({s}, {s}) -> tensor<i1>"
        " stablehlo.return %p : tensor<i1>"
    ),
}
Edges = Sequence[tuple[int, int]]


def text(
    dims: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    edges: Edges,
    select: str = "GE",
    region: str = "add",
    element: str = "f32",
) -> tuple[str, list[int]]:
    counts = [
        max((dim + low + high - size) // step + 1, 0)
        for dim, size, step, (low, high) in zip(dims, window, strides, edges, strict=True)
    ]
    scalar, x, source = (tensor(extents, element) for extents in ((), dims, counts))
    return (
        f"""
    module {{ func.func public @main(%x: {x}, %y: {source}, %z: {scalar}) -> {x} {{
      %0 = "stablehlo.select_and_scatter"(%x, %y, %z) <{{
        window_dimensions = array<i64: {", ".join(map(str, window))}>,
        window_strides = array<i64: {", ".join(map(str, strides))}>,
        padding = dense<{[list(edge) for edge in edges]}> : tensor<{len(dims)}x2xi64> }}> ({{
        ^bb0(%a: {scalar}, %b: {scalar}):
          {SELECTS[select].format(s=scalar)}
      }}, {{
        ^bb0(%a: {scalar}, %b: {scalar}):
          {REGIONS[region].format(s=scalar)}
      }}) : ({x}, {source}, {scalar}) -> {x}
      return %0 : {x}
    }} }}
    """,
        counts,
    )


def run(
    dims: Sequence[int],
    window: Sequence[int],
    strides: Sequence[int],
    edges: Edges,
    select: str = "GE",
    region: str = "add",
    element: str = "f32",
    *,
    x: np.ndarray | None = None,
    seed: int = 0,
) -> Run:
    """Sums of the source are exact. Ties are frequent in the operand, but where windows reach into
    padding: there XLA's loop transformations decide which of two equal elements comes first (it
    peels off the last place along the inner axis and does all its rows at the end)."""
    module, counts = text(dims, window, strides, edges, select, region, element)
    source = values(counts, element, seed)
    if x is None:
        rng = np.random.default_rng(seed)
        padded = any(max(edge) > 0 for edge in edges) and len(dims) < 4
        x = (
            rng.permutation(int(np.prod(dims)))
            if padded
            else rng.integers(0, 5, int(np.prod(dims)))
        )
        x = x.reshape(dims).astype(source.dtype)
    return against_xla(module, x, source, np.asarray(2).astype(source.dtype)).bit_exact()


GEOMETRIES: dict[str, tuple[Sequence[int], Sequence[int], Sequence[int], Edges]] = {
    "vector": ((9,), (3,), (2,), [(0, 0)]),
    "apart": ((1, 2, 6, 6), (1, 1, 2, 2), (1, 1, 2, 2), [(0, 0)] * 4),
    "overlap": ((2, 7, 7, 3), (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0)] * 4),
    "same": ((2, 7, 7, 3), (1, 3, 3, 1), (1, 2, 2, 1), [(0, 0), (1, 1), (1, 1), (0, 0)]),
    "wide_padding": ((5,), (3,), (1,), [(2, 2)]),
    "gaps": ((9, 4), (2, 1), (4, 3), [(0, 0), (0, 0)]),
    "cut": ((9,), (3,), (2,), [(-1, -2)]),
    "identity": ((3, 4), (1, 1), (1, 1), [(0, 0)] * 2),
    "looped": ((30, 2), (9, 2), (3, 1), [(2, 0), (1, 1)]),
    "looped_long": ((200,), (90,), (50,), [(5, 40)]),
    "no_windows": ((3,), (5,), (1,), [(0, 0)]),
    "empty": ((0, 3), (1, 2), (1, 1), [(0, 0), (0, 0)]),
}


@pytest.mark.costly
@pytest.mark.parametrize("region", ["add", "maximum", "doubling", "set"])
@pytest.mark.parametrize("name", GEOMETRIES)
def test_geometries(name: str, region: str) -> None:
    run(*GEOMETRIES[name], region=region)


@pytest.mark.wide
@pytest.mark.parametrize("select", SELECTS)
def test_selections(select: str) -> None:
    for name in ("same", "apart", "looped"):
        run(*GEOMETRIES[name], select=select)


@pytest.mark.costly
@pytest.mark.parametrize("element", ["f64", "i32", "i8", "ui8", "i64"])
def test_element_types(element: str) -> None:
    for name in ("same", "apart"):
        run(*GEOMETRIES[name], element=element)


@pytest.mark.parametrize("element", ["f16", "bf16"])
def test_half_precision(element: str) -> None:
    module, counts = text(*GEOMETRIES["same"], element=element)
    import ml_dtypes

    dtype = {"f16": np.float16, "bf16": ml_dtypes.bfloat16}[element]
    rng = np.random.default_rng(0)
    x = rng.integers(0, 5, (2, 7, 7, 3)).astype(dtype)
    source = rng.integers(-3, 4, counts).astype(dtype)
    against_xla(module, x, source, np.asarray(0).astype(dtype)).bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("select", SELECTS)
@pytest.mark.parametrize("name", ["same", "apart", "wide_padding", "looped_long"])
def test_nan_and_infinities(name: str, select: str) -> None:
    geometry = GEOMETRIES[name]
    x = np.random.default_rng(0).choice(
        np.array([np.nan, -np.inf, np.inf, 0, -0.0, 1], np.float32), geometry[0]
    )
    run(*geometry, select=select, x=x)


def test_windows_of_one_element() -> None:
    """Steps are 1 and nothing is padded where the program does not say so."""
    module, counts = text((3, 4), (1, 1), (1, 1), [(0, 0)] * 2)
    start, end = module.index("<{"), module.index("}>")
    window = "<{window_dimensions = array<i64: 1, 1>}>"
    module = module[:start] + window + module[end + 2 :]
    x, source = values((3, 4), "f32", 0), values(counts, "f32", 1)
    against_xla(module, x, source, np.float32(2)).bit_exact()


def max_pool(x: jax.Array) -> jax.Array:
    return jax.lax.reduce_window(
        x, -jnp.inf, jax.lax.max, (1, 3, 3, 1), (1, 2, 2, 1), "SAME"
    )  # fmt: skip


def test_gradient_of_max_pooling() -> None:
    x = np.random.default_rng(0).standard_normal((2, 9, 9, 4)).astype(np.float32)
    function = jax.grad(lambda y: (max_pool(y) ** 2).sum())
    program = translate(jax.jit(function).lower(x))
    assert program.verify(x).ok
