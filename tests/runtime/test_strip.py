"""`save(strip=True)` and `--strip`: no metadata of ours and no doc strings in the file."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from google.protobuf.message import Message

import hlo2onnx
from hlo2onnx import cli

X = np.ones(3, np.float32)


@jax.jit
def inner(x: jax.Array) -> jax.Array:
    return jax.lax.fori_loop(0, 3, lambda i, x: jnp.tanh(x) * 2, x)


def model(x: jax.Array, y: jax.Array) -> tuple[jax.Array, jax.Array]:
    return jax.lax.cond(y[0] > 0, lambda: inner(x) + y, lambda: x - y), inner(y)


def program() -> hlo2onnx.OnnxProgram:
    """One with state, a function, and metadata and doc strings everywhere."""
    lowered = jax.jit(model, donate_argnums=0).lower(X, X)
    found = hlo2onnx.translate(lowered, functions="keep")
    found.model.doc_string = found.model.graph.doc_string = "the model"
    for value in [*found.model.graph.inputs, *found.model.graph.initializers.values()]:
        value.doc_string = "a value"
        value.metadata_props["key"] = "value"
    for node in found.model.graph:
        node.doc_string = "a node"
    return found


def notes(message: Message) -> list[Any]:
    """The metadata and doc strings in a message."""
    found: list[Any] = []
    for field, content in message.ListFields():
        if field.name in ("metadata_props", "doc_string"):
            found.append(content)
        elif field.message_type:
            parts = (
                content
                if isinstance(content, (list, tuple)) or hasattr(content, "add")
                else [content]
            )
            found += [note for part in parts for note in notes(part)]
    return found


@pytest.mark.parametrize("external", [False, True])
def test_save(external: bool, tmp_path: Path) -> None:
    given, path = program(), tmp_path / "model.onnx"
    given.save(path, external_data=external)
    assert len(notes(onnx.load(path))) > 20
    given.save(path, external_data=external, strip=True)
    saved = onnx.load(path)
    assert notes(saved) == []
    assert saved.functions
    assert "test_strip" not in str(saved)
    names = given.input_names
    found = onnxruntime.InferenceSession(path).run(None, {names[0]: X, names[1]: X})
    for have, want in zip(found, given(X, X), strict=True):
        np.testing.assert_array_equal(have, want)


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    source, path = tmp_path / "model.mlir", tmp_path / "model.onnx"
    source.write_text(jax.jit(model).lower(X, X).as_text(debug_info=True))
    assert cli.main([str(source), "-o", str(path), "-q"]) == 0
    assert notes(onnx.load(path))
    assert cli.main([str(source), "-o", str(path), "-q", "--strip"]) == 0
    assert notes(onnx.load(path)) == []
