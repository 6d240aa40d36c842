"""program.profile() and --profile: every operator has its time, and loops do not count twice."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any
from xml.etree import ElementTree

import jax
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx.cli import main
from hlo2onnx.runtime.profiling import measure
from hlo2onnx.runtime.profiling.measure import Measured, measured, runs_of, spread, without_profiler
from hlo2onnx.runtime.profiling.optimized_nodes import ModelNode, Origins
from hlo2onnx.runtime.profiling.results import Profile, Spread, flame
from hlo2onnx.runtime.sessions import OrtProgram

X = np.ones((64, 64), np.float32)


def layered(x: jax.Array) -> jax.Array:
    with jax.named_scope("first"):
        x = jnp.tanh(x @ x)
    with jax.named_scope("second"):
        return jnp.sort(x @ x, axis=1)


def test_operators_and_scopes() -> None:
    found = hlo2onnx.translate(jax.jit(layered).lower(X)).profile(X, runs=3, depth=1)
    names = {share.name for share in found.operators}
    assert {"MatMul", "Tanh"} <= names
    assert {share.name for share in found.scopes} >= {"first", "second"}
    for shares in (found.operators, found.scopes):
        assert sum(share.part for share in shares) == pytest.approx(1)
        assert sum(share.milliseconds for share in shares) == pytest.approx(found.milliseconds)
        assert shares == sorted(shares, key=lambda share: -share.milliseconds)
    assert "MatMul" in str(found) and "scope" in str(found)


def test_random_inputs_are_made_where_none_are_given() -> None:
    assert hlo2onnx.translate(jax.jit(layered).lower(X)).profile(runs=1).milliseconds > 0


@pytest.mark.wide
def test_a_loop_does_not_count_its_body() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.while_loop(lambda x: x[0, 0] < 40, lambda x: x + jnp.sort(x), x)

    x = np.ones((300, 300), np.float32)
    found = hlo2onnx.translate(jax.jit(f).lower(x)).profile(x, runs=3)
    parts = {share.name: share.part for share in found.operators}
    assert sum(parts.values()) == pytest.approx(1)
    assert parts["Loop"] < 0.5, parts


def layers(x: jax.Array) -> jax.Array:
    for _ in range(2):
        x = layer(x)
    return jnp.tanh(x)


def layer(x: jax.Array) -> jax.Array:
    return jax.nn.sigmoid(x @ x.T * 0.1) @ x


def test_fused_nodes_have_the_scope_and_line_of_the_program() -> None:
    """The runtime fuses the product and its factor into a FusedMatMul."""
    found = hlo2onnx.translate(jax.jit(layers).lower(X)).profile(X, runs=2)
    operators = {node.operator: node for node in found.nodes}
    assert operators["FusedMatMul"].scope == ("layers", "layer"), operators
    assert operators["FusedMatMul"].source.startswith("tests/runtime/test_profiling.py:")
    assert {share.name for share in found.scopes} == {"layers", "layers/layer"}
    assert all(":" in share.name for share in found.lines)


def test_nodes_that_the_runtime_adds_have_a_scope() -> None:
    def f(x: jax.Array, w: jax.Array) -> jax.Array:
        with jax.named_scope("stem"):
            return jax.lax.conv_general_dilated(x, w, (1, 1), "SAME")

    x, w = np.ones((1, 16, 8, 8), np.float32), np.ones((16, 16, 3, 3), np.float32)
    found = hlo2onnx.translate(jax.jit(lambda x: f(x, w)).lower(x)).profile(x, runs=1)
    assert [share.name for share in found.scopes] == ["stem"], found.nodes


def test_trips_of_nodes_in_loops() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 7, lambda i, x: jnp.sort(x) + i, x)

    found = hlo2onnx.translate(jax.jit(f).lower(X)).profile(X, runs=2)
    trips = {node.operator: node.trips for node in found.nodes}
    assert trips["TopK"] == 7, trips
    node = next(node for node in found.nodes if node.operator == "TopK")
    assert node.per_trip == pytest.approx(node.milliseconds / 7)
    assert f"{node.name} " in str(found)


def test_a_provider_that_cannot_write_the_optimized_model(monkeypatch: pytest.MonkeyPatch) -> None:
    """Then scopes come from the names of the nodes."""

    class Compiling(OrtProgram):
        def __init__(self, *args: Any, optimized: str | None = None, **kwargs: Any) -> None:
            if optimized is not None:
                raise hlo2onnx.VerificationError("the model contains compiled nodes")
            super().__init__(*args, **kwargs)

    monkeypatch.setattr(measure, "OrtProgram", Compiling)
    found = hlo2onnx.translate(jax.jit(layered).lower(X)).profile(X, runs=1, depth=1)
    assert {share.name for share in found.scopes} >= {"first", "second"}


def test_setting_and_quartiles() -> None:
    program = hlo2onnx.translate(jax.jit(layered).lower(X))
    found = program.profile(X, runs=3, threads=1)
    assert (found.title, found.runs, found.threads) == (program.report.source, 3, 1)
    assert found.device.startswith("CPU (") and found.runtime.startswith("ONNX Runtime ")
    for item in (*found.operators, *found.scopes, *found.lines, *found.nodes):
        assert item.low <= item.milliseconds <= item.high
    for run in (found.run, found.run_with_profiler):
        assert 0 < run.low <= run.median <= run.high
    assert found.added >= 0
    assert f"{found.title}\n{found.setting}\n{found.summary}" in str(found)
    assert "1 thread\n" in str(found)


def event(name: str, ts: int, dur: int, operator: str = "", cat: str = "Node") -> dict[str, object]:
    full = f"{name}_kernel_time" if cat == "Node" else name
    return {"name": full, "ts": ts, "dur": dur, "cat": cat, "args": {"op_name": operator}}


def test_the_median_ignores_a_disturbed_run() -> None:
    events = []
    for run, slow in enumerate([0, 900, 0]):
        start = 10000 * run
        events += [
            event("model_run", start, 1000 + slow, cat="Session"),
            event("a", start + 1, 20, "MatMul"),
            event("b", start + 30, 5 + slow, "Add"),
        ]
    nodes = measured(runs_of(events))
    assert {node.operator: spread(node.times).median for node in nodes} == {
        "MatMul": pytest.approx(0.020), "Add": pytest.approx(0.005),
    }  # fmt: skip


def test_control_flow_has_the_time_between_its_trips() -> None:
    """Between the nodes of a trip, the profiler writes."""
    body = [event(name, start + ts, 2) for start in (10, 110) for name, ts in (("a", 0), ("b", 50))]
    events = [event("model_run", 0, 500, cat="Session"), event("loop", 1, 200, "Loop"), *body]
    found = {node.name: node for node in measured(runs_of(events))}
    assert (found["a"].trips, found["b"].times[0]) == (2, pytest.approx(0.004))
    before, between, after = 10 - 1, 110 - 62, 201 - 162
    assert found["loop"].times[0] == pytest.approx((before + between + after) / 1e3)


@pytest.mark.parametrize(("run", "added"), [(9, 0.0), (3.0, 0.5), (0.1, 0.75)])
def test_the_time_of_the_profiler_is_subtracted(run: float, added: float) -> None:
    """Nodes take 1 ms once, and 3 ms in four trips: never more than the cheapest node."""
    nodes = [
        Measured("a", "Add", np.array([1.0, 2.0, 0.5]), 1),
        Measured("b", "MatMul", np.array([3.0, 4.0, 2.0]), 4),
    ]
    found, each = without_profiler(nodes, run if run != 3.0 else 4 - 5 * 0.5)
    assert each == pytest.approx(added)
    assert spread(found[0].times).median == pytest.approx(1 - added)
    assert spread(found[1].times).median == pytest.approx(3 - 4 * added)
    assert min(found[1].times) >= 0


@pytest.mark.parametrize(("nodes", "notes"), [(1.2, 1), (1.001, 0), (0.5, 0)])
def test_a_note_says_why_nodes_take_longer_than_a_run(nodes: float, notes: int) -> None:
    found = Profile(nodes, [], [], runs=3, run=Spread(1.0, 1.0, 1.0))
    said = measure.notes_on(found, 3)
    assert len(said) == notes
    assert all("the nodes together take longer than a run" in note for note in said)
    assert measure.notes_on(found, 4)[0].startswith("only 3 of 4 runs")


def test_an_incomplete_run_is_left_out() -> None:
    """The runtime stops to record after a million events; then a run has no end."""
    events = [event("model_run", 0, 50, cat="Session"), event("a", 1, 9), event("a", 60, 9)]
    assert [len(run.events) for run in runs_of(events)] == [1]


def test_names_that_the_runtime_makes() -> None:
    nodes = [ModelNode("net/dot_1", ("v",), ("net",), "f.py:1")]
    origins = Origins(nodes)
    for name in ("net/dot_1", "net/dot_1_nchwc", "net/dot_1/MatMulScaleFusion/"):
        assert origins.named(name) == nodes[0], name
    assert origins.named("ReorderOutput") is None


@pytest.mark.parametrize("functions", ["inline", "keep"])
def test_scopes_of_functions(functions: str) -> None:
    @jax.jit
    def block(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) @ x

    def model(x: jax.Array) -> jax.Array:
        return jnp.tanh(block(block(x)))

    found = hlo2onnx.translate(jax.jit(model).lower(X), functions=functions).profile(X, runs=1)
    assert {share.name for share in found.scopes} == {"model", "model/block"}, found.nodes


def test_the_picture_is_a_flame_graph(tmp_path: Path) -> None:
    found = hlo2onnx.translate(jax.jit(layered).lower(X)).profile(runs=1)
    times = flame(found)
    assert times[()] == pytest.approx(found.milliseconds)
    parts = [time for path, time in times.items() if path[:-1] == ("first",)]
    assert times["first",] == pytest.approx(sum(parts)) and ("second",) in times
    replace(found, title="<b>&").save(tmp_path / "profile.svg")
    root = ElementTree.parse(tmp_path / "profile.svg").getroot()
    texts, titles = (
        [element.text or "" for element in root.iter(f"{{http://www.w3.org/2000/svg}}{kind}")]
        for kind in ("text", "title")  # a narrow box has a title only
    )
    assert texts[0] == "<b>&" and any("MatMul" in title for title in titles)
    boxes = [element.attrib for element in root.iter("{http://www.w3.org/2000/svg}rect")]
    rows: dict[str, float] = {}
    for box in boxes:  # none lies on another one
        assert float(box["x"]) >= rows.get(box["y"], 0.0) - 0.2
        rows[box["y"]] = float(box["x"]) + float(box["width"])


def test_command_line(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    module = tmp_path / "f.mlir"
    module.write_text(jax.jit(layered).lower(X).as_text())
    output, picture = tmp_path / "f.onnx", tmp_path / "f.svg"
    assert main([str(module), "-o", str(output), "--profile", "--profile-svg", str(picture)]) == 0
    assert "a run takes " in capsys.readouterr().out
    assert picture.exists() and sorted(p.name for p in tmp_path.iterdir()) == [
        "f.mlir", "f.onnx", "f.svg",
    ]  # fmt: skip
