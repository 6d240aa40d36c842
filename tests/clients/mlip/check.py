"""Force fields of mlip as ONNX files, for any number of atoms and edges."""

from __future__ import annotations

import json
import sys
import tempfile
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
from mlip.data import ChemicalSystem, DatasetInfo
from mlip.graph import Graph, GraphEdges, GraphGlobals, GraphNodes
from mlip.graph.batching_helpers import pad_with_graphs
from mlip.graph.edge_ordering import DEFAULT_EDGE_ORDERING
from mlip.models import ForceField, Mace, Nequip, Visnet
from mlip.typing.properties import Properties

import hlo2onnx

CUTOFF = 4.0
CASES: dict[str, tuple[Any, dict[str, Any]]] = {
    "MACE": (Mace, {"num_channels": 16, "l_max": 3}),
    "NequIP": (Nequip, {"num_layers": 2}),
    "ViSNet": (Visnet, {"num_layers": 2, "num_channels": 64}),
}
SYSTEMS = [(20, 1.0, 600), (20, 1.0, 2000), (26, 1.1, 900)]
"""Atoms, spacing, and the length that the neighbour list is padded to."""


def export(force_field, path):
    """Writes a force field as an ONNX file: energy, forces and stress of padded graphs.

    Inputs: positions (n, 3), atomic_numbers (n), senders (e), receivers (e), shifts (e, 3),
    cell (2, 3, 3), n_node (2), n_edge (2). The second graph is the padding.
    """

    def predict(positions, atomic_numbers, senders, receivers, shifts, cell, n_node, n_edge):
        graph = Graph(
            nodes=GraphNodes(positions=positions, atomic_numbers=atomic_numbers),
            edges=GraphEdges(shifts=shifts),
            globals=GraphGlobals(cell=cell, weight=jnp.ones(len(n_node))),
            senders=senders,
            receivers=receivers,
            n_node=n_node,
            n_edge=n_edge,
            ordering=DEFAULT_EDGE_ORDERING,
        )
        result = force_field(graph)
        return {"energy": result.energy, "forces": result.forces, "stress": result.stress}

    arrays = ("n, 3", "int32[n]", "int32[e]", "int32[e]", "e, 3", "2, 3, 3", "int32[2]", "int32[2]")
    hlo2onnx.translate(predict, *arrays).save(path)


def padded(atoms: int, spacing: float, edges: int) -> Graph:
    """A periodic system with a neighbour list of this many edges, padding included."""
    random = np.random.default_rng(atoms)
    grid = np.stack(np.meshgrid(*[np.arange(3)] * 3), -1).reshape(-1, 3)[:atoms]
    system = ChemicalSystem(
        atomic_numbers=random.choice([1, 6, 8], atoms),
        positions=(grid * 1.9 + random.normal(0, 0.15, (atoms, 3))) * spacing,
        cell=np.eye(3) * 6.0 * spacing,
        pbc=(True, True, True),
    )
    graph = Graph.from_chemical_system(system, CUTOFF)
    return pad_with_graphs(graph, atoms + 1, edges, 2)


def feeds(graph: Graph) -> dict[str, np.ndarray]:
    """The inputs of the ONNX file."""
    wide = {
        "positions": graph.nodes.positions,
        "shifts": graph.edges.shifts,
        "cell": graph.globals.cell,
    }
    whole = {
        "atomic_numbers": graph.nodes.atomic_numbers,
        "senders": graph.senders,
        "receivers": graph.receivers,
        "n_node": graph.n_node,
        "n_edge": graph.n_edge,
    }
    return {name: np.asarray(value, np.float32) for name, value in wide.items()} | {
        name: np.asarray(value, np.int32) for name, value in whole.items()
    }


def milliseconds(call: Callable[[], Any]) -> float:
    """The time of the fastest of many calls."""
    times = []
    for _ in range(20):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return round(min(times) * 1e3, 2)


def compare(case: str, folder: Path) -> dict[str, Any]:
    """Exports a force field with random weights, and compares all systems with one file."""
    network, options = CASES[case]
    energies = {1: -1.0, 6: -3.0, 8: -4.0}
    info = DatasetInfo(
        atomic_energies_map=energies,
        graph_cutoff_angstrom=CUTOFF,
        avg_num_neighbors=20.0,
        avg_r_min_angstrom=1.0,
    )
    force_field = ForceField.from_mlip_network(
        network(network.Config(**options), info), required_properties=Properties(stress=True)
    )
    path = folder / f"{case}.onnx"
    export(force_field, path)
    session = onnxruntime.InferenceSession(path)
    names = [port.name for port in session.get_outputs()]
    predict = jax.jit(force_field.__call__)
    figures: dict[str, Any] = {"nodes": len(onnx.load(path).graph.node)}
    figures["bytes"] = path.stat().st_size
    largest = dict.fromkeys(names, 0.0)
    for system in SYSTEMS:
        graph = padded(*system)
        result = predict(graph)
        found = dict(zip(names, session.run(None, feeds(graph)), strict=True))
        for name in names:
            expected = np.asarray(getattr(result, name))
            assert found[name].shape == expected.shape
            assert np.abs(expected).max() > 0
            error = np.abs(found[name] - expected).max() / np.abs(expected).max()
            largest[name] = max(largest[name], float(error))
    graph = padded(*SYSTEMS[0])
    figures["ort_ms"] = milliseconds(lambda: session.run(None, feeds(graph)))
    figures["jax_ms"] = milliseconds(lambda: jax.block_until_ready(predict(graph)))
    return {"errors": largest, **figures}


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        figures = {case: compare(case, Path(folder)) for case in CASES}
    names = ("mlip", "jax", "onnxruntime")
    print(json.dumps({"versions": {name: version(name) for name in names}, **figures}))
    return any(max(figure["errors"].values()) > 1e-5 for figure in figures.values())


if __name__ == "__main__":
    sys.exit(main())
