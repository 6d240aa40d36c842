"""Programs that amplify rounding errors."""

from __future__ import annotations

import numpy as np

from hlo2onnx.verification.sensitivity import movements


def logistic(arrays: list[np.ndarray], steps: int) -> list[np.ndarray]:
    (x,) = arrays
    for _ in range(steps):
        x = np.float32(3.9) * x * (1 - x)
    return [x]


X = np.linspace(0.1, 0.9, 64, dtype=np.float32)


def test_a_chaotic_program_moves_as_much_as_its_results() -> None:
    (moved,) = movements(lambda a: logistic(a, 60), [X], logistic([X], 60)) or [None]
    assert moved is not None
    assert np.median(moved) > 0.1


def test_a_tame_program_moves_by_roundings() -> None:
    (moved,) = movements(lambda a: logistic(a, 1), [X], logistic([X], 1)) or [None]
    assert moved is not None
    assert moved.max() < 2e-5


def test_without_floats_nothing_is_known() -> None:
    integers = np.arange(3)
    assert movements(lambda a: [a[0]], [integers], [integers]) is None
