"""The scope of a node: what users have named, or else the functions that made it."""

from __future__ import annotations

import pytest

from hlo2onnx.ir.notes import common_callers, scope_of

STACK = (
    "a.py:3 in <lambda>\na.py:2 in norm\nlib/nn.py:9 in Dense.__call__\n"
    "a.py:5 in build.<locals>.predict"
)
FUNCTIONS = ("predict", "Dense", "norm")


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("Net/Dense_0/add", ("Net", "Dense_0")),
        ("Net/jit(silu)/mul", ("Net", "silu")),
        ("transpose(jvp(Net))/Dense_0/dot", ("transpose(jvp(Net))", "Dense_0")),
        ("Net/while/body/closed_call/add", ("Net",)),
        ("add", FUNCTIONS),
        ("while/body/add", FUNCTIONS),
        ("vmap()/add", FUNCTIONS),
        ("bsd,dkh->bskh/dot_general_1", FUNCTIONS),
        ("vmap(BNTS,BSNH->BTNH)/dot", FUNCTIONS),
        ("jit(softmax)/exp", (*FUNCTIONS, "softmax")),
        ("jit(norm)/exp", FUNCTIONS),
        ("Net/vmap(jit(clip))/max", ("Net", "clip")),
        ("vmap(eqx.nn.Linear)/dot", ("eqx.nn.Linear",)),
    ],
)
def test_scope(name: str, scope: tuple[str, ...]) -> None:
    assert scope_of(name, {"jax.stack": STACK, "jax.source": "a.py:2"}) == scope


def test_without_functions_the_source_line_is_the_scope() -> None:
    assert scope_of("add", {"jax.source": "a.py:2"}) == ("a.py:2",)
    assert scope_of("add", {}) == ()


def test_callers_of_jax_are_left_out() -> None:
    nodes = [
        {"jax.stack": "a.py:2 in norm\na.py:5 in model\na.py:9 in main"},
        {"jax.stack": "a.py:6 in model\na.py:9 in main"},
        {"jax.source": "a.py:9"},
    ]
    callers = common_callers(nodes)
    assert callers == 1
    assert scope_of("add", nodes[0], callers) == ("model", "norm")
    assert scope_of("add", nodes[1], callers) == ("model",)
    assert common_callers([]) == 0
