"""OnnxProgram: the model itself, saving and verifying it."""

from __future__ import annotations

import errno
import os
import re
import shutil
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import jax
import ml_dtypes
import numpy as np
import onnx
import onnx_ir
import pytest

import hlo2onnx
from hlo2onnx.runtime import files, saving, serializing
from hlo2onnx.runtime.sessions import OrtProgram

X = np.array([1.0, -2.0, 0.5], np.float32)
WEIGHTS = np.arange(1500, dtype=np.float32).reshape(3, 500)


def test_model_proto_and_repr() -> None:
    program = hlo2onnx.translate(jax.jit(lambda x: x + 1).lower(X))
    assert [value.name for value in program.model_proto.graph.input] == ["x"]
    assert program.model_proto.SerializeToString()
    assert "x -> result" in repr(program)
    assert "1 Add" in str(program.report)


@pytest.mark.parametrize("as_string", [False, True])
def test_save(as_string: bool, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    hlo2onnx.translate(lambda x: x + X, X).save(str(path) if as_string else path)
    onnx.checker.check_model(str(path), full_check=True)
    assert [item.name for item in tmp_path.iterdir()] == ["model.onnx"]


def test_save_with_external_data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    program = hlo2onnx.translate(lambda x: x @ WEIGHTS, X)
    monkeypatch.setattr(saving, "EXTERNAL_DATA_BYTES", 1000)
    program.save(tmp_path / "model.onnx")
    assert len(list(tmp_path.iterdir())) == 2
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False)
    assert any(tensor.external_data for tensor in model.graph.initializer)
    import onnxruntime

    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    np.testing.assert_allclose(session.run(None, {"x": X})[0], program(X))


