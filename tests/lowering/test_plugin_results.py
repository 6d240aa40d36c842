"""Mistakes in what handlers of plug-ins return."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnx_ir as oir
import pytest
from plugin_programs import Handler, X, nothing, program, refusal, two

from hlo2onnx import translate
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles_call


def array(em: Emitter, op: Op) -> Any:
    return X


def text(em: Emitter, op: Op) -> Any:
    return "Relu"


def mlir_value(em: Emitter, op: Op) -> Any:
    return op.operands[0]


def node(em: Emitter, op: Op) -> Any:
    return em.Relu(em.operand(op)).producer()


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


CONTRACT = "return one onnx_ir.Value per result"
RETURNED = [
    (nothing, "returned None, not onnx_ir.Values", CONTRACT),
    (array, "returned a numpy.ndarray, not", "em.const(array) makes a constant"),
    (text, "returned a builtins.str, not onnx_ir.Values", CONTRACT),
    (mlir_value, "ir.BlockArgument, not onnx_ir.Values", "em.operand(op) gives"),
    (node, "Node, not onnx_ir.Values", CONTRACT),
    (
        two,
        "returned 2 values (tensor<2x3xf32>, tensor<2x3xf32>) instead of tensor<2x3xf32>",
        CONTRACT,
    ),
    (none_of_one, "returned nothing instead of tensor<2x3xf32>", CONTRACT),
    (double, "returned tensor<2x3xf64> instead of tensor<2x3xf32>", "em.cast changes the element"),
    (turned, "returned tensor<3x2xf32> instead of tensor<2x3xf32>", "em.reshape and em.expand"),
    (untyped, "returned a value without a type instead of tensor<2x3xf32>", "em.result_type(op)"),
    (orphan, "returned the value y, which the graph does not compute at this place", "em.const"),
    (of_a_subgraph, "which the graph does not compute at this", "outside of em.subgraph"),
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
