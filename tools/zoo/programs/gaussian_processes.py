"""Gaussian processes."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


@program(
    "tinygp",
    sample=True,
    tolerance=2e-5,
    reason="variances that are differences: XLA itself is 4.6e-3 off an evaluation in f64",
)
def tinygp_regression() -> Built:
    """A Gaussian process with a sum of kernels: likelihood, gradient, predictions."""
    import tinygp

    def process(params, x):
        kernel = jnp.exp(params["a"]) * tinygp.kernels.Matern32(jnp.exp(params["s"]))
        kernel += tinygp.kernels.ExpSineSquared(scale=1.5, gamma=jnp.exp(params["g"]))
        return tinygp.GaussianProcess(kernel, x, diag=0.1)

    def infer(params, x, y, at):
        loss, gradient = jax.value_and_grad(lambda p: -process(p, x).log_probability(y))(params)
        found = process(params, x).condition(y, at).gp
        return loss, gradient, found.loc, found.variance

    x = jnp.linspace(0, 5, 20)
    params = {name: jnp.float32(0.1) for name in "asg"}
    return infer, (params, x, jnp.sin(x) + 0.1 * normal(20), jnp.linspace(0, 5, 7))


@program("gpjax", x64=True)
def gpjax_regression() -> Built:
    """A conjugate Gaussian process posterior: marginal likelihood and prediction."""
    import gpjax as gpx
    from jax.experimental import checkify

    def infer(x, y, at):
        data = gpx.Dataset(X=x, y=y)
        prior = gpx.gps.Prior(mean_function=gpx.mean_functions.Zero(), kernel=gpx.kernels.RBF())
        posterior = prior * gpx.likelihoods.Gaussian(num_datapoints=x.shape[0])
        predicted = posterior.predict(at, train_data=data)
        loss = gpx.objectives.conjugate_mll(posterior, data)
        return loss, predicted.mean, predicted.variance

    x = jnp.linspace(-2, 2, 12)[:, None]
    checked = checkify.checkify(infer)  # its checks are values then
    return lambda *args: checked(*args)[1], (x, jnp.sin(3 * x), jnp.linspace(-2, 2, 5)[:, None])
