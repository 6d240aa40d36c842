"""Named faults in models of small programs: each lacks a guard that few inputs need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
from onnx import numpy_helper

import hlo2onnx
from tools.model_mutation.control_flow import take
from tools.model_mutation.graphs import set_constant
from tools.model_mutation.nodes import make_identity, rename
from tools.model_mutation.programs import translated_function
from tools.model_mutation.small import F32, I32, of

Change = Callable[[onnx.NodeProto, onnx.GraphProto], None]
"""Changes a node of a graph."""


@dataclass(frozen=True)
class Fault:
    """A program, and a fault of its model.

    Attributes:
        name: What the model lacks.
        function: The program.
        types: Types of its arguments.
        op: Operator of the changed node, the last one of the model.
        change: The fault.
        shown_by: Arguments that show the fault.
    """

    name: str
    function: Callable[..., Any]
    types: tuple[jax.ShapeDtypeStruct, ...]
    op: str
    change: Change
    shown_by: Sequence[Any]

    def program(self) -> hlo2onnx.OnnxProgram:
        """The program, translated."""
        return translated_function(self.function, self.types)

    def plant(self, model: onnx.ModelProto) -> onnx.ModelProto:
        """A copy of the model with the fault."""
        changed = onnx.ModelProto()
        changed.CopyFrom(model)
        del changed.graph.value_info[:]
        node = [node for node in changed.graph.node if node.op_type == self.op][-1]
        self.change(node, changed.graph)
        return changed

    def arguments(self) -> list[np.ndarray]:
        """Arguments that show the fault, as arrays of the right shapes and types."""
        pairs = zip(self.shown_by, self.types, strict=True)
        return [np.broadcast_to(np.asarray(x, t.dtype), t.shape).copy() for x, t in pairs]


_COUNT = np.arange(9.0)
_MEAN = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
_WEIGHTS = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)


def _bypass(place: int) -> Change:
    return lambda node, graph: make_identity(place, node)


def _rename(op: str) -> Change:
    return lambda node, graph: rename(op, node)


def _never_then(node: onnx.NodeProto, graph: onnx.GraphProto) -> None:
    take({"then_branch": "else_branch"}, node)


def _zero_weights(node: onnx.NodeProto, graph: onnx.GraphProto) -> None:
    name = node.input[1]
    old = next(item for item in graph.initializer if item.name == name)
    zeros = np.zeros_like(numpy_helper.to_array(old))
    set_constant(graph, name, numpy_helper.from_array(zeros, name))


def _take(mode: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    return lambda x, i: jnp.take(x, i, mode=mode)


_X, _I, _ONE = of(F32, 9), of(I32, 9), of(I32)

FAULTS: tuple[Fault, ...] = (
    Fault("gather clamp", _take("clip"), (_X, _I), "Clip", _bypass(0), (_COUNT, 20)),
    Fault("gather fill", _take("fill"), (_X, _I), "Where", _bypass(1), (_COUNT, 20)),
    Fault(
        "dynamic_slice clamp",
        lambda x, i: jax.lax.dynamic_slice(x, (i,), (5,)),
        (_X, _ONE),
        "Clip",
        _bypass(0),
        (_COUNT, 7),
    ),
    Fault("division by zero", jax.lax.div, (_I, _I), "Where", _bypass(2), (5, 0)),
    Fault("clip to +-6", lambda x: jnp.clip(x, -6, 6), (_X,), "Clip", _bypass(0), (7.0,)),
    Fault("integer abs", jnp.abs, (_I,), "Abs", _bypass(0), (-3,)),
    Fault(
        "shift by too much",
        jax.lax.shift_right_arithmetic,
        (_I, _I),
        "Min",
        _bypass(0),
        (-5, 40),
    ),
    Fault("float to int", lambda x: x.astype(I32), (_X,), "Where", _bypass(2), (1e10,)),
    Fault(
        "NaN guard",
        lambda x: jnp.where(jnp.isnan(x), 0.0, x) * 2,
        (_X,),
        "Where",
        _bypass(2),
        (np.nan,),
    ),
    Fault(
        "branch not taken",
        lambda x: jax.lax.cond(x.sum() > 100, lambda: x * 3, lambda: x + 1),
        (_X,),
        "If",
        _never_then,
        (50.0,),
    ),
    Fault("log of negatives", lambda x: jnp.log(x - 10), (_X,), "Log", _rename("Sqrt"), (12.0,)),
    Fault("relu6", jax.nn.relu6, (_X,), "Min", _bypass(0), (7.0,)),
    Fault(
        "zeroed weights",
        lambda x: (x - _MEAN) @ _WEIGHTS,
        (of(F32, 4, 3),),
        "MatMul",
        _zero_weights,
        (1.0,),
    ),
)
"""The faults. Each model is right on ordinary random numbers, or nearly so."""
