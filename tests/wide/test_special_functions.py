"""Elementary and special functions against mpmath, in units in the last place, and against XLA.

Where the error is XLA's own, of a formula that both share (it loses digits in a tail, or where it
cancels), there is no number to state: None stands for twice XLA's largest error, or 5 units.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import lax
from jax.scipy import special

import hlo2onnx
from tools.accuracy.functions import ELEMENTARY, FUNCTIONS, NOTES, SPECIAL
from tools.accuracy.grid import Interval
from tools.accuracy.measure import Error, Measurement, errors, measure

pytestmark = pytest.mark.wide

Limit = float | None

# function: ULP in f32 and in f64
ULPS: dict[str, tuple[Limit, Limit]] = {
    "acos": (3.5, 3.5),
    "acosh": (2, 2),
    "asin": (3.5, 3.5),
    "asinh": (1.5, 2),
    "atan": (1.5, 1.5),
    "atan2": (3.5, 3.5),
    "atanh": (1.5, 2),
    "bessel_i0e": (6, 7),
    "bessel_i1e": (14, 9),
    "betainc": (None, None),
    "cbrt": (1, 1),
    "cos": (1.5, None),
    "cosh": (1.5, 2.5),
    "digamma": (8, 7),
    "erf": (1, 1),
    "erf_inv": (None, None),
    "erfc": (None, None),
    "exp": (1, 1.5),
    "exp2": (None, None),
    "expm1": (None, 5),
    "igamma": (None, None),
    "igamma_grad_a": (1200, None),
    "igammac": (None, None),
    "lgamma": (25, 15),
    "log": (2.5, 1.5),
    "log1p": (2, 1.5),
    "log2": (3, 2),
    "logistic": (2, 2),
    "polygamma": (30, 35),
    "pow": (1, 1),
    "random_gamma_grad": (None, None),
    "rsqrt": (1.5, 1.5),
    "sin": (1.5, None),
    "sinh": (1.5, 2.5),
    "sqrt": (0.5, 0.5),
    "tan": (1.5, 3),
    "tanh": (None, 1.5),
    "zeta": (None, None),
}
DTYPES = (np.dtype(np.float32), np.dtype(np.float64))
HALVES = (np.dtype(np.float16), np.dtype(ml_dtypes.bfloat16))


def within(measured: Measurement, limit: Limit) -> bool:
    if limit is None:
        return measured.is_close or (measured.function, measured.dtype) in NOTES
    return measured.ours.ulps <= limit


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", ULPS)
def test_accuracy(name: str, dtype: np.dtype[Any]) -> None:
    measured = measure(FUNCTIONS[name], dtype, density=0.2)
    assert within(measured, ULPS[name][DTYPES.index(dtype)]), measured


@pytest.mark.wide
@pytest.mark.parametrize("dtype", HALVES, ids=str)
@pytest.mark.parametrize("name", ULPS)
def test_accuracy_in_half_types(name: str, dtype: np.dtype[Any]) -> None:
    """They are rounded from f32, once or as often as XLA does."""
    measured = measure(FUNCTIONS[name], dtype, density=0.15)
    assert measured.ours.ulps <= max(2 * measured.xla.ulps, 1), measured


def test_every_function_has_a_limit() -> None:
    assert {item.name for item in [*ELEMENTARY, *SPECIAL]} == ULPS.keys()
    assert {name for name, _ in NOTES} <= FUNCTIONS.keys()


# -- against XLA ---------------------------------------------------------------------------------

EDGES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, -2.0, 3.0, -3.5, 10.0, -10.0, 100.0, -100.0, 1e4,
         -1e4, np.inf, -np.inf, np.nan]  # fmt: skip
FEW_EDGES = [0.0, -0.0, 0.5, -0.5, 1.0, -1.0, 2.0, 10.0, np.inf, -np.inf, np.nan]
SKIPPED_EDGES: dict[str, Callable[..., bool]] = {
    # XLA gives NaN for the limits 1 and infinity.
    "zeta": lambda x, q: x == np.inf,
    "polygamma": lambda n, x: n == np.inf,
}


@pytest.mark.parametrize("dtype", DTYPES, ids=str)
@pytest.mark.parametrize("name", [item.name for item in SPECIAL])
def test_at_the_edges(name: str, dtype: np.dtype[Any]) -> None:
    """The same NaN and infinities as XLA, and about the same numbers."""
    function = FUNCTIONS[name]
    edges = EDGES if len(function.domain) == 1 else FEW_EDGES
    points = list(itertools.product(edges, repeat=len(function.domain)))
    skipped = SKIPPED_EDGES.get(name)
    points = [point for point in points if skipped is None or not skipped(*point)]
    arguments = [np.array(column, dtype) for column in zip(*points, strict=True)]
    with jax.enable_x64(True):
        compiled = jax.jit(function.in_jax)
        got = np.asarray(hlo2onnx.translate(compiled.lower(*arguments))(*arguments))
        want = np.asarray(compiled(*arguments))
    # Both cancel at the zeros of lgamma.
    close = {"rtol": 2e-5, "atol": 2e-6} if dtype == np.float32 else {"rtol": 1e-11, "atol": 1e-14}
    np.testing.assert_allclose(got, want, **close)


def draw(low: float, high: float) -> np.ndarray:
    return np.linspace(low, high, 48)


SOME, SMALL, ODD = draw(0.3, 5), draw(-0.9, 0.9), draw(-4.6, 4.7)

COMPOSITIONS: dict[str, tuple[Callable[..., Any], tuple[np.ndarray, ...]]] = {
    "bernoulli": (lambda: special.bernoulli(10), ()),
    "bessel_jn": (lambda x: special.bessel_jn(x, v=4), (SOME,)),
    "beta": (special.beta, (SOME, SOME[::-1])),
    "betaln": (special.betaln, (SOME, SOME[::-1])),
    "boxcox1p": (lambda x: special.boxcox1p(x, 0.3), (SOME,)),
    "comb": (lambda x: special.comb(x, 2.5), (SOME + 3,)),
    "dawsn": (special.dawsn, (ODD,)),
    "entr": (special.entr, (ODD,)),
    "erfcx": (special.erfcx, (ODD,)),
    "expit": (special.expit, (ODD,)),
    "exp1": (special.exp1, (SOME,)),
    "expi": (special.expi, (np.sign(ODD) + ODD,)),
    "expn": (lambda x: special.expn(3, x), (SOME,)),
    "factorial": (special.factorial, (SOME,)),
    "fresnel": (special.fresnel, (ODD,)),
    "gamma": (special.gamma, (ODD,)),
    "gammasgn": (special.gammasgn, (ODD,)),
    "gradient of betainc": (jax.grad(lambda x: jnp.sum(special.betainc(2.0, 3.0, x))), (SMALL**2,)),
    "gradient of erfinv": (jax.grad(lambda x: jnp.sum(special.erfinv(x))), (SMALL,)),
    "gradient of gammainc": (
        jax.grad(lambda a, x: jnp.sum(special.gammainc(a, x)), (0, 1)),
        (SOME, SOME[::-1]),
    ),
    "gradient of gammaln": (jax.grad(lambda x: jnp.sum(special.gammaln(x))), (SOME,)),
    "hyp1f1": (lambda x: special.hyp1f1(1.3, 2.5, x), (SMALL,)),
    "i0": (special.i0, (ODD,)),
    "i1": (special.i1, (ODD,)),
    "kl_div": (special.kl_div, (SOME, SOME[::-1])),
    "log_ndtr": (special.log_ndtr, (ODD,)),
    "log_sigmoid": (jax.nn.log_sigmoid, (ODD,)),
    "log_softmax": (special.log_softmax, (ODD,)),
    "loggamma": (special.loggamma, (SOME,)),
    "logit": (special.logit, (SMALL**2,)),
    "logsumexp": (lambda x: special.logsumexp(x, b=x, return_sign=True), (ODD,)),
    "logsumexp of infinities": (lambda x: special.logsumexp(x / 0, axis=0), (ODD.reshape(6, 8),)),
    "multigammaln": (lambda x: special.multigammaln(x, 3), (SOME + 2,)),
    "ndtr": (special.ndtr, (ODD,)),
    "ndtri": (special.ndtri, (SMALL**2,)),
    "owens_t": (special.owens_t, (SOME, SMALL)),
    "poch": (special.poch, (SOME, SOME)),
    "rel_entr": (special.rel_entr, (SOME, SOME[::-1])),
    "sici": (special.sici, (SOME,)),
    "softmax": (special.softmax, (ODD,)),
    "spence": (special.spence, (SOME,)),
    "sph_harm_y": (
        lambda x, y: special.sph_harm_y(np.array([2]), np.array([1]), x, y, n_max=3),
        (SOME[:1], SMALL[:1]),
    ),
    "wofz": (lambda x: special.wofz(x + 1j * x), (SOME,)),
    "xlog1py": (special.xlog1py, (SOME, SMALL)),
    "nextafter": (jnp.nextafter, (SMALL, ODD)),
    "random_gamma_grad": (lax.random_gamma_grad, (SOME, SOME[::-1])),
}


@pytest.mark.parametrize(
    "wide", [False, pytest.param(True, marks=pytest.mark.wide)], ids=["f32", "f64"]
)
@pytest.mark.parametrize("name", COMPOSITIONS)
def test_compositions(name: str, wide: bool) -> None:
    function, arrays = COMPOSITIONS[name]
    with jax.enable_x64(wide):
        given = [np.asarray(x, np.float64 if wide else np.float32) for x in arrays]
        verification = hlo2onnx.translate(jax.jit(function).lower(*given)).verify(*given)
    assert verification.ok, f"{verification}"


@pytest.mark.wide
@pytest.mark.parametrize("wide", [False, True], ids=["f32", "f64"])
def test_hypergeometric_function(wide: bool) -> None:
    """Three thousand nodes."""
    with jax.enable_x64(wide):
        x = np.asarray(SMALL, np.float64 if wide else np.float32)
        compiled = jax.jit(lambda x: special.hyp2f1(0.7, 1.3, 2.4, x))
        assert hlo2onnx.translate(compiled.lower(x)).verify(x).ok


# -- how it is measured --------------------------------------------------------------------------


def test_a_grid_reaches_the_ends_and_the_neighbours_of_special_places() -> None:
    dtype = np.dtype(np.float32)
    points = Interval(-2, 3, special=(1,)).points(dtype, 200)
    assert (points[0], points[-1]) == (-2, 3)
    assert np.nextafter(np.float32(1), np.float32(2)) in points
    assert 0 < np.min(np.abs(points[points != 0])) < 1.2e-38
    assert Interval(-np.inf, np.inf).points(dtype, 50)[-1] == np.finfo(dtype).max
    assert list(Interval(1, 4, whole=True).points(dtype, 100)) == [1, 2, 3, 4]


def test_errors_are_counted_in_units_of_the_truth() -> None:
    unit = np.float32(2**-23)
    got = np.array([1 + unit, 2, np.nan, 1e-42, np.inf], np.float32)
    exact = np.array([1, 2 + 2 * unit, 1, 1e-41, 1e39], np.longdouble)
    assert list(errors(got, exact)) == [1, 1, np.inf, 0, 0]
    assert list(errors(got[:1], exact[:1], floor=8)) == [0.125]


def test_an_error_is_close_to_xlas_up_to_twice_that_or_five_units() -> None:
    def close(ours: float, xla: float) -> bool:
        return Measurement("sin", "float32", 1, Error(ours, (0,)), Error(xla, (0,))).is_close

    assert close(5, 0.5)
    assert close(19, 10)
    assert not close(5.1, 2)
