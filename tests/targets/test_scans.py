"""Scans as Loops: of bodies that read no row, and for targets that do not run every Scan."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx

ROWS = np.random.default_rng(0).normal(size=(100, 4)).astype(np.float32)
X = np.arange(4, dtype=np.float32)


def table(folder: Path, **flags: bool) -> Path:
    path = folder / "acme.json"
    path.write_text(json.dumps({"extends": "ort-cpu", **flags}))
    return path


def summed(x: jax.Array, rows: jax.Array, **options: Any) -> Any:
    def step(s: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        s = jnp.sin(s + row)
        return s, jnp.cos(s)

    return lax.scan(step, x, rows, **options)


def nested(x: jax.Array, rows: jax.Array) -> Any:
    def step(s: jax.Array, row: jax.Array) -> tuple[jax.Array, jax.Array]:
        inner, ys = summed(s, rows[:40] * row)
        return inner * 0.5, ys

    return lax.scan(step, x, rows)


def trips_only(x: jax.Array, rows: jax.Array) -> Any:
    return lax.fori_loop(0, 200, lambda i, x: jnp.sin(x) + 0.5 * jnp.cos(x[::-1]), x)


def numbered(x: jax.Array, rows: jax.Array) -> Any:
    return lax.fori_loop(0, 200, lambda i, x: jnp.sin(x) + 0.5 * x[i % 3], x)


def drawn(x: jax.Array, rows: jax.Array) -> Any:
    return jax.random.normal(jax.random.key(3), (700,)) + x[0]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "forwards": summed,
    "backwards": lambda x, rows: summed(x, rows, reverse=True),
    "nested": nested,
    "drawn": drawn,
    "numbered": numbered,
}


def operators(program: hlo2onnx.OnnxProgram) -> set[str]:
    return set(program.report.nodes)


@pytest.mark.parametrize("name", PROGRAMS)
def test_no_scan_is_left(name: str, tmp_path: Path) -> None:
    flag = "no_outer_values_in_scans" if name == "nested" else "no_scan"
    function = PROGRAMS[name]
    assert "Scan" in operators(hlo2onnx.translate(function, X, ROWS))
    program = hlo2onnx.translate(function, X, ROWS, target=table(tmp_path, **{flag: True}))
    assert "Loop" in operators(program)
    assert "Scan" not in operators(program)
    assert program.verify(X, ROWS).ok


def test_backwards_with_free_extents(tmp_path: Path) -> None:
    program = hlo2onnx.translate(
        PROGRAMS["backwards"], "4", "n, 4", target=table(tmp_path, no_scan=True)
    )
    assert "Scan" not in operators(program)
    assert program.verify(X, ROWS).ok


# Some runtimes take the number of trips from the rows that the body reads, and give wrong results
# without an error where it reads none.


def test_trips_alone_are_a_loop() -> None:
    program = hlo2onnx.translate(trips_only, X, ROWS)
    assert "Loop" in operators(program) and "Scan" not in operators(program)
    assert program.verify(X, ROWS).ok


@pytest.mark.parametrize("given", ["", "%x"])
def test_a_scan_of_the_program_that_reads_no_row(given: str) -> None:
    rows = "tensor<4x2xf32>, " if given else ""
    text = f"""
    module {{ func.func public @main(%x: tensor<4x2xf32>, %i: tensor<2xf32>) -> tensor<4x2xf32> {{
      %0:2 = "chlo.scan"({"%x, " if given else ""}%i) ({{
      ^bb0({"%r: tensor<2xf32>, " if given else ""}%c: tensor<2xf32>):
        %s = stablehlo.add %c, %c : tensor<2xf32>
        stablehlo.return %c, %s : tensor<2xf32>, tensor<2xf32>
      }}) {{dimension = 0 : i64, {"" if given else "scan_dim_size = 4 : i64,"}
        is_reverse = true,
        operandSegmentSizes = array<i32: {int(bool(given))}, 1>,
        resultSegmentSizes = array<i32: 1, 1>}}
        : ({rows}tensor<2xf32>) -> (tensor<4x2xf32>, tensor<2xf32>)
      return %0#0 : tensor<4x2xf32>
    }} }}
    """
    program = hlo2onnx.translate(text, without="loop-unroll")
    assert "Loop" in operators(program) and "Scan" not in operators(program)
    i = np.array([1.0, -3.0], np.float32)
    stacked = i * 2.0 ** np.arange(4)[::-1, None]
    np.testing.assert_array_equal(program(np.zeros((4, 2), np.float32), i), stacked)
