"""Wrong usage of the API: an error of ours that says what, where, why and what to do next."""

from __future__ import annotations

import zipfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import onnx_ir as oir
import pytest
from processes import run_python

import hlo2onnx.runtime
from hlo2onnx import (
    CustomOp,
    Hlo2OnnxError,
    LoadError,
    OnnxProgram,
    SignatureError,
    TranslationError,
    UsageError,
    VerificationError,
    WriteError,
    check,
    reduce,
    translate,
)

X = np.ones((3, 4), np.float32)
TEXT = "func.func @main(%a: tensor<3xf32>) -> tensor<3xf32> { return %a : tensor<3xf32> }"


def function(x: Any) -> Any:
    return jnp.tanh(x) + 1


def two(x: Any, state: Any) -> Any:
    return x + 1


@pytest.fixture(scope="module")
def program() -> OnnxProgram:
    return translate(function, X)


@pytest.fixture(scope="module")
def exported() -> Any:
    shape = jax.export.symbolic_shape("b, s")
    return jax.export.export(jax.jit(function))(jax.ShapeDtypeStruct(shape, np.float32))


# -- options ------------------------------------------------------------------------------------

OPTIONS: list[tuple[dict[str, Any], str]] = [
    ({"opsets": 20}, r"no option opsets=.*did you mean opset=\?"),
    ({"y": X}, "no option y=.*it has opset, target"),
    ({"opset": "20"}, "opset='20' is not a whole number"),
    ({"opset": 99}, "opset 99 is outside 17 to 26"),
    ({"target": None}, "target=None is not a string"),
    ({"target": "gameboy"}, "unknown target 'gameboy'; known targets: iree, onnx, openvino"),
    ({"function": 3}, "function=3 is not a string"),
    ({"nan": ["xla"]}, "is not one of default, xla, runtime"),
    ({"without": 3}, "without=3 is neither a name nor a list of names"),
    ({"without": ["nonsense"]}, r"no rule named nonsense: docs/rules\.md lists the rules"),
    ({"without": ["sofmax", "relv"]}, "no rule named relv, sofmax; did you mean relu, softmax"),
    ({"dump": 3}, "3 is not a path"),
    ({"custom_calls": [1]}, r"custom_calls=\[1\] is not a mapping"),
    ({"custom_calls": {3: function}}, "the target of a call is a string, not 3"),
    ({"custom_calls": {"a": CustomOp("", "")}}, "domain and op_type must be strings"),
    ({"dynamic": 3}, "dynamic=3 is neither a string"),
    ({"bind": None}, "bind=None names no argument"),
    ({"bind": {"q": X}}, "the argument 'q', which the program does not have"),
    ({"inputs_as_nchw": 3}, "inputs_as_nchw=3 is neither"),
    ({"outputs_as_nchw": ["zz"]}, "no output named zz"),
    ({"weights_dtype": "int2"}, "is not one of bfloat16, float16, int4, int8"),
    ({"specialize": {"b": 8}}, "the program has no dimension b; its dimensions are all fixed"),
    ({"specialize": ["b"]}, "is not a mapping of names to sizes"),
]


