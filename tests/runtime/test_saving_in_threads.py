"""Several threads save, serialize, call and verify one program at once."""

from __future__ import annotations

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier
from typing import Any

import numpy as np
import onnx
import pytest

import hlo2onnx
from hlo2onnx.runtime import sessions
from hlo2onnx.runtime.sessions import OrtProgram

WEIGHTS = [np.full((60, 60), number, np.float32) for number in range(1, 9)]
X = np.ones(60, np.float32)


def function(x: Any) -> Any:
    for weight in WEIGHTS:
        x = x @ weight / 60
    return x


@pytest.fixture
def program() -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(function, X)


def in_threads(count: int, work: Callable[[int], Any]) -> list[Any]:
    """The results of some work in several threads that begin together."""
    barrier = Barrier(count)

    def begin(index: int) -> Any:
        barrier.wait()
        return work(index)

    with ThreadPoolExecutor(count) as pool:
        return list(pool.map(begin, range(count)))


@pytest.mark.parametrize(
    ("threads", "saves"), [(4, 8), pytest.param(8, 50, marks=pytest.mark.wide)]
)
def test_one_program(
    threads: int, saves: int, program: hlo2onnx.OnnxProgram, tmp_path: Path
) -> None:
    expected, proto = program(X), program.model_proto.SerializeToString()
    names = program.model_proto.graph

    def work(index: int) -> None:
        for number in range(saves):
            external = (index + number) % 2 == 1
            program.save(tmp_path / f"{index}_{number}.onnx", external_data=external)
            assert program.model_proto.SerializeToString() == proto
            np.testing.assert_array_equal(program(X), expected)
        if index == 0:
            assert program.verify(X).ok

    in_threads(threads, work)
    paths = sorted(tmp_path.glob("*.onnx"))
    assert len(paths) == threads * saves
    for path in paths:
        saved = onnx.load(path)
        assert {t.name for t in saved.graph.initializer} == {t.name for t in names.initializer}
        (result,) = OrtProgram(str(path), threads=1)({program.input_names[0]: X})
        np.testing.assert_array_equal(result, expected)


def test_saving_leaves_the_model_alone(
    program: hlo2onnx.OnnxProgram, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also while it works."""
    initializers = program.model.graph.initializers
    before = {name: value.const_value for name, value in initializers.items()}
    monkeypatch.setattr(type(initializers), "__delitem__", None)
    monkeypatch.setattr(type(initializers), "__setitem__", None)
    for external in (False, True):
        program.save(tmp_path / "model.onnx", external_data=external)
    assert {name: value.const_value for name, value in initializers.items()} == before


def test_one_path(tmp_path: Path) -> None:
    """The last save wins; its weights are there and no others."""
    programs = [
        hlo2onnx.translate(lambda x, scale=scale: x @ (WEIGHTS[0] * scale), X)
        for scale in (np.float32(1), np.float32(2))
    ]

    def work(index: int) -> None:
        for _ in range(10):
            programs[index % 2].save(tmp_path / "model.onnx", external_data=True)

    in_threads(4, work)
    assert len(list(tmp_path.iterdir())) == 2
    (result,) = OrtProgram(str(tmp_path / "model.onnx"))({"x": X})
    assert result[0] in (60, 120) and (result == result[0]).all()


def test_one_session(program: hlo2onnx.OnnxProgram, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    class Counted(sessions.OrtProgram):
        def __init__(self, *args: Any, **kwargs: Any) -> None:
            made.append(self)
            super().__init__(*args, **kwargs)

    monkeypatch.setattr("hlo2onnx.runtime.calls.OrtProgram", Counted)
    in_threads(8, lambda _: program(X))
    assert len(made) == 1


def test_a_state_is_taken_once() -> None:
    import jax

    step = jax.jit(lambda cache, x: (cache.at[0].add(x), x), donate_argnums=0)
    program = hlo2onnx.translate(step.lower(np.zeros(500, np.float32), np.float32(1)))
    for _ in range(20):
        state, _ = program.step(np.zeros(500, np.float32), np.float32(0))

        def take(index: int, state: Any = state) -> int:
            try:
                new, _ = program.step(state, np.float32(index + 1))
            except hlo2onnx.SignatureError:
                return 0
            assert new.numpy()[0] == index + 1
            return 1

        assert sum(in_threads(4, take)) == 1
