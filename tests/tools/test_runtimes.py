"""Runtimes in child processes: what they answer, and what ends them."""

from __future__ import annotations

import math
import sys
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
import pytest
from small_models import model

from hlo2onnx.runtime.adapters.installed import KINDS, WORKERS, Name
from hlo2onnx.runtime.adapters.process import (
    Answer,
    Runtime,
    StartError,
    Tensor,
    array_of,
    lacks_kernel,
    tensor_of,
)
from hlo2onnx.targets import load_target
from tools.probe import ordered_scatter
from tools.probe.environments import start
from tools.probe.flag_trials import FLAG_TRIALS, FlagTrial, measured_flags
from tools.probe.models import DTYPES, Ports, together
from tools.probe.ordered_scatter import MARGIN, keeps_order, ordered_scatter_elements
from tools.probe.prober import Limits, Prober
from tools.probe.recipes import build_case

FAKE = f"""
import os, sys, time
loads, poisoned = [], []
sys.path.insert(0, {str(WORKERS)!r})
import frames

def answer(header, body):
    model, inputs = frames.split(header, body)
    print("noise on the standard output")
    if model == b"die":
        os._exit(3)
    if poisoned:
        os._exit(3)
    if model == b"late":
        poisoned.append(1)
    if model == b"hang":
        time.sleep(60)
    if model == b"error":
        raise ValueError("no such thing")
    if model == b"missing":
        raise ValueError("NOT_IMPLEMENTED : Could not find an implementation for Foo(1)")
    kept = MODELS.of(header, model)
    if kept == b"count":
        inputs = [({{"type": 3, "shape": [len(loads)]}}, bytes(loads))]
    described = [dict(item, size=len(data)) for item, data in inputs]
    return {{"outputs": described}}, [data for _, data in inputs]

def load(header, source):
    loads.append(header.get("key", 0) or 0)
    return source

MODELS = frames.Models(load)
known = {{"takes": [1, 7, 999], "gives": [1], "keeps": True, "reads_files": True}}
frames.serve({{"version": "1.2", **known}}, answer)
"""
X = np.arange(6, dtype=np.float32).reshape(2, 3)
N = np.array([2**40, -1])


@pytest.fixture
def fake(tmp_path: Path) -> Iterator[Runtime]:
    script = tmp_path / "worker.py"
    script.write_text(FAKE)
    with Runtime([sys.executable, str(script)], seconds=30) as runtime:
        yield runtime


@pytest.fixture(scope="module")
def cpu() -> Iterator[Runtime]:
    with start(Name("ort-cpu")) as runtime:
        yield runtime


def test_a_worker_says_what_it_is(fake: Runtime) -> None:
    assert fake.version == "1.2"
    assert fake.takes == {ir.DataType.FLOAT, ir.DataType.INT64}
    assert fake.gives == {ir.DataType.FLOAT}


def test_answers(fake: Runtime) -> None:
    answer = fake.run(b"echo", {"x": tensor_of(X), "n": tensor_of(N)})
    assert isinstance(answer, Answer)
    x, n = map(array_of, answer.outputs)
    np.testing.assert_array_equal(x, X)
    np.testing.assert_array_equal(n, N)


def test_errors_are_answers(fake: Runtime) -> None:
    assert fake.run(b"error") == "ValueError: no such thing"
    missing = fake.run(b"missing")
    assert isinstance(missing, str) and lacks_kernel(missing)
    assert not fake.deaths


def test_a_process_that_ends_is_replaced(fake: Runtime) -> None:
    fake.seconds = math.inf  # no limit for answers, nor for the start of the next one
    assert fake.run(b"die", what="the culprit") == "killed the process"
    assert fake.deaths == ["the culprit: killed the process, exit code 3"]
    assert isinstance(fake.run(b"echo"), Answer)


def test_what_an_earlier_model_did_is_tried_again(fake: Runtime) -> None:
    session = fake.session(b"echo", optimize=True)
    assert isinstance(session({}), Answer)
    fake.run(b"late")
    assert isinstance(session({}), Answer) and len(fake.deaths) == 1


def test_a_process_that_hangs_is_replaced(tmp_path: Path) -> None:
    script = tmp_path / "worker.py"
    script.write_text(FAKE)
    with Runtime([sys.executable, str(script)], seconds=1) as runtime:
        assert runtime.run(b"hang") == "no answer in 1 s"
        assert len(runtime.deaths) == 1
        assert isinstance(runtime.run(b"echo"), Answer)


