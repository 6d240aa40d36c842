"""Scans as Loops, for targets that do not run every Scan."""

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


def drawn(x: jax.Array, rows: jax.Array) -> Any:
    return jax.random.normal(jax.random.key(3), (700,)) + x[0]


PROGRAMS: dict[str, Callable[..., Any]] = {
    "forwards": summed,
    "backwards": lambda x, rows: summed(x, rows, reverse=True),
    "nested": nested,
    "drawn": drawn,
    "trips": trips_only,
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


def test_a_scan_of_trips_where_rows_must_be_read(tmp_path: Path) -> None:
    target = table(tmp_path, drops_unread_scan_inputs=True)
    counted = hlo2onnx.translate(trips_only, X, ROWS, target=target)
    assert "Scan" not in operators(counted)
    assert counted.verify(X, ROWS).ok
    assert "Scan" in operators(hlo2onnx.translate(trips_only, X, ROWS))
    assert "Scan" in operators(hlo2onnx.translate(summed, X, ROWS, target=target))
