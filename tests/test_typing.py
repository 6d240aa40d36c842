"""What a type checker says of calls of `translate`."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

PROGRAM = """
from pathlib import Path
from typing import assert_type

import jax
import jax.export
import jax.numpy as jnp

from hlo2onnx import CustomOp, OnnxProgram, OnnxPrograms, translate


def f(x: jax.Array, scale: float = 1.0) -> jax.Array:
    return jnp.tanh(x) * scale


x = jnp.ones(3)
jitted = jax.jit(f)
lowered = jitted.lower(x)
exported = jax.export.export(jitted)(x)
path = Path("a.mlir")

# sources
assert_type(translate(f, x), OnnxProgram)
assert_type(translate(jitted, x, scale=2.0), OnnxProgram)
assert_type(translate(jitted, "b, 3", opset=20), OnnxProgram)
assert_type(translate(lowered), OnnxProgram)
assert_type(translate(exported, specialize={"b": 8}), OnnxProgram)
assert_type(translate(path, target=path), OnnxProgram)
assert_type(translate(b"", function="main"), OnnxProgram)
assert_type(translate({"a": lowered, "b": path}, half="fast"), OnnxPrograms)
translate(lowered, x)  # error
translate(path, x)  # error
translate({"a": path}, x)  # error
translate({3: path})  # error
translate(3)  # error

# options
translate(f, x, without="cse", bind=("x",), dynamic={"x": "b, ..."}, weights_dtype="float16")
translate(f, x, custom_calls={"a": f, "b": CustomOp("", "Tanh")}, inputs_as_nchw=["x"])
translate(path, nan="xla", functions="keep", callbacks="refuse", denormals="flush", dump="here")
translate(f, x, opset="twenty")  # error
translate(path, opset="twenty")  # error
translate(path, optset=3)  # error
translate(lowered, optset=3)  # error
translate({"a": path}, optset=3)  # error
translate(f, x, nan="never")  # error
translate(path, nan="never")  # error
translate(f, x, half=True)  # error
translate(f, x, functions="inlined")  # error
translate(f, x, callbacks="keep")  # error
translate(f, x, denormals="drop")  # error
translate(path, weights_dtype={"*": "int4", "head": None})
translate(path, weights_dtype="int2")  # error
translate(path, weights_dtype={"*": "float16"})  # error
translate(f, x, custom_calls=[f])  # error
translate(f, x, specialize=["b"])  # error
translate(f, x, bind=3.5)  # error
translate(path, metadata={"a": "b"})
translate(f, x, metadata={"a": 3})  # error
"""


@pytest.mark.wide
def test_calls_of_translate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """mypy refuses the calls that are marked, and no other."""
    mypy = pytest.importorskip("mypy.api")
    monkeypatch.setenv("MYPYPATH", str(Path(__file__).parents[1]))
    file = tmp_path / "calls.py"
    file.write_text(PROGRAM, encoding="utf-8")
    arguments = ["--config-file=", f"--cache-dir={tmp_path}", "--follow-imports=silent"]
    output, errors, _ = mypy.run([*arguments, "--ignore-missing-imports", str(file)])
    assert not errors
    refused = {int(line) for line in re.findall(r"calls\.py:(\d+): error:", output)}
    lines = enumerate(PROGRAM.splitlines(), 1)
    assert refused == {line for line, text in lines if text.endswith("# error")}, output
