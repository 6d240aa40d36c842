"""Mistakes in handlers of plug-ins and users: who made them, what was expected, what to do."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx import CustomOp, PluginError, TranslationError, UsageError, translate
from hlo2onnx.cli import main
from hlo2onnx.errors import InternalError, UnsupportedOp
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles, handles_call, load_handlers, registry

Handler = Callable[..., Any]

PROGRAM = """
module { func.func public @main(%x: TYPE) -> TYPE {
  %0 = stablehlo.custom_call @acme.kernel(%x) : (TYPE) -> TYPE loc(#line)
  return %0 : TYPE
} }
#line = loc("swish"("model.py":7:3))
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)


def program(mlir_type: str = "tensor<2x3xf32>") -> str:
    return PROGRAM.replace("TYPE", mlir_type)


@pytest.fixture(autouse=True)
def _registry_restored() -> Iterator[None]:
    before = load_handlers().copy()
    yield
    registry.become(before)
    load_handlers.cache_clear()


def refusal(handler: Handler, mlir_type: str = "tensor<2x3xf32>", **options: Any) -> str:
    """What the error says of a handler of a plug-in."""
    handles_call("acme.kernel", **options)(handler)
    with pytest.raises(TranslationError) as caught:
        translate(program(mlir_type))
    text = str(caught.value)
    assert "report" not in text and "a bug" not in text
    assert "where  model.py:7  swish" in text
    assert f"types  ({mlir_type}) -> {mlir_type}" in text
    assert text.count("\n  next   ") == 1
    line = handler.__code__.co_firstlineno
    place = re.escape(f"{handler.__qualname__} (")
    assert re.search(rf"the handler [\w.]*test_plugin_errors\.{place}\S+\.py:{line}\)", text), text
    return text


# -- what a handler returns -----------------------------------------------------------------------


def nothing(em: Emitter, op: Op) -> None:
    em.Relu(em.operand(op))


def array(em: Emitter, op: Op) -> Any:
    return X


def text(em: Emitter, op: Op) -> Any:
    return "Relu"


def mlir_value(em: Emitter, op: Op) -> Any:
    return op.operands[0]


def node(em: Emitter, op: Op) -> Any:
    return em.Relu(em.operand(op)).producer()


def two(em: Emitter, op: Op) -> Any:
    return [em.operand(op)] * 2


def none_of_one(em: Emitter, op: Op) -> Any:
    return []


def double(em: Emitter, op: Op) -> Any:
    return em.cast(em.operand(op), oir.DataType.DOUBLE)


def turned(em: Emitter, op: Op) -> Any:
    return em.Transpose(em.operand(op), perm=(1, 0))


def untyped(em: Emitter, op: Op) -> Any:
    result = em.Relu(em.operand(op))
    result.shape = None
    return result


def orphan(em: Emitter, op: Op) -> Any:
    return oir.Value(name="y", type=oir.TensorType(oir.DataType.FLOAT), shape=oir.Shape((2, 3)))


def of_a_subgraph(em: Emitter, op: Op) -> Any:
    with em.subgraph([], "branch"):
        return em.Relu(em.operand(op))


RETURNED = [
    (nothing, "returned None, not onnx_ir.Values", "is there a return statement?"),
    (array, "returned a numpy.ndarray, not", "em.const(array) makes a constant"),
    (text, "returned a str, not onnx_ir.Values", "return one onnx_ir.Value per result"),
    (mlir_value, "ir.BlockArgument, not onnx_ir.Values", "em.operand(op) and em.parts(value)"),
    (node, "Node, not onnx_ir.Values", "node.outputs has the values of a node"),
    (
        two,
        "returned 2 values (tensor<2x3xf32>, tensor<2x3xf32>) instead of tensor<2x3xf32>",
        "return one onnx_ir.Value per result",
    ),
    (none_of_one, "returned nothing instead of tensor<2x3xf32>", "return one onnx_ir.Value"),
    (
        double,
        "returned tensor<2x3xf64> instead of tensor<2x3xf32>",
        "em.cast(value, onnx_ir.DataType.FLOAT) changes the element type",
    ),
    (turned, "returned tensor<3x2xf32> instead of tensor<2x3xf32>", "em.reshape and em.expand"),
    (untyped, "which has no shape", "em.op or em.<Operator>"),
    (orphan, "returned the value y, which no node of the graph computes", "em.const"),
    (of_a_subgraph, "whose node is in a subgraph that it made", "outside of em.subgraph"),
]


