"""`hlo2onnx.check` and `--check`: refusals, slow parts, the exit code."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from command_folder import UNSUPPORTED
from jax import lax

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.errors import TranslationError, UsageError
from hlo2onnx.targets.target import Target

X = np.ones((4, 3), np.float32)


def without_kernel(monkeypatch: pytest.MonkeyPatch, op: str) -> None:
    """The target has no kernel for an operator."""
    old = Target.supports

    def supports(self: Target, op_key: str, dtype: oir.DataType, opset: int) -> bool:
        return op_key != op and old(self, op_key, dtype, opset)

    monkeypatch.setattr(Target, "supports", supports)


def test_a_clean_program() -> None:
    found = hlo2onnx.check(jnp.tanh, X)
    assert found
    assert found.ok
    assert not found.refusals
    assert not found.slow
    assert str(found).startswith("jit_tanh can be translated for ort-cpu: checked 1 ops in ")


def test_refusals_are_those_of_translate() -> None:
    with pytest.raises(TranslationError) as caught:
        hlo2onnx.translate(UNSUPPORTED)
    found = hlo2onnx.check(UNSUPPORTED)
    assert not found
    assert found.refusals == caught.value.refusals
    assert str(found).startswith(str(caught.value))


def test_what_the_target_lacks_is_found_behind_refused_ops(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    without_kernel(monkeypatch, "Log")
    text = UNSUPPORTED.replace("return %1", "%2 = stablehlo.log %1 : tensor<3xf32>\n  return %2")
    found = hlo2onnx.check(text)
    assert [refusal.op for refusal in found.refusals][-1] == "Log"
    assert len(found.refusals) == 3
    assert "ort-cpu has no kernel for it" in found.refusals[-1].why


def test_types_at_the_boundary_are_refused() -> None:
    text = "func.func @main(%x: tensor<3x!quant.uniform<i4:f32, 0.5>>) -> tensor<3xf32> {"
    text += "\n  %0 = stablehlo.uniform_dequantize %x : (tensor<3x!quant.uniform<i4:f32, 0.5>>)"
    text += " -> tensor<3xf32>\n  return %0 : tensor<3xf32>\n}"
    with pytest.raises(TranslationError) as caught:
        hlo2onnx.translate(text, opset=17)
    assert hlo2onnx.check(text, opset=17).refusals == caught.value.refusals


# -- slow parts -----------------------------------------------------------------------------------


def long_scan(x: jax.Array) -> Any:
    def step(carry: jax.Array, _: None) -> Any:
        carry = jnp.tanh(carry @ carry.T @ carry)
        return carry, None

    return lax.scan(step, x, None, length=10_000)[0]


def test_a_long_loop() -> None:
    found = hlo2onnx.check(long_scan, X)
    assert found.ok
    (part,) = found.slow
    assert (part.what, part.trips) == ("loop", 10_000)
    assert part.nodes == part.trips * 4
    assert "10,000 trips of 4 nodes: 40,000 nodes run, about 23 ms on one core" in part.why
    assert "test_check.py:" in part.where
    assert "1 part of this program may be slow" in str(found)


def test_trips_of_an_inner_loop_are_multiplied() -> None:
    def nested(x: jax.Array) -> Any:
        def inner(_: Any, y: jax.Array) -> jax.Array:
            return jnp.tanh(y @ y.T @ y)

        return lax.fori_loop(0, 100, lambda _, y: lax.fori_loop(0, 200, inner, y) + 1, x)

    (part,) = hlo2onnx.check(nested, X).slow
    assert part.trips == 100
    assert part.nodes >= 100 * 200 * 4


def test_a_loop_that_depends_on_data() -> None:
    def search(x: jax.Array) -> Any:
        return lax.while_loop(lambda y: jnp.sum(y) < 100, lambda y: y @ y.T @ y, x)

    (part,) = hlo2onnx.check(search, X).slow
    assert part.trips is None
    assert "depends on data" in part.why


def test_a_short_loop_is_not_slow() -> None:
    def short(x: jax.Array) -> Any:
        return lax.fori_loop(0, 50, lambda _, y: jnp.tanh(y @ y.T @ y), x)

    assert not hlo2onnx.check(short, X).slow


def test_a_scatter_that_copies_in_each_trip() -> None:
    def walk(x: jax.Array) -> Any:
        def step(i: Any, table: jax.Array) -> jax.Array:
            place = jnp.argmax(table[:64])
            return table.at[place + i].add(table[place] + 1)

        return lax.fori_loop(0, 1_000, step, x)

    found = hlo2onnx.check(walk, np.ones(1 << 20, np.float32))
    (part,) = (part for part in found.slow if part.what == "copy in a loop")
    assert "copies 4.19 MB in each of 1,000 trips" in part.why


def test_a_large_decomposition() -> None:
    found = hlo2onnx.check(jnp.linalg.svd, np.ones((6, 6), np.float32))
    assert [part.what for part in found.slow] == ["stablehlo.custom_call @lapack_sgesdd_ffi"]
    assert "nodes: (tensor<6x6xf32>)" in found.slow[0].why


# -- weights --------------------------------------------------------------------------------------


def test_bound_weights_are_not_read() -> None:
    """Numbers would decide over a fold; 8 GB of memory would be needed to write these out."""
    huge = np.broadcast_to(np.float32(0.5), (1 << 15, 1 << 16))

    def f(w: Any, x: Any) -> Any:
        return jnp.tanh(x @ w * 2 + w[0])

    x = jax.ShapeDtypeStruct((4, 1 << 15), np.float32)
    shapes = jax.eval_shape(lambda: jnp.zeros(huge.shape))
    lowered = jax.jit(f).lower(shapes, x)
    found = hlo2onnx.check(lowered, bind={0: huge})
    assert found.ok
    assert found.seconds < 10


# -- arguments ------------------------------------------------------------------------------------


def test_it_takes_what_translate_takes() -> None:
    both = hlo2onnx.check({"a": jax.jit(jnp.tanh).lower(X), "b": UNSUPPORTED})
    assert {name: found.ok for name, found in both.items()} == {"a": True, "b": False}
    assert hlo2onnx.check(jnp.tanh, "b, 3", target="onnx", opset=20).target == "onnx"
    assert hlo2onnx.check(lambda x, *, y: x + y, X, y=X).ok
    with pytest.raises(UsageError, match="not several programs"):
        hlo2onnx.check({"a": jnp.tanh}, X)  # type: ignore[call-overload]
    with pytest.raises(UsageError, match="has no option opsets="):
        hlo2onnx.check(UNSUPPORTED, opsets=20)


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    Path("bad.mlir").write_text(UNSUPPORTED)
    Path("good.mlir").write_text(jax.jit(long_scan).lower(X).as_text())
    assert cli.main(["bad.mlir", "--check", "--report", "report.json"]) == 1
    assert "2 ops of this program cannot be translated to ONNX" in capsys.readouterr().out
    report = json.loads(Path("report.json").read_text())["check"]
    assert [item["where"] for item in report["refusals"]] == ["train.py:7", "train.py:9"]
    assert report["ok"] is False
    assert cli.main(["good.mlir", "--check"]) == 0  # what may be slow is a warning
    assert "may be slow" in capsys.readouterr().out
    assert cli.main(["good.mlir", "--check", "-q"]) == 0
    assert capsys.readouterr().out == ""
    assert cli.main(["good.mlir", "--check", "-o", "x.onnx"]) == 2
    assert cli.main(["good.mlir", "--check", "--report", "x.html"]) == 2
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "bad.mlir", "good.mlir", "report.json",
    ]  # fmt: skip
