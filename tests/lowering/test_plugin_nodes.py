"""Mistakes in the nodes that handlers of plug-ins make."""

from __future__ import annotations

from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from plugin_programs import Handler, X, program, refusal

from hlo2onnx import translate
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles_call


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


TYPES = "types=[em.result_type(op).value_type]"
INVALID = "that is not valid in opset 23 of ONNX: "
NODES = [
    (without_types, "made a node Unique without types= at ", TYPES),
    (of_another_domain, "made a node com.microsoft::QuickGelu without types= at ", TYPES),
    (type_without_shape, "types= has the entry 'f32', not one (onnx_ir.DataType, shape)", ""),
    (types_of_one_output, "types= has 1 entries for 2 outputs, not one (onnx_ir.DataType", ""),
    (unknown_operator, f"Reluu {INVALID}No Op registered for Reluu", "pass domain="),
    (unknown_attribute, f"LeakyRelu {INVALID}Unrecognized attribute: beta", "attributes of"),
    (attribute_of_another_type, "alpha'. Expected: 'FLOAT', actual: 'STRING'", "attributes of"),
    (without_attribute, f"Cast {INVALID}Required attribute 'to' is missing", "attributes of"),
    (without_operand, f"Add {INVALID}", "has input size 1 not in range [min=2, max=2]"),
    (of_another_type, "of the type FLOAT[2,3], but it computes FLOAT[3,2]", "without types="),
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
