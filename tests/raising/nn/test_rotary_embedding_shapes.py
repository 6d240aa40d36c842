"""The rule on rotary embeddings: shapes, types and opsets of one rotation."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite, fires
from rotary_graphs import INPUTS, RNG, D, X, halves, joined

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.nn.rotary_embedding import RotaryEmbedding


def rotation(b: GraphBuilder, x: oir.Value, cos: oir.Value, sin: oir.Value) -> oir.Value:
    return joined(b, halves(b, x), cos, sin)


@pytest.mark.parametrize(("dtype", "opset"), [(np.float32, 22), (np.float64, 23), (np.float16, 23)])
def test_types_and_opsets_without_it(dtype: type, opset: int) -> None:
    inputs = {name: array.astype(dtype) for name, array in INPUTS.items()}
    assert not fires(rotation, inputs, RotaryEmbedding(), opset=opset)


def test_no_tokens() -> None:
    """The runtime's kernel takes no empty tensor."""
    assert not fires(rotation, INPUTS | {"x": X[:0]}, RotaryEmbedding())


def rotated(x: tuple[int, ...], angles: tuple[int, ...]) -> Rewrite:
    inputs = {
        "x": RNG.normal(size=(*x, D)).astype(np.float32),
        "cos": RNG.normal(size=(*angles, D // 2)).astype(np.float32),
        "sin": RNG.normal(size=(*angles, D // 2)).astype(np.float32),
    }
    return Rewrite(rotation, inputs, RotaryEmbedding(), tolerance=1e-6)


AXES: dict[tuple[tuple[int, ...], tuple[int, ...]], tuple[tuple[int, ...], int | None]] = {
    ((2, 5, 3), (5, 1)): ((2, 5, 24), 3),
    ((2, 3, 5), (5,)): ((2, 3, 5, 8), None),
    ((2, 3, 5), (1, 5)): ((2, 3, 5, 8), None),
    ((2, 5, 3), (2, 5, 1)): ((2, 5, 24), 3),
    ((2, 3, 5), (2, 1, 5)): ((2, 3, 5, 8), None),
    ((2, 4, 5, 3), (5, 1)): ((8, 5, 24), 3),
    ((2, 4, 5, 3), (2, 4, 5, 1)): ((8, 5, 24), 3),
    ((2, 4, 3, 5), (5,)): ((2, 12, 5, 8), None),
    ((2, 4, 3, 5), (2, 4, 1, 5)): ((8, 3, 5, 8), None),
    ((2, 5, 3, 4), (5, 1, 1)): ((2, 5, 96), 12),
    ((2, 5, 3), (1,)): ((2, 5, 24), 3),
    ((2, 5), (5,)): ((1, 2, 5, 8), None),
    ((5,), (5,)): ((1, 5, 8), 1),
    ((2, 5), (2, 5)): ((2, 5, 8), 1),
    ((2, 1, 3), (1, 1)): ((2, 1, 24), 3),
}


@pytest.mark.parametrize(("x", "angles"), AXES)
def test_axes(x: tuple[int, ...], angles: tuple[int, ...]) -> None:
    found = rotated(x, angles)
    (node,) = (n for n in found.model.graph if n.op_type == "RotaryEmbedding")
    heads = node.attributes["num_heads"].as_int() if "num_heads" in node.attributes else None
    assert (node.inputs[0].shape, heads) == AXES[x, angles]  # type: ignore[union-attr]


@pytest.mark.parametrize(
    ("x", "angles"),
    [
        ((2, 5, 3), (5, 3)),
        ((2, 4, 5, 3), (4, 5, 1)),
        ((2, 4, 5, 3), (2, 1, 5, 1)),
        ((2, 1, 3), (5, 1)),
        ((), ()),
    ],
)
def test_angles_along_other_axes(x: tuple[int, ...], angles: tuple[int, ...]) -> None:
    inputs = {
        name: RNG.normal(size=(*dims, n)).astype(np.float32)
        for name, dims, n in (("x", x, D), ("cos", angles, D // 2), ("sin", angles, D // 2))
    }
    assert not fires(rotation, inputs, RotaryEmbedding())
