"""The functions, and the domains on which they are measured."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import jax.numpy as jnp
from jax import lax
from jax.scipy import special
from mpmath import mp

from tools.accuracy import exact
from tools.accuracy.exact import Exact, precise
from tools.accuracy.grid import Interval

INFINITE = math.inf


@dataclass(frozen=True)
class Function:
    """A function to measure.

    Attributes:
        name: Of the function.
        in_jax: Takes and returns arrays.
        exact: Takes and returns numbers of mpmath.
        domain: One interval an argument.
        points: About how many.
        floor: Results below this magnitude have the units in the last place of numbers of this
            one: for functions whose very formula cancels near their zeros, in XLA too.
    """

    name: str
    in_jax: Callable[..., Any]
    exact: Exact
    domain: Sequence[Interval]
    points: int = 600
    floor: float = 0.0

    def __str__(self) -> str:
        return "; ".join(map(str, self.domain))


def _f(
    name: str,
    in_jax: Callable[..., Any],
    exact_: Exact,
    *domain: Interval,
    points: int = 600,
    floor: float = 0.0,
) -> Function:
    return Function(name, in_jax, exact_, domain, points, floor)


REAL = Interval(-INFINITE, INFINITE)
POSITIVE = Interval(0, INFINITE, (1,))
UNIT = Interval(-1, 1)

ELEMENTARY = [
    _f("acos", jnp.arccos, mp.acos, UNIT),
    _f("acosh", jnp.arccosh, mp.acosh, Interval(1, INFINITE)),
    _f("asin", jnp.arcsin, mp.asin, UNIT),
    _f("asinh", jnp.arcsinh, mp.asinh, REAL),
    _f("atan", jnp.arctan, mp.atan, REAL),
    _f("atan2", jnp.arctan2, mp.atan2, REAL, REAL, points=1500),
    _f("atanh", jnp.arctanh, mp.atanh, UNIT),
    _f("cbrt", jnp.cbrt, exact.cbrt, REAL),
    _f("cos", jnp.cos, precise(mp.cos), Interval(-INFINITE, INFINITE, (math.pi / 2, 11.0))),
    _f("cosh", jnp.cosh, mp.cosh, Interval(-700, 700)),
    _f("exp", jnp.exp, mp.exp, Interval(-745, 709.5)),
    _f("exp2", jnp.exp2, partial(mp.power, 2), Interval(-1074, 1023.5)),
    _f("expm1", jnp.expm1, mp.expm1, Interval(-745, 709.5)),
    _f("log", jnp.log, mp.log, POSITIVE),
    _f("log1p", jnp.log1p, mp.log1p, Interval(-1, INFINITE)),
    _f("log2", jnp.log2, partial(mp.log, b=2), POSITIVE),
    _f("logistic", lax.logistic, lambda x: 1 / (1 + mp.exp(-x)), Interval(-745, 745)),
    _f("pow", jnp.power, operator.pow, POSITIVE, Interval(-30, 30), points=1500),
    _f("rsqrt", lax.rsqrt, lambda x: 1 / mp.sqrt(x), POSITIVE),
    _f("sin", jnp.sin, precise(mp.sin), Interval(-INFINITE, INFINITE, (math.pi, 22.0))),
    _f("sinh", jnp.sinh, mp.sinh, Interval(-700, 700)),
    _f("sqrt", jnp.sqrt, mp.sqrt, POSITIVE),
    _f("tan", jnp.tan, precise(mp.tan), Interval(-INFINITE, INFINITE, (math.pi / 2,))),
    _f("tanh", jnp.tanh, precise(mp.tanh), REAL),
]
SPECIAL = [
    _f("bessel_i0e", special.i0e, partial(exact.bessel_ie, 0), Interval(-1e4, 1e4, (8,))),
    _f("bessel_i1e", special.i1e, partial(exact.bessel_ie, 1), Interval(-1e4, 1e4, (8,))),
    _f("betainc", special.betainc, lambda a, b, x: mp.betainc(a, b, 0, x, regularized=True),
       Interval(0.1, 50), Interval(0.1, 50), Interval(0, 1, least=1e-6), points=1200),
    _f("digamma", special.digamma, exact.digamma, Interval(-20.4, INFINITE, (1.46163214496836,)),
       floor=1),
    _f("erf", special.erf, mp.erf, REAL),
    _f("erf_inv", special.erfinv, exact.erf_inv, UNIT),
    _f("erfc", special.erfc, mp.erfc, Interval(-27, 27)),
    _f("igamma", special.gammainc, exact.igamma, Interval(0.05, 200), Interval(0, 300, least=1e-4),
       points=1200),
    _f("igamma_grad_a", lax.igamma_grad_a, exact.igamma_grad_a, Interval(0.1, 100),
       Interval(0, 150, least=1e-3), points=400),
    _f("igammac", special.gammaincc, exact.igammac, Interval(0.05, 200),
       Interval(0, 300, least=1e-4), points=1200),
    _f("lgamma", special.gammaln, exact.lgamma, Interval(-20.4, INFINITE, (1, 2)), floor=1),
    _f("polygamma", lambda n, x: special.polygamma(n.astype(jnp.int32), x),
       lambda n, x: mp.psi(int(n), x), Interval(1, 6, whole=True), Interval(0.01, 1000)),
    _f("random_gamma_grad", lax.random_gamma_grad, exact.random_gamma_grad, Interval(0.1, 100),
       Interval(0, 150, least=1e-3), points=400),
    _f("zeta", special.zeta, mp.zeta, Interval(1.01, 40), Interval(0.05, 1000), points=1200),
]  # fmt: skip

FUNCTIONS: dict[str, Function] = {item.name: item for item in [*ELEMENTARY, *SPECIAL]}

_ZEROS = "the runtime's kernel is within 5e-16, but near a zero of the function, too"
_TANH = "the runtime's Tanh loses digits below 2e-36, where it computes with denormal numbers"
NOTES: dict[tuple[str, str], str] = {
    ("cos", "float64"): _ZEROS,
    ("sin", "float64"): _ZEROS,
    ("tanh", "float32"): _TANH,
    ("expm1", "float32"): _TANH,
    ("polygamma", "float64"): "exp(lgamma(n)), where log is within 1 unit, in XLA within 1/2",
}
"""Why an error is larger than twice XLA's and 5 units, where it is."""
