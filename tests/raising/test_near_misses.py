"""Programs that a rule was made for, and others that differ from them in one ingredient: an axis, a
shape, a constant by one place, an element type, who else reads, where the last step stands.

With the rule and without it they give XLA's numbers, NaN, infinities and zeros of both signs among
them.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest
from jax import Array

import hlo2onnx

Last = Callable[[Callable[[], Array]], Array]
"""Where the last step of a program stands."""


def _here(step: Callable[[], Array]) -> Array:
    return step()


def _in_branch(step: Callable[[], Array]) -> Array:
    """In a branch, which captures what came before."""
    return jax.lax.cond(_TRIPS[-1] > 0, step, lambda: jnp.zeros_like(step()))


def _in_loop(step: Callable[[], Array]) -> Array:
    """In a loop, which captures what came before."""
    return jax.lax.fori_loop(0, _TRIPS[-1], lambda i, last: jnp.maximum(step(), last), step())


_TRIPS: list[Array] = []
"""The program's first argument, 2."""


PLACES: tuple[Last, ...] = (_in_branch, _in_loop)


@dataclass(frozen=True)
class Family:
    """A program and its near misses.

    Attributes:
        rule: What fires on the program itself.
        build: Takes arrays and ingredients; gives the result, or several.
        shapes: Of the arrays.
        others: For each ingredient what else it may be.
        special: Whether rows hold NaN, infinities and zeros.
    """

    rule: str
    build: Callable[..., Any]
    shapes: Sequence[tuple[int, ...]]
    others: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    special: bool = True

    def variants(self) -> Iterator[tuple[str, Any]]:
        """Every ingredient changed alone; None where nothing is."""
        yield "itself", None
        for name, choices in self.others.items():
            for choice in choices:
                yield name, choice


def a_ulp_more(number: float) -> float:
    """The f32 number after this one."""
    return float(np.nextafter(np.float32(number), np.float32(np.inf)))


# -- softmax ----------------------------


def softmax(
    x: Array,
    highest: tuple[Any, bool] = (-1, True),
    total: tuple[Any, bool] = (-1, True),
    below: float = -np.inf,
    reads: str = "",
    last: Last = _here,
) -> Any:
    """exp(x - max) / sum, the reductions over (axis, keepdims)."""
    top = jnp.max(x, highest[0], keepdims=highest[1], initial=below)
    e = jnp.exp(x - top)
    s = e.sum(total[0], keepdims=total[1])
    y = last(lambda: e / s)
    return {"": y, "e": (y, e), "sum": (y, s), "max": (top * 2, y)}[reads]


def log_softmax(
    x: Array,
    highest: tuple[Any, bool] = (-1, True),
    total: tuple[Any, bool] = (-1, True),
    base: float = 1.0,
    last: Last = _here,
) -> Array:
    """s - log(sum(exp(s)))."""
    s = x - x.max(highest[0], keepdims=highest[1])
    t = jnp.exp(s).sum(total[0], keepdims=total[1]) * x.dtype.type(base)
    return last(lambda: s - jnp.log(t))


AXES = [((0, True)), ((-1, False)), ((0, False)), (((0, 1), True))]

# -- normalization ----------------------------


def layer_norm(
    x: Array,
    mean: tuple[Any, bool] = (-1, True),
    squares: tuple[Any, bool] = (-1, True),
    fast: bool = False,
    epsilon: Any = 1e-5,
    scale: Sequence[int] | None = None,
    bias: Sequence[int] | None = None,
    reads: str = "",
    last: Last = _here,
) -> Any:
    """(x - mean) / sqrt(variance + epsilon) * scale + bias, over (axis, keepdims)."""
    m = x.mean(mean[0], keepdims=mean[1])
    if fast:
        v = jnp.maximum(0, (x * x).mean(squares[0], keepdims=squares[1]) - m * m)
    else:
        v = ((x - m) ** 2).mean(squares[0], keepdims=squares[1])
    y = last(lambda: (x - m) / jnp.sqrt(v + np.asarray(epsilon, x.dtype)))
    z = y
    for dims, put in ((scale, jnp.multiply), (bias, jnp.add)):
        if dims is not None:
            z = put(z, (np.arange(np.prod(dims)) + 1).astype(x.dtype).reshape(dims))
    return {"": z, "y": (z, y), "v": (z, v), "m": (z, m)}[reads]


