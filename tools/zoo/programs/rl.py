"""Reinforcement learning: environments, search, losses, and black-box optimization."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


def _pgx(name: str, batch: int, moves: int) -> Built:
    """Random legal moves of a batch of games from the start."""
    import pgx

    game = pgx.make(name)

    def play(key):
        def move(state, key):
            logits = jnp.where(state.legal_action_mask, 0.0, -1e9)
            choose, chance = jax.random.split(key)
            action = jax.random.categorical(choose, logits)
            state = jax.vmap(game.step)(state, action, jax.random.split(chance, batch))
            return state, state.rewards

        first, last = jax.random.split(key)
        state = jax.vmap(game.init)(jax.random.split(first, batch))
        state, rewards = jax.lax.scan(move, state, jax.random.split(last, moves))
        return state.observation, state.terminated, rewards

    return play, (jax.random.PRNGKey(0),)


@program("pgx")
def pgx_tic_tac_toe() -> Built:
    """Eight random games of tic-tac-toe, nine moves."""
    return _pgx("tic_tac_toe", 8, 9)


@program("pgx")
def pgx_go() -> Built:
    """A random game of Go on 9×9, four moves."""
    return _pgx("go_9x9", 1, 4)


@program("pgx")
def pgx_2048() -> Built:
    """Four random games of 2048, five moves."""
    return _pgx("2048", 4, 5)


@program("pgx")
def pgx_chess() -> Built:
    """A random game of chess, one move."""
    return _pgx("chess", 1, 1)


@program("pgx")
def pgx_minatar() -> Built:
    """Two games of MinAtar Breakout, ten frames."""
    return _pgx("minatar-breakout", 2, 10)


@program("gymnax")
def gymnax_asterix() -> Built:
    """Ten random steps of MinAtar's Asterix."""
    import gymnax

    environment, parameters = gymnax.make("Asterix-MinAtar")
    count = environment.action_space(parameters)

    def play(key):
        def step(carry, key):
            state, _ = carry
            draw, move = jax.random.split(key)
            out = environment.step(move, state, count.sample(draw), parameters)
            return (out[1], out[0]), out[2]

        observation, state = environment.reset(key, parameters)
        return jax.lax.scan(step, (state, observation), jax.random.split(key, 10))

    return lambda key: jax.tree.leaves(play(key)), (jax.random.PRNGKey(0),)


@program("jumanji")
def jumanji_snake() -> Built:
    """Five moves of Snake."""
    import jumanji

    environment = jumanji.make("Snake-v1")

    def play(key):
        state, _ = environment.reset(key)

        def step(state, key):
            action = environment.action_spec.generate_value()
            state, timestep = environment.step(state, action)
            return state, (timestep.reward, timestep.observation)

        return jax.lax.scan(step, state, jax.random.split(key, 5))[1]

    return lambda key: jax.tree.leaves(play(key)), (jax.random.PRNGKey(0),)


@program("xminigrid")
def xminigrid_steps() -> Built:
    """Five steps in an XLand-MiniGrid room, with its observations."""
    import xminigrid

    environment, parameters = xminigrid.make("MiniGrid-EmptyRandom-6x6")

    def play(key, actions):
        def step(timestep, action):
            timestep = environment.step(parameters, timestep, action)
            return timestep, (timestep.observation, timestep.reward)

        return jax.lax.scan(step, environment.reset(parameters, key), actions)[1]

    return play, (jax.random.PRNGKey(0), jnp.asarray([0, 2, 1, 0, 0], jnp.int32))


@program("mctx", sample=True)
def mctx_muzero() -> Built:
    """MuZero's tree search, twelve simulations."""
    import mctx

    actions = 4

    def recurrent(params, key, action, embedding):
        embedding = jnp.tanh(embedding @ params["w"] + params["a"][action])
        return mctx.RecurrentFnOutput(
            reward=embedding[:, 0],
            discount=jnp.full(embedding.shape[:1], 0.97),
            prior_logits=embedding @ params["p"],
            value=embedding[:, 1],
        ), embedding

    def search(params, key, embedding):
        root = mctx.RootFnOutput(
            prior_logits=embedding @ params["p"], value=embedding[:, 1], embedding=embedding
        )
        out = mctx.muzero_policy(params, key, root, recurrent, num_simulations=12)
        return out.action, out.action_weights, out.search_tree.summary().value

    params = {
        "w": normal(6, 6),
        "a": normal(actions, 6, seed=1),
        "p": normal(6, actions, seed=2),
    }
    return search, (params, jax.random.PRNGKey(0), normal(3, 6, seed=3))


