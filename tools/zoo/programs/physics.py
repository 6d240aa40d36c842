"""Physics engines, molecular and fluid dynamics."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.program import Built, program

BALL = """
<mujoco>
  <option timestep="0.005" iterations="4" ls_iterations="4"/>
  <worldbody>
    <geom type="plane" size="5 5 0.1"/>
    <body pos="0 0 0.099"><freejoint/><geom type="sphere" size="0.1" mass="1"/></body>
    <body pos="0.5 0 0.099"><freejoint/><geom type="box" size="0.1 0.1 0.1" mass="1"/></body>
  </worldbody>
</mujoco>
"""


def _brax_step(name: str, backend: str) -> Built:
    from brax import envs

    environment = envs.get_environment(name, backend=backend)
    state = jax.jit(environment.reset)(jax.random.PRNGKey(0))
    action = jnp.asarray(np.random.default_rng(0).normal(size=environment.action_size), jnp.float32)
    return lambda state, action: environment.step(state, action).obs, (state, action)


@program("brax")
def brax_reacher_spring() -> Built:
    """A step of the reacher, spring backend."""
    return _brax_step("reacher", "spring")


@program("brax")
def brax_hopper_positional() -> Built:
    """A step of the hopper, position-based backend, with contacts."""
    return _brax_step("hopper", "positional")


@program("mujoco-mjx", needs=("mujoco",))
def mjx_contacts() -> Built:
    """Two steps of a ball and a box on the floor."""
    import mujoco
    from mujoco import mjx

    model = mjx.put_model(mujoco.MjModel.from_xml_string(BALL))
    data = mjx.make_data(model)

    def run(qpos, qvel):
        def step(data, _):
            data = mjx.step(model, data)
            return data, data.qpos

        return jax.lax.scan(step, data.replace(qpos=qpos, qvel=qvel), None, 2)[1]

    rng = np.random.default_rng(0)
    velocity = jnp.asarray(rng.normal(size=data.qvel.shape) * 0.1, jnp.float32)
    return run, (data.qpos, velocity)


@program("jax-md")
def jax_md_fire() -> Built:
    """FIRE minimization of soft spheres, fifty steps."""
    from jax_md import energy, minimize, space

    displacement, shift = space.periodic(5.0)
    potential = energy.soft_sphere_pair(displacement)
    init, step = minimize.fire_descent(potential, shift)
    rng = np.random.default_rng(0)
    start = jnp.asarray(rng.uniform(0, 5, (32, 2)), jnp.float32)

    def minimized(start):
        state = jax.lax.fori_loop(0, 50, lambda _, s: step(s), init(start))
        return potential(state.position)

    return minimized, (start,)


@program("jax-cfd")
def jax_cfd_navier_stokes() -> Built:
    """Five steps of incompressible flow on a 32² grid: finite volumes, pressure by FFT."""
    import jax_cfd.base as cfd

    grid = cfd.grids.Grid((32, 32), domain=((0, 2 * np.pi), (0, 2 * np.pi)))
    start = cfd.initial_conditions.filtered_velocity_field(jax.random.PRNGKey(0), grid, 3.0, 4)
    step = cfd.equations.semi_implicit_navier_stokes(
        density=1.0, viscosity=1e-3, dt=1e-2, grid=grid
    )
    return lambda v: jax.lax.fori_loop(0, 5, lambda _, v: step(v), v), (start,)


@program("jaxlie")
def jaxlie_chain() -> Built:
    """Composed SE(3) transforms, their logarithm and its Jacobian."""
    import jaxlie

    def residual(tangents, target):
        pose = jaxlie.SE3.identity()
        for tangent in tangents:
            pose = pose @ jaxlie.SE3.exp(tangent)
        return (pose.inverse() @ jaxlie.SE3.exp(target)).log()

    def step(tangents, target):
        return residual(tangents, target), jax.jacfwd(residual)(tangents, target)

    rng = np.random.default_rng(0)
    tangents = jnp.asarray(rng.normal(size=(4, 6)) * 0.3, jnp.float32)
    return step, (tangents, jnp.asarray(rng.normal(size=6) * 0.3, jnp.float32))
