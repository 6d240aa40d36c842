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


def cbrt(x: mpf) -> mpf:
    return mp.sign(x) * mp.cbrt(abs(x))
