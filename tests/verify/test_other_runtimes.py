"""Verification in other runtimes: which one runs the model, and what is said if it cannot.

Quick tests run ONNX Runtime of this interpreter in a process of its own, and onnx.reference. Wide
ones run the environments that `tools.probe` has made (HLO2ONNX_RUNTIMES names their folder).
"""

from __future__ import annotations

import importlib.metadata
import json
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import ml_dtypes
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.errors import TranslationError, UsageError, VerificationError
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.runtime import saving
from hlo2onnx.runtime.adapters import installed
from hlo2onnx.runtime.adapters.installed import CACHE, is_version
from hlo2onnx.runtime.adapters.process import Runtime
from hlo2onnx.verify import runners

HERE = f"ort-cpu={sys.executable}"
"""ONNX Runtime of this interpreter, in a process of its own."""
VERSION = importlib.metadata.version("onnxruntime")
X = np.linspace(-1, 1, 6, dtype=np.float32).reshape(2, 3)
MODEL = "func.func @main(%x: tensor<2xf32>) -> tensor<2xf32> {\n  return %x : tensor<2xf32>\n}\n"


@pytest.fixture
def empty(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A working directory without any package of npm, and no environments."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(installed, "CACHE", tmp_path / "none")
    monkeypatch.setattr(installed, "find_spec", lambda name: name == "onnxruntime" or None)
    yield tmp_path


def select(x: jax.Array) -> dict[str, jax.Array]:
    return {"y": jnp.where(x > 0, jnp.tanh(x), x), "most": jnp.argmax(x, axis=1)}


@pytest.fixture(scope="module")
def program() -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(select, X)


def test_the_result_names_the_runtime(program: hlo2onnx.OnnxProgram) -> None:
    found = program.verify(X)
    assert (found.runtime, found.fallback) == (f"ONNX Runtime {VERSION}", "")
    assert f"\nruntime  ONNX Runtime {VERSION}" in str(found)
    assert f"ONNX Runtime {VERSION} against XLA" in found._repr_html_()
    for name in ("ort-cpu", f"ort-cpu@{VERSION}"):
        assert program.verify(X, runtime=name).runtime == found.runtime


def test_another_process() -> None:
    """It has both runs; denormal inputs, which it keeps, are no difference."""
    signs = hlo2onnx.translate(lambda x: x > 0, X)
    found = signs.verify(runtime=f"ort-cpu@{VERSION}={sys.executable}", samples=3)
    assert found and found.runtime == f"ONNX Runtime {VERSION}"
    assert [label for label, _ in found.runs] == ["optimized", "plain"]
    found = signs.verify(np.full((2, 3), 1e-40, np.float32), runtime=HERE)
    assert found and found.plain[0].remark == "with zeros instead of denormal inputs"


def test_a_runtime_without_levels_runs_once(program: hlo2onnx.OnnxProgram) -> None:
    found = program.verify(X, runtime="reference")
    assert found and not found.plain and found.runtime.startswith("onnx.reference 1.")
    assert [label for label, _ in found.runs] == [""]
    assert "<td>float32[2, 3]</td>" in found._repr_html_()


@pytest.mark.wide
def test_a_difference_is_found_and_its_op() -> None:
    program = hlo2onnx.translate(lambda x: jnp.exp(jnp.sin(x * 2)), X)
    next(node for node in all_nodes(program.model.graph) if node.op_type == "Sin").op_type = "Cos"
    found = program.verify(X, runtime="reference", intermediates=True)
    divergence: Any = found.divergence
    assert not found and divergence.op.name == "stablehlo.sine"
    assert program.bisect(X, runtime=HERE).op == divergence.op


def test_without_onnxruntime(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    program = hlo2onnx.translate(select, X, target="openvino")
    assert program.verify(X, runtime="reference").runtime.startswith("onnx.reference")
    monkeypatch.setattr(installed, "find_spec", lambda name: None)
    with pytest.raises(VerificationError, match="openvino is not installed\n"):
        program.verify(X)


@pytest.mark.wide
def test_states_keys_and_types() -> None:
    """Complex numbers, keys, bf16, several samples, symbolic sizes."""

    def step(state: Any, key: jax.Array, x: jax.Array) -> Any:
        z = jax.lax.complex(x, x) * state["z"]
        noise = jax.random.normal(key, x.shape)
        return {"z": z.sum() * 0.1, "n": state["n"] + 1}, (noise, x.astype(jnp.bfloat16))

    state = {"z": np.complex64(1 + 2j), "n": np.int64(3)}
    program = hlo2onnx.translate(step, state, jax.random.key(0), X, dynamic={"x": "b, 3"})
    found = program.verify(runtime=HERE, samples=2, sizes=[{"b": 1}, {"b": 4}])
    assert found.ok and found.samples > 2
    assert found.runtime == f"ONNX Runtime {VERSION}"


def test_types_that_a_runtime_does_not_take() -> None:
    x = np.zeros(3, ml_dtypes.int4)
    program = hlo2onnx.translate(lambda x: x.astype(np.int8), x)
    with pytest.raises(VerificationError, match="takes no inputs of type int4, such as x\n  next "):
        program.verify(runtime=HERE)


@pytest.mark.wide
def test_large_models_are_files(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(saving, "MAPPED_BYTES", 0)
    program = hlo2onnx.translate(lambda w, x: x @ w, np.ones((3, 40), np.float32), X, bind="w")
    assert program.verify(X, runtime=HERE)
    start = Runtime._start

    def without_files(runtime: Runtime) -> None:
        start(runtime)
        runtime.reads_files = False

    monkeypatch.setattr(Runtime, "_start", without_files)
    assert program.verify(X, runtime=HERE)
    monkeypatch.setattr(runners, "_BYTES", 100)
    with pytest.raises(VerificationError, match="takes models of less than 2 GB here"):
        program.verify(X, runtime=HERE)


# -- what is not there -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("runtime", "text"),
    [
        ("openvino", "openvino is not installed\n  next   pip install openvino"),
        ("tract", "tract is not installed\n  next   pip install tract onnx"),
        ("iree", "iree-base-compiler is not installed\n  next   pip install iree-base-compiler"
         " iree-base-runtime onnx"),
        ("tvm", "apache-tvm is not installed\n  next   pip install apache-tvm onnx"),
        ("opencv", "opencv-python-headless is not installed\n  next   pip install"
         " opencv-python-headless onnx"),
        ("ort-web", "onnxruntime-web is not installed\n  next   npm install onnxruntime-web, here"
         " or in a folder: runtime='ort-web=FOLDER'"),
        ("ort-web@1.30=.", "ort-web@1.30 is not installed\n  next   npm install"
         " onnxruntime-web@1.30, "),
        ("ort-cpu@1.2", "ort-cpu@1.2 is not installed; this interpreter has onnxruntime"
         f" {VERSION}\n  next   python -m venv FOLDER && "
         "FOLDER/bin/pip install 'onnxruntime==1.2.*' numpy, and then"
         " runtime='ort-cpu@1.2=FOLDER'"),
        (f"ort-cpu@1.2={sys.executable}", "ort-cpu@1.2 is not installed; this interpreter has"
         f" onnxruntime {VERSION}\n"),
        ("openvino=none", "none is neither a Python interpreter nor an environment"),
        ("ort-web=none", "there is no folder none"),
    ],
)  # fmt: skip
def test_what_is_missing(
    runtime: str, text: str, empty: Path, program: hlo2onnx.OnnxProgram
) -> None:
    with pytest.raises(VerificationError) as error:
        program.verify(runtime=runtime)
    assert str(error.value).startswith(text)


def test_a_package_that_does_not_start(tmp_path: Path, program: hlo2onnx.OnnxProgram) -> None:
    python = tmp_path / "bin" / "python"
    python.parent.mkdir()
    python.write_text("#!/bin/sh\necho 'ModuleNotFoundError: No module named x' >&2\nexit 1\n")
    python.chmod(0o755)
    text = f"openvino does not start in {python}: ModuleNotFoundError: No module named x"
    with pytest.raises(VerificationError, match=text):
        program.verify(runtime=f"openvino={tmp_path}")


def test_without_node(
    empty: Path, monkeypatch: pytest.MonkeyPatch, program: hlo2onnx.OnnxProgram
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(VerificationError, match=r"Node.js is not installed; onnxruntime-web runs"):
        program.verify(runtime="ort-web")


def test_wrong_use() -> None:
    program = hlo2onnx.translate(select, X)
    with pytest.raises(UsageError, match="runtime='tpu': there is no runtime tpu; there are ort-"):
        program.verify(runtime="tpu")
    program.providers = ["CPUExecutionProvider"]
    with pytest.raises(UsageError, match="runtime= has no meaning for a program with execution"):
        program.verify(runtime="openvino")


def test_versions() -> None:
    assert is_version("1.20.1", "1.20") and is_version("1.20.1", "") and is_version("1.2", "1.2")
    assert not is_version("1.20.1", "1.2") and not is_version("1.20.1", "1.20.2")


# -- the runtime of the target ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "why"),
    [
        ("openvino", "openvino is not installed; pip install openvino"),
        (
            "ort-web",
            "onnxruntime-web is not installed; npm install onnxruntime-web, here or in a folder",
        ),
        (
            "ort-cpu@1.20",
            f"ort-cpu@1.20 is not installed; this interpreter has onnxruntime {VERSION};"
            " python -m venv FOLDER",
        ),
        ("ort-cpu", ""),
        ("onnx", ""),
    ],
)
def test_where_the_targets_runtime_is_missing(target: str, why: str, empty: Path) -> None:
    """ONNX Runtime runs the model, and the result says why."""
    found = hlo2onnx.translate(select, X, target=target).verify(X)
    assert found.ok and found.runtime == f"ONNX Runtime {VERSION}"
    assert found.fallback.startswith(why) and bool(found.fallback) == bool(why)
    assert (f"not that of the target: {why}" in str(found)) == bool(why)
    assert ("Not the runtime of the target" in found._repr_html_()) == bool(why)


def test_a_table_of_the_user(tmp_path: Path) -> None:
    table = tmp_path / "acme.json"
    table.write_text('{"extends": "ort-cpu"}')
    program = hlo2onnx.translate(select, X, target=str(table))
    assert program.verify(samples=1).fallback == "hlo2onnx does not know how to run models in acme"


def test_the_command(empty: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """It warns, even if it is quiet; the report has the runtime; a named one has to be there."""
    Path("m.mlir").write_text(MODEL)
    given = ["m.mlir", "--verify", "--target", "openvino", "-q", "--report", "r.json"]
    assert cli.main(given) == 0
    out, err = capsys.readouterr()
    assert out == ""
    assert err == (
        f"hlo2onnx: verified in ONNX Runtime {VERSION}, not in the target's runtime: openvino is"
        " not installed; pip install openvino\n"
    )
    report = json.loads(Path("r.json").read_text())["verification"]
    assert report["runtime"] == f"ONNX Runtime {VERSION}" and report["fallback"]
    assert cli.main([*given[:4], "--runtime", "openvino"]) == 3
    assert "hlo2onnx: openvino is not installed\n  next   pip" in capsys.readouterr().err
    assert cli.main(["m.mlir", "--verify", "--runtime", HERE]) == 0
    assert f"runtime  ONNX Runtime {VERSION}\n" in capsys.readouterr().out
    assert cli.main(["m.mlir", "--verify", "--runtime", "tpu"]) == 2
    assert "there is no runtime tpu" in capsys.readouterr().err
    assert cli.main(["m.mlir", "--runtime", "openvino"]) == 2
    assert "--runtime has no meaning without --verify" in capsys.readouterr().err


# -- real runtimes ---------------------------------------------------------------------------------


def environment(kind: str, package: str) -> str:
    """A runtime with the place of its newest environment."""
    found = sorted(CACHE.glob(f"{package}-*/complete"))
    if not found:
        pytest.skip(f"no environment of {package} in {CACHE}: python -m tools.probe makes one")
    return f"{kind}={found[-1].parent}"


def loop(x: jax.Array, n: jax.Array) -> Any:
    return jax.lax.while_loop(lambda s: s[0] < n, lambda s: (s[0] + 1, jnp.sin(s[1])), (0, x))


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...]]] = {
    "select": (select, (X,)),
    "loop": (loop, (X, np.int32(4))),
    "integers": (lambda x, y: (x // y, x % y, x << 2), (np.int32([7, -7]), np.int32([2, 3]))),
    "key": (lambda k: jax.random.normal(k, (5,)), (jax.random.key(1),)),
    "complex": (lambda z: jnp.abs(z * z), (np.complex64([1 + 2j, 3]),)),
    "half": (lambda x: jnp.exp(x), (X.astype(np.float16),)),
}
PACKAGES = {
    "ort-web": "onnxruntime-web",
    "openvino": "openvino",
    "ort-cpu@1.20": "onnxruntime-1.20",
    "ort-cpu@1.23": "onnxruntime-1.23",
}


@pytest.mark.wide
@pytest.mark.parametrize("kind", PACKAGES)
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs(kind: str, name: str) -> None:
    package = PACKAGES[kind]
    if "@" in kind and not (CACHE / package / "complete").exists():
        pytest.skip(f"no environment {package} in {CACHE}")
    place = f"{kind}={CACHE / package}" if "@" in kind else environment(kind, package)
    function, arguments = PROGRAMS[name]
    try:
        program = hlo2onnx.translate(function, *arguments, target=kind)
    except TranslationError as error:
        assert kind == "openvino" and name in ("integers", "key"), error
        pytest.skip("the target refuses the program")
    found = program.verify(runtime=place, samples=6)
    assert found.ok, str(found)
    assert found.fallback == "" and any(char.isdigit() for char in found.runtime)


@pytest.mark.wide
def test_a_model_for_another_target() -> None:
    """The error says which target to translate for."""
    if not (CACHE / "onnxruntime-1.20" / "complete").exists():
        pytest.skip(f"no environment onnxruntime-1.20 in {CACHE}")
    program = hlo2onnx.translate(select, X, opset=23)
    with pytest.raises(VerificationError) as error:
        program.verify(runtime="ort-cpu@1.20", samples=1)
    assert str(error.value).startswith("ONNX Runtime 1.20.1 does not run the model: ")
    hint = "\n  next   the model is for ort-cpu: translate with target='ort-cpu@1.20'"
    assert str(error.value).endswith(hint)


@pytest.mark.wide
def test_the_web_from_the_working_directory(monkeypatch: pytest.MonkeyPatch) -> None:
    folder = environment("ort-web", "onnxruntime-web").partition("=")[2]
    monkeypatch.chdir(Path(folder) / "node_modules" / "onnxruntime-web" / "dist")
    program = hlo2onnx.translate(select, X, target="ort-web")
    found = program.verify(samples=2)
    assert found.ok and found.runtime.startswith("onnxruntime-web 1.") and not found.fallback
    wide = hlo2onnx.translate(lambda x: x + x, X.astype(ml_dtypes.bfloat16), target="ort-web")
    with pytest.raises(VerificationError, match="takes no inputs of type bfloat16"):
        wide.verify()
    monkeypatch.setattr(saving, "MAPPED_BYTES", 0)
    bound = hlo2onnx.translate(lambda w, x: x @ w, np.ones((3, 40), np.float32), X, bind="w")
    assert bound.verify(runtime="ort-web", samples=1)


SMALL = {
    "iree": ("iree-base-compiler", "iree"),
    "tract": ("tract", "tract"),
    "tvm": ("apache-tvm", "static"),
    "opencv": ("opencv-python-headless", "static"),
}
"""Runtimes, with their packages and targets."""


@pytest.mark.wide
@pytest.mark.parametrize("kind", SMALL)
def test_small_runtimes(kind: str) -> None:
    package, target = SMALL[kind]
    place = environment(kind, package)

    def step(x: jax.Array) -> jax.Array:
        return jax.lax.fori_loop(0, 5, lambda i, y: jnp.tanh(y) + i, x)

    found = hlo2onnx.translate(step, X, target=target).verify(X, runtime=place)
    assert found.ok, str(found)


@pytest.mark.wide
def test_loops_that_a_condition_ends() -> None:
    """tract has no Loop: the model has a Scan with an If."""
    place = environment("tract", "tract")

    def until(x: jax.Array) -> Any:
        def goes_on(s: Any) -> Any:
            return (s[0] < 50) & (jnp.max(s[1]) > 0.1)

        return jax.lax.while_loop(goes_on, lambda s: (s[0] + 1, s[1] * 0.5), (0, x))

    program = hlo2onnx.translate(until, X, target="tract")
    assert program.report.nodes["If"] == 1 and "Loop" not in program.report.nodes
    assert program.verify(X, runtime=place).ok and program.verify(X, runtime="ort-cpu").ok