@pytest.mark.parametrize(("handler", "why", "advice"), RETURNED)
def test_what_it_returned(handler: Handler, why: str, advice: str) -> None:
    found = refusal(handler)
    assert why in found
    assert advice in found


def test_complex_results_have_two_parts() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        return em.parts(op.operands[0])[0]

    found = refusal(kernel, "tensor<3xcomplex<f32>>", form="complex")
    assert "returned 1 value (tensor<3xf32>) instead of (tensor<3xf32>, tensor<3xf32>)" in found
    assert "a complex result has two" in found


def test_each_part_of_a_complex_value() -> None:
    """Handlers of form "parts" are called for the real and for the imaginary part."""

    def kernel(em: Emitter, op: Op) -> Any:
        return [em.operand(op)] * 2

    found = refusal(kernel, "tensor<3xcomplex<f32>>", form="parts")
    assert "returned 2 values (tensor<3xf32>, tensor<3xf32>) instead of tensor<3xf32>" in found


GROUPINGS = [lambda y: y, lambda y: [y], lambda y: [(y,)], lambda y: (y,), lambda y: iter([y])]


@pytest.mark.parametrize("grouped", GROUPINGS)
def test_values_in_any_grouping(grouped: Callable[[oir.Value], Any]) -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        return grouped(em.Relu(em.operand(op)))

    handles_call("acme.kernel")(kernel)
    np.testing.assert_array_equal(translate(program())(X - 3), np.maximum(X - 3, 0))


# -- nodes that a handler makes -------------------------------------------------------------------


def without_types(em: Emitter, op: Op) -> Any:
    return em.Unique(em.operand(op))


def of_another_domain(em: Emitter, op: Op) -> Any:
    return em.op("QuickGelu", em.operand(op), domain="com.microsoft")


def type_without_shape(em: Emitter, op: Op) -> Any:
    return em.op("Relu", em.operand(op), types=["f32"])


def types_of_one_output(em: Emitter, op: Op) -> Any:
    types = [em.result_type(op).value_type]
    return em.outputs("Unique", em.operand(op), n_outputs=2, types=types)


def unknown_operator(em: Emitter, op: Op) -> Any:
    return em.op("Reluu", em.operand(op), types=[em.result_type(op).value_type])


def unknown_attribute(em: Emitter, op: Op) -> Any:
    return em.LeakyRelu(em.operand(op), beta=0.1)


def attribute_of_another_type(em: Emitter, op: Op) -> Any:
    return em.LeakyRelu(em.operand(op), alpha="steep")


def without_attribute(em: Emitter, op: Op) -> Any:
    return em.op("Cast", em.operand(op), types=[em.result_type(op).value_type])


def without_operand(em: Emitter, op: Op) -> Any:
    return em.op("Add", em.operand(op), types=[em.result_type(op).value_type])


def of_another_type(em: Emitter, op: Op) -> Any:
    types = [em.result_type(op).value_type]
    return em.op("Transpose", em.operand(op), perm=(1, 0), types=types)


def unlike_operands(em: Emitter, op: Op) -> Any:
    return em.Add(em.operand(op), em.const(np.zeros(3)))


def operand_of_mlir(em: Emitter, op: Op) -> Any:
    return em.Relu(op.operands[0])


def misspelled(em: Emitter, op: Op) -> Any:
    return em.relu(em.operand(op))


TYPES = "types=[(onnx_ir.DataType.FLOAT, (2, 3))]"
NODES = [
    (without_types, "made a node Unique without types= at ", TYPES),
    (of_another_domain, "made a node com.microsoft::QuickGelu without types= at ", TYPES),
    (type_without_shape, "types= has the entry 'f32', not one (onnx_ir.DataType, shape)", ""),
    (types_of_one_output, "types= has 1 entries for 2 outputs, not one (onnx_ir.DataType", ""),
    (unknown_operator, "made a node Reluu, an operator that opset 23", "use Relu;"),
    (unknown_attribute, "with the attribute beta, which it does not have", "attributes are alpha"),
    (
        attribute_of_another_type,
        "the attribute alpha = 'steep', which has the type STRING",
        "FLOAT",
    ),
    (without_attribute, "made a node Cast without the attribute to", "that the operator requires"),
    (without_operand, "made a node Add with 1 operand", "give it 2 operands"),
    (of_another_type, "of the type FLOAT[2,3], and it computes FLOAT[3,2]", "without types="),
    (unlike_operands, "Add(FLOAT[2,3], DOUBLE[3]): ", "correct it there"),
    (operand_of_mlir, "operand 0 is a BlockArgument, not an onnx_ir.Value", ""),
    (misspelled, "'Emitter' object has no attribute 'relu'", ""),
]


