"""Small ONNX graphs for tests of single rules: built, rewritten, run before and after."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.ir.values import Shape
from hlo2onnx.raising.engine import Rule, apply_rules
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.targets import Target, load_target
from hlo2onnx.targets.builder import TargetBuilder

Inputs = Mapping[str, np.ndarray]
Build = Callable[..., oir.Value | Sequence[oir.Value]]


def model_of(
    build: Build, inputs: Inputs, opset: int = 23, dims: Mapping[str, Shape] | None = None
) -> oir.Model:
    """A model with the graph that `build(builder, **values)` makes from inputs of these types.

    `dims` gives the shapes of inputs that have free extents.
    """
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": opset})
    builder = TargetBuilder(graph, opset, load_target("ort-cpu"))
    values = {}
    for name, array in inputs.items():
        dtype = oir.DataType.from_numpy(array.dtype)
        values[name] = builder.value(name, dtype, (dims or {}).get(name, array.shape))
        graph.inputs.append(values[name])
    made = build(builder, **values)
    graph.outputs.extend([made] if isinstance(made, oir.Value) else made)
    return oir.Model(graph, ir_version=10)


class Rewrite:
    """A graph after one or more rules.

    Attributes:
        fired: How often each rule fired.
        nodes: Operators of the rewritten model.
    """

    def __init__(
        self,
        build: Build,
        inputs: Inputs,
        *rules: Rule,
        tolerance: float = 0.0,
        opset: int = 23,
        target: Target | None = None,
    ) -> None:
        """`tolerance` is relative to the largest magnitude; NaN and infinities must be equal."""
        target = target or load_target("ort-cpu")
        model = model_of(build, inputs, opset)
        before = run_model(model, inputs)
        self.fired = apply_rules(model, rules, target)
        remove_unused(model.graph)
        self.model = model
        self.nodes = Counter(node.op_type for node in model.graph.all_nodes())
        for old, new in zip(before, run_model(model, inputs), strict=True):
            _assert_close(new, old, tolerance)
        assert not apply_rules(model, rules, target), "the rules are not idempotent"

    def gives(self, *op_types: str) -> None:
        """Asserts that the rules fired and that exactly these operators remain."""
        assert self.fired, self.model
        assert sorted(self.nodes.elements()) == sorted(op_types), self.model

    def nothing(self) -> None:
        """Asserts that no rule fired."""
        assert not self.fired, self.model


def fires(
    build: Build, inputs: Inputs, *rules: Rule, opset: int = 23, target: Target | None = None
) -> bool:
    """Whether one of the rules fires. It runs nothing, so the runtime may lack a kernel."""
    target = target or load_target("ort-cpu")
    return bool(apply_rules(model_of(build, inputs, opset), rules, target))


def foreign(value: oir.Value) -> oir.Value:
    """The value, made by an operator of the same name in another domain. It does not run."""
    node = value.producer()
    assert node is not None
    node.domain = "example"
    return value


def negated(b: GraphBuilder, x: oir.Value, times: int) -> oir.Value:
    """The value after this many Neg."""
    for _ in range(times):
        x = b.Neg(x)
    return x


def clipped(b: GraphBuilder, x: oir.Value, low: int, high: int) -> oir.Value:
    """An i32 within bounds."""
    return b.Clip(x, b.scalar(low, oir.DataType.INT32), b.scalar(high, oir.DataType.INT32))


def natural(b: GraphBuilder, x: oir.Value, low: int = 0) -> oir.Value:
    """An i32 with a lower bound."""
    return clipped(b, x, low, 2**31 - 1)


def op_types(graph: oir.Graph) -> list[str]:
    """The operators of a graph, in order."""
    return [node.op_type for node in graph]


def padded_by(value: oir.Value, auto_pad: str) -> oir.Value:
    """The value of a convolution with auto_pad, which no handler emits."""
    node = value.producer()
    assert node is not None
    node.attributes["auto_pad"] = oir.AttrString("auto_pad", auto_pad)
    return value


def _assert_close(new: np.ndarray, old: np.ndarray, tolerance: float) -> None:
    assert (new.dtype, new.shape) == (old.dtype, old.shape)
    if not tolerance:
        np.testing.assert_array_equal(new, old)
        return
    finite = np.isfinite(old)
    np.testing.assert_array_equal(np.isfinite(new), finite)
    np.testing.assert_array_equal(new[~finite], old[~finite])
    scale = np.abs(old[finite]).max(initial=0)
    np.testing.assert_allclose(new[finite], old[finite], rtol=0, atol=tolerance * scale)


def run_model(model: oir.Model, inputs: Inputs) -> list[np.ndarray]:
    """The results of the model, for those inputs that it has."""
    proto = oir.to_proto(model)
    check_model(proto)
    names = {str(value.name) for value in model.graph.inputs}
    feeds = {name: array for name, array in inputs.items() if name in names}
    return OrtProgram(proto.SerializeToString(), optimize=False, threads=1)(feeds)
