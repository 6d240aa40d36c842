"""The weights of interpolations, and the Resize that has them."""

from __future__ import annotations

import jax
import numpy as np
import pytest

from hlo2onnx.raising.rules.nn.resize_modes import (
    CUBIC,
    LINEAR,
    LINEAR_ANTIALIASED,
    NEAREST,
    Mode,
    index_modes,
    interpolation,
    is_resampling,
    weight_modes,
)


@pytest.mark.parametrize("sizes", [(4, 8), (8, 4), (6, 9), (9, 3)])
@pytest.mark.parametrize(
    ("mode", "method", "antialias"),
    [
        (LINEAR, "linear", False),
        (LINEAR_ANTIALIASED, "linear", True),
        (CUBIC, "cubic", True),
    ],
)
def test_interpolation(mode: Mode, method: str, antialias: bool, sizes: tuple[int, int]) -> None:
    """The weights are what jax.image.resize makes of the unit vectors."""
    before, after = sizes
    eye = np.eye(before, dtype=np.float32)
    want = jax.image.resize(eye, sizes, method, antialias=antialias)
    np.testing.assert_allclose(interpolation(mode, before, after), want, atol=3e-7)
    assert mode in weight_modes(np.asarray(want)) or before == 9 or after == 9


def test_attributes_and_keys() -> None:
    half = {"coordinate_transformation_mode": "half_pixel"}
    outside = {"antialias": 1, "exclude_outside": 1}
    expected = {
        NEAREST: ("Resize", {"mode": "nearest", "nearest_mode": "round_prefer_ceil"}),
        LINEAR: ("Resize[linear]", {"mode": "linear"}),
        LINEAR_ANTIALIASED: ("Resize[linear,antialias=1]", {"mode": "linear", **outside}),
        CUBIC: (
            "Resize[cubic,antialias=1]",
            {"mode": "cubic", "cubic_coeff_a": -0.5, **outside},
        ),
    }
    for mode, (key, attributes) in expected.items():
        assert (mode.key, mode.attributes) == (key, attributes | half)
        assert mode.is_plain_linear == (mode is LINEAR)


def test_how_far_weights_may_be() -> None:
    weights = interpolation(LINEAR, 8, 16)
    assert weight_modes(weights + 0.7e-6)
    assert not weight_modes(weights + 1.4e-6)
    assert is_resampling(weights + 0.8e-5) and not is_resampling(weights + 2e-5)
    late = weights.copy()
    late[:, -1] *= 2
    assert not is_resampling(late)


@pytest.mark.parametrize(
    ("before", "after", "is_known"),
    [(8, 16, True), (8, 4, True), (4, 12, True), (12, 4, True), (2, 3, False), (1, 3, True),
     (10, 15, False), (3, 7, True), (7, 3, True), (224, 150, False)],
)  # fmt: skip
def test_modes_of_indices(before: int, after: int, is_known: bool) -> None:
    """Unknown where f32 does not tell on which side of the next element a coordinate is."""
    index = np.floor((np.arange(after) + 0.5) * before / after).astype(np.int64)
    assert index_modes(index, before) == ((NEAREST,) if is_known else ())
    other = index.copy()
    other[-1] -= 1
    assert not index_modes(other, before)
