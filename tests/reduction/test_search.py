"""The search, with failures that are seen in the text."""

from __future__ import annotations

import re
from collections.abc import Callable

import pytest

from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.reduction.draft import Case, Draft
from hlo2onnx.reduction.search import Search


def long_chain(count: int) -> str:
    """A program of `count` sines, a cosine in the middle, and additions of all values."""
    lines = []
    for index in range(count):
        op = "cosine" if index == count // 2 else "sine"
        lines.append(f"%{index + 1} = stablehlo.{op} %{index} : tensor<3xf32>")
    body = "\n".join(lines).replace("%0 :", "%x :")
    return (
        "func.func public @main(%x: tensor<3xf32>) -> tensor<3xf32> {\n"
        f"{body}\nreturn %{count} : tensor<3xf32>\n}}"
    )


def case_of(text: str) -> Case:
    module = parse_module(text, "the program").operation
    inputs = (None,) * len(Draft(module, ()).block.arguments)
    case = Draft(module, inputs).case()
    assert case is not None
    return case


def reduced(text: str, fails: Callable[[str], bool]) -> tuple[Case, int]:
    """The reduced program, and the count of tests."""
    tests = 0

    def count(case: Case) -> bool:
        nonlocal tests
        tests += 1
        return fails(case.text)

    search = Search(case_of(text), count)
    search.run()
    return search.case, tests


@pytest.mark.wide
def test_one_op_of_many_in_few_tests() -> None:
    case, tests = reduced(long_chain(400), lambda text: "cosine" in text)
    assert case.ops == 1
    assert tests < 40


@pytest.mark.wide
def test_two_ops_stay_together() -> None:
    both = re.compile(r"(%\w+) = stablehlo.sine .*\n.*stablehlo.cosine \1 ")
    case, _ = reduced(long_chain(40), lambda text: both.search(text) is not None)
    assert case.ops == 2


@pytest.mark.wide
def test_the_result_is_the_same_each_time() -> None:
    cases = [reduced(long_chain(30), lambda text: "cosine" in text)[0] for _ in range(2)]
    assert cases[0] == cases[1]
