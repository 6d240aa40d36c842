"""Neural networks of Flax, Haiku and Equinox."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tools.zoo.arrays import normal
from tools.zoo.program import Built, program


@program("flax", needs=("optax",))
def linen_mnist_step() -> Built:
    """Flax Linen: a training step of the convolutional network of Flax's MNIST example."""
    import flax.linen as nn
    import optax

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x):
            for features in (32, 64):
                x = nn.relu(nn.Conv(features, kernel_size=(3, 3))(x))
                x = nn.avg_pool(x, window_shape=(2, 2), strides=(2, 2))
            x = nn.relu(nn.Dense(256)(x.reshape((x.shape[0], -1))))
            return nn.Dense(10)(x)

    model, optimizer = Network(), optax.sgd(0.1, momentum=0.9)
    images, labels = normal(32, 28, 28, 1), jnp.arange(32) % 10
    params = model.init(jax.random.PRNGKey(0), images)

    def step(params, state, images, labels):
        def loss(params):
            logits = model.apply(params, images)
            return optax.softmax_cross_entropy_with_integer_labels(logits, labels).mean()

        value, gradient = jax.value_and_grad(loss)(params)
        updates, state = optimizer.update(gradient, state)
        return optax.apply_updates(params, updates), state, value

    return step, (params, optimizer.init(params), images, labels)


@program("flax")
def linen_group_norm() -> Built:
    """Flax Linen: a mixer of channels with group and instance norms, and no convolution."""
    import flax.linen as nn

    class Mixer(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.GroupNorm(4)(x))))
            return nn.Dense(8)(nn.InstanceNorm()(x)).max((1, 2))

    model, x = Mixer(), normal(2, 16, 16, 16)
    params = model.init(jax.random.PRNGKey(0), x)
    return model.apply, (params, x)


@program("flax")
def linen_half_decoder() -> Built:
    """Flax Linen: a decoder layer in bf16: rotary embeddings, grouped queries, SwiGLU."""
    import flax.linen as nn

    def rotated(x, positions):
        angles = positions[:, None, None] / 100.0 ** jnp.linspace(0, 1, x.shape[-1] // 2)
        cos, sin = (f(angles).astype(x.dtype) for f in (jnp.cos, jnp.sin))
        a, b = jnp.split(x, 2, axis=-1)
        return jnp.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)

    class Layer(nn.Module):
        @nn.compact
        def __call__(self, x):
            def dense(*features):
                half = {"dtype": jnp.bfloat16, "param_dtype": jnp.bfloat16, "use_bias": False}
                return nn.DenseGeneral(features, **half)

            y, positions = nn.RMSNorm(dtype=x.dtype)(x), jnp.arange(x.shape[1])
            q, k, v = (dense(heads, 8)(y) for heads in (4, 2, 2))
            q, k = (rotated(each, positions) for each in (q, k))
            y = jax.nn.dot_product_attention(q, k, v).reshape(*x.shape[:2], 32)
            x = x + dense(16)(y)
            y = nn.RMSNorm(dtype=x.dtype)(x)
            return x + dense(16)(nn.silu(dense(40)(y)) * dense(40)(y))

    model, x = Layer(), normal(2, 6, 16).astype(jnp.bfloat16)
    params = model.init(jax.random.PRNGKey(0), x)
    return lambda x: model.apply(params, x), (x,)


@program("flax")
def nnx_unet_step() -> Built:
    """Flax NNX: a small convolutional network with batch norm and dropout, a training step."""
    import optax
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.down = nnx.Conv(3, 8, (3, 3), strides=2, use_bias=False, rngs=rngs)
            self.norm = nnx.BatchNorm(8, rngs=rngs)
            self.drop = nnx.Dropout(0.2, rngs=rngs)
            self.up = nnx.ConvTranspose(8, 3, (3, 3), strides=2, rngs=rngs)

        def __call__(self, x):
            return self.up(self.drop(nnx.silu(self.norm(self.down(x)))))

    model = Network(nnx.Rngs(0))
    optimizer = nnx.Optimizer(model, optax.adam(1e-3), wrt=nnx.Param)
    graph, state = nnx.split((model, optimizer))

    def step(state, x):
        model, optimizer = nnx.merge(graph, state)
        loss, gradient = nnx.value_and_grad(lambda m: jnp.mean((m(x) - x) ** 2))(model)
        optimizer.update(model, gradient)
        return loss, nnx.state((model, optimizer))

    return step, (state, normal(2, 8, 8, 3))