def test_a_worker_that_does_not_start() -> None:
    """The last line of its standard error is the reason, if it wrote one."""
    with pytest.raises(StartError, match="exit code 7"):
        Runtime([sys.executable, "-c", "import sys; sys.exit(7)"])
    with pytest.raises(StartError, match=r"^ModuleNotFoundError: No module named 'no_such'$"):
        Runtime([sys.executable, "-c", "import no_such"])
    with pytest.raises(StartError, match="No such file"):
        Runtime(["/no/such/file"])


def keys_of(answer: Answer | str) -> list[int]:
    """The keys of the models that a worker has loaded."""
    assert isinstance(answer, Answer)
    return [int(key) for key in array_of(answer.outputs[0])]


def test_models_of_sessions_stay_loaded(fake: Runtime) -> None:
    assert keys_of(fake.run(b"count")) == [0]
    one, two = fake.session(b"count", optimize=True), fake.session(b"count", optimize=False)
    assert keys_of(one({})) == [0, 0]
    assert keys_of(two({})) == keys_of(one({})) == keys_of(two({})) == [0, 0, 1]
    del two
    assert keys_of(one({})) == [0, 0, 1] and not fake._unused
    fake.run(b"die")  # a new process has none of them
    assert keys_of(one({})) == keys_of(one({})) == [0]


