"""Constants without elements, where a runtime takes them for scalars."""

from __future__ import annotations

import json
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir

from hlo2onnx import translate
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import const_of

X = np.ones((3, 0), np.float32)


def function(x: jax.Array) -> tuple[jax.Array, ...]:
    half = jnp.zeros((2, 0), jnp.bfloat16)
    return half, x @ jnp.zeros((0, 3)), jnp.reshape(jnp.sum(x), ())


def empty_constants(target: str) -> list[tuple[oir.DataType, int]]:
    program = translate(function, X, target=target)
    assert program.verify(X, runtime="ort-cpu").ok
    values = [x for node in all_nodes(program.model.graph) for x in node.inputs if x is not None]
    arrays = [(x.dtype, const_of(x)) for x in values]
    return [(dtype, x.ndim) for dtype, x in arrays if dtype and x is not None and not x.size]


def test_they_are_expanded(tmp_path: Path) -> None:
    table = tmp_path / "flat.json"
    table.write_text(json.dumps({"extends": "ort-cpu", "flattens_empty_constants": True}))
    shapes = {(oir.DataType.INT64, 1)}
    assert set(empty_constants(str(table))) <= shapes
    assert set(empty_constants("ort-cpu")) - shapes
