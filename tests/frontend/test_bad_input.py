"""Whatever is given as a program, the answer is a program or a clear error; never a crash."""

from __future__ import annotations

import random
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import pytest

import hlo2onnx
from hlo2onnx import LoadError, TranslationError, UsageError, cli
from hlo2onnx.frontend.mlir import untrusted as parse_in_subprocess
from hlo2onnx.frontend.mlir.untrusted import is_harmless

GOOD = "func.func @main(%a: tensor<f32>) -> tensor<f32> { return %a : tensor<f32> }"


@jax.jit
def program(x: Any, index: Any) -> Any:
    half = jnp.asarray([1.5, 2.0, -1.0], jnp.bfloat16)
    return {"a": jnp.tanh(x).astype(jnp.bfloat16) * half, "b": x @ jnp.ones((3, 2)) + index}


EXPORTED = jax.export.export(program)(np.ones(3, np.float32), 1)
ARTIFACT = bytes(EXPORTED.mlir_module_serialized)
BYTECODE = parse_in_subprocess.rewrite(ARTIFACT, "the artifact")
SERIALIZED = bytes(EXPORTED.serialize())


# -- not a program ----------------------------------------------------------------------------


NOT_PROGRAMS = [
    (b"", "is empty"),
    (b" \n\t\n", "is empty"),
    (b"<!DOCTYPE html><html><body>404</body></html>", "web page"),
    (b"version https://git-lfs.github.com/spec/v1\noid sha256:0", "Git LFS"),
    (b"HloModule jit_f, entry_computation_layout={()->f32[]}", "HLO text"),
    (b'{"ops": []}', "JSON"),
    (b"hello world\n", "is not valid StableHLO"),
    (GOOD[:-20].encode(), "is not valid StableHLO"),
    (GOOD.encode() + b"\0" * 8, "neither StableHLO text"),
    (b"ML\xefR", "is not valid StableHLO"),
    (ARTIFACT[:100], "is not valid StableHLO"),
    (ARTIFACT[:-1], "is not valid StableHLO"),
    (ARTIFACT[:-1] + b"\0" * 100, "is not valid StableHLO"),
    (BYTECODE[: len(BYTECODE) // 2], "is not valid StableHLO"),
    (SERIALIZED[:-600], "neither StableHLO text"),
    (SERIALIZED[:40], "neither StableHLO text"),
    (random.Random(0).randbytes(2000), "neither StableHLO text"),
    (b"\x80" * 2000, "neither StableHLO text"),
    (b"PK\x03\x04" + bytes(200), "a zip archive"),
]


@pytest.mark.costly
@pytest.mark.parametrize(("content", "message"), NOT_PROGRAMS, ids=range(len(NOT_PROGRAMS)))
def test_not_a_program(
    content: bytes, message: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(LoadError, match=f"the input.*{message}"):
        hlo2onnx.translate(content)
    (tmp_path / "model.mlir").write_bytes(content)
    capfd.readouterr()
    assert cli.main([str(tmp_path / "model.mlir"), "-o", str(tmp_path / "model.onnx")]) == 1
    out, err = capfd.readouterr()
    assert out == ""
    assert err.startswith("hlo2onnx: model.mlir ")
    assert err.count("hlo2onnx:") == 1
    assert "loc(" not in err
    assert not (tmp_path / "model.onnx").exists()


def test_text_error_shows_the_place() -> None:
    with pytest.raises(LoadError, match=r"where  line 2, column 15: module \{ oops \}"):
        hlo2onnx.translate("\n     module { oops }\n")


def test_type_error_shows_the_place() -> None:
    wrong = GOOD.replace("-> tensor<f32>", "-> tensor<f64>")
    text = wrong.replace("f32> }", 'f32> loc("a.py":3:4) }')
    message = r'match function result type.*\n  where  loc\("a.py":3:4\)'
    with pytest.raises(LoadError, match=message):
        hlo2onnx.translate(text)


def test_nul_in_text() -> None:
    with pytest.raises(LoadError, match="NUL"):
        hlo2onnx.translate("module {}\0 and more")


def test_surrogates_in_text() -> None:
    with pytest.raises(LoadError, match=r"damaged.*surrogates not allowed"):
        hlo2onnx.translate("module {} // \udc80")


def test_artifact_of_the_future() -> None:
    version = ARTIFACT[5 : ARTIFACT.index(b"\0")]
    future = ARTIFACT.replace(version, version.replace(b"v1.", b"v7."))[:-50]
    with pytest.raises(LoadError, match=r"written by StableHLO 7.*upgrade jax"):
        hlo2onnx.translate(future)


@pytest.mark.parametrize(
    "name",
    ["missing.mlir", "missing", "no/such/file", "model (1).mlir", "a b.bc", "x" * 300, "./{}.txt"],
)
def test_missing_file(name: str) -> None:
    with pytest.raises(LoadError, match=r"no such file|cannot read"):
        hlo2onnx.translate(name)
    with pytest.raises(LoadError, match=r"no such file|cannot read"):
        hlo2onnx.translate(Path(name))


def test_folder(tmp_path: Path) -> None:
    with pytest.raises(LoadError, match=r"cannot read .*directory"):
        hlo2onnx.translate(tmp_path)


# -- a module, but no program -------------------------------------------------------------------

TWO = GOOD.replace("main", "one") + GOOD.replace("main", "two")
DECLARED = "func.func private @gone(tensor<f32>) -> tensor<f32>"
LOOP = """
func.func @main(%a: tensor<f32>) -> tensor<f32> {
  %0 = call @main(%a) : (tensor<f32>) -> tensor<f32>
  return %0 : tensor<f32>
}"""


def _with(op: str) -> str:
    """The good program with one more op, whose result nobody reads."""
    return GOOD.replace("{ return", f"{{ {op}\nreturn")


@pytest.mark.costly
@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("module {}", "has no function to translate"),
        (f"module {{ module @inner {{ {GOOD} }} }}", "has no function to translate"),
        (TWO, "no function @main; it has @one, @two"),
        ("func.func private @main(%a: tensor<f32>) -> tensor<f32>", "only declares @main"),
        (
            "func.func @main(%a: tensor<f32>) -> tensor<f32> {\n  cf.br ^b(%a : tensor<f32>)\n"
            "^b(%c: tensor<f32>):\n  return %c : tensor<f32>\n}",
            "branches between blocks",
        ),
        (GOOD.replace("tensor<f32>", "index"), "type index, not a ranked tensor"),
        (GOOD.replace("tensor<f32>", "tensor<*xf32>"), r"tensor<\*xf32>, not a ranked"),
        (
            _with("%0 = call @gone(%a) : (tensor<f32>) -> tensor<f32>"),
            "'gone' does not reference a valid function",
        ),
        (_with("%0 = stablehlo.nonsense %a : tensor<f32>"), "nonsense"),
        (_with('"tosa.abs"(%a) : (tensor<f32>) -> ()'), "tosa.abs"),
        (GOOD + GOOD, "redefinition of symbol named 'main'"),
    ],
)
def test_module_without_program(text: str, message: str) -> None:
    with pytest.raises(LoadError, match=message):
        hlo2onnx.translate(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        (LOOP, "calls itself"),
        (LOOP.replace("call @main", "call @gone") + DECLARED, "no function @gone with a body"),
    ],
)
def test_calls_that_lead_nowhere(text: str, message: str) -> None:
    with pytest.raises(TranslationError, match=message):
        hlo2onnx.translate(text)


