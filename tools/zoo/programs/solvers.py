"""Differential equations, solvers, quadrature, interpolation, optimal transport."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


def _spd(size: int) -> jax.Array:
    a = normal(size, size)
    return a @ a.T + size * jnp.eye(size)


@program("diffrax")
def diffrax_kvaerno5() -> Built:
    """Kvaerno5, implicit, on Robertson's stiff reaction."""
    import diffrax

    def robertson(t, y, args):
        a, b, c = y
        f0 = -0.04 * a + 1e4 * b * c
        f2 = 3e7 * b**2
        return jnp.stack([f0, -f0 - f2, f2])

    def solve(y0):
        return diffrax.diffeqsolve(
            diffrax.ODETerm(robertson),
            diffrax.Kvaerno5(),
            0.0,
            1.0,
            2e-4,
            y0,
            stepsize_controller=diffrax.PIDController(rtol=1e-4, atol=1e-6),
            max_steps=256,
        ).ys

    return solve, (jnp.asarray([1.0, 0.0, 0.0]),)


@program("diffrax")
def diffrax_neural_ode_gradient() -> Built:
    """The gradient of a neural ODE's loss, backwards through checkpointed steps."""
    import diffrax
    import equinox as eqx

    field = eqx.nn.MLP(2, 2, 16, 1, jax.nn.softplus, key=jax.random.PRNGKey(0))
    params, static = eqx.partition(field, eqx.is_array)

    def loss(params, y0, target):
        field = eqx.combine(params, static)
        solution = diffrax.diffeqsolve(
            diffrax.ODETerm(lambda t, y, args: field(y)),
            diffrax.Heun(),
            0.0,
            1.0,
            0.1,
            y0,
            max_steps=16,
        )
        return jnp.sum((solution.ys[-1] - target) ** 2)

    return jax.value_and_grad(loss), (params, jnp.ones(2), jnp.zeros(2))


@program("diffrax")
def diffrax_sde_step() -> Built:
    """Brownian motion, Euler-Heun, on a virtual Brownian tree; the step is an argument."""
    import diffrax

    def solve(step, key, y0):
        noise = diffrax.VirtualBrownianTree(0.0, 1.0, tol=1e-2, shape=y0.shape, key=key)
        terms = diffrax.MultiTerm(
            diffrax.ODETerm(lambda t, y, args: 0.1 * y),
            diffrax.ControlTerm(lambda t, y, args: jnp.diag(0.3 * y), noise),
        )
        return diffrax.diffeqsolve(terms, diffrax.EulerHeun(), 0.0, 1.0, step, y0).ys

    return solve, (jnp.float32(0.05), jax.random.PRNGKey(0), jnp.ones(2))


@program("optimistix")
def optimistix_bfgs() -> Built:
    """BFGS on the Rosenbrock function."""
    import optimistix as optx

    def loss(y, _):
        return jnp.sum(100 * (y[1:] - y[:-1] ** 2) ** 2 + (1 - y[:-1]) ** 2)

    solver = optx.BFGS(rtol=1e-4, atol=1e-4)
    return (
        lambda y: optx.minimise(loss, solver, y, max_steps=128, throw=False).value,
        (jnp.asarray([0.8, 0.9, 0.7]),),
    )


@program("lineax")
def lineax_direct() -> Built:
    """LU, QR, SVD, Cholesky and tridiagonal solvers beside each other."""
    import lineax as lx

    def solve(a, b):
        plain = lx.MatrixLinearOperator(a)
        tall = lx.MatrixLinearOperator(a[:, :5])
        spd = lx.MatrixLinearOperator(a @ a.T, lx.positive_semidefinite_tag)
        d = jnp.diag(a)
        banded = lx.TridiagonalLinearOperator(4 + d, d[1:], d[:-1])
        return (
            lx.linear_solve(plain, b, lx.LU()).value,
            lx.linear_solve(tall, b, lx.QR()).value,
            lx.linear_solve(plain, b, lx.SVD()).value,
            lx.linear_solve(spd, b, lx.Cholesky()).value,
            lx.linear_solve(banded, b, lx.Tridiagonal()).value,
        )

    return solve, (normal(8, 8) + 4 * jnp.eye(8), normal(8, seed=1))


