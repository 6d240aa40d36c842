"""Each transformation on a small program, and the dead code that it leaves."""

from __future__ import annotations

import pytest

from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.reduction.draft import Case, Draft
from hlo2onnx.reduction.transformations import TRANSFORMATIONS, Site

CHAIN = """
func.func public @main(%x: tensor<2xf32>, %y: tensor<2xf32>) -> (tensor<2xf32>, tensor<2xf32>) {
  %0 = stablehlo.add %x, %y : tensor<2xf32>
  %1 = stablehlo.sine %0 : tensor<2xf32>
  return %0, %1 : tensor<2xf32>, tensor<2xf32>
}
"""
LOOP = """
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %c = stablehlo.constant dense<0> : tensor<i32>
  %n = stablehlo.constant dense<7> : tensor<i32>
  %one = stablehlo.constant dense<1> : tensor<i32>
  %0:3 = stablehlo.while(%i = %c, %a = %x, %b = %x)
      : tensor<i32>, tensor<2xf32>, tensor<2xf32>
    cond {
      %p = stablehlo.compare LT, %i, %n : (tensor<i32>, tensor<i32>) -> tensor<i1>
      stablehlo.return %p : tensor<i1>
    } do {
      %j = stablehlo.add %i, %one : tensor<i32>
      %s = stablehlo.sine %a : tensor<2xf32>
      %t = stablehlo.add %b, %s : tensor<2xf32>
      stablehlo.return %j, %s, %t : tensor<i32>, tensor<2xf32>, tensor<2xf32>
    }
  return %0#2 : tensor<2xf32>
}
"""
BRANCHES = """
func.func public @main(%p: tensor<i1>, %x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = "stablehlo.if"(%p) ({
    %1 = stablehlo.sine %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }, {
    %1 = stablehlo.cosine %x : tensor<2xf32>
    stablehlo.return %1 : tensor<2xf32>
  }) : (tensor<i1>) -> tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""
CALLS = """
func.func public @main(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = call @f(%x) : (tensor<2xf32>) -> tensor<2xf32>
  %1 = stablehlo.composite "a.b" %0 {decomposition = @f} : (tensor<2xf32>) -> tensor<2xf32>
  return %1 : tensor<2xf32>
}
func.func private @f(%x: tensor<2xf32>) -> tensor<2xf32> {
  %0 = stablehlo.sine %x {mhlo.sharding = "{replicated}"} : tensor<2xf32>
  return %0 : tensor<2xf32>
}
"""


def draft(text: str) -> Draft:
    module = parse_module(text, "the program").operation
    count = len(Draft(module, ()).block.arguments)
    return Draft(module, (None,) * count)


def names(case: Case | None) -> list[str]:
    """The ops of a valid case."""
    assert case is not None
    found = [op.name.removeprefix("stablehlo.") for op in Draft.of(case).ops]
    assert len(found) == case.ops
    return found


def applied(name: str, text: str, *sites: Site) -> Case | None:
    (transformation,) = {item.name: item for item in TRANSFORMATIONS if item.name == name}.values()
    changed = draft(text)
    assert set(sites) <= set(transformation.sites(changed))
    transformation.apply(changed, sites)
    changed.clean()
    return changed.case()


def test_results_are_dropped() -> None:
    assert names(applied("results dropped", CHAIN, Site(1))) == ["add"]


def test_the_last_result_stays() -> None:
    case = applied("results dropped", CHAIN, Site(0), Site(1))
    assert names(case) == ["add"]


def test_ops_become_arguments() -> None:
    case = applied("ops replaced by arguments", CHAIN, Site(0))
    assert names(case) == ["sine"]
    assert case is not None
    assert len(case.inputs) == 1  # the others are not read any more


def test_ops_in_regions_become_arguments() -> None:
    case = applied("ops replaced by arguments", BRANCHES, Site(1))
    assert names(case) == ["if", "cosine"]


def test_what_comes_after_a_value_is_cut() -> None:
    assert names(applied("cut after a value", CHAIN, Site(1))) == ["add"]


@pytest.mark.parametrize(("branch", "op"), [(0, "sine"), (1, "cosine")])
def test_a_branch_is_taken(branch: int, op: str) -> None:
    assert names(applied("branches and bodies of loops taken", BRANCHES, Site(0, branch))) == [op]


def test_a_loop_becomes_its_body() -> None:
    case = applied("branches and bodies of loops taken", LOOP, Site(3, 1))
    assert names(case)[-3:] == ["add", "sine", "add"]


def test_calls_and_composites_are_inlined() -> None:
    assert names(applied("calls inlined", CALLS, Site(0))) == ["sine", "sine"]


def test_attributes_of_frameworks_are_dropped() -> None:
    case = applied("attributes dropped", CALLS, Site(0))
    assert case is not None
    assert "mhlo" not in case.text


@pytest.mark.parametrize(
    ("element", "number"),
    [
        ("complex<f32>", "(1.0, 2.0)"),
        ("bf16", "3.0"),
        ("f8E4M3FN", "3.0"),
        ("i1", "true"),
        ("i4", "3"),
        ("ui8", "3"),
        ("i64", "3"),
    ],
)
@pytest.mark.parametrize("shape", ["", "2x"])
def test_constants_of_all_types(element: str, number: str, shape: str) -> None:
    """The bindings read only some of them."""
    mlir_type = f"tensor<{shape}{element}>"
    text = f"""
    func.func public @main(%x: {mlir_type}) -> {mlir_type} {{
      %0 = stablehlo.constant dense<{number}> : {mlir_type}
      %p = stablehlo.constant dense<true> : tensor<i1>
      %1 = stablehlo.select %p, %0, %x : tensor<i1>, {mlir_type}
      return %1 : {mlir_type}
    }}
    """
    for transformation in TRANSFORMATIONS:
        for site in transformation.sites(draft(text)):
            changed = draft(text)
            transformation.apply(changed, [site])
            changed.clean()
            assert changed.case() is not None, (transformation.name, site)