def test_wrong_function_name() -> None:
    with pytest.raises(UsageError, match="no function @three; it has @one, @two"):
        hlo2onnx.translate(TWO, function="three")
    assert hlo2onnx.translate(TWO, function="@two").output_names == ["result"]


# -- what brings MLIR down ----------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    "text",
    [
        "module attributes {a.a = " + "[" * 100_000 + "]" * 100_000 + "} {}",
        "module {" * 100_000 + "}" * 100_000,
        "func.func @main(%a: "
        + "tuple<" * 300_000
        + "tensor<f32>"
        + ">" * 300_000
        + ") { return }",
        'module @"\\E4" { func.func @main() { call @"\\E4"() : () -> () return } }',
        'module {} loc("\\ff")',
        '// "))))))"\nmodule attributes {a.a = ' + '[")",' * 100_000 + "1" + "]" * 100_000 + "} {}",
    ],
)
def test_deadly_text(text: str) -> None:
    with pytest.raises(LoadError, match="damaged"):
        hlo2onnx.translate(text)


@pytest.mark.parametrize(
    "text",
    [
        GOOD.replace("@main", '@"m\\C3\\A9"'),
        "module attributes {a.a = " + "[" * 999 + "]" * 999 + "} {" + GOOD + "}",
        'module attributes {a.a = "\\E9"} {' + GOOD + "}",
    ],
)
def test_suspicious_text_is_read_all_the_same(text: str) -> None:
    assert not is_harmless(text)
    assert hlo2onnx.translate(text)(3.0) == 3


def test_deep_nesting_that_mlir_can_read() -> None:
    text = "stablehlo.return %p : tensor<i1>"
    for _ in range(400):
        other = "{ stablehlo.return %p : tensor<i1> }"
        text = f"""%0 = "stablehlo.if"(%p) ({{ {text} }}, {other}) : (tensor<i1>) -> tensor<i1>
            stablehlo.return %0 : tensor<i1>"""
    body = text.removesuffix("stablehlo.return %0 : tensor<i1>") + "return %0 : tensor<i1>"
    with pytest.raises(LoadError, match="too deeply"):
        hlo2onnx.translate(f"func.func @main(%p: tensor<i1>) -> tensor<i1> {{ {body} }}")


def test_reader_that_does_not_finish(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parse_in_subprocess, "SECONDS", 0.001)
    with pytest.raises(LoadError, match="does not finish"):
        hlo2onnx.translate(ARTIFACT)