@pytest.mark.parametrize(("handler", "why", "advice"), NODES)
def test_what_it_made(handler: Handler, why: str, advice: str) -> None:
    found = refusal(handler)
    assert why in found
    assert advice in found


def test_transposes_that_leave_the_permutation_to_onnx() -> None:
    """Rules read the attribute, so it is written out."""

    def kernel(em: Emitter, op: Op) -> Any:
        return em.Transpose(em.Transpose(em.operand(op)))

    handles_call("acme.kernel")(kernel)
    np.testing.assert_array_equal(translate(program())(X), X)


def test_operators_of_other_domains_are_imported() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        types = [em.result_type(op).value_type]
        return em.op("QuickGelu", em.operand(op), domain="com.microsoft", alpha=2.0, types=types)

    handles_call("acme.kernel")(kernel)
    made = translate(program())
    assert made.model.graph.opset_imports["com.microsoft"] == 1
    assert [(node.domain, node.op_type) for node in made.model.graph] == [
        ("com.microsoft", "QuickGelu")
    ]
    np.testing.assert_allclose(made(X), X / (1 + np.exp(-2 * X)), rtol=1e-6)


def test_nodes_of_other_handlers_are_not_its_own() -> None:
    """A loop without a bound, and what hlo2onnx makes for opsets that ONNX has no operator in."""

    def kernel(em: Emitter, op: Op) -> Any:
        def function(x: jax.Array) -> jax.Array:
            return jax.lax.while_loop(lambda y: jnp.sum(y) < 9, lambda y: y + 1, x)

        return em.through_jax(function, em.operand(op))

    handles_call("acme.kernel")(kernel)
    np.testing.assert_array_equal(translate(program())(X - 3), X - 1)


def test_operands_that_are_left_out() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        return em.Clip(em.operand(op), None, em.scalar(2, oir.DataType.FLOAT))

    handles_call("acme.kernel")(kernel)
    np.testing.assert_array_equal(translate(program())(X), np.minimum(X, 2))


# -- exceptions -----------------------------------------------------------------------------------


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
        return em.Relu(em.operand(op))

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
    assert "in a region or function that it translates" in str(caught.value)


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


# -- translations that users give -----------------------------------------------------------------


def given(translation: Any, mlir_type: str = "tensor<2x3xf32>") -> str:
    with pytest.raises(TranslationError) as caught:
        translate(program(mlir_type), custom_calls={"acme.kernel": translation})
    text = str(caught.value)
    assert "for @acme.kernel" in text
    assert "where  model.py:7  swish" in text and "\n  next   " in text
    return text


def divided(x: jax.Array) -> jax.Array:
    return x / {}["slope"]


def test_a_jax_function_that_fails() -> None:
    found = given(divided)
    line = divided.__code__.co_firstlineno
    assert re.search(rf"the function \S*\.divided \(\S+:{line}\) for @acme\.kernel failed", found)
    assert f"test_plugin_errors.py:{line + 1}: KeyError: 'slope'" in found


FUNCTIONS = [
    (lambda x: x.T, "returned tensor<3x2xf32> instead of tensor<2x3xf32>"),
    (lambda x: (x, x), "returned 2 values (tensor<2x3xf32>, tensor<2x3xf32>) instead of tensor"),
    (lambda x: x.astype(jnp.float64), "returned tensor<2x3xf64> instead of tensor<2x3xf32>"),
    (lambda x: (), "returned nothing instead of tensor<2x3xf32>"),
]


@pytest.mark.parametrize(("function", "why"), FUNCTIONS)
def test_a_jax_function_of_other_results(function: Handler, why: str) -> None:
    found = given(function)
    assert why in found
    assert "return one array for each result of the call" in found


def test_two_real_results_are_no_complex_one() -> None:
    found = given(lambda x: (jnp.real(x), jnp.imag(x)), "tensor<3xcomplex<f32>>")
    assert "(tensor<3xf32>, tensor<3xf32>) instead of (tensor<3xf32>, tensor<3xf32>)" in found


