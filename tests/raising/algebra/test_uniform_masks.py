"""What no condition selects is skipped by an If."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import onnx_ir as oir
import pytest
from against_xla import against_jax
from jax.scipy import special
from rewriting import Rewrite, fires, negated
from target_costs import use_costs, with_costs

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.rules.algebra.uniform_masks import SkipUnselected

THREE = with_costs(skipped_nodes=3, skipped_elements=4)
INPUTS = {"x": np.array([1, -2, 3, np.nan], np.float32), "y": np.full(4, 7, np.float32)}
MASKS = {"some": [1, 0, 0, 1], "all": [1, 1, 1, 1], "none": [0, 0, 0, 0]}
SKIPPING = ("Cast", "ReduceMax", "Cast", "If", "Expand", "Where")
Values = oir.Value


def conditions(name: str) -> dict[str, np.ndarray]:
    return {"c": np.array(MASKS[name], bool), **INPUTS}


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("side", [1, 2])
def test_one_side(mask: str, side: int) -> None:
    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> Values:
        chosen = (negated(b, x, 3), y)
        return b.Where(c, *(chosen if side == 1 else chosen[::-1]))

    names = [*SKIPPING, "Neg", "Neg", "Neg", *(["Not"] if side == 2 else [])]
    Rewrite(build, conditions(mask), SkipUnselected(), target=THREE).gives(*names)


@pytest.mark.parametrize("mask", MASKS)
def test_both_sides(mask: str) -> None:
    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> Values:
        return b.Where(c, negated(b, x, 3), negated(b, y, 4))

    names = [*SKIPPING, *SKIPPING[:-1], "Not", *["Neg"] * 7]
    Rewrite(build, conditions(mask), SkipUnselected(), target=THREE).gives(*names)


@pytest.mark.parametrize("mask", MASKS)
def test_selections_of_one_condition_share_an_if(mask: str) -> None:
    """Neither alone reads enough; the second one selects what the first one reads, too."""

    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
        common = negated(b, x, 2)
        return [b.Where(c, common, y), b.Where(c, b.Neg(common), b.Abs(y))]

    rewrite = Rewrite(build, conditions(mask), SkipUnselected(), target=THREE)
    rewrite.gives(*SKIPPING, "Expand", "Where", "Abs", "Neg", "Neg", "Neg")


@pytest.mark.parametrize("mask", MASKS)
def test_a_selection_within_what_is_skipped(mask: str) -> None:
    """An If moves into another one; and a Where selects by the condition of the Where around it."""

    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
        is_small = b.Less(x, b.scalar_like(0, x))
        inner = b.Where(is_small, negated(b, x, 3), b.Abs(x))
        same = b.Where(c, inner, b.Sqrt(y))
        return [b.Where(c, b.Neg(same), y)]

    rewrite = Rewrite(build, conditions(mask), SkipUnselected(), target=THREE)
    assert rewrite.fired["skip-unselected"] > 1


def test_types_of_what_is_skipped() -> None:
    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
        wide = b.cast(negated(b, x, 2), oir.DataType.DOUBLE)
        integers = b.Neg(b.Abs(b.cast(negated(b, y, 2), oir.DataType.INT32)))
        given = (b.cast(y, oir.DataType.INT32), b.cast(y, oir.DataType.DOUBLE))
        return [b.Where(c, integers, given[0]), b.Where(c, wide, given[1])]

    for mask in MASKS:
        rewrite = Rewrite(build, conditions(mask), SkipUnselected(), target=THREE)
        assert rewrite.nodes["If"] == 1


@pytest.mark.parametrize("mask", MASKS)
@pytest.mark.parametrize("largest", [5, 7])
@pytest.mark.parametrize("in_else", [False, True])
def test_a_branch_shares_what_is_selected(mask: str, largest: int, in_else: bool) -> None:
    """Made if the condition holds somewhere, or if the branch is taken."""
    inputs = conditions(mask) | {"y": np.full(4, largest, np.float32)}
    rewrite = Rewrite(
        lambda b, c, x, y: shared_with(b, c, x, y, in_else=in_else),
        inputs,
        SkipUnselected(),
        target=THREE,
    )
    assert rewrite.fired["skip-unselected"] == 1
    assert rewrite.nodes["If"] == 2
    assert rewrite.nodes["Or"] == 1
    assert rewrite.nodes["Not"] == int(in_else)


@pytest.mark.parametrize("mask", MASKS)
def test_a_number_elsewhere(mask: str) -> None:
    """The Where that all others read is made in the If, and is the number where that skips it."""
    rewrite = Rewrite(selected_number, conditions(mask), SkipUnselected(), target=THREE)
    rewrite.gives(*SKIPPING, "Expand", "Where", "Neg", "Neg", "Neg", "Abs", "Sqrt")


def many(b: GraphBuilder, x: Values) -> Values:
    return negated(b, x, 3)


def is_read_elsewhere(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
    near = b.Abs(negated(b, x, 2))
    return [b.Where(c, b.Neg(near), y), near]


def branches(b: GraphBuilder, condition: Values, then: Values, other: Values) -> Values:
    """An If whose branches negate an outer value each."""
    graphs = {}
    for name, x in (("then_branch", then), ("else_branch", other)):
        with b.subgraph([], name) as graphs[name]:
            graphs[name].outputs.append(b.Neg(x))
    types = [(oir.DataType.FLOAT, oir.Shape([4]))]
    return b.node("If", [condition], graphs, types)[0]


def shared_with(
    b: GraphBuilder,
    c: Values,
    x: Values,
    y: Values,
    *,
    in_else: bool = False,
    in_both: bool = False,
    is_before: bool = False,
    is_read: bool = False,
    decides: bool = False,
) -> list[Values]:
    """What a Where selects is read in a branch, too."""
    made = many(b, x)
    taken = b.Greater(b.ReduceMax(y, keepdims=0), b.scalar_like(6, y))
    sides = (y, made) if in_else else (made, made if in_both else y)
    early = [branches(b, taken, *sides)] if is_before else []
    where = b.Where(c, made, y)
    if decides:
        taken = b.Greater(b.ReduceMax(where, keepdims=0), b.scalar_like(6, y))
    return [where, *(early or [branches(b, taken, *sides)]), *([made] if is_read else [])]


def selected_number(
    b: GraphBuilder,
    c: Values,
    x: Values,
    y: Values,
    *,
    is_before: bool = False,
    other: Values | None = None,
    condition: Values | None = None,
) -> list[Values]:
    """A selection within what is skipped is a number elsewhere, and all others read it."""
    two = b.scalar_like(2, x)
    inner = b.Where(condition or c, negated(b, x, 2), other or two)
    early = [b.Abs(inner)] if is_before else []
    where = b.Where(c, b.Neg(inner), b.Sqrt(y))
    return [where, *(early or [b.Abs(inner)])]


def is_an_output(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
    result = many(b, x)
    return [b.Where(c, result, y), result]


NEAR_MISSES: dict[str, Any] = {
    "few nodes": lambda b, c, x, y: b.Where(c, negated(b, x, 2), y),
    "a constant": lambda b, c, x, y: b.Where(c, many(b, x), b.scalar_like(0, x)),
    "one value on both sides": lambda b, c, x, y: (lambda z: b.Where(c, z, z))(many(b, x)),
    "read elsewhere": is_read_elsewhere,
    "an output": is_an_output,
    "the condition": lambda b, c, x, y: b.Where(b.Less(many(b, x), y), x, y),
    "few elements": lambda b, c, x, y: b.Where(
        b.slice(c, [0], [3]), many(b, b.slice(x, [0], [3])), b.slice(y, [0], [3])
    ),
    "scalars": lambda b, c, x, y: b.Where(c, many(b, b.reshape(b.slice(x, [0], [1]), ())), y),
    "both branches": lambda b, c, x, y: shared_with(b, c, x, y, in_both=True),
    "an earlier branch": lambda b, c, x, y: shared_with(b, c, x, y, is_before=True),
    "a branch that the Where decides": lambda b, c, x, y: shared_with(b, c, x, y, decides=True),
    "a branch and a result": lambda b, c, x, y: shared_with(b, c, x, y, is_read=True),
    "a selected number": lambda b, c, x, y: selected_number(b, c, x, y, is_before=True),
    "a selected variable": lambda b, c, x, y: selected_number(b, c, x, y, other=x),
    "a number of another condition": lambda b, c, x, y: selected_number(
        b, c, x, y, condition=b.Less(x, y)
    ),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_what_stays(name: str) -> None:
    assert not fires(NEAR_MISSES[name], conditions("some"), SkipUnselected(), target=THREE)


def test_an_earlier_selection_is_read_by_what_is_selected() -> None:
    """One If cannot stand in front of both, so that each has its own."""

    def build(b: GraphBuilder, c: Values, x: Values, y: Values) -> list[Values]:
        before = b.Where(c, negated(b, x, 3), y)
        kept = b.Exp(before)
        return [b.Where(c, negated(b, kept, 3), b.Abs(y)), kept]

    for mask in MASKS:
        rewrite = Rewrite(build, conditions(mask), SkipUnselected(), target=THREE)
        assert rewrite.nodes["If"] == 2


GROUPS = {
    "positive": [0.6, 1.0, 1.5, 2.5, 3.9, 0.9],
    "large": [5.0, 40.0, 1e6, 3e37, 4.5, 7.0],
    "negative": [-0.5, -1.5, -2.46, -7.2, -1e6, 0.25],
    "mixed": [-2.5, 0.0, 1.2, 30.0, np.nan, np.inf],
}


@pytest.mark.parametrize("group", GROUPS)
def test_special_functions(group: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each group of arguments is in other intervals of the formulas."""
    use_costs(monkeypatch, skipped_elements=2)

    def values(x: jax.Array) -> tuple[jax.Array, ...]:
        return special.gammaln(x), special.i0e(x), special.digamma(x)

    run = against_jax(values, np.array(GROUPS[group], np.float32)).close()
    assert run.nodes["If"]