@pytest.mark.parametrize(("options", "message"), OPTIONS)
def test_options(options: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(function, X, **options)


def test_unknown_option_of_other_sources() -> None:
    for source in (TEXT, jax.jit(function).lower(X), {"a": TEXT}):
        with pytest.raises(UsageError, match=r"no option opsets=; did you mean opset=\?"):
            translate(source, opsets=20)


def test_a_function_may_take_any_keyword() -> None:
    assert translate(lambda x, **more: x + more["opsets"], X, opsets=X)(X, opsets=X)[0, 0] == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("-1,4", "-1 in '-1,4' is not an extent; a free dimension needs a name"),
        ("99999999999999999999", "is not an extent"),
        ("None, 4", "an invalid name; give it another"),
        ("1.5, 4", "do not fit"),
        ("floaty[3]", "data type 'floaty' not understood"),
    ],
)
def test_shapes_as_text(text: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(function, text)


SIZES: list[tuple[Any, str]] = [
    ({"c": 8}, "the program has no dimension c; it has b, s"),
    ({"b": 8}, "needs a size for each dimension; it lacks s"),
    ({"b": None, "s": 1}, "None is not a size of the dimension b"),
    ({"b": 1.5, "s": 1}, "1.5 is not a size"),
    ({"b": -8, "s": 1}, "-8 is not a size of the dimension b: pass a whole number of at least 0"),
    ({"b": 2**40, "s": 1}, "the dimension b would be 1099511627776, not 0 to 2147483647"),
    ("b=8", "is not a mapping of names to sizes"),
]


@pytest.mark.parametrize(("sizes", "message"), SIZES, ids=[str(sizes) for sizes, _ in SIZES])
def test_sizes(sizes: Any, message: str, exported: Any) -> None:
    with pytest.raises(UsageError, match=message):
        translate(exported, specialize=sizes)


def test_functions_without_their_example_arguments() -> None:
    message = "do not fit the function: missing a required argument: 'x'\\n  next   pass them"
    for call in (
        lambda: translate(function),
        lambda: translate(jax.jit(function)),
        lambda: translate({"a": function}),
        lambda: check(function),
        lambda: reduce(function),
    ):
        with pytest.raises(SignatureError, match=message):
            call()
    with pytest.raises(SignatureError, match="do not fit the function: too many positional"):
        translate(function, X, X)
    with pytest.raises(UsageError, match=r"fails= is not a function, but a ndarray"):
        reduce(function, X)  # type: ignore[arg-type]


def test_errors_of_the_function_itself() -> None:
    def broken(x: Any) -> Any:
        return two(x)  # type: ignore[call-arg]

    with pytest.raises(TypeError, match="'state'") as caught:
        translate(broken, X)
    assert not isinstance(caught.value, SignatureError)


@pytest.mark.parametrize(
    ("programs", "message"),
    [
        ({}, "mapping of programs is empty"),
        ({3: TEXT}, "3 cannot name a program"),
        ({"a/b": TEXT}, "'a/b' cannot name"),
        ({"": TEXT}, "'' cannot name"),
    ],
)
def test_names_of_programs(programs: Any, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        translate(programs)


# -- arguments without arrays -------------------------------------------------------------------


@pytest.mark.parametrize("bind", ["state", 1, ["state"], {"state": {}}, {1: ()}])
def test_bind_nothing(bind: Any) -> None:
    """Keras models without state have an empty list of it."""
    state: Any = () if bind == {1: ()} else {}
    bound = translate(two, X, state, bind=bind)
    assert bound.input_names == ["x"]
    np.testing.assert_array_equal(bound(X), X + 1)
    with pytest.raises(SignatureError):
        bound(X, state)


def test_bind_nothing_to_a_lowered_program() -> None:
    bound = translate(jax.jit(two).lower(X, {}), bind={"state": {}})
    np.testing.assert_array_equal(bound(X), X + 1)


def test_bind_nothing_and_something() -> None:
    def model(parameters: Any, state: Any, x: Any) -> Any:
        return x @ parameters["w"]

    bound = translate(model, {"w": X.T}, [], X, bind=["parameters", "state"])
    assert bound.input_names == ["x"]
    np.testing.assert_array_equal(bound(X), X @ X.T)


def test_bind_what_the_program_does_not_read() -> None:
    bound = translate(two, X, X, bind={"state": X})
    np.testing.assert_array_equal(bound(X), X + 1)


# -- sources ------------------------------------------------------------------------------------


def _zip(path: Path, name: str) -> None:
    with zipfile.ZipFile(path, "w") as file:
        file.writestr(name, "content")


FILES: dict[str, tuple[Callable[[Path], Any], str]] = {
    "m.onnx": (lambda path: translate(function, X).save(path), "it is an ONNX model already"),
    "m.npz": (lambda path: np.savez(path, a=X), "a NumPy archive"),
    "m.npy": (lambda path: np.save(path, X), "a NumPy array"),
    "m.zip": (lambda path: _zip(path, "a.txt"), "a zip archive\n  next   unpack it"),
    "m.pt": (lambda path: _zip(path, "m/data.pkl"), "a PyTorch file"),
    "m.keras": (lambda path: _zip(path, "model.weights.h5"), "a Keras model"),
    "m.h5": (lambda path: path.write_bytes(b"\x89HDF\r\n\x1a\n" + bytes(99)), "an HDF5 file"),
    "m.pb": (lambda path: path.write_bytes(b"\x08\x01\x12\xf4\x05\xff"), "a TensorFlow SavedModel"),
    "m.tflite": (lambda path: path.write_bytes(b"\x1c\0\0\0TFL3\xff" + bytes(99)), "Lite model"),
    "m.safetensors": (
        lambda path: path.write_bytes(b"\x08" + bytes(7) + b'{"a":{}}\xff'),
        "a safetensors file",
    ),
    "m.gz": (lambda path: path.write_bytes(b"\x1f\x8b\x08" + bytes(50)), "compressed with gzip"),
    "m.pkl": (lambda path: path.write_bytes(b"\x80\x04\x95\x0b" + bytes(50)), "a Python pickle"),
    "m.bin": (lambda path: path.write_bytes(b"\xf4" * 200), "neither StableHLO text.*\n  next"),
    "m.py": (lambda path: path.write_text("import jax\n"), "a Python program"),
    "m.json": (lambda path: path.write_text('{"a": 1}'), "it is JSON"),
    "m.jaxpr": (lambda path: path.write_text("{ lambda ; a:f32[]. let"), "a jaxpr"),
    "m.html": (lambda path: path.write_text("<html>"), "a web page"),
}


@pytest.mark.parametrize("name", FILES)
def test_files_of_other_formats(name: str, tmp_path: Path) -> None:
    write, message = FILES[name]
    write(tmp_path / name)
    with pytest.raises(LoadError, match=f"^{name} is .*{message}") as caught:
        translate(tmp_path / name)
    assert "unpack_from" not in str(caught.value)


def test_models_as_sources(program: OnnxProgram) -> None:
    for source in (program, program.model, program.model_proto):
        with pytest.raises(LoadError, match="is ONNX already"):
            translate(source)


def test_a_child_is_not_confused_by_modules_of_the_user(tmp_path: Path) -> None:
    """A types.py of the user's must not stand before Python's own in the child that reads bytes."""
    (tmp_path / "types.py").write_text("raise ImportError('the wrong one')")
    (tmp_path / "model.mlir").write_text(f"{TEXT} // >")
    out = run_python(
        f"""
        import sys
        import hlo2onnx
        sys.path.insert(0, {str(tmp_path)!r})
        print(hlo2onnx.translate({str(tmp_path / "model.mlir")!r}).input_names)
        """
    )
    assert out == "['arg0']\n"


# -- paths --------------------------------------------------------------------------------------

PATHS: list[tuple[Any, str]] = [
    ("", "the empty path: it is a folder; name a file, such as model.onnx"),
    ("folder", "it is a folder"),
    ("no/model.onnx", "there is no folder no"),
    ("file/model.onnx", "there is no folder file"),
    (None, "None is not a path"),
    (3, "3 is not a path"),
    (b"a.onnx", "is not a path"),
    ("a\0b", "NUL"),
    ("x" * 300, "is not a path: File name too long"),
    ("\ud800.onnx", "is not a path: surrogates not allowed"),
]


@pytest.mark.parametrize(("path", "message"), PATHS, ids=[repr(path)[:20] for path, _ in PATHS])
def test_paths(
    path: Any,
    message: str,
    program: OnnxProgram,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "folder").mkdir()
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match=message):
        program.save(path)
    with pytest.raises(UsageError):
        program.profile(X, runs=1).save(path)
    assert sorted(item.name for item in tmp_path.iterdir()) == ["file", "folder"]


def test_folders(program: OnnxProgram, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    with pytest.raises(UsageError, match="it is a file; name a folder"):
        translate(function, X, dump=tmp_path / "file")
    with pytest.raises(UsageError, match="it is a file; name a folder"):
        translate({"a": TEXT}).save(tmp_path / "file")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs a device that is always full")
def test_full_disk(program: OnnxProgram) -> None:
    with pytest.raises(WriteError, match="cannot write /dev/full: No space left"):
        program.save("/dev/full")
    assert issubclass(WriteError, OSError)


# -- programs -----------------------------------------------------------------------------------

CALLS: dict[str, tuple[Callable[[OnnxProgram], Any], type[Hlo2OnnxError], str]] = {
    "nothing to run": (lambda p: p.run(None), SignatureError, "run takes a list of arrays"),
    "too many": (lambda p: p.run([X, X]), SignatureError, "one for each of the inputs x"),
    "a mapping": (lambda p: p.run({"x": X}), SignatureError, "run takes a list of arrays"),
    "a text": (lambda p: p("abc"), SignatureError, "must be float32"),
    "seed of text": (lambda p: p.verify(seed="a"), UsageError, "seed='a' is not a whole number"),
    "negative seed": (lambda p: p.verify(seed=-1), UsageError, "seed=-1 is not"),
    "runtime of a number": (lambda p: p.verify(runtime=3), UsageError, "runtime=3 is not a name"),
    "no run": (lambda p: p.profile(X, runs=0), UsageError, "runs=0 is not"),
    "no threads": (lambda p: p.profile(X, threads=-1), UsageError, "threads=-1 is not"),
    "no depth": (lambda p: p.profile(X, depth=0), UsageError, "depth=0 is not"),
    "threads of text": (lambda p: p.session(threads="a"), UsageError, "threads='a' is not"),
    "many threads": (lambda p: p.session(threads=2**40), UsageError, "threads=.* is too many"),
    "providers of numbers": (lambda p: p.session([3]), UsageError, "holds 3, which is not a name"),
    "a rule of a number": (lambda p: p.explain(3), UsageError, "3 is not a name of a rule"),
}


@pytest.mark.parametrize("name", CALLS)
def test_calls(name: str, program: OnnxProgram) -> None:
    call, error, message = CALLS[name]
    with pytest.raises(error, match=message):
        call(program)


LOADS: dict[str, tuple[Callable[[Path], Any], str]] = {
    "a number": (lambda _: hlo2onnx.load(3), "^3 is not a path: pass a str"),
    "nothing": (lambda _: hlo2onnx.runtime.load(None), "^None is not a path: pass a str"),
    "a model": (lambda path: hlo2onnx.load(onnx.load(path)), "^a ModelProto is not a path: pass"),
    "its bytes": (lambda path: hlo2onnx.load(path.read_bytes()), "^a bytes is not a path: pass"),
    "a model at run time": (
        lambda path: hlo2onnx.runtime.load(onnx.load(path)),
        "^a ModelProto is not a path: pass",
    ),
    "threads of text": (lambda p: hlo2onnx.runtime.load(p, threads="a"), "threads='a' is not a"),
    "one library": (lambda p: hlo2onnx.load(p, libraries="a.so"), "libraries='a.so' is not a list"),
    "library of a number": (lambda p: hlo2onnx.runtime.load(p, libraries=3), "libraries=3 is no"),
    "type of a number": (lambda p: hlo2onnx.runtime.load(p, types=[3]), "types= holds 3, which"),
    "types of a number": (lambda p: hlo2onnx.load(p, types=3), "types=3 is not a list of classes"),
}


@pytest.mark.parametrize("name", LOADS)
def test_loading(name: str, program: OnnxProgram, tmp_path: Path) -> None:
    program.save(tmp_path / "m.onnx")
    call, message = LOADS[name]
    with pytest.raises(UsageError, match=message) as caught:
        call(tmp_path / "m.onnx")
    assert len(str(caught.value)) < 200


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"args": 3}, "args=3 is not a list of arguments"),
        ({"args": "abc"}, "args='abc' is not a list"),
        ({"kwargs": 3}, "kwargs=3 is not a mapping of names to arguments"),
        ({"kwargs": {3: X}}, "kwargs= has a key that is not a name: 3"),
    ],
)
def test_arguments_of_the_source_of_a_model(
    given: dict[str, Any], message: str, program: OnnxProgram, tmp_path: Path
) -> None:
    program.save(tmp_path / "m.onnx")
    with pytest.raises(UsageError, match=message):
        hlo2onnx.load(tmp_path / "m.onnx", source=function, **given)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"inputs": 3}, "inputs=3 is not a list of arrays"),
        ({"inputs": "abc"}, "inputs='abc' is not a list of arrays"),
        ({"seed": "a"}, "seed='a' is not a whole number of at least 0"),
        ({"seed": -1}, "seed=-1 is not a whole number"),
    ],
)
def test_inputs_of_a_reduction(given: dict[str, Any], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        hlo2onnx.reduce(TEXT, **given)


@pytest.mark.parametrize("timeout", ["a", None, -1, 0, float("nan"), float("inf"), True])
def test_seconds_of_a_reduction(timeout: Any) -> None:
    with pytest.raises(UsageError, match=f"timeout={timeout!r} is not a number of seconds above"):
        hlo2onnx.reduce(TEXT, timeout=timeout)


def test_inputs_that_fit_no_memory() -> None:
    huge = translate(function, jax.ShapeDtypeStruct((10**6, 10**7), np.float32))
    with pytest.raises(VerificationError, match="no random input x of shape"):
        huge.verify()


@pytest.mark.parametrize("number", [0, 999])
def test_a_model_that_someone_has_changed(number: int) -> None:
    changed = translate(lambda x: x.astype(jnp.int8), X)
    for node in changed.model.graph.all_nodes():
        if node.op_type == "Cast":
            node.attributes["to"] = oir.AttrInt64("to", number)
    with pytest.raises(VerificationError, match="not valid ONNX"):
        changed.verify(X)


# -- ops ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("solve", [jnp.linalg.eigh, jnp.linalg.eigvals, jnp.linalg.qr])
def test_matrices_of_symbolic_size(solve: Callable[..., Any]) -> None:
    with pytest.raises(TranslationError) as caught:
        translate(solve, "n, n")
    text = str(caught.value)
    assert "the operands have symbolic extents, and its translation needs static shapes" in text
    assert 'next   fix the extents: specialize={"n": 8} (--specialize n=8)' in text
    assert "_DimExpr" not in text
    assert "inconclusive" not in text


def test_progress_meters() -> None:
    def metered(x: Any) -> Any:
        return jax.experimental.io_callback(lambda a: a, jax.ShapeDtypeStruct((3, 4), "f4"), x)

    with pytest.raises(TranslationError, match="as progress meters do") as caught:
        translate(metered, X)
    assert "diffrax.NoProgressMeter()" in str(caught.value)


def test_programs_that_mlir_does_not_rewrite() -> None:
    text = """
    func.func @main(%a: tensor<2x?xf32>) -> tensor<i32> {
      %0 = stablehlo.get_dimension_size %a, dim = 99999 : (tensor<2x?xf32>) -> tensor<i32>
      return %0 : tensor<i32>
    }"""
    with pytest.raises(LoadError, match=r"dimension attribute in range \[0, 2\)"):
        translate(text)
