"""Writes StableHLO programs of TensorFlow to ``tests/producers/``.

    python -m tools.producers.tensorflow

Run it in an environment with tensorflow-cpu.
"""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import tensorflow as tf

from tools import ROOT

FOLDER = ROOT / "tests" / "producers"


_FOLDERS = re.compile(r'loc\("/[^"]*/(?:site-packages|tools)/')


def _weights(*shape: int) -> tf.Tensor:
    return tf.constant(np.sin(np.arange(np.prod(shape))).reshape(shape), tf.float32)


def cnn(x: tf.Tensor) -> tf.Tensor:
    """Convolutions, pooling, batch normalization and softmax."""
    x = tf.nn.relu(tf.nn.conv2d(x, _weights(3, 3, 3, 4), strides=2, padding="SAME"))
    x = tf.nn.batch_normalization(x, 0.1, 0.8, 0.2, 1.1, 1e-3)
    x = tf.nn.depthwise_conv2d(x, _weights(3, 3, 4, 1), [1, 1, 1, 1], padding="VALID")
    x = tf.reduce_mean(tf.nn.max_pool2d(x, 2, 2, padding="SAME"), [1, 2])
    return tf.nn.softmax(x @ _weights(4, 5))


def text(tokens: tf.Tensor, mask: tf.Tensor) -> tuple[tf.Tensor, tf.Tensor]:
    """Embedding, attention with a mask, layer normalization; argmax and logits."""
    x = tf.gather(_weights(16, 8), tokens)
    scores = tf.einsum("btd,bsd->bts", x @ _weights(8, 8), x) / 3.0
    scores += (1.0 - tf.cast(mask, tf.float32))[:, None, :] * -1e9
    x += tf.nn.softmax(scores) @ x
    mean, variance = tf.nn.moments(x, -1, keepdims=True)
    logits = tf.nn.gelu((x - mean) * tf.math.rsqrt(variance + 1e-6)) @ _weights(8, 4)
    return tf.argmax(logits, -1, output_type=tf.int32), logits


def loop(x: tf.Tensor) -> tf.Tensor:
    """A while loop with a tensor array, a branch, and cumulative sums."""
    states = tf.TensorArray(tf.float32, size=4)
    state = x
    for step in tf.range(4):
        state = tf.cond(
            tf.reduce_sum(state) > 0.0,
            lambda s=state: tf.sin(s) - 0.5,
            lambda s=state: s * s + 0.25,
        )
        states = states.write(step, state)
    return tf.cumsum(states.stack(), axis=0)


PROGRAMS: dict[str, tuple[Callable[..., object], list[tf.TensorSpec]]] = {
    "tensorflow_cnn": (cnn, [tf.TensorSpec([2, 12, 12, 3], tf.float32)]),
    "tensorflow_text": (text, [tf.TensorSpec([2, 6], tf.int32), tf.TensorSpec([2, 6], tf.bool)]),
    "tensorflow_loop": (loop, [tf.TensorSpec([3, 4], tf.float32)]),
}


def main() -> None:
    for name, (function, specs) in PROGRAMS.items():
        compiled = tf.function(function, jit_compile=True, input_signature=specs)
        zeros = [tf.zeros(spec.shape, spec.dtype) for spec in specs]
        text = compiled.experimental_get_compiler_ir(*zeros)(stage="stablehlo")
        text = _FOLDERS.sub('loc("', text)
        content = f"// python -m tools.producers.tensorflow: tensorflow {tf.__version__}\n{text}\n"
        (FOLDER / f"{name}.mlir").write_text(content)
        print(f"{name}.mlir: {len(content) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
