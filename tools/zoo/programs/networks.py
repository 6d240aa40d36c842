"""Neural networks: Flax, Haiku, Equinox, Keras, Transformers, Penzai, graphs, and optimizers."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np

from zoo.program import Built, program


def _normal(*shape: int, seed: int = 0) -> jax.Array:
    return jnp.asarray(np.random.default_rng(seed).normal(size=shape), jnp.float32)


def _tokens(*shape: int, bound: int) -> jax.Array:
    return jnp.asarray(np.random.default_rng(0).integers(1, bound, shape), jnp.int32)


@program("flax", sample=True)
def linen_transformer_block() -> Built:
    """Flax Linen: multi-head attention, layer norm, a dense block, with its loss's gradient."""
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x):
            x = x + nn.MultiHeadDotProductAttention(4)(nn.LayerNorm()(x))
            return x + nn.Dense(16)(nn.gelu(nn.Dense(32)(nn.LayerNorm()(x))))

    model, x = Block(), _normal(2, 6, 16)
    params = model.init(jax.random.PRNGKey(0), x)
    return jax.value_and_grad(lambda p, x: jnp.mean(model.apply(p, x) ** 2)), (params, x)


@program("flax")
def linen_bidirectional_rnn() -> Built:
    """Flax Linen: a bidirectional recurrent network of GRU and optimized LSTM cells with lengths."""
    import flax.linen as nn

    model = nn.Bidirectional(nn.RNN(nn.GRUCell(8)), nn.RNN(nn.OptimizedLSTMCell(8)))
    x, lengths = _normal(3, 7, 5), jnp.asarray([7, 4, 2], jnp.int32)
    params = model.init(jax.random.PRNGKey(0), x)
    return lambda p, x, n: model.apply(p, x, seq_lengths=n), (params, x, lengths)


@program("flax")
def nnx_unet_step() -> Built:
    """Flax NNX: a small convolutional network with batch norm and dropout, a training step."""
    import optax
    from flax import nnx

    class Network(nnx.Module):
        def __init__(self, rngs):
            self.down = nnx.Conv(3, 8, (3, 3), strides=2, rngs=rngs)
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

    return step, (state, _normal(2, 8, 8, 3))


@program("dm-haiku")
def haiku_resnet() -> Built:
    """Haiku: ResNet-18 on a 32² image, inference."""
    import haiku as hk

    net = hk.transform_with_state(lambda x: hk.nets.ResNet18(10, resnet_v2=True)(x, False))
    x = _normal(1, 32, 32, 3)
    train = hk.transform_with_state(lambda x: hk.nets.ResNet18(10, resnet_v2=True)(x, True))
    params, state = train.init(jax.random.PRNGKey(0), x)
    return lambda p, s, x: net.apply(p, s, None, x)[0], (params, state, x)


@program("dm-haiku")
def haiku_vqvae() -> Built:
    """Haiku: vector quantization with exponential moving averages, training."""
    import haiku as hk

    def network(x):
        x = hk.Conv2D(8, 4, 2)(x)
        found = hk.nets.VectorQuantizerEMA(8, 16, 0.25, 0.99)(x, is_training=True)
        return hk.Conv2DTranspose(3, 4, 2)(found["quantize"]), found["loss"], found["perplexity"]

    net = hk.transform_with_state(network)
    x = _normal(2, 8, 8, 3)
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
    x = _normal(4, 2, 8, 8, 3)
    return net.apply, (net.init(jax.random.PRNGKey(0), x), x)


