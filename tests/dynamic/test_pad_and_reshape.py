"""Pads by symbolic amounts, and reshapes back to the shape of an earlier value."""

from __future__ import annotations

import jax
import pytest
from every_size import every_size
from jax import lax

from hlo2onnx import TranslationError


def test_pads_by_extents() -> None:
    def padded(x: jax.Array) -> jax.Array:
        n = x.shape[0]
        return lax.pad(x, 2.0, ((n, 1, 0), (0, 2 * n, 0), (1, 2, 3)))

    every_size(padded, "n, m, 3", sizes=(1, 3))


def test_gaps_beside_symbolic_pads() -> None:
    """One axis with gaps, another one padded by an extent: each is fine alone."""
    every_size(lambda x: lax.pad(x, 2.0, ((1, 2, 2), (x.shape[0], 0, 0))), "n, 3", sizes=(1, 3))
    with pytest.raises(TranslationError, match="an axis with interior padding"):
        every_size(lambda x: lax.pad(x, 2.0, ((x.shape[0], 0, 2), (0, 0, 0))), "n, 3")


def test_an_added_axis_that_is_dropped_again() -> None:
    program = every_size(lambda x: x[:, None].reshape(x.shape[0]), "n", sizes=(1, 3))
    assert program.report.nodes["Reshape"] == 0
    every_size(lambda x: x[:, None].reshape(2, x.shape[0] // 2), "2*n", sizes=(1, 3))
    every_size(lambda x: x[:, None].reshape(x.shape[0] * 3), "n, 3", sizes=(1, 3))
