"""Optimizers and losses."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal, tokens
from tools.zoo.program import Built, program


@program("optax")
def optax_lbfgs() -> Built:
    """Eight iterations of L-BFGS with a zoom line search on the Rosenbrock function."""
    import optax

    def loss(x):
        return jnp.sum(100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2)

    optimizer = optax.lbfgs()
    value_and_grad = optax.value_and_grad_from_state(loss)

    def run(x):
        def step(carry, _):
            x, state = carry
            value, gradient = value_and_grad(x, state=state)
            change, state = optimizer.update(
                gradient, state, x, value=value, grad=gradient, value_fn=loss
            )
            return (optax.apply_updates(x, change), state), value

        return jax.lax.scan(step, (x, optimizer.init(x)), None, 8)[1]

    return run, (jnp.asarray([0.8, 0.9, 0.7]),)


@program("optax", sample=True)
def optax_ctc() -> Built:
    """The CTC loss and its gradient, and the Hungarian algorithm."""
    import optax

    def losses(logits, labels, costs):
        padding = jnp.zeros(logits.shape[:2])
        loss = lambda x: optax.ctc_loss(x, padding, labels, jnp.zeros(labels.shape)).sum()  # noqa: E731
        return jax.value_and_grad(loss)(logits), optax.assignment.hungarian_algorithm(costs)

    return losses, (normal(2, 12, 6), tokens(2, 4, bound=6), jnp.abs(normal(5, 5)))


@program("rax", sample=True)
def rax_losses() -> Built:
    """Rax: ranking losses and metrics with gradients."""
    import rax

    def losses(scores, labels):
        return (
            rax.softmax_loss(scores, labels),
            rax.listmle_loss(scores, labels),
            rax.pairwise_logistic_loss(scores, labels),
            rax.mrr_metric(scores, labels),
        )

    labels = jnp.asarray(np.random.default_rng(0).integers(0, 3, (4, 8)), jnp.float32)
    return lambda s, y: (losses(s, y), jax.jacrev(lambda s: losses(s, y)[:3])(s)), (
        normal(4, 8),
        labels,
    )


@program("chex", needs=("optax",))
def chex_dataclass_step() -> Built:
    """A training step on a chex dataclass whose checks run while it is traced."""
    import chex
    import optax

    @chex.dataclass
    class State:
        params: chex.ArrayTree
        opt: chex.ArrayTree

    optimizer = optax.sgd(0.1, momentum=0.9)
    params = {"w": normal(4, 3)}

    def step(state, x):
        chex.assert_shape(x, (8, 4))
        gradient = jax.grad(lambda p: jnp.mean(jax.nn.softplus(x @ p["w"])))(state.params)
        change, opt = optimizer.update(gradient, state.opt)
        return State(params=optax.apply_updates(state.params, change), opt=opt)

    return step, (State(params=params, opt=optimizer.init(params)), normal(8, 4))