@program("equinox")
def equinox_vision_transformer() -> Built:
    """Equinox: patches, attention, layer norm, dropout with a key, vmapped over a batch."""
    import equinox as eqx

    class Layer(eqx.Module):
        attention: eqx.nn.MultiheadAttention
        mlp: eqx.nn.MLP
        norm: eqx.nn.LayerNorm
        drop: eqx.nn.Dropout

        def __init__(self, key):
            a, b = jax.random.split(key)
            self.attention = eqx.nn.MultiheadAttention(4, 16, key=a)
            self.mlp = eqx.nn.MLP(16, 16, 32, 1, jax.nn.gelu, key=b)
            self.norm = eqx.nn.LayerNorm(16)
            self.drop = eqx.nn.Dropout(0.1)

        def __call__(self, x, key):
            y = jax.vmap(self.norm)(x)
            x = x + self.drop(self.attention(y, y, y), key=key)
            return x + jax.vmap(self.mlp)(x)

    patches = eqx.nn.Conv2d(3, 16, 4, 4, key=jax.random.PRNGKey(0))
    layers = eqx.filter_vmap(Layer)(jax.random.split(jax.random.PRNGKey(1), 3))
    params, static = eqx.partition((patches, layers), eqx.is_array)

    def apply(params, images, keys):
        patches, layers = eqx.combine(params, static)
        arrays, rest = eqx.partition(layers, eqx.is_array)

        def one(image, key):
            x = patches(image).reshape(16, -1).T
            step = lambda x, layer: (eqx.combine(layer, rest)(x, key), None)  # noqa: E731
            return jax.lax.scan(step, x, arrays)[0].mean(0)

        return jax.vmap(one)(images, keys)

    keys = jax.random.split(jax.random.PRNGKey(2), 2)
    return apply, (params, _normal(2, 3, 16, 16), keys)


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
            xs, state = jax.vmap(
                lambda x, s: self.norm(x, s), axis_name="batch", in_axes=(0, None), out_axes=(0, None)
            )(xs, state)
            xs, state = jax.vmap(self.spectral, in_axes=(0, None), out_axes=(0, None))(xs, state)
            return jax.lax.scan(lambda h, x: (self.cell(x, h),) * 2, jnp.zeros(6), xs)[1], state

    model, state = eqx.nn.make_with_state(Network)()
    params, static = eqx.partition(model, eqx.is_array)
    return lambda p, s, x: eqx.combine(p, static)(x, s), (params, state, _normal(5, 4))


def _keras(build, *inputs) -> Built:
    """A Keras model's inference as a function of its variables and inputs."""
    import keras

    keras.utils.set_random_seed(0)
    model = build(keras)
    model(*inputs)
    groups = (model.trainable_variables, model.non_trainable_variables)
    variables = [[item.value for item in group] for group in groups]
    return lambda v, *x: model.stateless_call(*v, *x)[0], (variables, *inputs)


@program("keras")
def keras_mobilenet_v3() -> Built:
    """Keras: MobileNetV3-small, 64²."""
    return _keras(
        lambda keras: keras.applications.MobileNetV3Small((64, 64, 3), weights=None, classes=10),
        _normal(1, 64, 64, 3),
    )


@program("keras")
def keras_efficientnet() -> Built:
    """Keras: EfficientNetB0, 64²."""
    return _keras(
        lambda keras: keras.applications.EfficientNetB0(
            input_shape=(64, 64, 3), weights=None, classes=10
        ),
        _normal(1, 64, 64, 3),
    )


@program("keras")
def keras_densenet() -> Built:
    """Keras: DenseNet121, 64²."""
    return _keras(
        lambda keras: keras.applications.DenseNet121(
            input_shape=(64, 64, 3), weights=None, classes=10
        ),
        _normal(1, 64, 64, 3),
    )


@program("keras")
def keras_recurrent() -> Built:
    """Keras: embedding with a mask, bidirectional LSTM, ConvLSTM's one-dimensional sibling."""

    def build(keras):
        layers = keras.layers
        tokens = keras.Input((10,), dtype="int32")
        x = layers.Embedding(20, 8, mask_zero=True)(tokens)
        x = layers.Bidirectional(layers.LSTM(6, return_sequences=True))(x)
        return keras.Model(tokens, layers.Dense(3)(layers.GRU(5)(x)))

    return _keras(build, _tokens(3, 10, bound=20))


@program("keras-hub", needs=("keras",))
def keras_hub_gemma() -> Built:
    """KerasHub: the backbone of Gemma, two layers."""

    def build(keras):
        import keras_hub

        return keras_hub.models.GemmaBackbone(
            vocabulary_size=64,
            num_layers=2,
            num_query_heads=4,
            num_key_value_heads=1,
            hidden_dim=32,
            intermediate_dim=64,
            head_dim=8,
        )

    inputs = {"token_ids": _tokens(1, 8, bound=64), "padding_mask": jnp.ones((1, 8), jnp.int32)}
    return _keras(build, inputs)


@program("keras-hub", needs=("keras",))
def keras_hub_deberta() -> Built:
    """KerasHub: the backbone of DeBERTaV3, with its disentangled attention."""

    def build(keras):
        import keras_hub

        return keras_hub.models.DebertaV3Backbone(
            vocabulary_size=64,
            num_layers=2,
            num_heads=4,
            hidden_dim=32,
            intermediate_dim=64,
            max_sequence_length=16,
            bucket_size=8,
        )

    inputs = {"token_ids": _tokens(1, 8, bound=64), "padding_mask": jnp.ones((1, 8), jnp.int32)}
    return _keras(build, inputs)


