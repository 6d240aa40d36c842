"""Quantum physics, signals on the sphere, wavelets, cosmology, robotics, and linear operators."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program

_BODY = """
      <link name="{name}"><pose>0 0 {z} 0 0 0</pose><inertial><pose>0 0 0.25 0 0 0</pose>
        <mass>{mass}</mass><inertia><ixx>0.02</ixx><iyy>0.02</iyy><izz>0.01</izz>
        <ixy>0</ixy><ixz>0</ixz><iyz>0</iyz></inertia></inertial></link>"""
_JOINT = """
      <joint name="{name}" type="revolute"><parent>{parent}</parent><child>{child}</child>
        <axis><xyz>0 1 0</xyz><limit><lower>-3</lower><upper>3</upper></limit></axis></joint>"""
ARM = f"""<sdf version="1.10"><model name="arm">
  {_BODY.format(name="base", z=0, mass=1)}{_BODY.format(name="one", z=0.1, mass=1)}
  {_BODY.format(name="two", z=0.6, mass=0.5)}
  {_JOINT.format(name="a", parent="base", child="one")}
  {_JOINT.format(name="b", parent="one", child="two")}
</model></sdf>"""
"""A base with two links, as SDF."""


@program("pennylane")
def pennylane_circuit() -> Built:
    """A variational circuit of four qubits: expectation values and their gradient."""
    import pennylane as qml

    device = qml.device("default.qubit", wires=4)

    @qml.qnode(device, interface="jax", diff_method="backprop")
    def circuit(weights, x):
        qml.AngleEmbedding(x, wires=range(4))
        qml.StronglyEntanglingLayers(weights, wires=range(4))
        return qml.expval(qml.PauliZ(0) @ qml.PauliX(1))

    return jax.value_and_grad(circuit), (normal(2, 4, 3), normal(4, seed=1))


@program("dynamiqs")
def dynamiqs_lindblad() -> Built:
    """A driven, lossy cavity: the Lindblad equation by adaptive Tsit5."""
    import dynamiqs as dq

    a = dq.destroy(6)

    def solve(drive, kappa):
        hamiltonian = 0.5 * dq.dag(a) @ a + drive * (a + dq.dag(a))
        result = dq.mesolve(
            hamiltonian,
            [jnp.sqrt(kappa) * a],
            dq.coherent(6, 0.5),
            jnp.linspace(0.0, 0.5, 5),
            exp_ops=[dq.dag(a) @ a],
            progress_meter=False,
        )
        return result.expects

    return solve, (jnp.float32(0.3), jnp.float32(0.2))


@program("netket", x64=True)
def netket_metropolis() -> Built:
    """Sweeps of a Metropolis sampler of a complex Jastrow state."""
    import netket as nk

    hilbert = nk.hilbert.Spin(0.5, 6)
    sampler = nk.sampler.MetropolisLocal(hilbert, n_chains=4, sweep_size=6)
    model = nk.models.Jastrow(param_dtype=complex)
    params = model.init(jax.random.PRNGKey(1), hilbert.random_state(jax.random.PRNGKey(0), 2))
    state = sampler.init_state(model, params, seed=2)

    def sample(params, state):
        state = sampler.reset(model, params, state)
        return sampler.sample(model, params, state=state, chain_length=3)[0]

    return sample, (params, state)


@program("s2fft")
def s2fft_harmonics() -> Built:
    """Spin spherical harmonic transforms, forward and back, band limit 8."""
    import s2fft

    rng = np.random.default_rng(0)
    flm = s2fft.utils.signal_generator.generate_flm(rng, L=8, spin=0).astype(np.complex64)

    def transform(flm):
        f = s2fft.inverse_jax(flm, L=8)
        return f, s2fft.forward_jax(f, L=8)

    return transform, (jnp.asarray(flm),)


@program("jaxwt")
def jaxwt_wavelets() -> Built:
    """Discrete wavelet transforms in one and two dimensions, and back."""
    import jaxwt

    def transform(x, image):
        found = jaxwt.wavedec(x, "db2", mode="symmetric", level=2)
        planes = jaxwt.wavedec2(image, "haar", level=2)
        return found, jaxwt.waverec(found, "db2"), jaxwt.waverec2(planes, "haar")

    return transform, (normal(2, 32), normal(1, 16, 16))


@program("jax-cosmo", x64=True)
def jax_cosmo_power() -> Built:
    """Comoving distance and the nonlinear matter power spectrum."""
    import jax_cosmo

    def spectrum(omega, k):
        cosmology = jax_cosmo.Planck15(Omega_c=omega)
        distance = jax_cosmo.background.radial_comoving_distance(cosmology, jnp.asarray([0.5]))
        return distance, jax_cosmo.power.linear_matter_power(cosmology, k)

    return spectrum, (jnp.asarray(0.25), jnp.logspace(-2, 0, 8))


@program("folx")
def folx_laplacian() -> Built:
    """The forward Laplacian of a neural wave function."""
    import folx

    w, v = normal(6, 16) * 0.4, normal(16, seed=1)

    def laplacian(x, w, v):
        found = folx.forward_laplacian(lambda x: jnp.sum(jnp.tanh(x @ w) * v))(x)
        return found.x, found.laplacian, found.jacobian.dense_array

    return laplacian, (normal(6, seed=2), w, v)


@program("cola-ml")
def cola_operators() -> Built:
    """A Kronecker sum of operators: solve, trace and log-determinant."""
    import cola

    def use(a, b, x):
        operator = cola.PSD(cola.ops.Kronecker(cola.ops.Dense(a), cola.ops.Dense(b)))
        return cola.inv(operator) @ x, cola.trace(operator), cola.logdet(operator)

    def spd(seed):
        a = normal(4, 4, seed=seed)
        return a @ a.T + jnp.eye(4)

    return use, (spd(0), spd(1), normal(16, seed=2))


@program("quax")
def quax_lora() -> Built:
    """A LoRA matrix as an array type of its own, multiplied through quax."""
    import equinox as eqx
    import quax
    from quax.examples import lora

    linear = eqx.nn.Linear(8, 8, key=jax.random.PRNGKey(0))
    linear = lora.loraify(linear, rank=2, key=jax.random.PRNGKey(1))
    params, static = eqx.partition(linear, eqx.is_array)

    def apply(params, x):
        return quax.quaxify(eqx.combine(params, static))(x)

    return apply, (params, normal(8))


@program("jaxsim", x64=True)
def jaxsim_dynamics() -> Built:
    """Forward and inverse dynamics, mass matrix and kinematics of a two-link arm."""
    import jaxsim.api as js

    model = js.model.JaxSimModel.build_from_model_description(ARM, is_urdf=False)
    data = js.data.JaxSimModelData.build(
        model, joint_positions=jnp.asarray([0.3, -0.5]), joint_velocities=jnp.asarray([0.1, 0.2])
    )

    def dynamics(data, torques):
        base, joints = js.model.forward_dynamics(model, data, joint_forces=torques)
        return (
            base,
            joints,
            js.model.free_floating_mass_matrix(model, data),
            js.com.com_position(model, data),
        )

    return dynamics, (data, jnp.asarray([0.4, -0.1]))
