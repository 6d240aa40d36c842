"""`hlo2onnx.reduce`: failures in child processes."""

from __future__ import annotations

from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from failing_handlers import planted
from processes import run_python

import hlo2onnx
from hlo2onnx import cli
from hlo2onnx.errors import UsageError

PROGRAM = """
func.func public @main(%x: tensor<2x3xf32>, %y: tensor<2x3xf32>) -> tensor<2x3xf32> {
  %0 = stablehlo.add %x, %y : tensor<2x3xf32>
  %1 = stablehlo.custom_call @acme(%0) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %2 = stablehlo.custom_call @other(%1) : (tensor<2x3xf32>) -> tensor<2x3xf32>
  %3 = stablehlo.sine %2 : tensor<2x3xf32>
  return %3 : tensor<2x3xf32>
}
"""


@pytest.mark.wide
def test_the_first_refusal_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Through the command: the program, the report and its parts."""
    monkeypatch.chdir(tmp_path)
    Path("model.mlir").write_text(PROGRAM)
    assert (
        cli.main(
            ["model.mlir", "--reduce", "small.mlir", "--report", "facts.json", "--timeout", "50"]
        )
        == 0
    )
    text = Path("small.mlir").read_text()
    assert "@acme" in text
    assert "@other" not in text
    assert "sine" not in text
    report = Path("small.md").read_text()
    for part in (text.strip(), "unknown custom call @acme", f"| numpy | {np.__version__} |"):
        assert part in report
    assert '"ops": [\n      4,\n      1\n    ]' in Path("facts.json").read_text()
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "facts.json", "model.mlir", "small.md", "small.mlir",
    ]  # fmt: skip


@pytest.mark.wide
def test_wrong_numbers_are_in_the_report() -> None:
    def f(x: jax.Array) -> jax.Array:
        return jnp.sin(jnp.exp(x) * 2) + 1

    with planted("negates", "stablehlo.sine"):
        found = hlo2onnx.reduce(jax.jit(f).lower(np.ones(3, np.float32)))
    assert found.ops_after == 1
    assert "stablehlo.sine" in found.text
    assert found.failure.startswith("the model differs from XLA")
    assert "DIFFERS" in found.markdown


@pytest.mark.wide
def test_what_does_not_fail_is_not_reduced() -> None:
    fine = jax.jit(jnp.tanh).lower(np.ones(3, np.float32))
    with pytest.raises(UsageError, match="it translates and verifies"):
        hlo2onnx.reduce(fine)


@pytest.mark.wide
def test_a_function_that_raises() -> None:
    with pytest.raises(UsageError, match="the given function raises an error: KeyError: 'text'"):
        hlo2onnx.reduce(PROGRAM, lambda text: {}["text"])


def test_a_folder_is_no_file(tmp_path: Path) -> None:
    Path(tmp_path, "m.mlir").write_text(PROGRAM)
    assert cli.main([str(tmp_path / "m.mlir"), "--reduce", str(tmp_path)]) == 2
    assert cli.main([str(tmp_path / "m.mlir"), "--reduce", str(tmp_path / "m.mlir")]) == 2
    assert cli.main([str(tmp_path / "m.mlir"), "--reduce", "x.mlir", "-o", "y.onnx"]) == 2
    assert cli.main([str(tmp_path / "m.mlir"), "--timeout", "9"]) == 2


@pytest.mark.wide
def test_nothing_is_imported_from_a_script() -> None:
    """A script without a main guard is not run again by the child."""
    out = run_python(
        f"""
        import hlo2onnx
        print("once")
        word = "sine"
        print(hlo2onnx.reduce({PROGRAM!r}, lambda text: word in text).ops_after)
        """
    )
    assert out == "once\n1\n"


def reduced(program: str, kind: str, op: str) -> hlo2onnx.Reduction:
    """The reduction of an example with a planted failure."""
    with planted(kind, op):
        return hlo2onnx.reduce(Path("examples", "mlir", f"{program}.mlir"))


@pytest.mark.wide
@pytest.mark.parametrize(
    ("program", "kind", "op"),
    [
        ("vit", "missing", "stablehlo.exponential"),
        ("char_rnn", "raises", "stablehlo.tanh"),
        ("gru", "aborts", "stablehlo.tanh"),
    ],
)
def test_planted_failures_end_in_one_op(program: str, kind: str, op: str) -> None:
    found = reduced(program, kind, op)
    assert found.ops_after == 1, found.text
    assert op in found.text
