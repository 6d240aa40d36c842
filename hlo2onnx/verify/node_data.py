"""Errors, times and rules of nodes as the custom node data of Model Explorer.

Ids of graphs are those of its adapter for ONNX, model-explorer-onnx. Ids of nodes are their names.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Iterator, Mapping
from pathlib import Path
from typing import Any, TypeAlias
from zlib import crc32

import onnx_ir as oir

from hlo2onnx.ir.notes import rewrites_of
from hlo2onnx.runtime.paths import output_folder, writing

_Result: TypeAlias = dict[str, float | str]
_Describe: TypeAlias = Callable[[oir.Node], _Result | None]
"""What a data set says of a node; None if nothing."""

_GRADIENT = [{"stop": 0, "bgColor": "#ffffff"}, {"stop": 1, "bgColor": "#e5534b"}]
"""From the smallest number to the largest."""


def save_node_data(
    model: oir.Model,
    folder: str | Path,
    times: Mapping[str, tuple[float, float]],
    errors: Mapping[str, float],
) -> list[Path]:
    """Writes a file for each data set that is not empty. See `OnnxProgram.save_node_data`.

    Args:
        times: Milliseconds and trips of nodes, by name.
        errors: Relative errors of values, by name.
    """

    def error(node: oir.Node) -> _Result | None:
        known = [errors[name] for value in node.outputs if (name := str(value.name)) in errors]
        return {"value": max(known)} if known else None

    def time(node: oir.Node) -> _Result | None:
        found = times.get(str(node.name))
        return None if found is None else {"value": found[0]}

    checked, written = output_folder(folder), []
    for name, title, describe in (
        ("errors", "relative error", error),
        ("times", "milliseconds", time),
        ("rules", "rewrite rules", _rules),
    ):
        data = _data(model, title, describe)
        if data:
            path = checked / f"{name}.json"
            with writing(path):
                checked.mkdir(parents=True, exist_ok=True)
                path.write_text(json.dumps(data, indent=1), encoding="utf-8")
            written.append(path)
    return written


def _rules(node: oir.Node) -> _Result | None:
    """The rules that led to a node, the last one first, with a light colour for these rules."""
    text = ", ".join(rewrites_of(node))
    colour = f"#{crc32(text.encode()) % (1 << 24) | 0x808080:06x}"
    return {"value": text, "bgColor": colour} if text else None


def _data(model: oir.Model, title: str, describe: _Describe) -> dict[str, dict[str, Any]]:
    """The data of each graph of which there are some, by its id."""
    found: dict[str, dict[str, Any]] = {}
    for graph, name, node in _nodes(model):
        result = describe(node)
        if result is not None:
            empty = {"name": title, "results": {}, "gradient": _GRADIENT}
            found.setdefault(graph, empty)["results"][name] = result
    return found


def _nodes(model: oir.Model) -> Iterator[tuple[str, str, oir.Node]]:
    """The ids of the graph and of the node, and the node, for each node of a model."""
    yield from _within(model.graph, model.graph.name or "<main>")
    for function in model.functions.values():
        domain, name, overload = function.identifier()
        suffix = f"::{overload}" if overload else ""
        yield from _within(function, f"[function]{domain}::{name}{suffix}")


def _within(
    graph: Iterable[oir.Node], name: str, prefix: str = ""
) -> Iterator[tuple[str, str, oir.Node]]:
    """Nodes of branches are drawn in the graph of the If, those of bodies in their own."""
    for node in graph:
        node_id = f"{prefix}{node.name}"
        yield name, node_id, node
        for attribute in node.attributes.values():
            if attribute.type == oir.AttributeType.GRAPH:
                inner, body = f"{node_id}/{attribute.name}", attribute.as_graph()
                is_branch = node.op_type == "If"
                yield from _within(body, name, f"{inner}/") if is_branch else _within(body, inner)
