"""The target iree avoids what IREE computes wrongly, and what it does not compile."""

from __future__ import annotations

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as oir
import pytest

import hlo2onnx
from hlo2onnx.report import Report
from hlo2onnx.runtime.sessions import OrtProgram
from hlo2onnx.targets import load_target
from hlo2onnx.targets.legalize import legalize


def test_large_exponents_do_not_overflow() -> None:
    """IREE's ReduceLogSumExp adds the exponentials themselves."""
    x = np.array([[1000, 999, -5], [-2000, -2001, -2002]], np.float32)

    def total(x: jax.Array) -> jax.Array:
        return jax.nn.logsumexp(x, axis=1)

    program = hlo2onnx.translate(total, x, target="iree")
    assert program.report.nodes["ReduceMax"]
    assert not program.report.nodes["ReduceLogSumExp"]
    np.testing.assert_allclose(program(x), jax.jit(total)(x), rtol=1e-6)


@pytest.mark.parametrize("dtype", [np.float32, np.int32])
@pytest.mark.parametrize("name", ["max", "min"])
def test_extremes_by_segment_are_reductions(name: str, dtype: type) -> None:
    """-1 and 3 are the same row, 7 and -5 are outside, 2 has no update."""

    def extremes(x: jax.Array, at: jax.Array, y: jax.Array) -> jax.Array:
        return getattr(x.at[at], name)(y)

    x = np.array([-7, 3, 5, 0], dtype)
    at = np.array([1, -1, 3, 7, -4, -5], np.int32)
    y = np.array([2, 4, -9, 100, -100, 100], dtype)
    program = hlo2onnx.translate(extremes, x, at, y, target="iree")
    scatters = [x for x in program.model_proto.graph.node if x.op_type == "ScatterElements"]
    assert not any(item.s in (b"max", b"min") for x in scatters for item in x.attribute)
    np.testing.assert_array_equal(program(x, at, y), extremes(jnp.array(x), at, y))


def test_a_scatter_that_counts_from_the_end() -> None:
    """No lowering makes one, but plug-ins may."""
    text = """<ir_version: 10, opset_import: ["": 21]>
        main (float[3] x, int32[2] i, float[2] y) => (float[3] z) {
            z = ScatterElements <reduction = "max"> (x, i, y) }"""
    model = oir.from_proto(onnx.parser.parse_model(text))
    legalize(model, load_target("iree"), "xla", Report())
    assert "ScatterElements" not in {node.op_type for node in model.graph}
    given = {"x": np.zeros(3, "f"), "i": np.array([-1, 0], "i"), "y": np.array([5, 7], "f")}
    (z,) = OrtProgram(oir.to_proto(model).SerializeToString())(given)
    np.testing.assert_array_equal(z, [7, 0, 5])


@pytest.mark.parametrize(
    ("extent", "size", "padding", "kept"),
    [
        (2, 3, (1, 1), [1, 1, 0, 0]),  # as the last stage of a network for images
        (4, 3, (0, 0), [0, 0, 0, 0]),  # a row of the image lies behind the window
        (2, 3, (1, 2), [1, 1, 0, 0]),
        (4, 3, (1, 1), [1, 1, 1, 1]),  # two windows
        (2, 3, (3, 0), [3, 3, 0, 0]),  # the window is in the padding
    ],
)
def test_a_single_window_ends_where_the_rows_end(
    extent: int, size: int, padding: tuple[int, int], kept: list[int]
) -> None:
    def convolved(x: jax.Array, kernel: jax.Array) -> jax.Array:
        return jax.lax.conv_general_dilated(x, kernel, (3, 3), [padding, padding])

    x = np.arange(2 * extent**2, dtype=np.float32).reshape(1, 2, extent, extent)
    kernel = np.cos(np.arange(4 * size**2, dtype=np.float32)).reshape(2, 2, size, size)
    program = hlo2onnx.translate(convolved, x, kernel, target="iree")
    (node,) = (node for node in program.model_proto.graph.node if node.op_type == "Conv")
    (pads,) = (item.ints for item in node.attribute if item.name == "pads")
    assert list(pads) == kept
    assert bool(program.report.nodes["Slice"]) is (padding == (0, 0))  # where elements are cut off
    np.testing.assert_allclose(program(x, kernel), convolved(x, kernel), rtol=1e-5, atol=1e-4)
