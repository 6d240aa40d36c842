"""A bisection names the op whose node was changed, and the rule that was wrong."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest

import hlo2onnx
from hlo2onnx.cli import main
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.nn.softmax import Softmax
from hlo2onnx.verify import points

X = np.linspace(-0.5, 2, 6, dtype=np.float32).reshape(2, 3)


def broken(
    function: Callable[..., Any], *args: Any, old: str = "Sin", new: str = "Cos", **options: Any
) -> hlo2onnx.OnnxProgram:
    """A translation in which one operator is another one."""
    program = hlo2onnx.translate(jax.jit(function).lower(*args), **options)
    nodes = [node for node in every_node(program.model) if node.op_type == old]
    assert nodes, f"the model has no {old}"
    nodes[-1].op_type = new
    return program


def every_node(model: oir.Model) -> list[oir.Node]:
    functions = [node for each in model.functions.values() for node in all_nodes(each.graph)]
    return [*all_nodes(model.graph), *functions]


def test_the_op_and_its_line_are_named() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.exp(jnp.tanh(x) - jnp.sin(x * 2.0)) * 100.0

    program = broken(function, X)
    found = program.verify(X, intermediates=True)
    divergence = found.divergence
    assert isinstance(divergence, hlo2onnx.Divergence)
    assert divergence.op is not None
    assert divergence.op.name == "stablehlo.sine"
    assert "test_bisection.py" in divergence.op.source
    (operand,) = divergence.operands
    assert operand is not None
    assert (operand.low, operand.high) == (-1.0, 4.0)
    assert [node.operator for node in divergence.nodes] == ["Cos"]
    assert "the model has changed since its translation" in divergence.notes
    assert "the first op that differs: stablehlo.sine" in str(found)
    assert json.loads(json.dumps(divergence.as_dict()))["op"]["name"] == "stablehlo.sine"


def test_nothing_is_named_where_nothing_differs() -> None:
    program = hlo2onnx.translate(jax.jit(jnp.sin).lower(X))
    assert program.verify(X, intermediates=True).divergence is None
    found = program.bisect(X)
    assert not found
    assert found.errors
    assert max(found.errors.values()) < 1e-5


@pytest.mark.wide
def test_a_loop_whose_state_decides() -> None:
    def function(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(
            lambda c: jnp.sum(c) < 40, lambda c: c * 1.5 + jnp.where(c > 4, jnp.sin(c), 1.0), x
        )

    found = broken(function, X, old="Greater", new="Less").bisect(X)
    assert found.op is not None
    assert (found.op.name, found.trips) == ("stablehlo.compare", (0,))


@pytest.mark.costly
@pytest.mark.parametrize("length", [3, 40])
def test_loops_that_the_model_has_in_another_form(length: int) -> None:
    def function(x: jax.Array) -> tuple[jax.Array, jax.Array]:
        def body(c: jax.Array, t: jax.Array) -> tuple[jax.Array, jax.Array]:
            c = jnp.tanh(c * t) + x
            return c, jnp.sum(jnp.exp(-c))

        return jax.lax.scan(body, x, jnp.arange(float(length), dtype=np.float32))

    found = broken(function, X, old="Tanh", new="Sin").bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.tanh"
    found = broken(function, X, old="Exp", new="Sin").bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.exponential"


@pytest.mark.wide
def test_a_branch_in_a_loop() -> None:
    def function(x: jax.Array) -> jax.Array:
        def body(k: int, c: jax.Array) -> jax.Array:
            return jax.lax.cond(k % 3 == 2, jnp.sin, lambda c: c * 1.01, c)

        return jax.lax.fori_loop(0, 90, body, x)

    found = broken(function, X).bisect(X)
    assert found.op is not None
    assert (found.op.name, found.trips) == ("stablehlo.sine", (2,))


@pytest.mark.wide
def test_complex_numbers_and_half_precision() -> None:
    def phase(x: jax.Array) -> jax.Array:
        return jnp.abs(jnp.exp(1j * x) * (x + 2j) + 1.0)

    found = broken(phase, X, old="Sin", new="Cos").bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.exponential"

    def half(x: jax.Array) -> jax.Array:
        return jnp.tanh(jnp.sin(x.astype(jnp.bfloat16)) * 2).astype(jnp.float32)

    found = broken(half, X).bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.sine"
    assert found.rewrites == ("computed in f32",)


@pytest.mark.wide
def test_values_that_do_not_fit_into_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    def function(x: jax.Array) -> jax.Array:
        for factor in range(12):
            x = jnp.tanh(x) * factor + jnp.cos(x)
        x = jnp.sin(x)
        for factor in range(12):
            x = jnp.tanh(x) * factor + jnp.cos(x)
        return x

    monkeypatch.setattr(points, "MOST_BYTES", 6 * X.nbytes)
    found = broken(function, X, old="Sin", new="Neg").bisect(X)
    assert found.op is not None
    assert "stablehlo.sine" in [op.name for op in (found.op, *found.fused)]
    assert "Neg" in [node.operator for node in found.nodes]


def test_a_constant() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: jnp.sin(x * 3.25)).lower(X))
    (value,) = program.model.graph.initializers.values()
    value.const_value = oir.Tensor(np.float32(3.5), name=value.name)
    found = program.bisect(X)
    assert found.op is not None
    assert found.op.name in ("stablehlo.constant", "stablehlo.multiply")


@pytest.mark.costly
@pytest.mark.parametrize(("dtype", "half"), [("float32", "xla"), ("bfloat16", "fast")])
def test_the_wrong_rule_is_confirmed(
    dtype: str, half: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    right = Softmax.rewrite

    def wrong(self: Softmax, node: oir.Node, b: Rewriter) -> Any:
        made = right(self, node, b)
        assert isinstance(made, oir.Value)
        return b.Mul(made, b.const(np.float32(1.5)))

    monkeypatch.setattr(Softmax, "rewrite", wrong)
    x = X.astype(dtype)
    lowered = jax.jit(lambda x: jax.nn.softmax(jnp.sin(x))).lower(x)
    found = hlo2onnx.translate(lowered, half=half).bisect(x)
    assert "softmax" in found.rewrites
    first, *_, last = found.tests
    assert not first.agrees
    assert last.agrees
    assert last.without == ("softmax",)


def test_models_that_do_not_know_their_program(tmp_path: Path) -> None:
    def function(x: jax.Array) -> jax.Array:
        return jnp.tanh(jnp.sin(x) + x)

    broken(function, X).save(tmp_path / "model.onnx")
    lowered = jax.jit(function).lower(X)
    program = hlo2onnx.load(tmp_path / "model.onnx", source=lowered)
    found = program.bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.sine"


def test_functions_and_dynamic_sizes() -> None:
    @jax.jit
    def layer(x: jax.Array) -> jax.Array:
        return jnp.tanh(jnp.sin(x) + x)

    def function(x: jax.Array) -> jax.Array:
        return layer(layer(x) * 2.0)

    found = broken(function, X).bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.sine"
    found = broken(function, X, functions="keep").bisect(X)
    assert found.op is not None
    program = hlo2onnx.translate(function, X, dynamic="b, ...")
    for node in program.model.graph:
        if node.op_type == "Sin":
            node.op_type = "Cos"
    found = program.bisect(X)
    assert found.op is not None
    assert found.op.name == "stablehlo.sine"


@pytest.mark.wide
def test_two_programs() -> None:
    def one(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.tanh(x) - jnp.cos(x))

    def other(x: jax.Array) -> jax.Array:
        return jax.nn.softmax(jnp.tanh(x) + jnp.cos(x))

    found = hlo2onnx.bisect(hlo2onnx.translate(one, X), hlo2onnx.translate(other, X), X)
    assert found.op is not None
    assert found.op.name == "stablehlo.divide"  # the next value that both have is the softmax
    assert "stablehlo.subtract" in [op.name for op in found.fused]


def test_a_model_from_elsewhere_by_names() -> None:
    def one(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) - jnp.cos(x)

    model = hlo2onnx.translate(lambda x: jnp.tanh(x) - jnp.sin(x), X).model_proto
    names = {"%0": "tanh", "cos": "sin"}
    found = hlo2onnx.bisect(one, model, X, names=names)
    assert found.op is not None
    assert found.op.name == "stablehlo.cosine"
    with pytest.raises(hlo2onnx.UsageError, match="no such value"):
        hlo2onnx.bisect(one, model, X, names={"%77": "tanh"})
    with pytest.raises(hlo2onnx.UsageError, match="no such tensor"):
        hlo2onnx.bisect(one, model, X, names={"%0": "missing"})


def test_the_command(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    path, report = tmp_path / "f.mlir", tmp_path / "report.json"
    path.write_text(jax.jit(jax.nn.softmax).lower(X).as_text(debug_info=True), encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    assert main([str(path), "--bisect"]) == 0
    right = Softmax.rewrite
    monkeypatch.setattr(
        Softmax,
        "rewrite",
        lambda self, node, b: b.Neg(right(self, node, b)),
    )
    assert main([str(path), "--bisect", "--report", str(report)]) == 1
    assert "the first op that differs: stablehlo.divide" in capsys.readouterr().out
    facts = json.loads(report.read_text(encoding="utf-8"))["verification"]["divergence"]
    assert facts["tests"][-1]["without"] == ["softmax"]


def test_files_that_are_no_models(tmp_path: Path) -> None:
    (tmp_path / "text.onnx").write_text("no model")
    for path, why in (
        (tmp_path / "missing.onnx", "no such file: .*missing.onnx"),
        (tmp_path, "cannot read .*: Is a directory"),
        (tmp_path / "text.onnx", "text.onnx is not an ONNX model"),
    ):
        with pytest.raises(hlo2onnx.LoadError, match=why):
            hlo2onnx.bisect(jnp.sin, path, X)
