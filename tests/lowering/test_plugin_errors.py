"""Exceptions that handlers of plug-ins raise: who made the mistake, and what to do."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import onnx
import onnx_ir as oir
import pytest
from plugin_programs import Handler, nothing, program, refusal, two

from hlo2onnx import TranslationError, translate
from hlo2onnx.cli import main
from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles_call, load_handlers, registry


def fails(em: Emitter, op: Op) -> Any:
    return {}["slope"]


def recurses(em: Emitter, op: Op) -> Any:
    return recurses(em, op)


def fails_with_lines(em: Emitter, op: Op) -> Any:
    raise ValueError("first line\nsecond line")


RAISED = [
    (fails, "failed at ", "KeyError: 'slope'"),
    (recurses, "failed at ", "RecursionError: maximum recursion depth exceeded"),
    (fails_with_lines, "failed at ", "ValueError: first line\n  where"),
]


@pytest.mark.parametrize(("handler", "why", "kind"), RAISED)
def test_what_it_raised(handler: Handler, why: str, kind: str) -> None:
    found = refusal(handler)
    line = handler.__code__.co_firstlineno + 1
    assert re.search(rf"failed at \S*test_plugin_errors\.py:{line}: ", found), found
    assert kind in found
    assert "--debug" in found


def test_the_exception_is_the_cause() -> None:
    handles_call("acme.kernel")(fails)
    with pytest.raises(TranslationError) as caught:
        translate(program())
    assert isinstance(caught.value.__cause__, KeyError)


def test_every_mistake_at_once() -> None:
    source = """
    module { func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {
      %0 = stablehlo.custom_call @acme.first(%x) : (tensor<3xf32>) -> tensor<3xf32>
      %1 = stablehlo.custom_call @acme.second(%0) : (tensor<3xf32>) -> tensor<3xf32>
      %2 = stablehlo.custom_call @unknown(%1) : (tensor<3xf32>) -> tensor<3xf32>
      return %2 : tensor<3xf32>
    } }
    """
    handles_call("acme.first")(fails)
    handles_call("acme.second")(nothing)
    with pytest.raises(TranslationError) as caught:
        translate(source)
    assert len(caught.value.refusals) == 3


def test_a_refusal_of_its_own_stays() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        raise UnsupportedOp("it has no such mode", "use another")

    handles_call("acme.kernel")(kernel)
    with pytest.raises(TranslationError) as caught:
        translate(program())
    (found,) = caught.value.refusals
    assert (found.why, found.next) == ("it has no such mode", "use another")


def test_a_newer_opset_can_be_asked_for() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        assert em.has_bitcast
        bits = em.BitCast(em.operand(op), to=onnx.TensorProto.INT32)
        return em.Cast(bits, to=onnx.TensorProto.FLOAT)

    handles_call("acme.kernel")(kernel)
    assert translate(program()).report.opset == 26


REGION = """
module { func.func public @main(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.custom_call @acme.twice(%x) {called_computations = [@body]}
    : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}
func.func private @body(%x: tensor<f32>) -> tensor<f32> {
  %0 = stablehlo.add %x, %x : tensor<f32>
  return %0 : tensor<f32>
} }
"""


def test_wrong_values_for_a_function_of_the_program() -> None:
    def twice(em: Emitter, op: Op, *, called_computations: Any) -> Any:
        (symbol,) = called_computations
        return em.call(symbol, [(em.cast(em.operand(op), oir.DataType.DOUBLE),)])

    handles_call("acme.twice")(twice)
    with pytest.raises(TranslationError, match=r"twice \(.*\) failed at .*DOUBLE") as caught:
        translate(REGION)
    assert "in a region or function that the handler translates" in str(caught.value)


def test_what_hlo2onnx_makes_of_a_jax_function_is_its_own() -> None:
    """A handler of hlo2onnx that fails within the function of a user is a bug of hlo2onnx."""

    def broken(em: Emitter, op: Op) -> Any:
        raise InternalError("a bug")

    tanh = load_handlers().find("stablehlo.tanh", False)
    assert tanh is not None
    own = registry.with_own(
        [type(tanh)("stablehlo.tanh", "real", broken, frozenset(), frozenset())]
    )
    registry.become(own)
    with pytest.raises(InternalError, match="a bug"):
        translate(program(), custom_calls={"acme.kernel": jnp.tanh})


def test_a_bug_of_hlo2onnx_stays_one() -> None:
    def own(em: Emitter, op: Op) -> Any:
        return two(em, op)

    own.__module__ = "dialect_handlers.custom_calls"
    handles_call("acme.kernel")(own)
    with pytest.raises(InternalError, match="too many values"):
        translate(program())


def test_the_command_calls_it_no_bug(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    handles_call("acme.kernel")(fails)
    source = tmp_path / "model.mlir"
    source.write_text(program())
    assert main([str(source), "-o", str(tmp_path / "model.onnx")]) == 1
    printed = capsys.readouterr().err
    assert "KeyError: 'slope'" in printed
    assert "internal error" not in printed and "report" not in printed
