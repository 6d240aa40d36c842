"""The examples that analyse and generate images: the operators that each one is about."""

from __future__ import annotations

from collections.abc import Mapping

import jax
import numpy as np
import pytest
from example_graphs import EXAMPLES, nodes, translated
from gallery import relative_error

from hlo2onnx.report import FIXED_KEY

LARGER: list[tuple[str, Mapping[str, int]]] = [
    ("diffusion", {"steps": 9}),
    ("pca", {"samples": 31, "points": 7}),
    ("vae", {"batch": 9}),
]


@pytest.mark.wide
@pytest.mark.parametrize(("name", "sizes"), LARGER, ids=[name for name, _ in LARGER])
def test_no_node_for_a_step_or_a_sample(name: str, sizes: Mapping[str, int]) -> None:
    with EXAMPLES[name].types():
        assert nodes(name, **sizes) == nodes(name)


@pytest.mark.wide
@pytest.mark.parametrize("name", ["diffusion", "vae"])
def test_the_key_is_data(name: str) -> None:
    """Every key draws what it draws in JAX, and no other key the same."""
    function, args = EXAMPLES[name].build(**EXAMPLES[name].small)
    program = translated(name)
    assert FIXED_KEY not in program.report.notes
    drawn = []
    for seed in (1, 2):
        keyed = (args[0], np.asarray(jax.random.PRNGKey(seed)), args[2])
        got = program(*keyed)
        assert relative_error(jax.jit(function)(*keyed), got) <= EXAMPLES[name].tolerance
        drawn.append(jax.tree.leaves(got)[0])
    assert abs(drawn[0] - drawn[1]).max() > 1e-3


@pytest.mark.wide
def test_components_are_those_of_the_covariance() -> None:
    """Whitened coordinates of the samples themselves have unit variance and no correlation."""
    with EXAMPLES["pca"].types():
        _, (samples, _) = EXAMPLES["pca"].build(**EXAMPLES["pca"].small)
        program = translated("pca", samples=20, points=20)
        coordinates, lost = program(samples, samples)
    covariance = np.cov(coordinates.T)
    np.testing.assert_allclose(covariance, np.eye(len(covariance)), atol=1e-9)
    variances = np.linalg.eigvalsh(np.cov(np.asarray(samples).T))[: -len(covariance)]
    np.testing.assert_allclose(lost.sum() / (len(samples) - 1), variances.sum(), rtol=1e-9)
