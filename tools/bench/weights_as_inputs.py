"""Compares networks whose weights are inputs with the same networks with bound weights.

    python -m tools.bench.weights_as_inputs                        node counts of every network
    python -m tools.bench.weights_as_inputs keras_resnet50 'flax*' of some of them
    python -m tools.bench.weights_as_inputs --times                and milliseconds of a call

Prints a Markdown table. Images are small, but the layers are those of the real architectures. The
weights are random. It needs keras, dm-haiku and flax; a network whose package is missing is left
out. Each network runs in a process of its own.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from fnmatch import fnmatchcase
from importlib.util import find_spec
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.sessions import OrtProgram
from tools import environment
from tools.bench.timing import THREADS, medians

Network = tuple[Callable[..., Any], Any, tuple[Any, ...]]
"""A function, its first argument (the weights), and its other arguments."""

HEADERS = ("network", "nodes, bound", "nodes, inputs", "ratio", "max error")
TIMES = ("ms, bound", "ms, inputs", "ratio")
IMAGE = (1, 64, 64, 3)


def _image(*dims: int) -> np.ndarray:
    return np.random.default_rng(1).normal(size=dims or IMAGE).astype(np.float32)


def _random(tree: Any) -> Any:
    """Positive numbers of a size that keeps activations finite, in the shapes of a tree."""
    rng = np.random.default_rng(0)

    def leaf(x: Any) -> np.ndarray:
        terms = max(1, int(np.prod(x.shape[:-1])))
        signs = rng.choice([-1, 1], x.shape) if terms > 1 else 1  # variances are positive
        return (signs * rng.uniform(0.5, 1, x.shape) / np.sqrt(terms)).astype(x.dtype)

    return jax.tree.map(leaf, tree)


# -- keras ------------------------------------------------------------------------------------


def _of_keras(model: Any, x: np.ndarray) -> Network:
    groups = (model.trainable_variables, model.non_trainable_variables)
    weights = _random([[item.value for item in group] for group in groups])
    return lambda v, x: model.stateless_call(*v, x)[0], weights, (x,)


def keras_resnet50() -> Network:
    """Keras ResNet50"""
    import keras

    return _of_keras(keras.applications.ResNet50(weights=None, input_shape=IMAGE[1:]), _image())


def keras_convnext() -> Network:
    """Keras ConvNeXtTiny"""
    import keras

    return _of_keras(keras.applications.ConvNeXtTiny(weights=None, input_shape=IMAGE[1:]), _image())


def keras_group_unet() -> Network:
    """Keras U-Net with GroupNormalization"""
    import keras

    layers = keras.layers

    def block(x: Any, width: int) -> Any:
        y = layers.Conv2D(width, 3, padding="same")(x)
        y = layers.Activation("silu")(layers.GroupNormalization(8)(y))
        y = layers.Conv2D(width, 3, padding="same")(y)
        return layers.Activation("silu")(layers.GroupNormalization(8)(y))

    image = keras.Input((32, 32, 3))
    one = block(image, 16)
    two = block(layers.MaxPooling2D()(one), 32)
    up = layers.UpSampling2D()(block(layers.MaxPooling2D()(two), 64))
    up = layers.UpSampling2D()(block(layers.Concatenate()([up, two]), 32))
    last = block(layers.Concatenate()([up, one]), 16)
    return _of_keras(keras.Model(image, layers.Conv2D(3, 1)(last)), _image(2, 32, 32, 3))


# -- haiku ------------------------------------------------------------------------------------


def _of_haiku(network: Callable[[Any, bool], Any], x: np.ndarray) -> Network:
    import haiku as hk

    pure = hk.transform_with_state(network)
    weights = _random(jax.eval_shape(lambda x: pure.init(jax.random.key(0), x, True), x))
    return lambda v, x: pure.apply(*v, None, x, False)[0], weights, (x,)


def haiku_resnet50() -> Network:
    """haiku ResNet50"""
    import haiku as hk

    return _of_haiku(lambda x, training: hk.nets.ResNet50(10)(x, training), _image())


def haiku_instance_norm() -> Network:
    """haiku network with InstanceNorm"""
    import haiku as hk

    def network(x: Any, training: bool) -> Any:
        for width in (16, 32, 32):
            x = hk.Conv2D(width, 3, stride=2)(x)
            x = jax.nn.relu(hk.InstanceNorm(create_scale=True, create_offset=True)(x))
        return x

    return _of_haiku(network, _image())


# -- flax -------------------------------------------------------------------------------------


def _of_flax(network: Any, x: np.ndarray) -> Network:
    weights = _random(jax.eval_shape(network.init, jax.random.key(0), x))
    return network.apply, weights, (x,)


def flax_resnet50() -> Network:
    """flax ResNet-50"""
    import flax.linen as nn

    def norm() -> Any:
        return nn.BatchNorm(use_running_average=True)

    class Bottleneck(nn.Module):
        width: int
        stride: int

        @nn.compact
        def __call__(self, x: Any) -> Any:
            strides = (self.stride, self.stride)
            y = nn.relu(norm()(nn.Conv(self.width, (1, 1), use_bias=False)(x)))
            y = nn.relu(norm()(nn.Conv(self.width, (3, 3), strides, use_bias=False)(y)))
            y = norm()(nn.Conv(4 * self.width, (1, 1), use_bias=False)(y))
            if x.shape != y.shape:
                x = norm()(nn.Conv(4 * self.width, (1, 1), strides, use_bias=False)(x))
            return nn.relu(x + y)

    class ResNet(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(64, (7, 7), (2, 2), padding=[(3, 3), (3, 3)], use_bias=False)(x)
            x = nn.max_pool(nn.relu(norm()(x)), (3, 3), (2, 2), padding="SAME")
            for stage, count in enumerate((3, 4, 6, 3)):
                for number in range(count):
                    x = Bottleneck(64 * 2**stage, 2 if stage and not number else 1)(x)
            return nn.Dense(10)(jnp.mean(x, (1, 2)))

    return _of_flax(ResNet(), _image())


def flax_group_unet() -> Network:
    """flax U-Net with GroupNorm"""
    import flax.linen as nn

    class Block(nn.Module):
        width: int

        @nn.compact
        def __call__(self, x: Any) -> Any:
            y = nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(min(8, x.shape[-1]))(x)))
            y = nn.Conv(self.width, (3, 3))(nn.silu(nn.GroupNorm(8)(y)))
            return y + nn.Conv(self.width, (1, 1))(x)

    class UNet(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.Conv(16, (3, 3))(x)
            one = Block(16)(x)
            two = Block(32)(nn.avg_pool(one, (2, 2), (2, 2)))
            up = Block(64)(nn.avg_pool(two, (2, 2), (2, 2)))
            for width, skip in ((32, two), (16, one)):
                up = jnp.repeat(jnp.repeat(up, 2, 1), 2, 2)
                up = Block(width)(jnp.concatenate([up, skip], -1))
            return nn.Conv(3, (3, 3))(nn.silu(nn.GroupNorm(8)(up)))

    return _of_flax(UNet(), _image(2, 32, 32, 3))


def flax_instance_norm() -> Network:
    """flax network with InstanceNorm"""
    import flax.linen as nn

    class Network(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            for width in (16, 32, 32):
                x = nn.relu(nn.InstanceNorm()(nn.Conv(width, (3, 3), (2, 2))(x)))
            return x

    return _of_flax(Network(), _image())


def flax_convnext_v2() -> Network:
    """flax ConvNeXt V2, atto"""
    import flax.linen as nn

    class Block(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            width = x.shape[-1]
            y = nn.Conv(width, (7, 7), feature_group_count=width)(x)
            y = nn.gelu(nn.Dense(4 * width)(nn.LayerNorm(epsilon=1e-6)(y)))
            size = jnp.sqrt(jnp.sum(y**2, (1, 2), keepdims=True))
            size = size / (jnp.mean(size, -1, keepdims=True) + 1e-6)
            gain = self.param("gain", nn.initializers.zeros, y.shape[-1:])
            shift = self.param("shift", nn.initializers.zeros, y.shape[-1:])
            return x + nn.Dense(width)(gain * (y * size) + shift + y)

    class ConvNeXt(nn.Module):
        @nn.compact
        def __call__(self, x: Any) -> Any:
            x = nn.LayerNorm(epsilon=1e-6)(nn.Conv(40, (4, 4), (4, 4))(x))
            for stage, count in enumerate((2, 2, 6, 2)):
                if stage:
                    x = nn.LayerNorm(epsilon=1e-6)(x)
                    x = nn.Conv(40 * 2**stage, (2, 2), (2, 2))(x)
                for _ in range(count):
                    x = Block()(x)
            return nn.Dense(10)(nn.LayerNorm(epsilon=1e-6)(jnp.mean(x, (1, 2))))

    return _of_flax(ConvNeXt(), _image())


NETWORKS: dict[str, Callable[[], Network]] = {
    build.__name__: build
    for build in (
        keras_resnet50,
        haiku_resnet50,
        flax_resnet50,
        keras_group_unet,
        flax_group_unet,
        haiku_instance_norm,
        flax_instance_norm,
        keras_convnext,
        flax_convnext_v2,
    )
}


def row(build: Callable[[], Network], times: bool) -> str:
    """Translates a network in both forms, compares it with XLA, and times both."""
    function, weights, inputs = build()
    lowered = jax.jit(function).lower(weights, *inputs)
    bound = hlo2onnx.translate(lowered, bind={0: weights})
    free = hlo2onnx.translate(lowered)
    counts = [program.report.nodes.total() for program in (bound, free)]
    found = free.verify(weights, *inputs)
    cells = [(build.__doc__ or "").strip(), *map(str, counts), f"{counts[1] / counts[0]:.2f}"]
    cells.append(f"{found.max_error:.1e}" if found else "DIFFERS")
    if times:
        calls = []
        for program, args in ((bound, inputs), (free, (weights, *inputs))):
            model = program.model_proto.SerializeToString()
            session = OrtProgram(model, threads=THREADS).session
            feeds = to_model(program.input_names, program.flatten(*args))
            calls.append(lambda session=session, feeds=feeds: session.run(None, feeds))
        seconds = medians(calls)
        cells += [f"{1e3 * each:.2f}" for each in seconds] + [f"{seconds[1] / seconds[0]:.2f}"]
    return f"| {' | '.join(cells)} |"


def main(argv: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.weights_as_inputs",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("networks", nargs="*", help="patterns of names; default: all")
    parser.add_argument("--times", action="store_true", help="milliseconds of a call")
    parser.add_argument("--row", metavar="NAME", help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if given.row:
        os.environ.setdefault("KERAS_BACKEND", "jax")
        print(row(NETWORKS[given.row], given.times), flush=True)
        return 0
    patterns = given.networks or ["*"]
    names = [name for name in NETWORKS if any(fnmatchcase(name, p) for p in patterns)]
    if not names:
        parser.error(f"no network fits; there are {', '.join(NETWORKS)}")
    headers = HEADERS + (TIMES if given.times else ())
    print(f"| {' | '.join(headers)} |\n|{' --- |' * len(headers)}", flush=True)
    right = True
    for name in names:
        if find_spec(name.partition("_")[0]) is None:
            continue
        command = [sys.executable, "-m", "tools.bench.weights_as_inputs", "--row", name]
        command += ["--times"] if given.times else []
        done = subprocess.run(command, stdout=subprocess.PIPE, text=True, env=environment())
        line = done.stdout.strip().rpartition("\n")[2] or f"| {name} | fails |"
        right &= done.returncode == 0 and "DIFFERS" not in line
        print(line, flush=True)
    return int(not right)


if __name__ == "__main__":
    sys.exit(main())