def rms_norm(
    x: Array,
    squares: tuple[Any, bool] = (-1, True),
    of: str = "x",
    epsilon: Any = 1e-5,
    scale: Sequence[int] | None = None,
    last: Last = _here,
) -> Array:
    """x / sqrt(mean(x²) + epsilon) * scale."""
    other = {"x": x, "transposed": x.T, "first": x[:1]}[of]
    v = (x * other).mean(squares[0], keepdims=squares[1])
    y = last(lambda: x * jax.lax.rsqrt(v + np.asarray(epsilon, x.dtype)))
    return y if scale is None else y * np.ones(scale, x.dtype) * 3


def group_norm(
    x: Array,
    groups: int = 2,
    mean_axes: tuple[int, ...] = (2, 3, 4),
    axes: tuple[int, ...] = (2, 3, 4),
    beside: Sequence[int] | None = None,
    epsilon: Any = 1e-5,
    last: Last = _here,
) -> Array:
    """Group normalization of channels-second images; `beside` is where the mean stands."""
    n, c, h, w = x.shape
    view = x.reshape(n, groups, c // groups, h, w)
    m = view.mean(mean_axes, keepdims=True)
    stands = m if beside is None else m.reshape(beside)
    v = ((view - stands) ** 2).mean(axes, keepdims=True)
    wide = [jnp.repeat(z.reshape(n, -1), c * n // z.size, 1).reshape(n, c, 1, 1) for z in (m, v)]
    return last(lambda: (x - wide[0]) * jax.lax.rsqrt(wide[1] + np.asarray(epsilon, x.dtype)))


def mean(
    x: Array,
    axis: Any = -1,
    keepdims: bool = True,
    terms: Any = 4,
    shape: Sequence[int] = (),
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """sum / terms."""
    s = x.sum(axis, keepdims=keepdims)
    y = last(lambda: s / np.full(shape, terms, x.dtype))
    return (y, s) if reads else y


def batch_norm(
    x: Array,
    m: Array,
    v: Array,
    s: Array,
    at: int = 1,
    w: int = 3,
    epsilon: Any = 1e-5,
    offset: float = 0.0,
    last: Last = _here,
) -> Array:
    """Statistics that are computed, one a channel, of a convolution (of `w` places) or of x."""
    kernel = np.ones((4, 4, w, w), x.dtype) / 9
    y = jax.lax.conv(x, kernel, (1, 1), "SAME") if w else x
    dims = [1] * 4
    dims[at] = 4
    m, v, s = (item.reshape(dims) for item in (m + x.dtype.type(offset), v * v, s))
    return last(lambda: (y + x.dtype.type(offset) - m) * (s * jax.lax.rsqrt(v + epsilon)) + s)


ROOT = float(np.sqrt(0.5))

# -- activations ----------------------------


def gelu(x: Array, half: Any = 0.5, root: Any = ROOT, one: Any = 1.0, last: Last = _here) -> Array:
    """0.5 x (1 + erf(x / sqrt 2))."""
    half, root, one = (np.asarray(item, x.dtype) for item in (half, root, one))
    erf = jax.lax.erf(x * root)
    return last(lambda: half * x * (one + erf))


def elu(x: Array, alpha: Any = 1.0, test: Any = 0.0, last: Last = _here) -> Array:
    """where(x > 0, x, alpha expm1(where(x > 0, 0, x)))."""
    above = x > np.asarray(test, x.dtype)
    return last(
        lambda: jnp.where(above, x, np.asarray(alpha, x.dtype) * jnp.expm1(jnp.where(above, 0, x)))
    )


def leaky_relu(
    x: Array, alpha: Any = 0.1, test: Any = 0.0, strict: bool = False, last: Last = _here
) -> Array:
    """where(x >= 0, x, alpha x)."""
    above = x > np.asarray(test, x.dtype) if strict else x >= np.asarray(test, x.dtype)
    return last(lambda: jnp.where(above, x, np.asarray(alpha, x.dtype) * x))


def hard_sigmoid(
    x: Array, low: Any = 0.0, high: Any = 6.0, shift: Any = 3.0, by: Any = 6.0, last: Last = _here
) -> Array:
    """min(max(x + 3, 0), 6) / 6."""
    low, high, shift, by = (np.asarray(item, x.dtype) for item in (low, high, shift, by))
    y = jnp.minimum(jnp.maximum(x + shift, low), high)
    return last(lambda: y / by)


def softsign(x: Array, one: Any = 1.0, last: Last = _here) -> Array:
    """x / (1 + |x|)."""
    y = np.asarray(one, x.dtype) + jnp.abs(x)
    return last(lambda: x / y)


SIGMOID_READERS: dict[str, Callable[[Array, Array], Array]] = {
    "logarithm of a sum": lambda p, x: jnp.log(p + x.dtype.type(1e-10)),
    "logarithm of a mean": lambda p, x: jnp.log(p.mean(-1)),
    "logarithm of both": lambda p, x: jnp.log(p + jax.nn.sigmoid(x - 1)),
    "logarithm of a product": lambda p, x: jnp.log(p @ np.ones((x.shape[-1], 2), x.dtype)),
    "logarithm of a scaled one": lambda p, x: jnp.log(p * x.dtype.type(0.5)),
    "quotient": lambda p, x: p / p.sum(-1, keepdims=True),
    "root": lambda p, x: jnp.sqrt(p[1:]),
}
GATES: dict[str, Callable[[Array, Array], Array]] = {
    "gate": lambda p, x: p * x,
    "another's gate": lambda p, x: (1 - p) * x,
    "sum": lambda p, x: p + 1,
}


def sigmoid(x: Array, reader: str = "gate", last: Last = _here) -> Array:
    """What reads a logistic function; of numbers about -20 where it should be exact."""
    p = 1 / (1 + jnp.exp(-(x if reader in GATES else x - 20)))
    return last(lambda: (GATES | SIGMOID_READERS)[reader](p, x))


RELU_READERS: dict[str, Callable[[Array, Array], Array]] = {
    "sum": lambda y, x: y + 1,
    "divisor": lambda y, x: 1 / y,
    "divisor of a product": lambda y, x: 1 / (y * x),
    "divisor of the largest": lambda y, x: 1 / (y * 1).max(-1),
    "bits": lambda y, x: jax.lax.bitcast_convert_type(y, jnp.int32),
    "reshaped divisor": lambda y, x: 1 / y.reshape(-1),
    "angle": lambda y, x: jnp.arctan2(y, -jnp.ones_like(x)),
}


def relu(
    x: Array, low: Any = 0.0, high: Any = None, reader: str = "sum", last: Last = _here
) -> Array:
    """max(x, 0), or min(max(x, 0), high)."""
    y = jnp.maximum(x, np.asarray(low, x.dtype))
    y = y if high is None else jnp.minimum(y, np.asarray(high, x.dtype))
    return last(lambda: RELU_READERS[reader](y, x))


# -- convolutions ----------------------------


def scaled(
    x: Array,
    channels: int = 4,
    factor: Any = (1.0, 2.0, -0.5, 3.0),
    dims: Sequence[int] = (1, 4, 1, 1),
    divide: bool = False,
    weights: float = 1.0,
    add: Any = None,
    whole: bool = False,
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """A convolution times or over a number a channel, or plus another; its sums are not exact,
    unless its weights are whole numbers."""
    w = (np.arange(channels * 18) % 5 - 2.0).reshape(channels, 2, 3, 3)
    w = (w if whole else np.sin(w + np.arange(channels * 18).reshape(w.shape))).astype(x.dtype)
    y = jax.lax.conv(x, w * x.dtype.type(weights), (1, 1), "SAME")
    if add is not None:
        y = y + np.resize(np.asarray(add, x.dtype), dims)
    s = np.resize(np.asarray(factor, x.dtype), dims)
    z = last(lambda: y / s if divide else y * s)
    return (z, y) if reads else z


# -- shapes and arithmetic ----------------------------


def neutral(x: Array, by: Any = 1, op: str = "mul", side: int = 0, last: Last = _here) -> Array:
    """x op constant, or constant op x."""
    function: Callable[..., Array] = getattr(jax.lax, op)
    pair = (x, np.full(x.shape, by, x.dtype))
    return 1 / last(lambda: function(*pair[:: 1 - 2 * side]))


def transposed(
    x: Array,
    perm: tuple[int, ...] = (1, 2, 0),
    then: str = "add",
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """Something read through a Transpose."""
    t = x.transpose(perm)
    dims = tuple(other)
    c = (np.arange(np.prod(dims, dtype=int)) + 1).astype(x.dtype).reshape(dims)
    y = last(lambda: {
        "add": lambda: t + c,
        "pad": lambda: jnp.pad(t, ((0, 1), (2, 0), (1, 1)), constant_values=3) + 1,
        "negative pad": lambda: jax.lax.pad(
            t, x.dtype.type(2), ((0, -1, 0), (1, 0, 0), (-1, 2, 0))
        ),
        "slice": lambda: t[1:, ::2, ::-1] * 2,
        "max": lambda: t.max(1) * 2,
        "sum": lambda: t.sum((0, -1), keepdims=True) * 2,
        "concat": lambda: jnp.concatenate([t, c + jnp.zeros_like(t)], 1) * 2,
        "split": lambda: t.reshape(*t.shape[:2], -1, 2) * 2,
        "join": lambda: t.reshape(-1, t.shape[-1]) * 2,
    }[then]())  # fmt: skip
    return (y, t) if reads else y


def reshaped(
    x: Array,
    dims: Sequence[int] = (12, 2),
    other: Sequence[int] = (),
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """Something added behind a Reshape."""
    view = x.reshape(tuple(dims))
    c = (np.arange(np.prod(other, dtype=int)) + 1).astype(x.dtype).reshape(tuple(other))
    y = last(lambda: jnp.exp(view * c))
    return (y, view) if reads else y


def kept(
    x: Array,
    axis: int = 1,
    back: int = 1,
    kind: str = "sum",
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """What was reduced, with an axis put back."""
    r = getattr(x, kind)(axis)
    y = last(lambda: x - jnp.expand_dims(jnp.exp(r * x.dtype.type(0.1)), back))
    return (y, r) if reads else y


def product(
    x: Array,
    y: Array,
    perm: tuple[int, ...] = (0, 2, 1),
    before: tuple[int, ...] = (0, 2, 1),
    reads: bool = False,
    last: Last = _here,
) -> Any:
    """A product of transposed operands, transposed."""
    z = jnp.matmul(x.transpose(before), y.transpose(before))
    t = last(lambda: z.transpose(perm))
    return (t, z) if reads else t


HALVES = ["float16", "bfloat16"]
FLOATS = [*HALVES, "float64"]
ELEMENTWISE: dict[str, Sequence[Any]] = {
    "dtype": FLOATS,
    "shape": [(0, 4), (1, 1), ()],
    "last": PLACES,
}

FAMILIES: dict[str, Family] = {
    "softmax": Family("softmax", softmax, [(6, 6)], {
        "highest": AXES, "total": AXES, "below": [0.0, 1e9], "reads": ["e", "sum", "max"],
        "dtype": FLOATS, "shape": [(0, 4), (4, 0), (1, 6), (6, 1), (2, 3, 3)], "last": PLACES,
    }),
    "log_softmax": Family("log-softmax", log_softmax, [(6, 6)], {
        "highest": AXES, "total": AXES, "base": [a_ulp_more(1), 2.0],
        "dtype": FLOATS, "shape": [(0, 4), (1, 6)], "last": PLACES,
    }),
    "layer_norm": Family("layer-normalization", layer_norm, [(6, 6)], {
        "mean": AXES, "squares": AXES, "fast": [True], "epsilon": [0.0, -1e-3, np.inf],
        "scale": [(6,), (6, 1), (1, 6), (1, 1, 6), (1, 1, 1), (6, 6)],
        "bias": [(6,), (6, 1), (1, 1, 6), ()], "reads": ["y", "v", "m"],
        "dtype": FLOATS, "shape": [(0, 4), (1, 6), (6, 1), (3, 3, 3)], "last": PLACES,
    }),
    "fast_layer_norm": Family(
        "layer-normalization", functools.partial(layer_norm, fast=True), [(6, 6)],
        {"mean": AXES, "squares": AXES}, special=False,
    ),
    "rms_norm": Family("rms-normalization", rms_norm, [(6, 6)], {
        "squares": AXES, "of": ["transposed", "first"], "epsilon": [0.0, -1.0],
        "scale": [(6,), (6, 1), (1, 1, 6), (1, 1, 1)],
        "dtype": FLOATS, "shape": [(0, 4), (6, 1)], "last": PLACES,
    }),
    "group_norm": Family("group-normalization", group_norm, [(2, 4, 2, 2)], {
        "groups": [1, 4], "mean_axes": [(1, 3, 4), (2, 3)], "axes": [(2, 3), (1, 2, 3)],
        "epsilon": [0.0, -1.0],
        "beside": [(1, 2, 2, 1, 1), (1, 1, 1, 2, 2), (2, 1, 2, 1, 1)], "dtype": FLOATS,
        "last": PLACES,
    }, special=False),
    "batch_norm": Family("batch-normalization", batch_norm, [(2, 4, 4, 4), (4,), (4,), (4,)], {
        "at": [2, 3], "w": [0], "epsilon": [0.0], "dtype": FLOATS, "last": PLACES,
    }, special=False),
    "far_batch_norm": Family(
        "", functools.partial(batch_norm, w=0, offset=1e4), [(2, 4, 4, 4), (4,), (4,), (4,)],
        special=False,
    ),
    "mean": Family("reduce-mean", mean, [(4, 4)], {
        "axis": [0, (0, 1), (), None], "keepdims": [False], "terms": [a_ulp_more(4), 3, -4, 0],
        "shape": [(1,), (1, 1, 1), (4,)], "reads": [True], "dtype": FLOATS, "last": PLACES,
    }),
    "gelu": Family("activations", gelu, [(4, 6)], {
        "half": [a_ulp_more(0.5), 0.51], "root": [a_ulp_more(ROOT), 0.7], "one": [-1.0],
        **ELEMENTWISE,
    }),
    "elu": Family("activations", elu, [(4, 6)], {
        "alpha": [0.5, -0.0, np.nan, np.inf], "test": [-0.0, 1e-30, np.nan], **ELEMENTWISE,
    }),
    "leaky_relu": Family("activations", leaky_relu, [(4, 6)], {
        "alpha": [-0.0, 2.0, np.nan, np.inf], "test": [-0.0, 1e-30], "strict": [True],
        **ELEMENTWISE,
    }),
    "hard_sigmoid": Family("activations", hard_sigmoid, [(4, 6)], {
        "low": [-0.0, a_ulp_more(0)], "high": [a_ulp_more(6), 5.9], "shift": [a_ulp_more(3), 2.5],
        "by": [a_ulp_more(6), 3], **ELEMENTWISE,
    }),
    "softsign": Family("activations", softsign, [(4, 6)], {
        "one": [a_ulp_more(1), 2, -1], **ELEMENTWISE,
    }),
    "sigmoid": Family("sigmoid", sigmoid, [(4, 6)], {
        "reader": [*GATES, *SIGMOID_READERS], "dtype": ["float16"], "last": PLACES,
    }),
    "relu": Family("relu", relu, [(4, 6)], {
        "reader": [*RELU_READERS], "low": [-0.0, a_ulp_more(0)], "last": PLACES,
    }),
    "clip": Family("min-max-to-clip", functools.partial(relu, high=6.0), [(4, 6)], {
        "reader": [*RELU_READERS], "low": [-0.0, 7.0, np.nan, -1.0], "high": [0.0, -0.0, np.inf],
    }),
    "scaled": Family("fold-scale-into-conv", scaled, [(1, 2, 3, 3)], {
        "channels": [1], "dims": [(), (4, 1, 1), (1, 1, 1, 3), (1, 1, 3, 1), (4, 1, 1, 1)],
        "factor": [np.nan, 0.0, (1.0, 0.0, 0.0, 2.0), 1e-30], "divide": [True],
        "add": [1.0, np.inf, (1.0, 2.0, 3.0, 4.0)], "whole": [True], "reads": [True],
        "dtype": FLOATS, "last": PLACES,
    }, special=False),
    "quotient": Family(
        "fold-scale-into-conv", functools.partial(scaled, divide=True), [(1, 2, 3, 3)],
        {"factor": [np.inf, 0.0, 3.0, 1e-30]}, special=False,
    ),
    "overflow": Family(
        "fold-scale-into-conv", functools.partial(scaled, weights=1e-20), [(1, 2, 3, 3)],
        {"factor": [1e-25, 1e38], "add": [1e-20]}, special=False,
    ),
    "neutral": Family("fold-identity-operand", neutral, [(4, 6)], {
        "by": [-1, a_ulp_more(1), 0.0, np.nan], "op": ["div", "add", "sub", "max", "min"],
        "side": [1], "dtype": FLOATS,
    }),
    "no sum": Family(
        "fold-identity-operand", functools.partial(neutral, by=-0.0, op="add"), [(4, 6)],
        {"side": [1]},
    ),
    "no difference": Family(
        "fold-identity-operand", functools.partial(neutral, by=0.0, op="sub"), [(4, 6)],
        {"side": [1]},
    ),
    "transposed": Family("sink-transpose", transposed, [(2, 3, 4)], {
        "perm": [(0, 1, 2), (2, 1, 0)], "reads": [True], "last": PLACES,
        "other": [(1, 4, 1), (3, 1, 2), (2, 3, 4, 2)], "shape": [(1, 3, 4), (0, 3, 4), (2, 1, 1)],
    }),
    **{
        f"{then} transposed": Family(rule, functools.partial(transposed, then=then), [(4, 2, 4)], {
            "perm": [(0, 1, 2), (2, 1, 0), (2, 0, 1)], "reads": [True],
        })
        for then, rule in {  # what reads it, and the rule
            "pad": "sink-transpose-pad", "negative pad": "sink-transpose-pad",
            "slice": "sink-transpose-slice", "split": "sink-transpose-split-axes",
            "max": "sink-transpose-reduce", "sum": "sink-transpose-reduce",
            "concat": "", "join": "",
        }.items()
    },
    "reshaped": Family("sink-reshape", reshaped, [(4, 6)], {
        "dims": [(4, 3, 2), (24,), (4, 1, 6), (1, 4, 6), (6, 4)],
        "other": [(12, 2), (1, 2), (12, 1), (3, 12, 2)], "reads": [True],
        "shape": [(2, 12), (24, 1)], "last": PLACES,
    }),
    "kept": Family("reduce-keepdims", kept, [(5, 5)], {
        "axis": [0], "back": [0], "kind": ["max", "min", "prod", "mean"], "reads": [True],
        "last": PLACES,
    }),
    "product": Family("matmul-transpose", product, [(3, 3, 3), (3, 3, 3)], {
        "perm": [(2, 1, 0), (1, 0, 2), (0, 1, 2)], "before": [(1, 0, 2), (2, 1, 0)],
        "reads": [True],
    }, special=False),
}  # fmt: skip


def arrays(family: Family, shape: tuple[int, ...] | None, dtype: str) -> list[np.ndarray]:
    """Numbers of both signs, and in each row one that is special."""
    rng = np.random.default_rng(len(family.rule))
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    made = []
    for dims in [shape] if shape is not None else family.shapes:
        array = rng.normal(0, 3, dims)
        rows = array.reshape(-1, dims[-1]) if array.ndim > 1 and array.size else np.empty((0, 0))
        if family.special:
            for row, item in zip(rows, (np.nan, np.inf, -np.inf, -0.0, 0.0), strict=False):
                row[row.size // 2] = item
            rows[5:] = -np.inf
        made.append(np.asarray(array, kind))
    return made


def check(family: Family, name: str, choice: Any) -> None:
    """Compares the program with XLA, with the rule and without."""
    given = {} if name == "itself" else {name: choice}
    dtype = given.pop("dtype", "float32")
    is_shape = name == "shape" and family.rule != "reduce-mean"
    inputs = arrays(family, given.pop("shape") if is_shape else None, dtype)

    def function(trips: Array, *args: Array) -> Any:
        _TRIPS.append(trips)
        try:
            return family.build(*args, **given)
        finally:
            _TRIPS.pop()

    with jax.enable_x64(dtype == "float64"):
        trips = np.int32(2)
        lowered = jax.jit(function, keep_unused=True).lower(trips, *inputs)
        for without in ((), (family.rule,) if family.rule else ()):
            program = hlo2onnx.translate(lowered, without=without)
            found = program.verify(trips, *inputs)
            assert found.ok, f"{name}={choice!r} without={without}\n{found}\n{program.model}"
            if name == "itself" and family.rule and not without:
                assert program.report.rules[family.rule], program.model


def variants() -> Iterator[Any]:
    """All programs; those are wide that no rule ever got wrong."""
    for title, family in FAMILIES.items():
        for name, choice in family.variants():
            is_quick = name in ("itself", "squares", "alpha", "channels") or (
                (title, name) in (("sigmoid", "reader"), ("relu", "reader"))
                or (title, choice) == ("log_softmax", "float64")
            )
            yield pytest.param(
                family,
                name,
                choice,
                id=f"{title}-{name}-{getattr(choice, '__name__', choice)}",
                marks=[] if is_quick else pytest.mark.wide,
            )


@pytest.mark.parametrize(("family", "name", "choice"), [*variants()])
def test_near_misses(family: Family, name: str, choice: Any) -> None:
    check(family, name, choice)