OPERATORS = [
    (CustomOp("", "Reluu"), "made a node Reluu, an operator that opset 23", "use Relu"),
    (CustomOp("", "LeakyRelu", {"alpha": "x"}), "has the type STRING", "the type FLOAT"),
    (CustomOp("", "Add"), "made a node Add with 1 operand", "give it 2 operands"),
    (CustomOp("", "Transpose"), "computes FLOAT[3,2]", "attributes"),
    (CustomOp("", "Relu", lambda entries: entries["k"]), "KeyError: 'k'", "correct it"),
    (CustomOp("", "Relu", lambda entries: 3), "are no mapping: 3", "return a dictionary"),
]


@pytest.mark.parametrize(("operator", "why", "advice"), OPERATORS)
def test_an_operator_that_does_not_fit(operator: CustomOp, why: str, advice: str) -> None:
    found = given(operator)
    assert why in found
    assert advice in found


def test_a_version_is_a_number() -> None:
    with pytest.raises(UsageError, match=r"version='latest' is no version"):
        translate(program(), custom_calls={"acme.kernel": CustomOp("a", "B", version="latest")})  # type: ignore[arg-type]


# -- registration and loading ---------------------------------------------------------------------


def takes_no_op(em: Emitter) -> Any:
    return em


def takes_attribute_by_position(em: Emitter, op: Op, slope: float) -> Any:
    return em.operand(op)


def takes_anything(em: Emitter, op: Op, **attributes: Any) -> Any:
    return em.operand(op)


@pytest.mark.parametrize("handler", [takes_no_op, takes_attribute_by_position, takes_anything])
def test_functions_that_are_no_handlers(handler: Handler) -> None:
    with pytest.raises(PluginError, match=rf"{handler.__name__} \(.*cannot be registered: it take"):
        handles_call("acme.kernel")(handler)


def test_an_op_has_one_handler() -> None:
    with pytest.raises(PluginError) as caught:
        handles("stablehlo.tanh")(nothing)
    text = str(caught.value)
    assert "stablehlo.tanh has a handler for real values already, dialect_handlers." in text
    assert "test_plugin_errors.nothing" in text


@pytest.mark.parametrize(("op", "form"), [("tanh", "real"), ("acme.tanh", "complicated")])
def test_what_can_be_registered(op: str, form: Any) -> None:
    with pytest.raises(PluginError, match="cannot be registered: "):
        handles(op, form=form)(nothing)


def install(folder: Path, code: str) -> None:
    """A package with an entry point, as pip leaves it."""
    (folder / "acme_onnx.py").write_text(code)
    metadata = folder / "acme_onnx-1.2.dist-info"
    metadata.mkdir()
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: acme-onnx\nVersion: 1.2\n")
    (metadata / "entry_points.txt").write_text("[hlo2onnx.handlers]\nacme = acme_onnx\n")


HALF = """
from hlo2onnx.lowering.registry import handles_call

@handles_call("acme.kernel")
def kernel(em, op):
    return em.Relu(em.operand(op))

"""
BROKEN = [
    ("import acme_missing\n", "ModuleNotFoundError: No module named 'acme_missing' at "),
    ("def f(:\n", "SyntaxError"),
    ("1 / 0\n", "ZeroDivisionError: division by zero at "),
    ("handles_call('acme.kernel')(kernel)\n", "has a handler for real values already, acme_onnx"),
]


@pytest.mark.parametrize(("code", "why"), BROKEN)
def test_a_package_that_cannot_be_loaded(
    code: str, why: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    install(tmp_path, HALF + code)
    monkeypatch.syspath_prepend(tmp_path)
    for _ in range(2):  # nothing of it stays
        load_handlers.cache_clear()
        with pytest.raises(PluginError) as caught:
            translate(program())
        text = str(caught.value)
        assert text.startswith("the plug-in acme = 'acme_onnx' of the package acme-onnx 1.2 cannot")
        assert why in text
        assert "uninstall acme-onnx 1.2" in text
        assert registry.find("stablehlo.custom_call @acme.kernel", False) is None


def test_a_package_is_loaded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, HALF)
    monkeypatch.syspath_prepend(tmp_path)
    load_handlers.cache_clear()
    np.testing.assert_array_equal(translate(program())(X - 3), np.maximum(X - 3, 0))