@program("keras-hub", needs=("keras",))
def keras_hub_whisper() -> Built:
    """KerasHub: the backbone of Whisper, encoder and decoder."""

    def build(keras):
        import keras_hub

        return keras_hub.models.WhisperBackbone(
            vocabulary_size=64,
            num_layers=1,
            num_heads=2,
            hidden_dim=16,
            intermediate_dim=32,
            num_mels=8,
            max_encoder_sequence_length=32,
            max_decoder_sequence_length=8,
        )

    inputs = {
        "encoder_features": _normal(1, 32, 8),
        "decoder_token_ids": _tokens(1, 6, bound=64),
        "decoder_padding_mask": jnp.ones((1, 6), jnp.int32),
    }
    return _keras(build, inputs)


def _transformer(kind: str, *inputs, **settings) -> Built:
    """One of Transformers' Flax models as a function of its weights and inputs."""
    import transformers

    config = getattr(transformers, f"{kind.partition('For')[0].removesuffix('LMHead')}Config")
    model = getattr(transformers, f"Flax{kind}")(config(**settings), seed=0)

    def apply(params, *inputs):
        return model(*inputs, params=params, train=False).to_tuple()

    return apply, (model.params, *inputs)


@program("transformers")
def transformers_bert() -> Built:
    """Transformers (Flax): BERT for masked words, two layers."""
    import transformers

    config = transformers.BertConfig(64, 32, 2, 4, 64, max_position_embeddings=16)
    model = transformers.FlaxBertForMaskedLM(config, input_shape=(1, 8), seed=0)
    return (
        lambda p, i, m: model(i, m, params=p).logits,
        (model.params, _tokens(2, 8, bound=64), jnp.ones((2, 8), jnp.int32)),
    )


@program("transformers")
def transformers_gpt2() -> Built:
    """Transformers (Flax): GPT-2, two layers."""
    import transformers

    config = transformers.GPT2Config(64, 16, 32, 2, 4)
    model = transformers.FlaxGPT2LMHeadModel(config, input_shape=(1, 8), seed=0)
    return lambda p, i: model(i, params=p).logits, (model.params, _tokens(2, 8, bound=64))


@program("transformers")
def transformers_llama() -> Built:
    """Transformers (Flax): Llama with grouped queries, two layers."""
    import transformers

    config = transformers.LlamaConfig(
        vocab_size=64,
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        max_position_embeddings=16,
    )
    model = transformers.FlaxLlamaForCausalLM(config, input_shape=(1, 8), seed=0)
    return lambda p, i: model(i, params=p).logits, (model.params, _tokens(2, 8, bound=64))


@program("transformers")
def transformers_t5() -> Built:
    """Transformers (Flax): T5 with relative positions, encoder and decoder."""
    import transformers

    config = transformers.T5Config(
        vocab_size=64, d_model=32, d_kv=8, d_ff=64, num_layers=2, num_heads=4
    )
    model = transformers.FlaxT5ForConditionalGeneration(config, input_shape=(1, 8), seed=0)

    def apply(params, tokens, decoder):
        return model(tokens, decoder_input_ids=decoder, params=params).logits

    return apply, (model.params, _tokens(2, 8, bound=64), _tokens(2, 5, bound=64))


@program("transformers")
def transformers_wav2vec2() -> Built:
    """Transformers (Flax): Wav2Vec2 on a short wave."""
    import transformers

    config = transformers.Wav2Vec2Config(
        vocab_size=16,
        hidden_size=32,
        num_hidden_layers=1,
        num_attention_heads=4,
        intermediate_size=32,
        conv_dim=(16, 16),
        conv_stride=(5, 4),
        conv_kernel=(10, 8),
        num_conv_pos_embeddings=16,
        num_conv_pos_embedding_groups=4,
        do_stable_layer_norm=True,
        feat_extract_norm="layer",
    )
    model = transformers.FlaxWav2Vec2ForCTC(config, input_shape=(1, 400), seed=0)
    return lambda p, x: model(x, params=p).logits, (model.params, _normal(1, 400))


@program("transformers")
def transformers_vit() -> Built:
    """Transformers (Flax): ViT classifying an image of 32²."""
    import transformers

    config = transformers.ViTConfig(32, 2, 4, 64, image_size=32, patch_size=8)
    model = transformers.FlaxViTForImageClassification(config, input_shape=(1, 32, 32, 3), seed=0)
    return lambda p, x: model(x, params=p).logits, (model.params, _normal(1, 3, 32, 32))


