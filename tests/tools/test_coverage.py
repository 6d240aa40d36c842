"""The op-coverage page is what the record, the registry and the limitations say."""

from __future__ import annotations

import json

import pytest

from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.limitations import ALWAYS, LIMITATIONS
from tools.coverage.page import PAGE, RECORD, ROOT, dialect_ops, files_of, handlers_of, page_of
from tools.coverage.recorder import ops_of

RECORDED = json.loads(RECORD.read_text(encoding="utf-8"))
AGAIN = "run python -m tools.coverage"
CHANGED = "the registry or the limitations changed: run python -m tools.coverage --render"

REFUSED = {op for item in LIMITATIONS.values() if item.condition == ALWAYS for op in item.ops}
ELSEWHERE = {"stablehlo.custom_call"}
"""Has a row for each target."""


def test_the_page_is_current() -> None:
    assert PAGE.read_text(encoding="utf-8").endswith(page_of(RECORDED)), CHANGED


def test_every_op_of_the_dialects_is_on_it() -> None:
    missing = set(dialect_ops()) - set(RECORDED["dialects"])
    assert not missing, f"{missing}: {AGAIN}"


def test_the_tests_it_counts_are_there() -> None:
    counted = set(RECORDED["files"])
    gone = [file for file in counted if not (ROOT / file).exists()]
    assert not gone, f"{gone}: {AGAIN}"
    added = {f"tests/ops/{path.name}" for path in (ROOT / "tests" / "ops").glob("test_*.py")}
    assert not added - counted, f"{added - counted}: {AGAIN}"


@pytest.mark.parametrize("op", sorted(set(dialect_ops()) - ELSEWHERE - REFUSED))
def test_no_row_is_empty(op: str) -> None:
    """Each op of the dialects is translated by a test that passes, unless it is always refused."""
    assert RECORDED["ops"].get(op), f"{op}: {AGAIN}"


def test_no_row_is_without_words() -> None:
    page = page_of(RECORDED)
    wordless = [op for op in dialect_ops() if f"| `{op}` |  |" in page]
    assert not wordless, f"{wordless}: the handlers have no docstring"


@pytest.mark.parametrize(
    ("op", "files"),
    [
        ("stablehlo.gather", ["dialect_handlers/stablehlo/gather.py"]),
        ("chlo.acos", ["dialect_handlers/chlo/elementwise.py"]),  # in a table
        ("mhlo.topk", ["dialect_handlers/custom_calls/top_k.py"]),
        ("chlo.lgamma", []),  # expanded by MLIR
    ],
)
def test_files_of_handlers(op: str, files: list[str]) -> None:
    assert files_of(op) == files


def test_every_handler_has_a_file_in_a_room_of_its_dialect() -> None:
    for op in dialect_ops():
        for file in files_of(op):
            assert (ROOT / file).exists()
            assert not file.startswith("dialect_handlers/common/"), op
        assert bool(files_of(op)) == bool(handlers_of(op))


def test_what_is_always_refused_is_never_translated() -> None:
    assert not REFUSED & set(RECORDED["ops"])


def test_what_an_op_is_about() -> None:
    module = parse_module(
        """
        module { func.func public @main(%x: tensor<3xf32>) -> tensor<3xi1> {
          %0 = stablehlo.compare EQ, %x, %x : (tensor<3xf32>, tensor<3xf32>) -> tensor<3xi1>
          %1 = stablehlo.not %0 : tensor<3xi1>
          %2 = stablehlo.convert %1 : (tensor<3xi1>) -> tensor<3xui8>
          stablehlo.custom_call @f(%2) {has_side_effect = true} : (tensor<3xui8>) -> ()
          return %1 : tensor<3xi1>
        } }
        """,
        "it",
    )
    assert ops_of(module.operation) == {
        ("stablehlo.compare", "f32"),
        ("stablehlo.not", "i1"),
        ("stablehlo.convert", "ui8"),
        ("stablehlo.custom_call @f", "ui8"),
    }
