"""Neural networks of Flax, Haiku, Equinox and Penzai, and Transformers' Flax models."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tools.zoo.arrays import normal, tokens
from tools.zoo.program import Built, program


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


@program("transformers")
def transformers_bert() -> Built:
    """Transformers (Flax): BERT for masked words, two layers."""
    import transformers

    config = transformers.BertConfig(64, 32, 2, 4, 64, max_position_embeddings=16)
    model = transformers.FlaxBertForMaskedLM(config, input_shape=(1, 8), seed=0)
    return (
        lambda p, i, m: model(i, m, params=p).logits,
        (model.params, tokens(2, 8, bound=64), jnp.ones((2, 8), jnp.int32)),
    )


@program("transformers")
def transformers_generate() -> Built:
    """Transformers (Flax): GPT-2 generates six tokens greedily, with its cache."""
    import transformers

    config = transformers.GPT2Config(64, 16, 32, 2, 4)
    model = transformers.FlaxGPT2LMHeadModel(config, input_shape=(1, 4), seed=0)

    def generate(params, tokens):
        greedy = {"do_sample": False, "pad_token_id": 0, "eos_token_id": 63}
        return model.generate(tokens, params=params, max_new_tokens=6, **greedy).sequences

    return generate, (model.params, tokens(2, 4, bound=63))


@program("flaxmodels")
def flaxmodels_resnet() -> Built:
    """Flaxmodels: ResNet-18 on a 64² image."""
    import flaxmodels

    model = flaxmodels.ResNet18(output="logits", pretrained=None, num_classes=10)
    x = normal(1, 64, 64, 3)
    variables = model.init(jax.random.PRNGKey(0), x)
    return lambda v, x: model.apply(v, x, train=False), (variables, x)


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

    return apply, (variables, tokens(2, 6, bound=64))


@program("flax")
def nnx_mixture_of_experts() -> Built:
    """Flax NNX: a layer of 8 experts, of which each token takes 2, by `jax.lax.ragged_dot`."""
    from flax import nnx

    class Experts(nnx.Module):
        def __init__(self, width, hidden, experts, rngs):
            self.router = nnx.Linear(width, experts, use_bias=False, rngs=rngs)
            up, down = (experts, width, hidden), (experts, hidden, width)
            self.up = nnx.Param(0.1 * rngs.params.normal(up))
            self.down = nnx.Param(0.1 * rngs.params.normal(down))

        def __call__(self, x):
            gates, chosen = jax.lax.top_k(nnx.softmax(self.router(x)), 2)
            order = jnp.argsort(chosen.reshape(-1))
            sizes = jnp.bincount(chosen.reshape(-1), length=8)
            hidden = nnx.silu(jax.lax.ragged_dot(x[order // 2], self.up[...], sizes))
            found = jax.lax.ragged_dot(hidden, self.down[...], sizes)
            found = found[jnp.argsort(order)].reshape(-1, 2, x.shape[-1])
            return x + (found * gates[..., None]).sum(1)

    model = Experts(32, 64, 8, nnx.Rngs(0))
    return lambda x: model(x), (normal(24, 32),)
