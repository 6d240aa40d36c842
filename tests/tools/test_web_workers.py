"""The workers of onnxruntime-web, in Node and on a page."""

from __future__ import annotations

import os
import shutil
import signal
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import onnx_ir as ir
import pytest
from small_models import model

from hlo2onnx.runtime.adapters.installed import KINDS, Name
from hlo2onnx.runtime.adapters.process import (
    Answer,
    Runtime,
    array_of,
    lacks_kernel,
    tensor_of,
)
from hlo2onnx.targets import load_target
from tools.probe.environments import InstallError, start
from tools.probe.flag_trials import has_flag

X = np.arange(6, dtype=np.float32).reshape(2, 3)


FAKE_WEB = """
exports.env = { wasm: {} };
exports.Tensor = class {
  constructor(type, data, dims) { Object.assign(this, { type, data, dims }); }
};
exports.InferenceSession = { async create(model, options) {
  const text = new TextDecoder().decode(model);
  if (text === "error") throw new Error("no such thing");
  if (text === "die") process.exit(3);
  const [provider] = options.executionProviders;
  console.log("noise on the standard output");
  return {
    outputNames: ["y", "provider"],
    async run(feeds) {
      const name = new TextEncoder().encode(`${provider} ${options.graphOptimizationLevel}`);
      return { y: feeds.x, provider: new exports.Tensor("uint8", name, [name.length]) };
    },
    async release() {},
  };
} };
"""


def needs(*programs: str) -> None:
    for program in programs:
        if shutil.which(program) is None:
            pytest.skip(f"{program} is not installed")


@pytest.fixture
def fake_web(tmp_path: Path) -> Iterator[Runtime]:
    """The worker of onnxruntime-web, with a module in its place that gives back its input."""
    needs("node")
    package = tmp_path / "node_modules" / "onnxruntime-web"
    package.mkdir(parents=True)
    (package / "package.json").write_text('{"version": "1.30.0", "main": "index.js"}')
    (package / "index.js").write_text(FAKE_WEB)
    with Runtime(KINDS["ort-web"].command(str(tmp_path)), seconds=20) as runtime:
        yield runtime


def test_the_worker_of_the_web(fake_web: Runtime) -> None:
    """Tensors of each type, also larger than what a pipe holds, and short ones in a row."""
    assert fake_web.version == "1.30.0"
    for number in sorted(fake_web.takes):
        kind = ir.DataType(number)
        for size in (0, 3, 300_000):
            x = (np.arange(size) % 2).astype(kind.numpy()).reshape(size, 1)
            answer = fake_web.run(b"model", {"x": tensor_of(x)})
            assert isinstance(answer, Answer)
            y, provider = map(array_of, answer.outputs)
            assert (y.dtype, y.shape) == (x.dtype, x.shape)
            np.testing.assert_array_equal(y, x)
            assert provider.tobytes() == b"wasm disabled"
    answer = fake_web.run(b"model", {"x": tensor_of(X)}, optimize=True)
    assert isinstance(answer, Answer)
    assert answer.outputs[1].content == b"wasm all"


def test_what_the_worker_of_the_web_cannot_run(fake_web: Runtime) -> None:
    assert fake_web.run(b"error", {"x": tensor_of(X)}) == "no such thing"
    assert not fake_web.deaths
    assert fake_web.run(b"die", {"x": tensor_of(X)}) == "killed the process"
    assert isinstance(fake_web.run(b"model", {"x": tensor_of(X)}), Answer)


@pytest.mark.wide
def test_webgpu() -> None:
    """In Chromium, with the software adapter: answers, errors, and a page that ends."""
    needs("node", "npm", "chromium")
    try:
        runtime = start(Name("ort-webgpu", "1.30"))
    except InstallError as error:
        pytest.skip(str(error))
    with runtime:
        graph = "g (float[N] x) => (float[N] y, int64[1] s) {y = Exp(x) s = Shape(x)}"
        for _ in range(2):
            answer = runtime.run(model(graph), {"x": tensor_of(X[0])})
            assert isinstance(answer, Answer)
            y, shape = map(array_of, answer.outputs)
            np.testing.assert_allclose(y, np.exp(X[0]), rtol=1e-5)
            assert shape.tolist() == [3]
            missing = runtime.run(model("g (double[2] x) => (double[2] y) {y = Add(x, x)}"),
                                  {"x": tensor_of(np.ones(2))})  # fmt: skip
            assert isinstance(missing, str) and lacks_kernel(missing)
            renderers = children(runtime._process.pid, "--type=renderer")
            assert renderers
            for renderer in renderers:
                os.kill(renderer, signal.SIGKILL)
            assert "the page ends" in str(runtime.run(model(graph), {"x": tensor_of(X[0])}))
        assert not runtime.deaths
        flags = load_target("ort-webgpu").flags
        assert flags.flushes_denormals and flags.pads_top_k and flags.naive_variance
        for name in ("flushes_denormals", "pads_top_k", "naive_variance"):
            assert has_flag(runtime, name)


def children(parent: int, argument: str) -> list[int]:
    """The processes that a process started, and those in turn, with this argument."""
    found = []
    threads = Path(f"/proc/{parent}/task").iterdir()
    for child in " ".join((thread / "children").read_text() for thread in threads).split():
        if argument.encode() in Path(f"/proc/{child}/cmdline").read_bytes():
            found.append(int(child))
        found += children(int(child), argument)
    return found