@program("transformers")
def transformers_generate() -> Built:
    """Transformers (Flax): GPT-2 generates six tokens greedily, with its cache."""
    import transformers

    config = transformers.GPT2Config(64, 16, 32, 2, 4)
    model = transformers.FlaxGPT2LMHeadModel(config, input_shape=(1, 4), seed=0)

    def generate(params, tokens):
        return model.generate(
            tokens, params=params, max_new_tokens=6, do_sample=False, pad_token_id=0, eos_token_id=63
        ).sequences

    return generate, (model.params, _tokens(2, 4, bound=63))


@program("flaxmodels")
def flaxmodels_stylegan() -> Built:
    """The mapping and synthesis networks of StyleGAN2, 16²."""
    import flaxmodels

    model = flaxmodels.stylegan2.Generator(
        resolution=16, fmap_base=64, fmap_max=16, z_dim=16, w_dim=16, mapping_layer_features=16
    )
    z = _normal(1, 16)
    params = model.init(jax.random.PRNGKey(0), z)

    def generate(params, z):
        return model.apply(params, z, train=False, noise_mode="const")

    return generate, (params, z)


@program("penzai")
def penzai_transformer() -> Built:
    """Penzai: a Llama-like decoder on named axes."""
    from penzai import pz
    from penzai.models.transformer.variants import llamalike_common

    config = llamalike_common.LlamalikeTransformerConfig(
        num_kv_heads=2,
        query_head_multiplier=2,
        embedding_dim=32,
        projection_dim=8,
        mlp_hidden_dim=64,
        num_decoder_blocks=2,
        vocab_size=64,
        mlp_variant="swiglu",
        tie_embedder_and_logits=False,
        rope_wavelength=10_000,
        rms_norm_eps=1e-6,
        attention_type=llamalike_common.AttentionTypeGlobalCausal(),
        parameter_dtype=jnp.float32,
        activation_dtype=jnp.float32,
    )
    model = llamalike_common.build_llamalike_transformer(
        config, init_base_rng=jax.random.PRNGKey(0)
    )
    body, variables = pz.unbind_variables(model, freeze=True)

    def apply(variables, tokens):
        bound = pz.bind_variables(body, variables)
        named = pz.nx.wrap(tokens).tag("batch", "seq")
        positions = pz.nx.arange("seq", tokens.shape[1])
        return bound(named, token_positions=positions).unwrap("batch", "seq", "vocabulary")

    return apply, (variables, _tokens(2, 6, bound=64))


@program("optax", sample=True)
def optax_chain() -> Built:
    """A step of AdamW, clipped, scheduled, averaged, beside Lion and Adafactor."""
    import optax

    schedule = optax.warmup_cosine_decay_schedule(0.0, 1e-2, 10, 100)
    optimizers = (
        optax.chain(optax.clip_by_global_norm(1.0), optax.adamw(schedule), optax.ema(0.9)),
        optax.lion(1e-3),
        optax.adafactor(1e-3),
        optax.sm3(1e-2),
    )
    params = {"w": _normal(130, 130), "b": _normal(8)}
    states = [item.init(params) for item in optimizers]

    def step(params, states, gradient):
        return [
            item.update(gradient, state, params)
            for item, state in zip(optimizers, states, strict=True)
        ]

    return step, (params, states, jax.tree.map(jnp.sin, params))


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

    return losses, (_normal(2, 12, 6), _tokens(2, 4, bound=6), jnp.abs(_normal(5, 5)))


@program("jraph", sample=True)
def jraph_graph_network() -> Built:
    """Graph attention and a full graph network on a padded batch of graphs."""
    import jraph

    def graph(nodes, edges, seed):
        rng = np.random.default_rng(seed)
        return jraph.GraphsTuple(
            nodes=rng.normal(size=(nodes, 4)).astype(np.float32),
            edges=rng.normal(size=(edges, 3)).astype(np.float32),
            senders=rng.integers(0, nodes, edges).astype(np.int32),
            receivers=rng.integers(0, nodes, edges).astype(np.int32),
            n_node=np.asarray([nodes], np.int32),
            n_edge=np.asarray([edges], np.int32),
            globals=np.zeros((1, 2), np.float32),
        )

    batch = jraph.pad_with_graphs(jraph.batch_np([graph(5, 8, 0), graph(3, 4, 1)]), 12, 16, 3)
    batch = jax.tree.map(jnp.asarray, batch)
    params = {"e": _normal(13, 3), "n": _normal(12, 4), "g": _normal(9, 2), "q": _normal(4, 4)}

    def apply(params, batch):
        attention = jraph.GAT(
            lambda nodes: nodes @ params["q"],
            lambda sent, received, edges: jnp.sum(sent * received, -1, keepdims=True),
            jax.nn.relu,
        )
        network = jraph.GraphNetwork(
            lambda e, s, r, g: jnp.tanh(jnp.concatenate([e, s, r, g], -1) @ params["e"]),
            lambda n, s, r, g: jnp.tanh(jnp.concatenate([n, s, r, g], -1) @ params["n"]),
            lambda n, e, g: jnp.concatenate([n, e, g], -1) @ params["g"],
        )
        attended = attention(batch._replace(edges=None))
        return network(batch)._replace(senders=None, receivers=None), attended.nodes

    return apply, (params, batch)


