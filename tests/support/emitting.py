"""Graphs that a function makes with an emitter, before any rule."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np
import onnx_ir as oir
from rewriting import run_model

from hlo2onnx.frontend.mlir.constants import Constants
from hlo2onnx.ir.ranges import RANGE, Range
from hlo2onnx.ir.values import Dim
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.options import Options
from hlo2onnx.report import Report
from hlo2onnx.targets import load_target


def emitter(opset: int = 23, **options: str) -> Emitter:
    """An emitter over an empty graph."""
    graph = oir.Graph([], [], nodes=[], name="main", opset_imports={"": opset})
    target, report = load_target("ort-cpu"), Report("", "")
    return Emitter(graph, opset, Options(**options), target, report, Constants())


class Emitted:
    """A graph that a function made from inputs of these types, and its results in the runtime.

    Attributes:
        em: The emitter.
        outputs: The values that the function returned.
        nodes: The operators of the main graph, in their order.
    """

    def __init__(
        self,
        build: Callable[..., oir.Value | Sequence[oir.Value]],
        inputs: Mapping[str, np.ndarray] | None = None,
        shapes: Mapping[str, Sequence[Dim]] | None = None,
        ranges: Mapping[str, tuple[int, int]] | None = None,
        opset: int = 23,
        **options: str,
    ) -> None:
        """
        Args:
            build: Called with an emitter and the inputs, by name.
            inputs: The contents of the inputs.
            shapes: Symbolic extents of inputs.
            ranges: Known bounds of integer inputs.
            opset: The opset of the model.
            options: The options of the translation.
        """
        self._inputs = inputs or {}
        self.em = emitter(opset, **options)
        graph = self.em.main_graph
        values: dict[str, Any] = {}
        for name, array in self._inputs.items():
            dims = (shapes or {}).get(name, array.shape)
            values[name] = self.em.value(name, oir.DataType.from_numpy(array.dtype), tuple(dims))
            graph.inputs.append(values[name])
            if ranges and name in ranges:
                values[name].meta[RANGE] = Range(*ranges[name])
        made = build(self.em, **values)
        self.outputs = [made] if isinstance(made, oir.Value) else list(made)
        self.nodes = [node.op_type for node in graph]

    @cached_property
    def results(self) -> list[np.ndarray]:
        """The contents of the outputs."""
        graph = self.em.main_graph
        for value in self.outputs:
            graph.outputs.append(self.em.Identity(value))
        return run_model(oir.Model(graph, ir_version=10), self._inputs)

    def gives(self, *expected: Any) -> Emitted:
        """Asserts the contents and shapes of the outputs."""
        for found, wanted in zip(self.results, expected, strict=True):
            assert found.shape == np.shape(wanted)
            np.testing.assert_array_equal(found, wanted)
        return self
