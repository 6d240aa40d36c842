# %% [markdown]
"""# A solver with scan and scatter

Particles on a line carry charge. Each step of the simulation scatters the charge onto a grid,
solves for the field, and gathers the field back to the particles. `jax.lax.scan` runs the steps.
Loops and scatters with colliding indices are where exporters often go wrong, so we look at what
they become, and at what they cost.
"""

# %%
import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx

CELLS, PARTICLES, STEPS, DT = 64, 2000, 50, 0.05


# %%
def charge(x):
    """Charge of each cell, shape [CELLS]: a particle gives its two neighbours linear shares."""
    left = jnp.floor(x).astype(jnp.int32)
    share = x - left
    grid = jnp.zeros(CELLS).at[left % CELLS].add(1 - share)
    return grid.at[(left + 1) % CELLS].add(share) * CELLS / PARTICLES - 1


def field_of(density):
    """The field at the cells: the density, integrated by a Fourier transform."""
    waves = 2 * jnp.pi * jnp.fft.rfftfreq(CELLS)
    spectrum = jnp.fft.rfft(density) / (1j * jnp.where(waves == 0, 1, waves))
    return jnp.fft.irfft(jnp.where(waves == 0, 0, spectrum), CELLS)


def simulate(x, v):
    """Positions and velocities after all steps, and the field's energy after each."""

    def step(state, _):
        x, v = state
        field = field_of(charge(x))
        left = jnp.floor(x).astype(jnp.int32)
        share = x - left
        v = v - DT * ((1 - share) * field[left % CELLS] + share * field[(left + 1) % CELLS])
        return ((x + DT * v) % CELLS, v), jnp.sum(field**2)

    return jax.lax.scan(step, (x, v), length=STEPS)


# %% [markdown]
"""Two beams in opposite directions, with a small wave."""

# %%
rng = np.random.default_rng(0)
x = np.linspace(0, CELLS, PARTICLES, endpoint=False) + 0.1 * rng.normal(size=PARTICLES)
x = (x % CELLS).astype(np.float32)
v = np.where(np.arange(PARTICLES) % 2, 3.0, -3.0).astype(np.float32)
program = hlo2onnx.translate(simulate, x, v)
print(program.report)

# %% [markdown]
"""The scan is one Loop node; the scatters add, in the order of XLA. `verify` makes inputs of its
own; we give ours as well, since a simulation amplifies rounding errors.
"""

# %%
for found in (program.verify(), program.verify(x, v)):
    print(found)

# %% [markdown]
"""The energies of the field beside those of JAX:"""

# %%
(_, energy), (_, expected) = program(x, v), jax.jit(simulate)(x, v)
for index in range(0, STEPS, 10):
    print(f"{index:3d}  {energy[index]:.6f}  {expected[index]:.6f}")
assert np.allclose(energy, expected, rtol=1e-3)

# %% [markdown]
"""Where the time goes. Loops over small arrays are what ONNX Runtime is slowest at, compared with
XLA: it starts each node anew in each step. [Benchmarks](../benchmarks.md) has the figures.
"""

# %%
print(program.profile(x, v, runs=5))
