"""Which outcomes are the same failure."""

from __future__ import annotations

from dataclasses import replace

import pytest

from hlo2onnx.errors import VerificationError
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.options import Options
from hlo2onnx.reduction import testing
from hlo2onnx.reduction.testing import Outcome, Request, stable

REFUSED = Outcome("refused", "translate", ("a: why", "b: why"))
SINE = """
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
DIFFERS = Outcome("differs", "verify", ("finite numbers",), 0.5)


@pytest.mark.parametrize(
    ("other", "alike"),
    [
        (REFUSED, True),
        (Outcome("refused", "translate", ("c: why", "a: why")), True),
        (Outcome("refused", "translate", ("b: why",)), False),
        (Outcome("error", "translate", ("a: why",)), False),
        (replace(REFUSED, stage="load"), False),
    ],
)
def test_the_first_cause_and_the_stage_count(other: Outcome, alike: bool) -> None:
    assert other.is_like(REFUSED) == alike


@pytest.mark.parametrize(("error", "alike"), [(0.5, True), (0.001, True), (0.0009, False)])
def test_a_difference_must_not_shrink_to_rounding(error: float, alike: bool) -> None:
    assert replace(DIFFERS, error=error).is_like(DIFFERS) == alike


def test_nan_may_become_a_clear_difference() -> None:
    nan = Outcome("differs", "verify", ("NaN or inf",))
    assert nan.is_like(nan)
    assert replace(DIFFERS, error=0.5).is_like(nan)
    assert not replace(DIFFERS, error=1e-4).is_like(nan)
    assert not nan.is_like(DIFFERS)


def test_a_small_difference_counts_in_proportion() -> None:
    small = replace(DIFFERS, error=1e-5)
    assert replace(DIFFERS, error=2e-6).is_like(small)
    assert not replace(DIFFERS, error=5e-7).is_like(small)


def test_messages_without_names_and_numbers() -> None:
    one = "no kernel for hlo2onnx.X(23) node with name 'body/add_1' at /a/b.py:12\nmore"
    other = "no kernel for hlo2onnx.X(21) node with name 'y' at /c/d.py:7"
    assert stable(one) == stable(other)
    assert stable(one) != stable(one.replace("kernel", "type"))


@pytest.mark.parametrize(
    ("one", "other", "alike"),
    [
        ("Fatal error: a:B(-1) is not a function", "Fatal error: a:B(-1) is not a function", True),
        (
            "Fatal error: a:B(-1) is not a function",
            "Node (while_3) Op (Scan) [X] Inference failed: Fatal error: a:B(-1) is not a function",
            True,
        ),
        ("Could not find Foo(23) node 'x'", "Could not find Foo(21) node 'y'", True),
        ("Could not find Foo(23) node 'x'", "Could not find Bar(23) node 'x'", False),
    ],
)
def test_messages_of_runtimes(
    one: str, other: str, alike: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Loops around the cause do not count."""
    found = []
    for text in (one, other):

        def fail(*_: object, message: str = f"it does not load the model: [E] : 1 : FAIL : {text}"):
            raise VerificationError(message)

        monkeypatch.setattr(testing, "run_stages", fail)
        found.append(testing._outcome(Request(SINE, (None,), Options(), 0, 60)))
    assert found[0].causes[0].startswith("VerificationError: it does not load the model: ")
    assert found[0].is_like(found[1]) == alike


def test_an_error_has_the_op_that_was_translated(monkeypatch: pytest.MonkeyPatch) -> None:

    def fail(*_: object) -> None:
        raise KeyError("planted")

    monkeypatch.setattr(Emitter, "operand", fail)
    found = testing._outcome(Request(SINE, (None,), Options(), 0, 60))
    assert (found.kind, found.stage) == ("error", "translate")
    assert found.causes[0].endswith("test_testing.fail for stablehlo.sine"), found
    assert "KeyError: 'planted'" in found.message
