"""The sources of the rules: no rule would fire where the engine does not try it."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as oir
import pytest

import hlo2onnx

EXAMPLES = Path(__file__).parents[2] / "examples" / "mlir"
QUICK = ("kalman", "sod")


def examples() -> list[object]:
    return [
        pytest.param(path, id=path.stem, marks=[] if path.stem in QUICK else pytest.mark.wide)
        for path in sorted(EXAMPLES.glob("*.mlir"))
    ]


def content(program: hlo2onnx.OnnxProgram) -> bytes:
    return oir.to_proto(program.model).SerializeToString(deterministic=True)


@pytest.mark.wide
@pytest.mark.parametrize("path", examples())
def test_rules_that_are_tried_everywhere_give_the_same_model(path: Path, tmp_path: Path) -> None:
    """With a log of the rules, the engine tries all rules of an operator on each node."""
    tried = hlo2onnx.translate(path, dump=tmp_path)
    assert content(hlo2onnx.translate(path)) == content(tried)