@program("e3nn-jax", sample=True)
def e3nn_tensor_product() -> Built:
    """Spherical harmonics and their tensor products, with the gradient by the points."""
    import e3nn_jax as e3nn

    def energy(x):
        y = e3nn.spherical_harmonics("0e + 1o + 2e", e3nn.IrrepsArray("1o", x), True)
        z = e3nn.tensor_product(y, y, filter_ir_out=["0e", "1o", "2e"])
        return jnp.sum(e3nn.norm(z).array), z.array

    return jax.value_and_grad(energy, has_aux=True), (_normal(8, 3),)


@program("e3x")
def e3x_message_passing() -> Built:
    """E3x: equivariant message passing and a tensor dense layer on a few atoms."""
    import e3x
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, positions, numbers, receivers, senders):
            x = e3x.nn.Embed(10, 8)(numbers)
            r = positions[senders] - positions[receivers]
            basis = e3x.nn.basis(r, num=6, max_degree=2, radial_fn=e3x.nn.reciprocal_bernstein)
            y = e3x.nn.MessagePass()(x, basis, dst_idx=receivers, src_idx=senders)
            return e3x.nn.TensorDense(4)(e3x.nn.silu(e3x.nn.Dense(8)(y)))

    receivers, senders = (jnp.asarray(x) for x in e3x.ops.sparse_pairwise_indices(4))
    args = (_normal(4, 3), jnp.asarray([1, 6, 8, 1]), receivers, senders)
    model = Network()
    return model.apply, (model.init(jax.random.PRNGKey(0), *args), *args)


@program("dm-pix", sample=True)
def dm_pix_augment() -> Built:
    """PIX: colours, blurs, rotations, flips and structural similarity."""
    import dm_pix as pix

    def augment(image, other):
        x = pix.adjust_brightness(pix.adjust_hue(image, 0.1), 0.05)
        x = pix.gaussian_blur(pix.adjust_saturation(x, 1.3), 1.0, 5)
        x = pix.rotate(pix.flip_left_right(x), 0.3, order=1, mode="constant")
        return pix.rgb_to_hsv(jnp.clip(x, 0, 1)), pix.ssim(image, other), pix.psnr(image, other)

    rng = np.random.default_rng(0)
    images = jnp.asarray(rng.uniform(size=(2, 24, 24, 3)), jnp.float32)
    return augment, (images[0], images[1])


@program("rax", sample=True)
def rax_losses() -> Built:
    """Rax: ranking losses and metrics with gradients."""
    import rax

    def losses(scores, labels):
        return (
            rax.softmax_loss(scores, labels),
            rax.approx_t12n(rax.ndcg_metric)(scores, labels),
            rax.pairwise_logistic_loss(scores, labels),
            rax.mrr_metric(scores, labels),
        )

    labels = jnp.asarray(np.random.default_rng(0).integers(0, 3, (4, 8)), jnp.float32)
    return lambda s, y: (losses(s, y), jax.jacrev(lambda s: losses(s, y)[:3])(s)), (
        _normal(4, 8),
        labels,
    )


@program("chex", needs=("optax",), sample=True)
def chex_dataclass_step() -> Built:
    """A training step on a chex dataclass whose checks run while it is traced."""
    import chex
    import optax

    @chex.dataclass
    class State:
        params: chex.ArrayTree
        opt: chex.ArrayTree

    optimizer = optax.sgd(0.1, momentum=0.9)
    params = {"w": _normal(4, 3)}

    def step(state, x):
        chex.assert_shape(x, (8, 4))
        gradient = jax.grad(lambda p: jnp.mean(jax.nn.softplus(x @ p["w"])))(state.params)
        change, opt = optimizer.update(gradient, state.opt)
        return State(params=optax.apply_updates(state.params, change), opt=opt)

    return step, (State(params=params, opt=optimizer.init(params)), _normal(8, 4))