def test_models_of_files(cpu: Runtime, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    path.write_bytes(model("g (float[N] x) => (float[N] y) {y = Neg(x)}"))
    session = cpu.session(str(path), optimize=True)
    for x in (X[0], X[1]):
        answer = session({"x": tensor_of(x)})
        assert isinstance(answer, Answer)
        np.testing.assert_array_equal(array_of(answer.outputs[0]), -x)
    assert "NO_SUCHFILE" in str(cpu.session(str(tmp_path / "none.onnx"), optimize=True)({}))


def test_onnxruntime(cpu: Runtime) -> None:
    assert cpu.version == ort.__version__
    narrow = np.array([1.5, -3], ml_dtypes.bfloat16)
    graph = "g (bfloat16[2] x) => (float[2] y, bfloat16[2] z) {y = Cast<to=1>(x) z = Identity(x)}"
    answer = cpu.run(model(graph), {"x": tensor_of(narrow)})
    assert isinstance(answer, Answer)
    y, z = map(array_of, answer.outputs)
    assert (y.tolist(), z.dtype, z.tolist()) == ([1.5, -3], narrow.dtype, [1.5, -3])
    assert "protobuf" in str(cpu.run(b"junk"))
    missing = cpu.run(model("g (double[2] x) => (double[2] y) {y = Erf(x)}"))
    assert isinstance(missing, str) and lacks_kernel(missing)


def test_the_reference() -> None:
    with start(Name("reference")) as runtime:
        answer = runtime.run(model("g (float[N] x) => (float[N] y) {y = Neg(x)}"),
                             {"x": tensor_of(X[0])})  # fmt: skip
        assert isinstance(answer, Answer)
        np.testing.assert_array_equal(array_of(answer.outputs[0]), -X[0])


def test_names() -> None:
    assert Name.parsed("ort-cpu@1.20") == Name("ort-cpu", "1.20")
    assert str(Name.parsed("openvino")) == "openvino"
    with pytest.raises(ValueError, match="there is no runtime tpu; there are ort-cpu, "):
        Name.parsed("tpu")
    assert all((WORKERS / kind.worker).exists() for kind in KINDS.values())


# -- models ----------------------------------------------------------------------------------------


def case_of_add(ports: Ports, short_name: str) -> tuple[onnx.GraphProto, list[str]]:
    dtype = ir.DataType.from_short_name(short_name)
    schema = onnx.defs.get_schema("Add", 18, "")
    case = build_case("Add", schema, {0: dtype}, 18, 8, ports)
    return onnx.load_from_string(case.model).graph, list(case.feeds)


def test_data_are_inputs_unless_the_runtime_cannot_take_them() -> None:
    graph, feeds = case_of_add(Ports(), "f32")
    assert (len(graph.input), len(graph.initializer), feeds) == (2, 0, ["x0", "x1"])
    few = Ports({ir.DataType.FLOAT}, {ir.DataType.FLOAT})
    graph, feeds = case_of_add(few, "bf16")
    assert (len(graph.input), len(graph.initializer), feeds) == (0, 2, [])
    assert [node.op_type for node in graph.node] == ["Add", "Cast"]
    assert graph.output[0].type.tensor_type.elem_type == onnx.TensorProto.FLOAT


@pytest.mark.wide
def test_scatters_of_so_many_elements_keep_order(cpu: Runtime) -> None:
    """Twice as many as the table says do; those that the runtime splits over threads do not."""
    known = load_target("ort-cpu").costs.ordered_scatter_elements
    assert keeps_order(cpu, MARGIN * int(known))
    assert not keeps_order(cpu, 4 * MARGIN * int(known))


@pytest.mark.parametrize(("fails_at", "expected"), [(4096, 0), (8192, 2048), (1 << 21, 1 << 19)])
def test_the_largest_scatter_in_order(
    fails_at: int, expected: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(ordered_scatter, "keeps_order", lambda _, size: size < fails_at)
    runtime: Any = SimpleNamespace(has_threads=True)
    assert ordered_scatter_elements(runtime) == expected


# -- flags -----------------------------------------------------------------------------------------


def test_flags_are_those_of_the_table(cpu: Runtime) -> None:
    flags = load_target("ort-cpu").flags
    for flag, fault in measured_flags(cpu):
        assert bool(fault) <= getattr(flags, flag), f"{flag}: {fault}"
        if ort.__version__ == load_target("ort-cpu").runtime_version:
            assert bool(fault) == getattr(flags, flag), flag


def changed(array: np.ndarray) -> np.ndarray:
    """An output that is wrong."""
    return np.zeros((), array.dtype) if not array.size else (array == 0).astype(array.dtype) + 2


@pytest.mark.parametrize("trial", FLAG_TRIALS, ids=lambda trial: trial.shows)
def test_a_trial_finds_wrong_outputs(trial: FlagTrial) -> None:
    def gives(outputs: Any) -> Any:
        found = Answer([tensor_of(np.asarray(y)) for y in outputs])
        return SimpleNamespace(run=lambda *_, **__: found)

    assert trial.fault(gives(trial.right)) == ""
    assert trial.fault(gives([changed(y) for y in trial.right])).startswith("gives ")
    assert trial.fault(SimpleNamespace(run=lambda *_, **__: "broken")) == "broken"
    assert replace(trial, feeds={}).model() == trial.model()


# -- batches ---------------------------------------------------------------------------------------


def test_cases_run_together() -> None:
    """The model has all of them, and each gets its own answer; a failure is found by halves."""
    asked: list[int] = []

    def run(content: bytes, feeds: Mapping[str, Tensor], what: str) -> Answer | str:
        whole = onnx.load_from_string(content)
        asked.append(len(whole.graph.node))
        kinds = [item.type.tensor_type.elem_type for item in whole.graph.output]
        assert {item.name for item in whole.graph.input} == set(feeds)
        if onnx.TensorProto.DOUBLE in kinds:
            return "f64 is not there"
        return Answer([Tensor(kind, (), b"") for kind in kinds])

    every = frozenset(DTYPES)
    runtime = SimpleNamespace(run=run, takes=every, gives=every)
    types = frozenset(map(ir.DataType.from_short_name, ("f32", "f64", "f16", "i32")))
    prober = Prober(runtime, Limits(18, 8), frozenset({18}), types, batch=8)  # type: ignore[arg-type]
    prober.probe("Gelu")
    assert not prober.found["ops"]
    prober = Prober(runtime, Limits(20, 8), frozenset({20}), types, batch=8)  # type: ignore[arg-type]
    prober.probe("Gelu")
    runs = {fact for fact, opsets in prober.found["ops"].items() if opsets}
    assert runs == {(key, (ir.DataType.from_short_name(name),))
                    for key in ("Gelu", "Gelu[tanh]") for name in ("f32", "f16")}  # fmt: skip
    assert asked[0] == 6 and asked.count(1) >= 2


def test_models_are_merged_with_names_of_their_own(cpu: Runtime) -> None:
    schema = onnx.defs.get_schema("Max", 18, "")
    floats = build_case("Max", schema, {0: ir.DataType.FLOAT}, 18, 8, Ports())
    whole = together([floats, floats])
    answer = cpu.run(whole.model, whole.feeds)
    assert isinstance(answer, Answer)
    assert whole.outputs == len(answer.outputs) == 2


def test_a_version_of_an_operator_stands_for_its_opsets() -> None:
    every = frozenset(DTYPES)
    opsets: list[int] = []

    def run(content: bytes, feeds: Mapping[str, Tensor], what: str) -> Answer:
        (given,) = onnx.load_from_string(content).opset_import
        opsets.append(given.version)
        return Answer([Tensor(1, (), b"")])

    runtime = SimpleNamespace(run=run, takes=every, gives=every)
    types = frozenset({ir.DataType.FLOAT})
    prober = Prober(runtime, Limits(24, 8), frozenset(range(17, 25)), types, by_version=True)  # type: ignore[arg-type]
    prober.probe("Elu")
    assert opsets == [17, 22]
    assert prober.found["ops"]["Elu", (ir.DataType.FLOAT,)] == set(range(17, 25))
