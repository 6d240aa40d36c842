"""Models of Keras and KerasHub."""

from __future__ import annotations

import math

import jax.numpy as jnp

from tools.zoo.arrays import normal, tokens
from tools.zoo.program import Built, program


def _keras(build, *inputs, constant: bool = False) -> Built:
    """A Keras model's inference as a function of its variables and inputs.

    Args:
        constant: Whether the variables are constants of the program, with random statistics.
    """
    import keras

    keras.utils.set_random_seed(0)
    model = build(keras)
    model(*inputs)
    if constant:
        for item in model.variables:
            if len(item.shape) == 1:
                item.assign_add(keras.random.uniform(item.shape, 0.1, 0.2))
    groups = (model.trainable_variables, model.non_trainable_variables)
    variables = [[item.value for item in group] for group in groups]
    if constant:
        return lambda *x: model.stateless_call(*variables, *x)[0], inputs
    return lambda v, *x: model.stateless_call(*v, *x)[0], (variables, *inputs)


@program("keras")
def keras_mobilenet_v3() -> Built:
    """Keras: MobileNetV3-small, 64²."""
    return _keras(
        lambda keras: keras.applications.MobileNetV3Small(
            (64, 64, 3), weights=None, classes=10, classifier_activation=None
        ),
        normal(1, 64, 64, 3),
    )


@program("keras")
def keras_self_normalizing() -> Built:
    """Keras: a self-normalizing network, SELU and alpha dropout, bounded by a hard tanh."""

    def build(keras):
        layers = keras.layers
        wide = {"activation": "selu", "kernel_initializer": "lecun_normal"}
        stack = [layers.Dense(16, **wide), layers.AlphaDropout(0.1), layers.Dense(16, **wide)]
        return keras.Sequential([*stack, layers.Dense(3, activation="hard_tanh")])

    return _keras(build, normal(4, 8))


@program("keras")
def keras_autoencoder() -> Built:
    """Keras: a convolutional autoencoder with max pooling and nearest upsampling."""

    def build(keras):
        layers = keras.layers
        conv = {"kernel_size": 3, "padding": "same", "activation": "relu"}
        down = [layers.Conv2D(8, **conv), layers.MaxPooling2D(), layers.Conv2D(4, **conv)]
        up = [layers.UpSampling2D(), layers.Conv2D(3, 3, padding="same", activation="sigmoid")]
        return keras.Sequential([*down, *up])

    return _keras(build, normal(2, 16, 16, 3))


@program("keras")
def keras_channels_first() -> Built:
    """Keras: ConvNeXt's blocks with channels first, normalized along the channels."""

    def build(keras):
        layers = keras.layers
        first = {"data_format": "channels_first", "padding": "same"}
        return keras.Sequential(
            [layers.Conv2D(32, 4, strides=4, **first), layers.LayerNormalization(axis=1),
             layers.DepthwiseConv2D(7, **first), layers.LayerNormalization(axis=1),
             layers.Conv2D(128, 1, activation="gelu", **first), layers.Conv2D(32, 1, **first)]
        )  # fmt: skip

    return _keras(build, normal(2, 3, 32, 32))


@program("keras")
def keras_simple_rnn() -> Built:
    """Keras: a SimpleRNN that gives its states, and a Dense layer for each."""

    def build(keras):
        rnn = keras.layers.SimpleRNN(8, return_sequences=True)
        return keras.Sequential([rnn, keras.layers.Dense(3)])

    return _keras(build, normal(3, 12, 5))


@program("keras")
def keras_bidirectional() -> Built:
    """Keras: a classifier of sequences, a bidirectional GRU below a bidirectional LSTM."""

    def build(keras):
        layers = keras.layers
        stack = [
            layers.Bidirectional(layers.GRU(16, return_sequences=True)),
            layers.Bidirectional(layers.LSTM(8)),
        ]
        return keras.Sequential([*stack, layers.Dense(3)])

    return _keras(build, normal(2, 20, 6), constant=True)


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
        "encoder_features": normal(1, 32, 8),
        "decoder_token_ids": tokens(1, 6, bound=64),
        "decoder_padding_mask": jnp.ones((1, 6), jnp.int32),
    }
    return _keras(build, inputs)


@program("keras-hub", needs=("keras",))
def keras_hub_gemma() -> Built:
    """KerasHub: the backbone of Gemma 2, with soft caps and sliding windows."""

    def build(keras):
        import keras_hub

        return keras_hub.models.GemmaBackbone(
            vocabulary_size=64,
            num_layers=2,
            num_query_heads=4,
            num_key_value_heads=2,
            hidden_dim=32,
            intermediate_dim=64,
            head_dim=8,
            query_head_dim_normalize=True,
            use_post_ffw_norm=True,
            use_post_attention_norm=True,
            attention_logit_soft_cap=50,
            use_sliding_window_attention=True,
            sliding_window_size=4,
        )

    inputs = {"token_ids": tokens(2, 12, bound=64), "padding_mask": jnp.ones((2, 12), jnp.int32)}
    return _keras(build, inputs)


@program("keras-hub", needs=("keras",))
def keras_hub_qwen() -> Built:
    """KerasHub: a step of Qwen 3 with the caches of all layers in one array."""
    import keras
    from keras_hub import models

    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 2, "num_query_heads": 4, "num_key_value_heads": 2, "head_dim": 8}
    sizes |= {"vocabulary_size": 64, "hidden_dim": 32, "intermediate_dim": 64}
    model = models.Qwen3CausalLM(backbone=models.Qwen3Backbone(**sizes))
    return _step(model, (tokens(3, 1, bound=64), normal(3, 2, 2, 20, 2, 8), jnp.int32(7)))


def _step(model, inputs):
    """A step of a language model as a function of its weights, and the arguments.

    Args:
        inputs: Tokens, caches, and the number of tokens in the caches.
    """
    import keras

    variables = [*model.trainable_variables, *model.non_trainable_variables]

    def step(values, ids, cache, index):
        with keras.StatelessScope(state_mapping=list(zip(variables, values, strict=True))):
            logits, _, after = model.call_with_cache(ids, cache, index)
        return logits, after

    return step, ([each.value for each in variables], *inputs)


@program("keras-hub", needs=("keras",))
def keras_hub_gemma_step() -> Built:
    """KerasHub: a step of Gemma 2 after up to 512 tokens, with the caches in one array."""
    import keras
    from keras_hub import models

    keras.utils.set_random_seed(0)
    sizes = {"num_layers": 2, "num_query_heads": 4, "num_key_value_heads": 2, "head_dim": 64}
    sizes |= {"vocabulary_size": 64, "hidden_dim": 32, "intermediate_dim": 64}
    caps = {"attention_logit_soft_cap": 50, "final_logit_soft_cap": 30}
    model = models.GemmaCausalLM(backbone=models.GemmaBackbone(**sizes, **caps))
    inputs = tokens(2, 1, bound=64), normal(2, 2, 2, 512, 2, 64), jnp.int32(400)
    return _step(model, inputs)


@program("keras")
def keras_rotation() -> Built:
    """Keras: four images of 96² × 3, rotated and shifted, with zeros around them."""
    import keras

    cosine, sine = math.cos(0.3), math.sin(0.3)
    turn = jnp.asarray([[cosine, -sine, 10, sine, cosine, -5, 0, 0]] * 4, jnp.float32)

    def rotation(images, transforms):
        return keras.ops.image.affine_transform(images, transforms)

    return rotation, (normal(4, 96, 96, 3), turn)
