"""The rule on attention alone, on small graphs, and in programs of JAX."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, fires, foreign, model_of

from hlo2onnx import translate
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.nn.attention import Attention
from hlo2onnx.targets import load_target

FUSING = load_target("ort-cpu")
UNFUSED = replace(FUSING, flags=replace(FUSING.flags, fuses_attention=False))

B, H, S, L, D, E = 2, 4, 3, 5, 8, 6
RNG = np.random.default_rng(0)
LOW = float(np.finfo(np.float32).min)
TRIANGLE = np.tril(np.ones((L, L), bool))


def normal(*shape: int) -> np.ndarray:
    return RNG.normal(size=shape).astype(np.float32)


INPUTS = {"q": normal(B, H, S, D), "k": normal(B, H, L, D), "v": normal(B, H, L, E)}
SQUARE = {"q": normal(B, H, L, D), "k": normal(B, H, L, D), "v": normal(B, H, L, E)}
MASK = {"m": RNG.random((S, L)) < 0.5}


def attention(
    b: GraphBuilder,
    q: oir.Value,
    k: oir.Value,
    v: oir.Value,
    *,
    scaled: Any = lambda b, s: b.Div(s, b.scalar_like(4, s)),
    masked: Any = lambda b, s: s,
    axis: int = -1,
) -> oir.Value:
    rank = len(k.shape)  # type: ignore[arg-type]
    kt = b.transpose(k, [*range(rank - 2), rank - 1, rank - 2])
    weights = b.Softmax(masked(b, scaled(b, b.MatMul(q, kt))), axis=axis)
    return b.MatMul(weights, v)


def of(**options: Any) -> Build:
    return lambda b, q, k, v, **_: attention(b, q, k, v, **options)


def where(mask: np.ndarray, fill: float) -> Build:
    return of(masked=lambda b, s: b.Where(b.const(mask), s, b.scalar_like(fill, s)))


def rewritten(build: Build, inputs: dict[str, np.ndarray]) -> tuple[Rewrite, dict[str, Any]]:
    """The rewritten graph, and the attributes of its Attention."""
    found = Rewrite(build, inputs, Attention(), tolerance=1e-6, target=FUSING)
    assert found.nodes["Attention"] == 1 and not found.nodes["Softmax"], found.model
    (node,) = [n for n in found.model.graph.all_nodes() if n.op_type == "Attention"]
    return found, {key: item.value for key, item in node.attributes.items()}


@pytest.mark.parametrize(
    ("scaled", "scale"),
    [
        (lambda b, s: b.Div(s, b.scalar_like(4, s)), 0.25),
        (lambda b, s: b.Mul(s, b.scalar_like(0.3, s)), 0.3),
        (lambda b, s: b.Mul(b.scalar_like(0.3, s), s), 0.3),
        (lambda b, s: s, 1.0),
        (lambda b, s: b.Mul(b.Div(s, b.scalar_like(2, s)), b.scalar_like(0.5, s)), 0.25),
    ],
)
def test_scales(scaled: Any, scale: float) -> None:
    _, attributes = rewritten(of(scaled=scaled), INPUTS)
    assert attributes == {"scale": pytest.approx(scale)}


@pytest.mark.parametrize("lead", [(), (H,), (B, H), (2, 3, H)])
def test_leading_axes(lead: tuple[int, ...]) -> None:
    rewritten(of(), {"q": normal(*lead, S, D), "k": normal(*lead, L, D), "v": normal(*lead, L, E)})


@pytest.mark.parametrize(
    "shape",
    [(S, L), (1, L), (L,), (1, 1, S, L), (B, 1, 1, L), (1, H, S, L), (B, H, S, 1), (H, S, L)],
)
def test_addends(shape: tuple[int, ...]) -> None:
    inputs = {**INPUTS, "m": normal(*shape)}
    for flip in (False, True):
        rewritten(
            lambda b, q, k, v, m, flip=flip: attention(
                b, q, k, v, masked=lambda b, s: b.Add(m, s) if flip else b.Add(s, m)
            ),
            inputs,
        )


@pytest.mark.parametrize("fill", [-np.inf, LOW, -1e30])
def test_a_lower_triangle_is_causal(fill: float) -> None:
    found, attributes = rewritten(where(TRIANGLE, fill), SQUARE)
    assert attributes["is_causal"] == 1
    assert not found.nodes["Where"]


@pytest.mark.parametrize(
    ("mask", "inputs"),
    [
        (np.tril(np.ones((S, L), bool)), INPUTS),
        (np.triu(np.ones((L, L), bool)), SQUARE),
        (TRIANGLE | (np.arange(L) == 3), SQUARE),
        (RNG.random((B, H, S, L)) < 0.5, INPUTS),
    ],
)
def test_other_constant_masks(mask: np.ndarray, inputs: dict[str, np.ndarray]) -> None:
    mask[..., 0] = True
    found, attributes = rewritten(where(mask, -np.inf), inputs)
    assert "is_causal" not in attributes
    assert not found.nodes["Where"]


def test_rows_without_a_key_keep_equal_weights() -> None:
    """The lowest number itself would be -inf to the runtime."""
    mask = np.array([[True] * L, [False] * L, [False, True, True, False, True]])
    found, _ = rewritten(
        lambda b, q, k, v, m: attention(
            b, q, k, v, masked=lambda b, s: b.Where(m, s, b.scalar_like(LOW, s))
        ),
        {**INPUTS, "m": mask},
    )
    assert found.nodes["Where"] == 1
    rewritten(where(mask, LOW), INPUTS)


def test_a_computed_mask() -> None:
    mask = MASK["m"] | (np.arange(L) == 1)
    found, _ = rewritten(
        lambda b, q, k, v, m: attention(
            b, q, k, v, masked=lambda b, s: b.Where(m, s, b.scalar_like(-np.inf, s))
        ),
        {**INPUTS, "m": mask},
    )
    assert not found.nodes["Where"]


def capped(cap: float, divisor: float) -> Any:
    def scaled(b: GraphBuilder, s: oir.Value) -> oir.Value:
        s = b.Mul(s, b.scalar_like(0.5, s))
        inner = b.Tanh(b.Div(s, b.scalar_like(divisor, s)))
        return b.Mul(b.scalar_like(cap, s), inner)  # type: ignore[no-any-return]

    return scaled


def grouped(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
    """q: (batch, key heads, groups, queries, features)"""
    batch, heads, groups, rows, features = q.shape  # type: ignore[misc]
    flat = b.reshape(q, (batch, heads, groups * rows, features))  # type: ignore[operator]
    scores = b.MatMul(flat, b.transpose(k, [0, 1, 3, 2]))
    keys = k.shape[2]  # type: ignore[index]
    scores = b.reshape(scores, (batch, heads, groups, rows, keys))  # type: ignore[arg-type]
    masked = b.Where(b.const(TRIANGLE), scores, b.scalar_like(-np.inf, scores))
    weights = b.Softmax(masked, axis=-1)
    return b.MatMul(b.reshape(weights, (batch, heads, groups * rows, keys)), v)  # type: ignore[arg-type, no-any-return]


def test_groups_of_heads() -> None:
    inputs = {"q": normal(B, 2, 3, L, D), "k": normal(B, 2, L, D), "v": normal(B, 2, L, E)}
    found, attributes = rewritten(grouped, inputs)
    assert attributes["is_causal"] == 1
    (node,) = [n for n in found.model.graph.all_nodes() if n.op_type == "Attention"]
    assert [tuple(x.shape or ()) for x in node.inputs if x] == [
        (B, 6, L, D), (B, 2, L, D), (B, 2, L, E),
    ]  # fmt: skip


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_a_softmax_in_f32(dtype: Any) -> None:
    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
        scores = b.MatMul(q, b.transpose(k, [0, 1, 3, 2]))
        weights = b.Softmax(b.cast(scores, oir.DataType.FLOAT), axis=-1)
        return b.MatMul(b.cast(weights, v.dtype), v)  # type: ignore[no-any-return, arg-type]

    inputs = {name: array.astype(dtype) for name, array in INPUTS.items()}
    model = model_of(build, inputs)
    assert apply_rules(model, [Attention()], load_target("onnx"))
    (node,) = [n for n in model.graph.all_nodes() if n.op_type == "Attention"]
    assert node.attributes["softmax_precision"].as_int() == oir.DataType.FLOAT
    assert not fires(build, inputs, Attention(), target=FUSING)


# -- near misses ------------------------------------------------------------------------------


def read_twice(which: int) -> Build:
    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> Sequence[oir.Value]:
        product = b.MatMul(q, b.transpose(k, [0, 1, 3, 2]))
        scores = b.Mul(product, b.scalar_like(0.5, product))
        weights = b.Softmax(scores, axis=-1)
        return [b.MatMul(weights, v), b.Neg([product, scores, weights][which])]

    return build


def masks(mask: Any) -> Build:
    return of(masked=lambda b, s: mask(b, s))


NEAR_MISSES: dict[str, Build] = {
    "another axis": of(axis=-2),
    "a scale above 1": of(scaled=lambda b, s: b.Mul(s, b.scalar_like(1.5, s))),
    "a negative scale": of(scaled=lambda b, s: b.Mul(s, b.scalar_like(-0.5, s))),
    "a scale of 0": of(scaled=lambda b, s: b.Mul(s, b.scalar_like(0, s))),
    "a scale for each key": of(scaled=lambda b, s: b.Mul(s, b.const(normal(L)))),
    "a dividend": of(scaled=lambda b, s: b.Div(b.scalar_like(1, s), s)),
    "a fill that is not low": where(MASK["m"], -1e9),
    "a fill for each key": masks(lambda b, s: b.Where(b.const(MASK["m"]), s, b.const(normal(L)))),
    "scores where masked": masks(
        lambda b, s: b.Where(b.const(MASK["m"]), b.scalar_like(LOW, s), s)
    ),
    "a softcap": of(scaled=capped(2, 2)),
    "no product": lambda b, q, k, v: b.MatMul(b.Softmax(b.const(normal(B, H, S, L)), axis=-1), v),
    "a wider mask": lambda b, q, k, v: attention(
        b, q, k, b.expand(b.unsqueeze(v, [0]), (2, B, H, L, E)),
        masked=lambda b, s: b.Add(s, b.const(normal(2, B, H, S, L))),
    ),
    "weights that broadcast": lambda b, q, k, v: attention(
        b, q, k, b.expand(b.unsqueeze(v, [0]), (2, B, H, L, E))
    ),
    "foreign softmax": lambda b, q, k, v: b.MatMul(
        foreign(b.Softmax(b.MatMul(q, b.transpose(k, [0, 1, 3, 2])), axis=-1)), v
    ),
    **{f"read twice {which}": read_twice(which) for which in range(3)},
}  # fmt: skip


@pytest.mark.parametrize("build", NEAR_MISSES.values(), ids=NEAR_MISSES.keys())
def test_near_misses(build: Build) -> None:
    assert not fires(build, INPUTS, Attention(), target=FUSING)


@pytest.mark.parametrize(("lead", "is_right"), [((2, 3), True), ((1, 1), True), ((2, 1), False)])
def test_masks_of_two_batch_axes(lead: tuple[int, ...], is_right: bool) -> None:
    x = {"q": normal(2, 3, H, S, D), "k": normal(2, 3, H, L, D), "v": normal(2, 3, H, L, E)}
    mask = normal(*lead, 1, S, L)
    build = of(masked=lambda b, s: b.Add(s, b.const(mask)))
    assert fires(build, x, Attention(), target=FUSING) == is_right
    if is_right:
        rewritten(build, x)


def test_transposed_weights() -> None:
    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
        weights = b.Softmax(b.MatMul(q, b.transpose(k, [0, 1, 3, 2])), axis=-1)
        return b.MatMul(b.transpose(weights, [0, 1, 3, 2]), v)  # type: ignore[no-any-return]

    assert not fires(build, SQUARE, Attention(), target=FUSING)


@pytest.mark.parametrize(("perm", "is_right"), [((0, 1, 3, 2), True), ((1, 0, 3, 2), False)])
def test_a_transposed_product(perm: tuple[int, ...], is_right: bool) -> None:
    """v^T @ weights^T"""

    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
        weights = b.Softmax(b.MatMul(q, b.transpose(k, [0, 1, 3, 2])), axis=-1)
        turned = b.transpose(v, [0, 1, 3, 2])
        return b.MatMul(turned, b.transpose(weights, perm))  # type: ignore[no-any-return]

    x = {"q": normal(2, 2, S, D), "k": normal(2, 2, L, D), "v": normal(2, 2, L, E)}
    assert fires(build, x, Attention(), target=FUSING) == is_right
    if is_right:
        rewritten(build, x)


def test_a_vector_of_queries() -> None:
    """Its product has no axis of rows."""

    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
        scores = b.op("MatMul", q, k, types=[(q.dtype, (L,))])
        return b.op("MatMul", b.Softmax(scores, axis=-1), v, types=[(q.dtype, (E,))])

    x = {"q": normal(D), "k": normal(D, L), "v": normal(L, E)}
    assert not fires(build, x, Attention(), target=FUSING)


def test_a_mask_with_more_rows() -> None:
    one = {**INPUTS, "q": normal(B, H, 1, D)}
    added = of(masked=lambda b, s: b.Add(s, b.const(normal(S, L))))
    for build in (added, where(MASK["m"], -np.inf)):
        assert not fires(build, one, Attention(), target=FUSING)
    assert fires(of(), one, Attention(), target=FUSING)


def in_groups(mask: np.ndarray) -> Build:
    """Weights of three groups of queries for each of two heads of keys."""

    def build(b: GraphBuilder, q: oir.Value, k: oir.Value, v: oir.Value) -> oir.Value:
        flat = b.reshape(q, (B, 2, 3 * L, D))
        scores = b.reshape(b.MatMul(flat, b.transpose(k, [0, 1, 3, 2])), (B, 2, 3, L, L))
        weights = b.Softmax(b.Add(scores, b.const(mask)), axis=-1)
        return b.MatMul(b.reshape(weights, (B, 2, 3 * L, L)), v)  # type: ignore[no-any-return]

    return build


GROUPS = {"q": normal(B, 2, 3, L, D), "k": normal(B, 2, L, D), "v": normal(B, 2, L, E)}


@pytest.mark.parametrize(
    "shape", [(L, L), (1, L, L), (3, 1, L), (3, 1, 1), (2, 3, L, 1), (B, 1, 1, L, L), (L,), (1,)]
)
def test_masks_of_groups(shape: tuple[int, ...]) -> None:
    """Where it varies along one of the two axes of rows, this one has the queries."""
    rewritten(in_groups(normal(*shape)), GROUPS)


def test_a_mask_that_differs_along_groups_only() -> None:
    assert not fires(in_groups(normal(3, L, 1)), GROUPS, Attention(), target=FUSING)


def test_only_where_the_target_fuses_it() -> None:
    assert fires(of(), INPUTS, Attention(), target=FUSING)
    assert not fires(of(), INPUTS, Attention(), target=UNFUSED)
    assert not fires(of(), INPUTS, Attention(), opset=22, target=FUSING)
    doubles = {name: array.astype(np.float64) for name, array in INPUTS.items()}
    assert not fires(of(), doubles, Attention(), target=FUSING)


# -- programs ---------------------------------------------------------------------------------


@pytest.mark.wide
@pytest.mark.parametrize(("heads", "causal"), [(4, False), (4, True), (2, True)])
def test_attention_of_jax(heads: int, causal: bool) -> None:
    def program(q: jax.Array, k: jax.Array, v: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, is_causal=causal)

    x = [normal(2, 6, count, 8) for count in (4, heads, heads)]
    fused = translate(program, *x, target="onnx")
    assert fused.report.nodes["Attention"] == 1 and fused.report.opset == 23
    (node,) = [n for n in fused.model.graph.all_nodes() if n.op_type == "Attention"]
    assert node.attributes.get_int("is_causal", 0) == causal
    np.testing.assert_allclose(fused(*x), program(*map(jnp.asarray, x)), atol=1e-6)


@pytest.mark.costly
@pytest.mark.parametrize("shape", [(2, 1, 1, 7), (2, 1, 6, 7), (1, 4, 6, 7), (2, 4, 6, 7)])
def test_masks_of_jax(shape: tuple[int, ...]) -> None:
    def program(q: jax.Array, k: jax.Array, v: jax.Array, m: jax.Array) -> jax.Array:
        return jax.nn.dot_product_attention(q, k, v, mask=m)

    x = [normal(2, 6, 4, 8), normal(2, 7, 4, 8), normal(2, 7, 4, 8)]
    mask = RNG.random(shape) < 0.5  # some rows have no key
    fused = translate(program, *x, mask, target="onnx")
    assert fused.report.nodes["Attention"] == 1
    np.testing.assert_allclose(fused(*x, mask), program(*map(jnp.asarray, (*x, mask))), atol=1e-6)
