"""Comparators are known by what they compare; near misses go through a sorting network."""

from __future__ import annotations

import pytest

from hlo2onnx import translate

SORT = """
func.func public @main(%x: tensor<4xf32>, %y: tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>) {{
  %s:2 = "stablehlo.sort"(%x, %y) <{{dimension = 0 : i64}}> ({{
  ^bb0(%l0: tensor<f32>, %r0: tensor<f32>, %l1: tensor<i32>, %r1: tensor<i32>):
    {body}
    stablehlo.return %before : tensor<i1>
  }}) : (tensor<4xf32>, tensor<4xi32>) -> (tensor<4xf32>, tensor<4xi32>)
  return %s#0, %s#1 : tensor<4xf32>, tensor<4xi32>
}}"""


def keys(body: str) -> int:
    """How many keys the comparator has; 0 for a comparator without a name."""
    nodes = translate(SORT.format(body=body), nan="runtime").report.nodes
    assert bool(nodes["TopK"]) != bool(nodes["Scan"])
    return nodes["TopK"]


def compare(
    name: str, direction: str, lhs: str, rhs: str, element: str = "f32", kind: str = ""
) -> str:
    kind = f", {kind}" if kind else ""
    types = f"(tensor<{element}>, tensor<{element}>) -> tensor<i1>"
    return f"{name} = stablehlo.compare {direction}, {lhs}, {rhs}{kind} : {types}\n"


@pytest.mark.parametrize(
    ("comparison", "known"),
    [
        (("LE", "%l0", "%r0"), 1),
        (("GE", "%l1", "%r1", "i32"), 1),
        (("LT", "%r0", "%l0"), 1),
        (("EQ", "%l0", "%r0"), 0),
        (("NE", "%l0", "%r0"), 0),
        (("LT", "%l0", "%l0"), 0),
    ],
)
def test_one_key(comparison: tuple[str, ...], known: int) -> None:
    assert keys(compare("%before", *comparison)) == known


FUNCTIONS = {
    "of one side": ("negate %l0", "negate %r0", 1),
    "of other things": ("negate %l0", "abs %r0", 0),
    "of both sides": ("subtract %l0, %r0", "subtract %r0, %l0", 0),
    "of nothing": ("constant dense<1.0>", "constant dense<1.0>", 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions(name: str) -> None:
    left, right, known = FUNCTIONS[name]
    made = f"%a = stablehlo.{left} : tensor<f32>\n%b = stablehlo.{right} : tensor<f32>\n"
    assert keys(made + compare("%before", "LT", "%a", "%b")) == known


CHAIN = (
    compare("%less", "LT", "%l0", "%r0")
    + compare("%same", "EQ", "%l0", "%r0")
    + compare("%other", "NE", "%l0", "%r0")
    + compare("%total", "EQ", "%l0", "%r0", "f32", "TOTALORDER")
    + compare("%rest", "GT", "%l1", "%r1", "i32")
    + compare("%equal", "EQ", "%l1", "%r1", "i32")
)


@pytest.mark.parametrize(
    ("end", "known"),
    [
        ("select %same, %rest, %less", 2),
        ("select %other, %less, %rest", 2),
        ("select %total, %rest, %less", 2),
        ("select %same, %less, %rest", 0),
        ("select %less, %rest, %less", 0),
        ("and %rest, %same; or %both, %less", 2),
        ("and %same, %rest; or %less, %both", 2),
        ("or %same, %rest; or %less, %both", 0),
        ("and %same, %rest; and %less, %both", 0),
        ("and %other, %rest; or %less, %both", 0),
        ("and %same, %other; or %less, %both", 0),
        ("and %equal, %rest; or %less, %both", 0),
        ("and %same, %rest; or %other, %both", 0),
    ],
)
def test_chains(end: str, known: int) -> None:
    *first, last = end.split("; ")
    types = "tensor<i1>, tensor<i1>" if last.startswith("select") else "tensor<i1>"
    lines = [f"%both = stablehlo.{part} : tensor<i1>" for part in first]
    assert keys(CHAIN + "\n".join([*lines, f"%before = stablehlo.{last} : {types}"])) == known
