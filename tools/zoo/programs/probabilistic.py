"""Probabilistic programming, sampling, state-space models, flows, Gaussian processes."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


def _banana(x):
    return -0.5 * (x[0] ** 2 + (x[1] - x[0] ** 2) ** 2)


@program("blackjax")
def blackjax_smc() -> Built:
    """One step of tempered sequential Monte Carlo with systematic resampling."""
    import blackjax
    import blackjax.smc.resampling as resampling

    kernel = blackjax.hmc.build_kernel()
    sampler = blackjax.tempered_smc(
        lambda x: -0.5 * jnp.sum(x**2),
        _banana,
        kernel,
        blackjax.hmc.init,
        {
            "step_size": jnp.asarray([0.1]),
            "inverse_mass_matrix": jnp.ones((1, 2)),
            "num_integration_steps": jnp.asarray([5]),
        },
        resampling.systematic,
        num_mcmc_steps=2,
    )

    def run(key, state):
        state, _ = sampler.step(key, state, 0.3)
        return state.particles, state.weights

    return run, (jax.random.PRNGKey(0), sampler.init(normal(32, 2)))


def _regression(x, y=None):
    import numpyro
    import numpyro.distributions as dist

    w = numpyro.sample("w", dist.Normal(0.0, 1.0).expand([3]).to_event(1))
    b = numpyro.sample("b", dist.Normal(0.0, 5.0))
    s = numpyro.sample("s", dist.HalfNormal(1.0))
    with numpyro.plate("n", x.shape[0]):
        numpyro.sample("y", dist.Normal(x @ w + b, s), obs=y)


@program("numpyro")
def numpyro_nuts() -> Built:
    """Two samples by NUTS for the same regression."""
    from numpyro.infer import NUTS

    x = normal(20, 3)
    y = x @ jnp.asarray([1.0, -2.0, 0.5]) + 0.1 * normal(20, seed=1)
    kernel = NUTS(_regression, step_size=0.05, max_tree_depth=4)
    state = kernel.init(jax.random.PRNGKey(0), 0, None, (x, y), {})

    def run(state, x, y):
        for _ in range(2):
            state = kernel.sample(state, (x, y), {})
        return state.z

    return run, (state, x, y)


@program("distrax", needs=("tfp-nightly",))
def distrax_flow() -> Built:
    """Density and samples of a chain of bijectors, masked couplings with rational splines."""
    import distrax

    mask = jnp.asarray([True, False, True, False])
    w = normal(2, 4, 4 * 13) * 0.1

    def flow(w):
        def layer(i, mask):
            def conditioner(x):
                return (jnp.tanh(x) @ w[i]).reshape(*x.shape, 13)

            return distrax.MaskedCoupling(
                mask, conditioner, lambda p: distrax.RationalQuadraticSpline(p, -3.0, 3.0)
            )

        chain = distrax.Chain([layer(0, mask), layer(1, ~mask), distrax.Block(distrax.Tanh(), 1)])
        base = distrax.MultivariateNormalDiag(jnp.zeros(4), jnp.ones(4))
        return distrax.Transformed(base, chain)

    def use(w, key):
        return flow(w).sample_and_log_prob(seed=key, sample_shape=(16,))

    return use, (w, jax.random.PRNGKey(0))


@program("tfp-nightly")
def tfp_distributions() -> Built:
    """Log densities and quantiles: beta, gamma, von Mises, Student, Wishart, mixtures."""
    from tensorflow_probability.substrates import jax as tfp

    tfd = tfp.distributions

    def densities(x, p, a):
        spd = a @ a.T + jnp.eye(3)
        return (
            tfd.Beta(2.0, 3.0).log_prob(p),
            tfd.Gamma(2.5, 1.5).log_prob(p),
            tfd.VonMises(0.2, 3.0).log_prob(x),
            tfd.StudentT(5.0, 0.0, 1.0).log_prob(x),
            tfd.Normal(0.0, 1.0).quantile(p),
            tfd.WishartTriL(5.0, jnp.eye(3)).log_prob(spd),
            tfd.MixtureSameFamily(
                tfd.Categorical(logits=a[0]), tfd.Normal(a[1], jnp.exp(a[2]))
            ).log_prob(x),
        )

    p = jnp.asarray(np.random.default_rng(2).uniform(0.05, 0.95, 16), jnp.float32)
    return densities, (normal(16), p, normal(3, 3, seed=1))


@program("dynamax", needs=("tfp-nightly",))
def dynamax_hmm() -> Built:
    """Smoothing, Viterbi and log-likelihood of a Gaussian HMM."""
    from dynamax.hidden_markov_model import GaussianHMM

    model = GaussianHMM(3, 2)
    params, _ = model.initialize(jax.random.PRNGKey(0))

    def infer(params, y):
        found = model.smoother(params, y)
        return found.marginal_loglik, found.smoothed_probs, model.most_likely_states(params, y)

    return infer, (params, normal(16, 2))


@program("flowjax")
def flowjax_masked_autoregressive() -> Built:
    """Density of a masked autoregressive flow, and samples."""
    import equinox as eqx
    from flowjax.distributions import Normal
    from flowjax.flows import masked_autoregressive_flow
    from paramax import unwrap

    flow = masked_autoregressive_flow(
        jax.random.key(0), base_dist=Normal(jnp.zeros(3)), flow_layers=2, nn_width=12
    )
    params, static = eqx.partition(flow, eqx.is_inexact_array)

    def use(params, x, key):
        flow = unwrap(eqx.combine(params, static))
        return flow.log_prob(x), flow.sample(key, (4,))

    return use, (params, normal(8, 3), jax.random.key(1))


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