@program("jaxopt", sample=True)
def jaxopt_lbfgs() -> Built:
    """Logistic regression by L-BFGS with its zoom line search, 20 iterations."""
    import jaxopt

    def loss(w, x, y):
        return jnp.mean(jnp.logaddexp(0.0, -y * (x @ w))) + 1e-3 * jnp.sum(w**2)

    solver = jaxopt.LBFGS(loss, maxiter=20, tol=1e-3, implicit_diff=False)
    x = normal(64, 8)
    y = jnp.sign(x @ normal(8, seed=1) + 0.5 * normal(64, seed=2))
    return lambda w, x, y: solver.run(w, x, y).params, (jnp.zeros(8), x, y)


@program("quadax", sample=True)
def quadax_quadgk() -> Built:
    """Adaptive Gauss-Kronrod quadrature of a function with a parameter."""
    import quadax

    def integral(a, interval):
        value, info = quadax.quadgk(
            lambda x, a: jnp.exp(-a * x) * jnp.cos(5 * x), interval, (a,), epsabs=1e-4, epsrel=1e-4
        )
        return value, info.err

    return integral, (jnp.float32(0.5), jnp.asarray([0.0, 3.0]))


@program("interpax", sample=True)
def interpax_splines() -> Built:
    """Cubic, Akima and monotonic splines of one curve, with derivatives."""
    import interpax

    def interpolate(xq, x, f):
        kinds = ("cubic", "cubic2", "akima", "monotonic", "cardinal")
        return [interpax.interp1d(xq, x, f, kind, d) for kind in kinds for d in (0, 1)]

    x = jnp.linspace(0, 1, 12)
    return interpolate, (jnp.linspace(0.01, 0.99, 40), x, jnp.sin(6 * x))


@program("ott-jax")
def ott_sorting() -> Built:
    """Soft sorting, ranking and quantiles."""
    from ott.tools import soft_sort

    def sort(x):
        return soft_sort.sort(x), soft_sort.ranks(x), soft_sort.quantile(x, jnp.asarray([0.3, 0.5]))

    return sort, (normal(24),)


@program("matfree")
def matfree_log_determinant() -> Built:
    """Stochastic Lanczos quadrature of a log-determinant."""
    from matfree import decomp, funm, stochtrace

    def estimate(a, key):
        tridiag = decomp.tridiag_sym(6)
        integrand = funm.monte_carlo_funm_sym_logdet(tridiag)
        sampler = stochtrace.sampler_signs(jnp.ones(a.shape[0]), num=8)
        estimator = stochtrace.estimator_monte_carlo(integrand, sampler=sampler)
        return estimator(lambda v: a @ v, key)

    return estimate, (_spd(16), jax.random.PRNGKey(0))


def _places(count: int, seed: int) -> jax.Array:
    """Numbers between 0 and 1."""
    return jnp.asarray(np.random.default_rng(seed).uniform(size=count), jnp.float32)


@program("interpax")
def interpax_image() -> Built:
    """A surface on a grid of 200 × 256 points, interpolated linearly at 50,000 places."""
    import interpax

    x, y = jnp.linspace(0, 1, 200), jnp.linspace(0, 1, 256)

    def surface(xq, yq, heights):
        return interpax.interp2d(xq, yq, x, y, heights, method="linear")

    return surface, (_places(50_000, 0), _places(50_000, 1), normal(200, 256))


@program("interpax")
def interpax_signal() -> Built:
    """A signal of 1,000 samples, interpolated linearly at 200,000 places in no order."""
    import interpax

    known = jnp.linspace(0, 1, 1000)

    def signal(places, samples):
        return interpax.interp1d(places, known, samples, method="linear")

    return signal, (_places(200_000, 2), normal(1000))
