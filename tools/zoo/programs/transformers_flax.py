"""Transformers' Flax models, Penzai's and Flaxmodels'."""

from __future__ import annotations

import jax
import jax.numpy as jnp

from tools.zoo.arrays import normal, tokens
from tools.zoo.program import Built, program


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
