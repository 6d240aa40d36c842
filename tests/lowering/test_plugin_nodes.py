"""Mistakes in the nodes that handlers of plug-ins make."""

from __future__ import annotations

from typing import Any

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


def of_another_type(em: Emitter, op: Op) -> Any:
    types = [em.result_type(op).value_type]
    return em.op("Transpose", em.operand(op), perm=(1, 0), types=types)


def unlike_operands(em: Emitter, op: Op) -> Any:
    return em.Add(em.operand(op), em.const(np.zeros(3)))


def operand_of_mlir(em: Emitter, op: Op) -> Any:
    return em.Relu(op.operands[0])


def misspelled(em: Emitter, op: Op) -> Any:
    return em.relu(em.operand(op))


NODES = [
    (without_types, "no type rule for Unique; make the node with types=", ""),
    (of_another_domain, "no type rule for com.microsoft::QuickGelu; make the node", ""),
    (type_without_shape, "types= has the entry 'f32', not one (onnx_ir.DataType, shape)", ""),
    (types_of_one_output, "types= has 1 entries for 2 outputs, not one (onnx_ir.DataType", ""),
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


def test_operands_that_are_left_out() -> None:
    def kernel(em: Emitter, op: Op) -> Any:
        return em.Clip(em.operand(op), None, em.scalar(2, oir.DataType.FLOAT))

    handles_call("acme.kernel")(kernel)
    np.testing.assert_array_equal(translate(program())(X), np.minimum(X, 2))
