"""Type rules of the operators that hold subgraphs."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.type_inference.registry import Attributes, Inputs, ValueType, need, rule
from hlo2onnx.ir.values import Dim, const_ints, dtype_of, shape_of


@rule("If")
def _if(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    branches = zip(
        attributes["then_branch"].outputs, attributes["else_branch"].outputs, strict=True
    )
    types: list[ValueType] = []
    for first, second in branches:
        need(dtype_of(first) == dtype_of(second), "branches of unlike element types")
        pairs = zip(shape_of(first), shape_of(second), strict=True)
        types.append((dtype_of(first), tuple(_either(one, other) for one, other in pairs)))
    need(len(types) == n_outputs, "not as many outputs as its branches have")
    return types


def _either(first: Dim, second: Dim) -> Dim:
    return first if first == second else oir.SymbolicDim(None)


@rule("Loop")
def _loop(inputs: Inputs, attributes: Attributes, n_outputs: int) -> list[ValueType]:
    """The state as the body declares it; stacked outputs have as many rows as there are trips."""
    body = attributes["body"]
    state = list(body.inputs)[2:]
    results = list(body.outputs)[1:]
    need(len(results) == n_outputs, "not as many outputs as its body has results")
    need(len(state) == len(inputs) - 2, "not as many initial values as its body has states")
    for before, after in zip(state, results, strict=False):
        need(dtype_of(before) == dtype_of(after), "a state changes its element type")
        pairs = zip(shape_of(before), shape_of(after), strict=True)
        changed = [
            p for p in pairs if isinstance(p[0], int) and isinstance(p[1], int) and p[0] != p[1]
        ]
        need(not changed, "a state changes its shape")
    types: list[ValueType] = [(dtype_of(x), shape_of(x)) for x in state]
    # With a condition the loop may end early.
    trips = const_ints(inputs[0]) if inputs[1] is None else None
    rows: Dim = trips[0] if trips else oir.SymbolicDim(None)
    return types + [(dtype_of(x), (rows, *shape_of(x))) for x in results[len(state) :]]