@program("dm-haiku", tolerance=3e-5, reason="XLA itself is 1.4e-5 off an evaluation in f64")
def haiku_resnet() -> Built:
    """Haiku: ResNet-18 on a 32² image, inference."""
    import haiku as hk

    def network(x, is_training):
        head = {"w_init": hk.initializers.RandomNormal(0.1)}  # zeros by default
        return hk.nets.ResNet18(10, resnet_v2=True, logits_config=head)(x, is_training)

    net = hk.transform_with_state(network)
    x = normal(4, 32, 32, 3)
    params, state = net.init(jax.random.PRNGKey(0), x, True)
    _, state = net.apply(params, state, None, x, True)  # averages that are none are zero
    return lambda p, s, x: net.apply(p, s, None, x, False)[0], (params, state, x[:1])


@program("dm-haiku")
def haiku_vqvae() -> Built:
    """Haiku: vector quantization with exponential moving averages, training."""
    import haiku as hk

    def network(x):
        x = hk.Conv2D(8, 4, 2)(x)
        found = hk.nets.VectorQuantizerEMA(8, 16, 0.25, 0.99)(x, is_training=True)
        return hk.Conv2DTranspose(3, 4, 2)(found["quantize"]), found["loss"], found["perplexity"]

    net = hk.transform_with_state(network)
    x = normal(2, 8, 8, 3)
    params, state = net.init(jax.random.PRNGKey(0), x)
    return lambda p, s, x: net.apply(p, s, None, x), (params, state, x)


@program("dm-haiku")
def haiku_conv_lstm() -> Built:
    """Haiku: a convolutional LSTM over a short film."""
    import haiku as hk

    def network(x):
        core = hk.Conv2DLSTM((8, 8), 4, 3)
        return hk.dynamic_unroll(core, x, core.initial_state(x.shape[1]))[0]

    net = hk.without_apply_rng(hk.transform(network))
    x = normal(4, 2, 8, 8, 3)
    return net.apply, (net.init(jax.random.PRNGKey(0), x), x)


@program("equinox")
def equinox_ensemble() -> Built:
    """Equinox: an ensemble of perceptrons, made of keys in the program, on a batch."""
    import equinox as eqx

    def run(keys, x):
        make = eqx.filter_vmap(lambda key: eqx.nn.MLP(6, 3, 16, 2, key=key))
        models = make(keys)
        outputs = eqx.filter_vmap(
            lambda model, x: jax.vmap(model)(x), in_axes=(eqx.if_array(0), None)
        )
        return eqx.filter(models, eqx.is_array), outputs(models, x)

    return run, (jax.random.split(jax.random.PRNGKey(0), 4), normal(5, 6))


@program("equinox")
def equinox_stateful() -> Built:
    """Equinox: batch norm and spectral norm with state, a GRU cell in a scan."""
    import equinox as eqx

    key = jax.random.PRNGKey(0)

    class Network(eqx.Module):
        norm: eqx.nn.BatchNorm
        spectral: eqx.nn.SpectralNorm
        cell: eqx.nn.GRUCell

        def __init__(self):
            self.norm = eqx.nn.BatchNorm(4, "batch", mode="batch")
            linear = eqx.nn.Linear(4, 4, key=key)
            self.spectral = eqx.nn.SpectralNorm(linear, "weight", key=key)
            self.cell = eqx.nn.GRUCell(4, 6, key=key)

        def __call__(self, xs, state):
            mapped = {"in_axes": (0, None), "out_axes": (0, None)}
            xs, state = jax.vmap(self.norm, axis_name="batch", **mapped)(xs, state)
            xs, state = jax.vmap(self.spectral, **mapped)(xs, state)
            return jax.lax.scan(lambda h, x: (self.cell(x, h),) * 2, jnp.zeros(6), xs)[1], state

    model, state = eqx.nn.make_with_state(Network)()
    params, static = eqx.partition(model, eqx.is_array)
    return lambda p, s, x: eqx.combine(p, static)(x, s), (params, state, normal(5, 4))
