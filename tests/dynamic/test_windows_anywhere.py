"""reduce_window along symbolic axes, in every geometry and region."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import jax
import jax.numpy as jnp
import onnx_ir as oir
import pytest
from emitting import emitter
from every_size import every_size
from jax import lax

import hlo2onnx
from dialect_handlers.stablehlo.reduce_window.separable import cumulative_sum
from hlo2onnx.errors import TranslationError
from hlo2onnx.ir.dims import canonical, symbol
from hlo2onnx.raising.rules import RULES

RULE_NAMES = frozenset(rule.name for rule in RULES)
INITS: dict[Any, float] = {lax.add: 0.0, lax.mul: 1.0, lax.max: -jnp.inf, lax.min: jnp.inf}


def pick(a: Any, b: Any) -> Any:
    """A region without a name, which takes what comes later less seriously."""
    return a + 0.5 * jnp.sin(b)


def windows(
    function: Any,
    window: Any,
    strides: Any = (1, 1),
    padding: Any = "VALID",
    base: Any = (1, 1),
    step: Any = (1, 1),
    init: float | None = None,
) -> Callable[[jax.Array], Any]:
    """reduce_window; a callable padding or window takes the shape."""

    def apply(x: jax.Array) -> Any:
        sizes, edges = (item(*x.shape) if callable(item) else item for item in (window, padding))
        start = INITS.get(function, 0.25) if init is None else init
        return lax.reduce_window(x, start, function, sizes, strides, edges, base, step)

    return apply


CASES: dict[str, Any] = {
    "max, dilated": windows(lax.max, (2, 1), step=(3, 1), padding=((2, 1), (0, 0))),
    "max, gaps": windows(lax.max, (2, 2), base=(3, 1), padding=((1, 2), (0, 0))),
    "max, cut": windows(lax.max, (3, 1), padding=((-1, 2), (0, 0))),
    "max, wide padding": windows(lax.max, (2, 1), strides=(3, 1), padding=((2, 0), (0, 0))),
    "max, wide padding behind": windows(lax.max, (2, 1), strides=(3, 1), padding=((0, 2), (0, 0))),
    "max, as wide as can be": windows(lax.max, (3, 2), strides=(2, 1), padding=((2, 2), (1, 1))),
    "max, init": windows(lax.max, (2, 1), padding=((1, 0), (0, 0)), init=0.5),
    "max, static axis dilated": windows(lax.max, (2, 2), step=(1, 2), padding=((1, 0), (0, 0))),
    "max, static axis padded": windows(lax.max, (2, 2), padding=((0, 1), (-1, 1))),
    "sum, strided": windows(lax.add, (3, 2), strides=(2, 3), padding=((1, 1), (0, 1))),
    "sum, dilated": windows(lax.add, (2, 2), step=(2, 1), padding=((1, 1), (0, 0))),
    "product, 16": windows(lax.mul, (16, 1), strides=(2, 1), padding=((9, 8), (0, 0))),
    "product, 17": windows(lax.mul, (17, 1), strides=(2, 1), padding=((9, 8), (0, 0))),
    "product, 17, dilated": windows(lax.mul, (17, 1), step=(2, 1), padding=((20, 19), (0, 0))),
    "product, static axis of one window": windows(lax.mul, (2, 5), padding=((1, 0), (1, 1))),
    "product, short static axis": windows(lax.mul, (2, 3), padding=((1, 0), (0, 0))),
    "max, static axis cut and strided": windows(
        lax.max, (2, 2), strides=(1, 2), padding=((0, 0), (-1, 0))
    ),
    "product, static axis dilated": windows(lax.mul, (2, 2), step=(1, 2), padding=((1, 0), (0, 0))),
    "cumulative product, exclusive": windows(
        lax.mul, lambda n, _: (n, 1), padding=lambda n, _: ((n, -1), (0, 0))
    ),
    "cumulative sum, exclusive": windows(
        lax.add, lambda n, _: (n, 1), padding=lambda n, _: ((n, -1), (0, 0))
    ),
    "cumulative sum, exclusive and reverse": windows(
        lax.add, lambda n, _: (n, 1), padding=lambda n, _: ((-1, n), (0, 0))
    ),
    "cumulative sum and windows": windows(
        lax.add, lambda n, _: (n, 2), padding=lambda n, _: ((n - 1, 0), (0, 0))
    ),
    "cumulative sum, wider": windows(
        lax.add, lambda n, _: (n + 2, 1), padding=lambda n, _: ((n + 1, 0), (0, 0))
    ),
    "not quite cumulative": windows(
        lax.max, lambda n, _: (n, 1), padding=lambda n, _: ((n - 1, 1), (0, 0))
    ),
    "windows of half": windows(
        lax.max, lambda n, _: (n, 1), strides=(2, 1), padding=lambda n, _: ((n, n), (0, 0))
    ),
    "unnamed": windows(pick, (2, 1)),
    "unnamed, padded": windows(pick, (2, 2), padding=((1, 0), (0, 1))),
    "unnamed, in front only": windows(pick, (2, 1), padding=((2, 0), (0, 0))),
    "unnamed, behind only": windows(pick, (2, 1), padding=((0, 2), (0, 0))),
    "unnamed, gaps": windows(pick, (3, 1), base=(2, 1), padding=((1, 1), (0, 0))),
    "unnamed, large": windows(pick, (33, 2), padding=((32, 0), (0, 0))),
    "unnamed, large and padded": windows(
        pick, (33, 2), strides=(2, 1), step=(2, 1), padding=((40, 40), (1, 0))
    ),
    "unnamed, strided and dilated": windows(
        pick, (2, 2), strides=(2, 1), step=(1, 2), padding=((1, 1), (0, 0))
    ),
}  # fmt: skip

WAYS = {
    "max, dilated": {},
    "max, gaps": {},
    "max, cut": {},
    "max, wide padding": {},
    "max, wide padding behind": {},
    "max, as wide as can be": {"MaxPool": 1},
    "max, init": {"MaxPool": 1},
    "max, static axis dilated": {"MaxPool": 1},
    "max, static axis padded": {"MaxPool": 1},
    "sum, strided": {"Conv": 1},
    "sum, dilated": {},
    "product, 16": {},
    "product, 17": {},
    "product, static axis of one window": {"ReduceProd": 1},
    "product, short static axis": {},
    "product, static axis dilated": {},
    "max, static axis cut and strided": {"MaxPool": 1},
    "unnamed, large": {"Loop": 1},
    "unnamed, large and padded": {"Loop": 1},
    "cumulative product, exclusive": {"Loop": 1},
    "cumulative sum, exclusive": {"Loop": 1},
    "cumulative sum and windows": {"CumSum": 2},
    "not quite cumulative": {"Loop": 1},
}
"""The operators that tell one way from another."""


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_windows(name: str) -> None:
    every_size(CASES[name], "n, 3", sizes=(2, 7))


@pytest.mark.parametrize("name", WAYS)
def test_way(name: str) -> None:
    nodes = hlo2onnx.translate(CASES[name], "n, 3", without=RULE_NAMES).report.nodes
    telling = ("MaxPool", "Conv", "Loop", "ReduceProd", "CumSum", "ReduceMax")
    assert {op_type: nodes[op_type] for op_type in telling if nodes[op_type]} == WAYS[name]


def test_masks_only_where_there_are_holes() -> None:
    for padding, masks in (((0, 0), 0), ((1, 0), 2), ((0, 1), 2)):
        function = windows(pick, (2, 1), padding=(padding, (0, 0)))
        assert hlo2onnx.translate(function, "n, 3").report.nodes["Where"] == masks


@pytest.mark.parametrize("reverse", [False, True])
def test_cumulative_windows_of_a_region_without_a_name(reverse: bool) -> None:
    function = windows(
        lambda a, b: a * b + a + b,
        lambda n, _: (n, 1),
        padding=lambda n, _: ((0, n - 1) if reverse else (n - 1, 0), (0, 0)),
        init=0.0,
    )
    program = hlo2onnx.translate(function, "n, 3", without=RULE_NAMES)
    assert program.report.nodes["Loop"] == 1


UNNAMED = [
    windows(pick, lambda n, _: (n, 1)),
    windows(pick, lambda n, _: (n, 1), padding=lambda n, _: ((n, -1), (0, 0))),
    windows(pick, lambda n, _: (n, 2), padding=lambda n, _: ((n - 1, 0), (0, 0))),
]


@pytest.mark.parametrize("function", UNNAMED)
def test_windows_of_a_symbolic_size_without_a_known_region(function: Callable[..., Any]) -> None:
    every_size(function, "n, 3", sizes=(1, 4))


def test_refusals() -> None:
    for function in (lax.mul, pick):
        gaps = windows(function, (2, 1), padding=lambda n, _: ((n, 0), (0, 0)), base=(2, 1))
        with pytest.raises(TranslationError, match="padding around a dilated axis is symbolic"):
            hlo2onnx.translate(gaps, "n, 3")


def test_blocks_of_a_sum_hold_the_filled_axis() -> None:
    em = emitter()
    x = em.value("x", oir.DataType.FLOAT, (symbol("n", positive=True), 2))
    em.graph.inputs.append(x)
    cumulative_sum(em, x, 0, reverse=False)
    shapes = {node.op_type: list(node.outputs[0].shape) for node in reversed(list(em.graph))}
    rows, columns, rest = shapes["Reshape"]
    assert rest == 2
    assert shapes["Pad"] == [canonical(rows * columns), 2]
