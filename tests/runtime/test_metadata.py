"""`metadata=` and `--metadata`: the user's own texts in a model stay wherever the model goes."""

from __future__ import annotations

import copy
import json
import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import hlo2onnx
from hlo2onnx import cli

X = np.ones(3, np.float32)
OWN = {"acme.version": "1.2", "labels": json.dumps(["cat", "dög"]), "empty": ""}
TEXT = """func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> {
  %0 = stablehlo.tanh %a : tensor<3xf32>
  return %0 : tensor<3xf32>
}"""


def metadata_of(path: Path) -> dict[str, str]:
    """What ONNX Runtime finds in a model."""
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    found: dict[str, str] = session.get_modelmeta().custom_metadata_map
    return found


@pytest.mark.parametrize("strip", [False, True])
@pytest.mark.parametrize(
    "changed",
    [
        lambda program: program,
        copy.copy,
        lambda program: pickle.loads(pickle.dumps(program)),
    ],
)
def test_the_runtime_reads_them(changed: Callable[[Any], Any], strip: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    program = hlo2onnx.translate(jnp.tanh, X, metadata=OWN)
    changed(program).save(path, strip=strip)
    found = metadata_of(path)
    assert {name: found[name] for name in OWN} == OWN
    assert (set(found) == set(OWN)) == strip
    assert {item.key for item in onnx.load(path).metadata_props} == set(found)


def test_load_and_save(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    hlo2onnx.translate(jnp.tanh, X, metadata=OWN).save(path)
    loaded = hlo2onnx.load(path, source=jnp.tanh, args=[X])
    assert loaded.verify().ok
    loaded.save(path)
    assert metadata_of(path).items() >= OWN.items()
    np.testing.assert_array_equal(hlo2onnx.runtime.load(path)(X), loaded(X))


def test_several_programs(tmp_path: Path) -> None:
    programs = hlo2onnx.translate({"a": TEXT, "b": TEXT}, metadata=OWN)
    programs.save(tmp_path, strip=True)
    for name in programs:
        assert metadata_of(tmp_path / f"{name}.onnx") == OWN


def test_other_weights() -> None:
    def model(w: Any, x: Any) -> Any:
        return x * w["n"] + w["a"]

    weights = {"n": np.int32(1), "a": X}
    program = hlo2onnx.translate(model, weights, X, bind="w", metadata=OWN)
    program.apply_weights({"n": np.int32(3), "a": X})
    assert program.model.metadata_props.items() >= OWN.items()


def test_threads_of_the_model(tmp_path: Path) -> None:
    """`ort_config` is ONNX Runtime's: the user's own goes before ours, and stays."""
    own = {"ort_config": json.dumps({"session_options": {"intra_op_num_threads": 2}})}

    def small(x: Any) -> Any:
        for _ in range(3):
            x = jnp.tanh(x)
        return x

    program = hlo2onnx.translate(small, X)
    advised = "ort_config" in program.model.metadata_props
    program.save(tmp_path / "model.onnx", strip=True)
    assert metadata_of(tmp_path / "model.onnx") == {}
    assert advised
    program = hlo2onnx.translate(small, X, metadata=own)
    program.save(tmp_path / "model.onnx", strip=True)
    assert metadata_of(tmp_path / "model.onnx") == own


@pytest.mark.parametrize(
    ("metadata", "message"),
    [
        (3, "metadata=3 is not a mapping of strings"),
        ([("a", "b")], "is not a mapping of strings"),
        ({"n": 3}, r"metadata= has 'n': 3, .*json\.dumps"),
        ({3: "n"}, r"metadata= has 3: 'n', .*json\.dumps"),
        ({"hlo2onnx.states": "{}"}, "'hlo2onnx.states' in metadata= .*other name"),
    ],
)
def test_what_is_refused(metadata: Any, message: str) -> None:
    with pytest.raises(hlo2onnx.UsageError, match=message):
        hlo2onnx.translate(jnp.tanh, X, metadata=metadata)


def test_the_options_have_a_copy() -> None:
    given = dict(OWN)
    program = hlo2onnx.translate(jnp.tanh, X, metadata=given)
    given["later"] = "x"
    assert "later" not in program._options.metadata


# -- the command -------------------------------------------------------------------------------


@pytest.fixture
def source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> str:
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(TEXT)
    return "model.mlir"


def test_the_command(source: str) -> None:
    own = ["--metadata", "a=1", "--metadata", "b=x=y z", "--metadata", "c="]
    assert cli.main([source, "-q", "--strip", *own]) == 0
    assert metadata_of(Path("model.onnx")) == {"a": "1", "b": "x=y z", "c": ""}


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("a", "'a' is not KEY=VALUE"),
        ("=a", "'=a' is not KEY=VALUE"),
        ("hlo2onnx.a=1", "'hlo2onnx.a' in metadata="),
    ],
)
def test_what_the_command_refuses(
    text: str, message: str, source: str, capsys: pytest.CaptureFixture[str]
) -> None:
    try:
        code: Any = cli.main([source, "--metadata", text])
    except SystemExit as error:
        code = error.code
    assert code == 2
    assert message in capsys.readouterr().err
    assert not Path("model.onnx").exists()
