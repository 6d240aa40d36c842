"""reduce_window on NaN and -inf under the three policies."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from mlir_text import tensor
from window_case import FLOATS, Case, like, values

POOL = Case([1, 2, 6, 6], [1, 1, 2, 2], stride=[1, 1, 2, 2])
POLICIES = ("default", "xla", "runtime")


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("region", ["maximum", "minimum"])
@pytest.mark.parametrize("element", FLOATS)
def test_policies_agree_on_numbers(element: str, region: str, policy: str) -> None:
    case = like(POOL, element=element, region=region)
    x = values(case)
    x[0, 0, 0, 0], x[0, 1, 1, 1], x[0, 0, 3, 3] = -np.inf, np.inf, -0.0
    run = case.run(x, nan=policy).bit_exact()
    assert bool(run.nodes["MaxPool"]) == (policy != "xla")
    assert bool(run.program.report.notes) == (policy == "default")


@pytest.mark.parametrize("region", ["maximum", "minimum"])
def test_xla_policy_lets_nan_win_and_keeps_infinity(region: str) -> None:
    case = like(POOL, region=region)
    x = values(case)
    x[0, 0, :2, :2] = -np.inf
    x[0, 0, 2:4, :2] = np.inf
    x[0, 1, 4, 5] = np.nan
    case.run(x, nan="xla").bit_exact().has_no("MaxPool")


@pytest.mark.parametrize("policy", POLICIES)
def test_a_finite_init_covers_infinite_windows(policy: str) -> None:
    case = like(POOL, region="maximum", init="-3.0")
    x = values(case)
    x[0, 0, :2, :2] = -np.inf
    case.run(x, nan=policy).bit_exact()


@pytest.mark.parametrize("policy", POLICIES)
def test_pooling_what_has_no_nan_is_plain_and_without_note(policy: str) -> None:
    wide, narrow = tensor(POOL.shape, "f32"), tensor(POOL.shape, "ui8")
    convert = f"%x = stablehlo.convert %arg0 : ({narrow}) -> {wide}"
    text = like(POOL, region="maximum").text.replace(f"%arg0: {wide}", f"%arg0: {narrow}")
    text = text.replace("%init0 =", f"{convert}\n  %init0 =").replace('"(%arg0', '"(%x')
    run = against_xla(text, nan=policy).bit_exact()
    run.graph_is("Cast", "MaxPool")
    assert not run.program.report.notes


@pytest.mark.parametrize("policy", POLICIES)
def test_scans_let_nan_win_whatever_the_policy(policy: str) -> None:
    case = Case([9], [9], padding=[(8, 0)], region="maximum")
    x = np.array([-np.inf, -np.inf, 1, -np.inf, np.nan, 2, np.inf, 0, 1], np.float32)
    case.run(x, nan=policy).bit_exact()