@pytest.mark.parametrize("room", [0, -1])
def test_a_model_of_the_largest_size(
    room: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Everything in it counts; where it does not fit, what is there stays there."""
    program, path = hlo2onnx.translate(lambda x: x @ WEIGHTS, X), tmp_path / "model.onnx"
    program.save(path, external_data=False)
    content = path.read_bytes()
    monkeypatch.setattr(serializing, "MODEL_BYTES", len(content) + room)
    if room < 0:
        with pytest.raises(hlo2onnx.UsageError, match="2 GB"):
            program.save(path, external_data=False)
    else:
        program.save(path, external_data=False)
    assert path.read_bytes() == content


# -- files of earlier saves -----------------------------------------------------------------------


def scaled(scale: float) -> hlo2onnx.OnnxProgram:
    return hlo2onnx.translate(lambda x: x @ (WEIGHTS * np.float32(scale)), X)


def saved(path: Path, scale: float, external: bool = True) -> str:
    """Saves a program; returns the name of the file with its weights."""
    scaled(scale).save(path, external_data=external)
    model = onnx.load(path, load_external_data=False)
    places = {
        item.value
        for tensor in model.graph.initializer
        for item in tensor.external_data
        if item.key == "location"
    }
    (name,) = places or {""}
    return name


def names_in(folder: Path) -> list[str]:
    return sorted(item.name for item in folder.iterdir())


def test_weights_have_a_hash_in_their_name(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    first = saved(path, 1)
    assert re.fullmatch(r"model\.onnx-[0-9a-f]{12}\.data", first)
    number = (tmp_path / first).stat().st_ino
    assert saved(path, 1) == first and (tmp_path / first).stat().st_ino == number  # left alone
    second = saved(path, 2)
    assert first != second and names_in(tmp_path) == ["model.onnx", second]
    assert saved(path, 3, external=False) == "" and names_in(tmp_path) == ["model.onnx"]


def test_known_weights_are_not_written_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Except when another save removes them meanwhile."""
    path = tmp_path / "model.onnx"
    first = saved(path, 1)
    put = saving._put

    def delayed(*arguments: Any) -> None:
        (tmp_path / first).unlink()
        put(*arguments)

    monkeypatch.setattr(saving, "_put", delayed)
    assert saved(path, 1) == first and names_in(tmp_path) == ["model.onnx", first]
    monkeypatch.setattr(saving, "_put", put)
    monkeypatch.setattr(saving._Weights, "_write", None)
    saved(path, 1)


def test_damaged_weights_are_written_again(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    data = tmp_path / saved(path, 1)
    content = data.read_bytes()
    data.write_bytes(bytes(len(content)))
    saved(path, 1)
    assert data.read_bytes() == content


@pytest.mark.parametrize("name", ["copy.onnx", "backup", "notes.txt"])
def test_weights_that_another_file_mentions_stay(name: str, tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    first = saved(path, 1)
    shutil.copy(path, tmp_path / name)
    second = saved(path, 2)
    assert names_in(tmp_path) == sorted([name, "model.onnx", first, second])


def test_weights_of_others_stay(tmp_path: Path) -> None:
    others = [
        saved(tmp_path / "another.onnx", 1),
        "model.onnx-0123456789ab.data",  # no model mentions it
        "model.onnx.data",
    ]
    for name in others[1:]:
        (tmp_path / name).touch()
    saved(tmp_path / "model.onnx", 2)
    last = saved(tmp_path / "model.onnx", 3)
    assert names_in(tmp_path) == sorted([*others, last, "another.onnx", "model.onnx"])


def test_weights_stay_where_too_much_would_be_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(files, "SEARCHED_BYTES", 10)
    first, second = (saved(tmp_path / "model.onnx", scale) for scale in (1, 2))
    assert names_in(tmp_path) == sorted([first, second, "model.onnx"])


@pytest.mark.skipif(not hasattr(os, "fork"), reason="Windows has no locks of folders")
def test_weights_stay_while_another_program_locks_the_folder(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    import fcntl

    monkeypatch.setattr(files, "LOCK_SECONDS", 0.1)
    first = saved(tmp_path / "model.onnx", 1)
    folder = os.open(tmp_path, os.O_RDONLY)
    fcntl.flock(folder, fcntl.LOCK_EX)
    second = saved(tmp_path / "model.onnx", 2)
    os.close(folder)
    assert names_in(tmp_path) == sorted([first, second, "model.onnx"])


def test_programs_share_one_file_of_weights(tmp_path: Path) -> None:
    def programs(scale: float) -> hlo2onnx.OnnxPrograms:
        weights = WEIGHTS * np.float32(scale)
        parts = {"a": jax.jit(lambda x: x @ weights), "b": jax.jit(lambda x: -(x @ weights))}
        return hlo2onnx.translate({name: part.lower(X) for name, part in parts.items()})

    programs(1).save(tmp_path)
    models = ["a.onnx", "b.onnx"]
    (first,) = set(names_in(tmp_path)) - set(models)
    assert re.fullmatch(r"weights-[0-9a-f]{12}\.data", first)
    programs(2).save(tmp_path)
    (second,) = set(names_in(tmp_path)) - set(models)
    assert first != second
    hlo2onnx.OnnxPrograms({"a": programs(3)["a"]}).save(tmp_path)
    third = set(names_in(tmp_path)) - {*models, second}
    assert len(third) == 1 and second in names_in(tmp_path)  # b needs the second
    np.testing.assert_allclose(
        OrtProgram(str(tmp_path / "b.onnx"))({"x": X})[0], -2 * X @ WEIGHTS, rtol=1e-5
    )


def test_nothing_to_put_in_a_file_of_weights(tmp_path: Path) -> None:
    hlo2onnx.translate(lambda x: x + 1, X).save(tmp_path / "model.onnx", external_data=True)
    assert names_in(tmp_path) == ["model.onnx"]


# -- what stays of an old file --------------------------------------------------------------------


@pytest.mark.skipif(os.name == "nt", reason="permissions of POSIX")
def test_permissions(tmp_path: Path) -> None:
    path = tmp_path / "model.onnx"
    before = os.umask(0o027)
    try:
        data = tmp_path / saved(path, 1)
        assert {item.stat().st_mode & 0o777 for item in (path, data)} == {0o640}
        path.chmod(0o604)
        data = tmp_path / saved(path, 2)
    finally:
        os.umask(before)
    assert {item.stat().st_mode & 0o777 for item in (path, data)} == {0o604}


@pytest.mark.parametrize("external", [False, True])
def test_links(external: bool, tmp_path: Path) -> None:
    """A save writes through a link; the weights are beside the path that was given."""
    (tmp_path / "real").mkdir()
    target, link = tmp_path / "real" / "model.bin", tmp_path / "model.onnx"
    link.symlink_to(target)  # to nothing yet
    for scale in (1, 2):
        saved(link, scale, external)
        assert link.is_symlink() and target.is_file()
        assert names_in(target.parent) == ["model.bin"]
        result = OrtProgram(str(link))({"x": X})[0]
        np.testing.assert_allclose(result, scale * X @ WEIGHTS, rtol=1e-5)
    assert len(names_in(tmp_path)) == 2 + external


def test_a_model_that_may_not_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "model.onnx"
    saved(path, 1)
    before = names_in(tmp_path)
    monkeypatch.setattr(os, "access", lambda *_: False)  # for a test that root runs
    with pytest.raises(hlo2onnx.WriteError, match=r"model\.onnx: Permission denied"):
        saved(path, 2)
    assert names_in(tmp_path) == before


@pytest.mark.parametrize("fails", ["fsync", "replace of weights", "replace of model"])
def test_a_failed_save_leaves_nothing(
    fails: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "model.onnx"
    saved(path, 1)
    before = {item.name: item.read_bytes() for item in tmp_path.iterdir()}
    replace, count = Path.replace, iter(range(10))

    def failing(*arguments: Any) -> Any:
        if fails == "fsync" or fails.endswith(("weights", "model")[next(count)]):
            raise OSError(errno.EDQUOT, os.strerror(errno.EDQUOT))
        return replace(*arguments)

    monkeypatch.setattr(*(os, "fsync") if fails == "fsync" else (Path, "replace"), failing)
    with pytest.raises(hlo2onnx.WriteError, match=r"cannot write .*model\.onnx.*: .*quota"):
        saved(path, 2)
    assert {item.name: item.read_bytes() for item in tmp_path.iterdir()} == before


@pytest.mark.skipif(not hasattr(os, "mkfifo"), reason="needs named pipes")
def test_a_pipe(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    program = scaled(1)
    with ThreadPoolExecutor(1) as pool:
        content = pool.submit(pipe.read_bytes)
        program.save(pipe)
        assert onnx.load_from_string(content.result()) is not None
    assert pipe.is_fifo()


@pytest.mark.parametrize("order", ["C", "F"])
@pytest.mark.parametrize("dtype", [np.float32, np.int8, ml_dtypes.bfloat16, ml_dtypes.int4])
def test_bytes_of_a_tensor(
    order: Any, dtype: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are those of onnx_ir, also of arrays that are copied piece by piece."""
    monkeypatch.setattr(serializing, "_PIECE_BYTES", 100)
    tensor = onnx_ir.tensor(np.arange(60 * 30).reshape(60, 30).astype(dtype, order=order))
    with (tmp_path / "bytes").open("wb") as file:
        serializing.write_tensor(tensor, file)
    assert (tmp_path / "bytes").read_bytes() == tensor.tobytes()


def test_a_name_for_the_weights(tmp_path: Path) -> None:
    """It has no hash, and the next save replaces the file. A save with a hash leaves it alone."""
    path = tmp_path / "model.onnx"
    for scale in (1, 2):
        scaled(scale).save(path, external_data="model.onnx_data")
        assert names_in(tmp_path) == ["model.onnx", "model.onnx_data"]
        found = onnx.load(path).graph.initializer[0]
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(found), WEIGHTS * scale)
    name = saved(path, 3)
    assert names_in(tmp_path) == ["model.onnx", name, "model.onnx_data"]
    for wrong in ("", "a/b", "model.onnx", ".."):
        with pytest.raises(hlo2onnx.UsageError, match="does not name a file"):
            scaled(1).save(path, external_data=wrong)
