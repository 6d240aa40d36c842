"""Exact values by mpmath, with many more digits than f64 has."""

from __future__ import annotations

from collections.abc import Callable

import mpmath
from mpmath import mp, mpf

Exact = Callable[..., mpf]

DIGITS = 40
"""Decimal digits of every evaluation; functions that lose some ask for more."""


def with_digits(digits: int) -> Callable[[Exact], Exact]:
    """Evaluates a function with more digits."""

    def decorate(function: Exact) -> Exact:
        def evaluate(*arguments: mpf) -> mpf:
            with mp.workdps(digits):
                return function(*arguments)

        return evaluate

    return decorate


precise = with_digits(400)


def erf_inv(x: mpf) -> mpf:
    return mpmath.erfinv(x) if abs(x) < 1 else mp.inf * x


@with_digits(60)
def erfc_inv(x: mpf) -> mpf:
    """Newton's method from the leading term, on the logarithm, which is nearly a parabola."""
    if x <= 0 or x >= 2:
        return mp.inf if x == 0 else -mp.inf if x == 2 else mp.nan
    if x > 0.5:
        return mpmath.erfinv(1 - x)
    target = mp.log(x)
    y = mp.sqrt(-target)
    for _ in range(60):
        value = mp.erfc(y)
        step = (mp.log(value) - target) * value / (2 / mp.sqrt(mp.pi) * mp.exp(-y * y))
        y += step
        if abs(step) < mpf(10) ** -50 * abs(y):
            break
    return y


def ndtri(p: mpf) -> mpf:
    return -mp.sqrt(2) * erfc_inv(2 * p)


def log_ndtr(x: mpf) -> mpf:
    return mp.log1p(-mp.erfc(x / mp.sqrt(2)) / 2) if x > 0 else mp.log(mp.ncdf(x))


def lgamma(x: mpf) -> mpf:
    """log |gamma(x)|, by reflection on the left, where gamma alternates."""
    if x > 0:
        return mp.loggamma(x)
    if x == mp.floor(x):
        return mp.inf
    return mp.log(mp.pi / abs(mp.sinpi(x))) - mp.loggamma(1 - x)


def digamma(x: mpf) -> mpf:
    return mp.nan if x <= 0 and x == mp.floor(x) else mp.digamma(x)


def igamma(a: mpf, x: mpf) -> mpf:
    return mp.gammainc(a, 0, x, regularized=True)


def igammac(a: mpf, x: mpf) -> mpf:
    return mp.gammainc(a, x, mp.inf, regularized=True)


@with_digits(60)
def igamma_grad_a(a: mpf, x: mpf) -> mpf:
    """The derivative by a, as a symmetric difference."""
    step = mpf(10) ** -20 * a
    return (igamma(a + step, x) - igamma(a - step, x)) / (2 * step)


@with_digits(60)
def random_gamma_grad(a: mpf, x: mpf) -> mpf:
    """How a sample x of the gamma distribution changes with a."""
    density = mp.exp((a - 1) * mp.log(x) - x - mp.loggamma(a))
    return -igamma_grad_a(a, x) / density


def bessel_ie(order: int, x: mpf) -> mpf:
    return mp.besseli(order, x) * mp.exp(-abs(x))


def xlogy(x: mpf, y: mpf) -> mpf:
    return mpf(0) if x == 0 else x * mp.log(y)


def xlog1py(x: mpf, y: mpf) -> mpf:
    return mpf(0) if x == 0 else x * mp.log1p(y)


def kl_div(p: mpf, q: mpf) -> mpf:
    return p * mp.log(p / q) - p + q


@precise
def log_sigmoid(x: mpf) -> mpf:
    return -mp.log1p(mp.exp(-x))


@precise
def softplus(x: mpf) -> mpf:
    return mp.log1p(mp.exp(x))


@with_digits(60)
def erfcx(x: mpf) -> mpf:
    return mp.exp(x * x) * mp.erfc(x)


def dawsn(x: mpf) -> mpf:
    if abs(x) > 50:
        square = 1 / (2 * x * x)
        return (1 + square * (1 + 3 * square * (1 + 5 * square * (1 + 7 * square)))) / (2 * x)
    with mp.workdps(60):
        return mp.sqrt(mp.pi) / 2 * mp.exp(-x * x) * mp.erfi(x)


def boxcox(x: mpf, power: mpf) -> mpf:
    return mp.log(x) if power == 0 else mp.expm1(power * mp.log(x)) / power


def cbrt(x: mpf) -> mpf:
    return mp.sign(x) * mp.cbrt(abs(x))
