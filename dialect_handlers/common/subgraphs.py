"""What loops and branches share."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.analysis.loop_symbols import Extent
from hlo2onnx.ir.values import Dim, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.shape_arithmetic import contents_of
from hlo2onnx.mlir.types import parts_of


def inputs_for(em: Emitter, initial: Any, name: str) -> Parts:
    """Inputs of a subgraph for a StableHLO value that starts as this one; a dynamic extent is
    that of the start."""
    types = parts_of(initial.type)
    return tuple(
        em.value(name, type_.dtype, _dims(type_.shape, shape_of(part)))
        for type_, part in zip(types, em.parts(initial), strict=True)
    )


def _dims(known: Iterable[int | None], start: Iterable[Dim]) -> list[Dim]:
    return [own if dim is None else dim for dim, own in zip(known, start, strict=True)]


def set_outputs(em: Emitter, graph: oir.Graph, values: Iterable[oir.Value]) -> None:
    """Makes these values, in order, the outputs of the subgraph being built.

    What a subgraph returns must be made in it, and one value is one output: the rest is copied.
    """
    for value in values:
        node = value.producer()
        if node is None or node.graph is not graph or value.is_graph_output():
            value = em.Identity(value)
        graph.outputs.append(value)


def flat(parts: Iterable[Parts]) -> list[oir.Value]:
    """All parts in one list."""
    return [part for item in parts for part in item]


def grouped(values: Sequence[oir.Value], like: Iterable[Any]) -> list[Parts]:
    """The values as the parts of StableHLO values of these MLIR types."""
    rest = iter(values)
    return [tuple(next(rest) for _ in parts_of(mlir_type)) for mlir_type in like]


def known_integer(em: Emitter, value: Any) -> np.ndarray | None:
    """The content of a StableHLO value if it is an integer or boolean scalar known now."""
    parts = em.parts(value)
    if len(parts) != 1 or len(parts[0].shape or ()) or parts[0].dtype is None:
        return None
    content = em.facts.constant(parts[0])
    if content is None or content.dtype.kind not in "iub":
        return None
    return content.reshape(())


def scalar_content(em: Emitter, value: Any) -> np.ndarray | Extent | None:
    """The same, or what an integer scalar is that follows from shapes."""
    known, parts = known_integer(em, value), em.parts(value)
    if known is not None or not em.has_symbols or len(parts) != 1 or shape_of(parts[0]):
        return known
    contents = contents_of(parts[0])
    return None if contents is None else Extent(contents.item())
