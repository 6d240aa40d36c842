"""Where of many integers as arithmetic, and of the bits of floats."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from against_xla import against_jax, against_xla
from edge_values import edge_values
from every_size import every_size
from mlir_text import tensor

from hlo2onnx.targets.workarounds import slow_kernels

SELECT = """
module {{ func.func public @main(%c: tensor<{count}xi1>, %x: {t}, %y: {t}) -> {t} {{
  %0 = stablehlo.select %c, %x, %y : tensor<{count}xi1>, {t}
  return %0 : {t}
}} }}
"""
KINDS = ["i32", "i64", "ui32", "ui64", "ui8", "f32", "f64"]


@pytest.fixture(autouse=True)
def few_elements(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(slow_kernels, "_FEWEST_ELEMENTS", 8)


def selected(kind: str, count: int = 0, **options: Any) -> Any:
    """All pairs of edge values, each chosen and not."""
    edges = edge_values(kind)
    x, y = (part.reshape(-1) for part in np.meshgrid(edges, edges))
    x, y = (np.concatenate([part, part])[: count or None] for part in (x, y))
    text = SELECT.format(count=x.size, t=tensor(x.shape, kind))
    return against_xla(text, np.arange(x.size) < x.size // 2, x, y, **options)


@pytest.mark.parametrize("kind", KINDS)
def test_every_pair_of_edge_values(kind: str) -> None:
    run = selected(kind, opset=26).bit_exact()
    run.has_no("Where")
    assert bool(run.nodes["BitCast"]) == kind.startswith("f")
    assert run.actual[0][0].tobytes() == np.where(*run.inputs).tobytes()  # NaN and zeros as well


@pytest.mark.parametrize("count", [7, 8])
def test_few_elements_are_selected_as_they_are(count: int) -> None:
    assert selected("i32", count).bit_exact().nodes["Where"] == (count == 7)


C = np.arange(12) % 3 == 0
X, Y = np.arange(12, dtype=np.int32), np.full(12, -(2**31), np.int32)


def test_conditions_that_repeat() -> None:
    """One that holds for a long row is easy to predict."""
    rows = [np.tile(x, (3, 1)) for x in (X, Y)]
    run = against_jax(lambda c, x, y: jnp.where(c, x, y), C[:3, None], *rows)
    assert run.bit_exact().nodes["Where"] == 1
    assert against_jax(lambda c, x: lax_select(c, x), True, X).bit_exact().nodes["Where"] == 1


def lax_select(c: jax.Array, x: jax.Array) -> jax.Array:
    return jax.lax.select(c, x, -x)


INT = np.int32
CONSTANTS = {
    "1 or 0": (lambda c, x: jnp.where(c, INT(1), INT(0)) + 0 * x, ["Cast"]),
    "x or 0": (lambda c, x: jnp.where(c, x, INT(0)), ["Cast", "Mul"]),
    "0 or x": (lambda c, x: jnp.where(c, INT(0), x), ["Cast", "Mul", "Not"]),
    "5 or -3": (lambda c, x: jnp.where(c, INT(5), INT(-3)) + 0 * x, ["Add", "Cast", "Mul"]),
    "x + 9 or x": (lambda c, x: jnp.where(c, x + INT(9), x), ["Add", "Cast", "Mul"]),
    "largest or least": (
        lambda c, x: jnp.where(c, INT(2**31 - 1), INT(-(2**31))) + 0 * x,
        ["Add", "Cast", "Mul"],
    ),
    "a row or x": (
        lambda c, x: jnp.where(
            c.reshape(3, 4), jnp.arange(4, dtype="i4") + INT(2**30), x.reshape(3, 4)
        ),
        ["Add", "Cast", "Mul", "Reshape", "Reshape", "Sub"],
    ),
}


@pytest.mark.parametrize("name", CONSTANTS)
def test_constants(name: str) -> None:
    function, nodes = CONSTANTS[name]
    run = against_jax(jax.jit(function, keep_unused=True), C, X).bit_exact()
    assert sorted(run.nodes.elements()) == nodes


def test_symbolic_shapes() -> None:
    program = every_size(lambda c, x: jnp.where(c > 0, x, 5), "int32[n]", "int32[n]")
    assert program.report.nodes["Where"] == 1


@pytest.mark.parametrize("target", ["openvino", "onnx", "ort-webgpu"])
def test_other_targets(target: str, monkeypatch: pytest.MonkeyPatch) -> None:
    from hlo2onnx import translate

    monkeypatch.undo()
    count = 1 << 15
    text = SELECT.format(count=count, t=f"tensor<{count}xi32>")
    assert translate(text, target=target).report.nodes["Where"] == 1
    assert not translate(text).report.nodes["Where"]


def test_floats_without_bit_casts() -> None:
    assert selected("f32", opset=25).close().nodes["Where"] == 1
