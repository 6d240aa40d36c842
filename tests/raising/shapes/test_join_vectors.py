"""Reshapes of many small inputs, which are joined, and look-alikes."""

from __future__ import annotations

from collections.abc import Sequence

import jax
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from target_costs import with_costs
from verified import nodes

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.shapes.join_vectors import FEWEST, JoinVectorReshapes

Value = oir.Value
Shape = tuple[int, ...]


def vectors(shapes: Sequence[Shape], dtype: type = np.float32) -> dict[str, np.ndarray]:
    return {f"v{n}": np.full(shape, n + 1, dtype) for n, shape in enumerate(shapes)}


def reshaped(b: GraphBuilder, dims: Sequence[Shape], **values: Value) -> list[Value]:
    return [
        b.Neg(b.op("Reshape", x, b.i64(list(shape))))
        for x, shape in zip(values.values(), dims, strict=True)
    ]


def run(before: Sequence[Shape], after: Sequence[Shape], **costs: int) -> Rewrite:
    return Rewrite(
        lambda b, **values: reshaped(b, after, **values),
        vectors(before),
        JoinVectorReshapes(),
        target=with_costs(**costs) if costs else None,
    )


SIZES = [2, 5, 3, 1000, 2, 7, 4]
FORMS = {
    "haiku's": [lambda n: (1, 1, 1, n), lambda n: (n,)],
    "flax'": [lambda n: (n,), lambda n: (1, n, 1, 1)],
    "columns": [lambda n: (n, 1), lambda n: (1, n)],
}


@pytest.mark.parametrize("name", FORMS)
def test_vectors_are_joined(name: str) -> None:
    before, after = ([form(n) for n in SIZES] for form in FORMS[name])
    run(before, after).gives("Concat", "Reshape", "Split", *["Neg"] * FEWEST)


FEW = SIZES[1:]
LOOK_ALIKES = {
    "one fewer": ([(1, n) for n in FEW], [(n,) for n in FEW]),
    "one is a matrix": ([*((1, n) for n in FEW), (2, 3)], [*((n,) for n in FEW), (6,)]),
    "one has another axis": ([*((1, n) for n in FEW), (6, 1)], [*((n,) for n in FEW), (6,)]),
    "one goes elsewhere": ([*((1, n) for n in FEW), (1, 6)], [*((n,) for n in FEW), (6, 1)]),
    "one has one element": ([*((1, n) for n in FEW), (1, 1)], [*((n,) for n in FEW), (1,)]),
}


@pytest.mark.parametrize("name", LOOK_ALIKES)
def test_look_alikes(name: str) -> None:
    run(*LOOK_ALIKES[name]).nothing()


def test_large_vectors_stay() -> None:
    before, after = [(1, n) for n in SIZES], [(n,) for n in SIZES]
    run(before, after, copied_elements_per_node=999).nothing()
    assert run(before, after, copied_elements_per_node=1000).fired


def test_types_are_joined_apart() -> None:
    inputs = vectors([(1, 2)] * 10)
    inputs |= {f"w{n}": np.full((1, 3), n, np.int32) for n in range(10)}

    def build(b: GraphBuilder, **values: Value) -> list[Value]:
        return reshaped(b, [(2,)] * 10 + [(3,)] * 10, **values)

    rewrite = Rewrite(build, inputs, JoinVectorReshapes())
    assert rewrite.nodes["Concat"] == rewrite.nodes["Split"] == 2


@pytest.mark.parametrize("kind", ["computed", "output"])
def test_what_is_no_parameter(kind: str) -> None:
    """Values that nodes compute exist too late; outputs keep their nodes."""

    def build(b: GraphBuilder, **values: Value) -> list[Value]:
        if kind == "computed":
            return reshaped(b, [(2,)] * 9, **{name: b.Abs(x) for name, x in values.items()})
        return [b.op("Reshape", x, b.i64([2])) for x in values.values()]

    Rewrite(build, vectors([(1, 2)] * 9), JoinVectorReshapes()).nothing()


def test_statistics_of_haiku() -> None:
    """Four parameters of shape (1, 1, 1, c) for each of two batch normalizations."""
    rng = np.random.default_rng(0)
    shapes = [(1, 1, 1, 4)] * 8
    weights = [rng.uniform(0.5, 1, shape).astype(np.float32) for shape in shapes]
    kernel = rng.normal(size=(3, 3, 4, 4)).astype(np.float32)
    x = rng.normal(size=(1, 6, 6, 4)).astype(np.float32)

    def network(weights: list[jax.Array], kernel: jax.Array, x: jax.Array) -> jax.Array:
        for scale, offset, mean, variance in (weights[:4], weights[4:]):
            x = jax.lax.conv_general_dilated(
                x, kernel, (1, 1), "SAME", dimension_numbers=("NHWC", "HWIO", "NHWC")
            )
            x = (x - mean) * (scale * jax.lax.rsqrt(variance + 1e-5)) + offset
        return x

    found = nodes(network, weights, kernel, x)
    assert (found["BatchNormalization"], found["Reshape"], found["Split"]) == (2, 1, 1)