@program("rlax")
def rlax_losses() -> Built:
    """V-trace, Retrace, TD(λ), a C51 loss and a quantile loss, with gradients."""
    import rlax

    def losses(values, rewards, logits, actions):
        discounts = jnp.full_like(rewards, 0.99)
        weights = jnp.exp(0.1 * rewards)
        trace = rlax.vtrace_td_error_and_advantage(
            values[:-1], values[1:], rewards, discounts, weights
        )
        returns = rlax.lambda_returns(rewards, discounts, values[1:], 0.9)
        policy = rlax.policy_gradient_loss(logits, actions, trace.pg_advantage, weights)
        entropy = rlax.entropy_loss(logits, weights)
        quantiles = jax.vmap(rlax.quantile_q_learning, in_axes=(0, None, 0, 0, 0, 0, 0, None))(
            logits[:, None].repeat(5, 1),
            jnp.linspace(0.1, 0.9, 5),
            actions,
            rewards,
            discounts,
            logits[:, None].repeat(5, 1),
            logits[:, None].repeat(5, 1),
            1.0,
        )
        return jnp.sum(trace.errors**2) + jnp.sum(returns) + policy + entropy + quantiles.sum()

    actions = jnp.asarray(np.random.default_rng(1).integers(0, 3, 10), jnp.int32)
    args = (normal(11), normal(10, seed=2), normal(10, 3, seed=3), actions)
    return jax.value_and_grad(losses, (0, 2)), args


@program("rejax")
def rejax_advantages() -> Built:
    """The generalized advantages of PPO from trajectories of 64 steps."""
    from rejax import PPO
    from rejax.algos.ppo import Trajectory

    agent, shape = PPO.create(env="CartPole-v1"), (64, 8)
    done = jnp.asarray(np.random.default_rng(0).random(shape) < 0.05)

    def run(reward, value, done, last_value):
        none = jnp.zeros_like(reward)
        trajectories = Trajectory(none, none, none, reward, value, done)
        return agent.calculate_gae(trajectories, last_value)

    args = (normal(*shape), normal(*shape, seed=1), done, normal(8, seed=2))
    return run, args


@program("flashbax")
def flashbax_trajectories() -> Built:
    """A prioritised trajectory buffer: adds, new priorities, a sample."""
    import flashbax

    buffer = flashbax.make_prioritised_trajectory_buffer(
        add_batch_size=2,
        sample_batch_size=4,
        sample_sequence_length=3,
        period=1,
        min_length_time_axis=3,
        max_length_time_axis=16,
        device="cpu",
    )
    state = buffer.init({"x": jnp.zeros(3), "r": jnp.zeros(())})

    def use(state, batch, key):
        state = buffer.add(state, batch)
        found = buffer.sample(state, key)
        state = buffer.set_priorities(state, found.indices, jnp.arange(1.0, 5.0))
        return buffer.sample(state, key), state

    batch = {"x": normal(2, 8, 3), "r": normal(2, 8, seed=1)}
    return use, (state, batch, jax.random.PRNGKey(0))


@program("evosax")
def evosax_cma_es() -> Built:
    """Four generations of CMA-ES."""
    from evosax.algorithms import CMA_ES

    center = jnp.zeros(6)
    strategy = CMA_ES(population_size=16, solution=center)
    parameters = strategy.default_params

    def optimize(key, start):
        def generation(state, key):
            ask, tell = jax.random.split(key)
            x, state = strategy.ask(ask, state, parameters)
            fitness = jnp.sum((x - 1.0) ** 2 * jnp.arange(1.0, 7.0), axis=1)
            state, _ = strategy.tell(tell, x, fitness, state, parameters)
            return state, fitness

        state = strategy.init(key, start, parameters)
        return jax.lax.scan(generation, state, jax.random.split(key, 4))[1]

    return optimize, (jax.random.PRNGKey(0), center)
