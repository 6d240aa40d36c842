"""rng_bit_generator gives XLA's bits; rng other numbers of the right distribution each time."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest

import hlo2onnx
from dialect_handlers.stablehlo.random import ANOTHER_EACH_TIME
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.program import OnnxProgram
from hlo2onnx.report import FIXED_KEY
from hlo2onnx.verify.xla import XlaProgram

GENERATOR = """
func.func public @main(%arg0: tensor<{n}xui64>) -> (tensor<{n}xui64>, tensor<{type}>) {{
  %0, %1 = stablehlo.rng_bit_generator %arg0, algorithm = {algorithm}
    : (tensor<{n}xui64>) -> (tensor<{n}xui64>, tensor<{type}>)
  return %0, %1 : tensor<{n}xui64>, tensor<{type}>
}}"""

TOP = 2**64 - 1
STATES = {
    "PHILOX, two words": ("PHILOX", [[5, TOP - 1], [TOP, 3]]),
    "PHILOX, three words": ("PHILOX", [[7, TOP, TOP], [1 << 40, TOP - 2, 1]]),
    "THREE_FRY": ("THREE_FRY", [[5, TOP - 1], [(1 << 40) + 3, (1 << 32) - 2]]),
}
"""States of which the counters overflow a word, and others."""
SHAPES = ["", "5x", "8x", "0x", "5x3x", "3x4x2x", "2x3x"]


def generator(algorithm: str, state: np.ndarray, type_: str) -> str:
    return GENERATOR.format(algorithm=algorithm, n=len(state), type=type_)


def all_shapes(algorithm: str, words: int, element: str) -> str:
    """Draws of all shapes in one program, so that it is compiled once; each one from the state
    that the draw before left."""
    results, lines = [], []
    for index, shape in enumerate(SHAPES):
        state = f"%s{index - 1}" if index else "%arg0"
        types = f"(tensor<{words}xui64>, tensor<{shape}{element}>)"
        lines.append(
            f"%s{index}, %r{index} = stablehlo.rng_bit_generator {state}, algorithm = {algorithm}"
            f" : (tensor<{words}xui64>) -> {types}"
        )
        results.append((f"%r{index}", f"tensor<{shape}{element}>"))
    results.append((f"%s{len(SHAPES) - 1}", f"tensor<{words}xui64>"))
    names, types = (", ".join(column) for column in zip(*results, strict=True))
    head = f"func.func public @main(%arg0: tensor<{words}xui64>) -> ({types}) {{"
    return "\n".join([head, *lines, f"return {names} : {types}", "}"])


def same_bits(text: str, states: list[list[int]]) -> None:
    compiled, program = XlaProgram(text.encode()), hlo2onnx.translate(text)
    for words in states:
        state = np.array(words, np.uint64)
        for got, want in zip(program(state), compiled([state]), strict=True):
            assert got.dtype == want.dtype
            np.testing.assert_array_equal(got, want)


@pytest.mark.wide
@pytest.mark.parametrize("states", STATES)
@pytest.mark.parametrize("element", ["ui32", "ui64", "ui8"])
def test_shapes(states: str, element: str) -> None:
    algorithm, words = STATES[states]
    same_bits(all_shapes(algorithm, len(words[0]), element), words)


def test_default_is_philox() -> None:
    same_bits(generator("DEFAULT", np.array([7, 11]), "5x3xui32"), [[7, 11], [TOP, TOP]])


@pytest.mark.costly
@pytest.mark.parametrize("algorithm", ["PHILOX", "THREE_FRY"])
@pytest.mark.parametrize(
    "element", ["i8", "i16", "i32", "i64", "ui16", "f16", "bf16", "f32", "f64", "f8E4M3FN"]
)
def test_elements(algorithm: str, element: str) -> None:
    """XLA gives the bits themselves, of whichever type: elements that are no unsigned integers
    come out of it as such."""
    state = np.array([9, TOP - 1], np.uint64)
    text = generator(algorithm, state, f"3x5x{element}")
    new_state, bits = XlaProgram(text.encode())([state])
    got_state, got = hlo2onnx.translate(text)(state)
    assert got.dtype == numpy_type(element)
    np.testing.assert_array_equal(got_state, new_state)
    np.testing.assert_array_equal(got.view(bits.dtype), bits)


def test_four_bits() -> None:
    text = """
    func.func public @main(%arg0: tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui8>) {
      %0, %1 = stablehlo.rng_bit_generator %arg0, algorithm = PHILOX
        : (tensor<2xui64>) -> (tensor<2xui64>, tensor<7xui4>)
      %2 = stablehlo.convert %1 : (tensor<7xui4>) -> tensor<7xui8>
      return %0, %2 : tensor<2xui64>, tensor<7xui8>
    }"""
    same_bits(text, [[9, 4]])


@pytest.mark.parametrize("algorithm", ["PHILOX", "THREE_FRY"])
def test_nodes_do_not_grow_with_the_size(algorithm: str) -> None:
    state = np.array([1, 2], np.uint64)
    counts = [
        sum(hlo2onnx.translate(generator(algorithm, state, f"{n}xui32")).report.nodes.values())
        for n in (600, 100_000)
    ]
    assert abs(counts[0] - counts[1]) <= 4  # a long count is made by Range
    assert counts[0] <= 60


@pytest.mark.parametrize(
    ("algorithm", "state"),
    [("THREE_FRY", "3xui64"), ("PHILOX", "4xui64"), ("PHILOX", "4xui32"), ("DEFAULT", "1xui64")],
)
def test_states_that_xla_refuses(algorithm: str, state: str) -> None:
    text = GENERATOR.format(algorithm=algorithm, n=2, type="3xui32").replace("2xui64", state)
    with pytest.raises(TranslationError, match="ui64\\[2\\]"):
        hlo2onnx.translate(text)


# -- rng -------------------------------------------------------------------------------------------

RNG = """
func.func public @main(%a: tensor<{element}>, %b: tensor<{element}>) -> tensor<{dims}x{element}> {{
  %0 = stablehlo.constant dense<[{shape}]> : tensor<{rank}xi64>
  %1 = stablehlo.rng %a, %b, %0, distribution = {distribution}
    : (tensor<{element}>, tensor<{element}>, tensor<{rank}xi64>) -> tensor<{dims}x{element}>
  return %1 : tensor<{dims}x{element}>
}}"""


def drawing(distribution: str, element: str, *shape: int) -> OnnxProgram:
    text = RNG.format(
        element=element,
        dims="x".join(map(str, shape)),
        shape=", ".join(map(str, shape)),
        rank=len(shape),
        distribution=distribution,
    )
    return hlo2onnx.translate(text)


def draw(distribution: str, element: str, a: Any, b: Any, *shape: int) -> np.ndarray:
    dtype = numpy_type(element)
    program = drawing(distribution, element, *shape)
    drawn: np.ndarray = program(np.array(a, dtype), np.array(b, dtype))
    assert drawn.dtype == dtype
    assert drawn.shape == shape
    return drawn


# The limits below are more than six standard deviations wide for the 40,000 numbers they are about:
# they do not fail by chance once in a million runs of all of them.
COUNT = 40_000


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
def test_uniform_floats(element: str) -> None:
    drawn = draw("UNIFORM", element, -2, 6, 200, 200).astype(np.float64).reshape(-1)
    assert drawn.min() >= -2
    assert drawn.max() <= 6
    assert drawn.max() < 6 or element in ("f16", "bf16")  # rounded from f32, as in XLA
    assert abs(drawn.mean() - 2) < 0.08
    assert abs(drawn.std() - 8 / 12**0.5) < 0.06
    counts = np.histogram(drawn, 8, (-2, 6))[0]
    assert abs(counts - COUNT / 8).max() < 0.1 * COUNT / 8
    assert abs(np.corrcoef(drawn[1:], drawn[:-1])[0, 1]) < 0.04


@pytest.mark.parametrize("element", ["i8", "i16", "i32", "i64", "ui8", "ui16", "ui32", "ui64"])
def test_uniform_integers(element: str) -> None:
    low = 3 if element.startswith("u") else -3
    drawn = draw("UNIFORM", element, low, low + 7, 200, 200)
    values, counts = np.unique(drawn, return_counts=True)
    np.testing.assert_array_equal(values, np.arange(low, low + 7))
    assert abs(counts - COUNT / 7).max() < 0.1 * COUNT / 7


@pytest.mark.parametrize("element", ["i8", "i32", "i64", "ui32", "ui64"])
def test_integers_over_their_whole_range(element: str) -> None:
    info = np.iinfo(numpy_type(element))
    drawn = draw("UNIFORM", element, info.min, info.max, COUNT).astype(np.float64)
    extent = float(info.max) - float(info.min)
    assert abs(drawn.mean() - (float(info.min) + extent / 2)) < 0.02 * extent
    assert abs(drawn.std() - extent / 12**0.5) < 0.02 * extent


def test_booleans_below_true_are_false() -> None:
    assert not draw("UNIFORM", "i1", False, True, 9).any()


@pytest.mark.parametrize("element", ["f32", "f64", "f16", "bf16"])
@pytest.mark.parametrize("shape", [(200, 200), (39_999,)])
def test_normal(element: str, shape: tuple[int, ...]) -> None:
    drawn = draw("NORMAL", element, 3, 2, *shape).astype(np.float64).reshape(-1)
    standard = (drawn - 3) / 2
    assert np.isfinite(drawn).all()
    assert abs(standard.mean()) < 0.04
    assert abs(standard.std() - 1) < 0.03
    assert abs((standard**3).mean()) < 0.15
    assert abs((standard**4).mean() - 3) < 0.4
    assert abs((abs(standard) < 1).mean() - 0.6827) < 0.02
    assert abs(np.corrcoef(standard[1:], standard[:-1])[0, 1]) < 0.04


@pytest.mark.parametrize("distribution", ["UNIFORM", "NORMAL"])
def test_numbers_differ_from_run_to_run_and_from_draw_to_draw(distribution: str) -> None:
    text = RNG.format(element="f32", dims="50", shape="50", rank=1, distribution=distribution)
    lines = text.splitlines()
    second = [line.replace("%1", "%2") for line in lines[3:5]]
    both = "  %3 = stablehlo.concatenate %1, %2, dim = 0"
    both += " : (tensor<50xf32>, tensor<50xf32>) -> tensor<100xf32>"
    lines[5:6] = [*second, both, "  return %3 : tensor<100xf32>"]
    lines[1] = lines[1].replace("-> tensor<50xf32>", "-> tensor<100xf32>")
    program = hlo2onnx.translate("\n".join(lines))
    bounds = np.float32(0), np.float32(1)
    runs = [program(*bounds), program(*bounds)]
    assert (runs[0] != runs[1]).mean() > 0.9
    assert (runs[0][:50] != runs[0][50:]).mean() > 0.9
    assert ANOTHER_EACH_TIME in program.report.notes
    assert FIXED_KEY not in program.report.notes


def test_every_trip_of_a_loop_draws_anew() -> None:
    def step(carry: jax.Array, _: None) -> tuple[jax.Array, jax.Array]:
        return carry, jax.lax.rng_uniform(carry, carry + 1, (3,))

    lowered = jax.jit(lambda x: jax.lax.scan(step, x, length=4)[1]).lower(np.float32(0))
    drawn = hlo2onnx.translate(lowered)(np.float32(0))
    assert len(np.unique(drawn)) == drawn.size


@pytest.mark.parametrize("shape", [(0,), (3, 0), (1,), (2, 3, 1)])
@pytest.mark.parametrize("distribution", ["UNIFORM", "NORMAL"])
def test_shapes_of_draws(distribution: str, shape: tuple[int, ...]) -> None:
    draw(distribution, "f32", 0, 1, *shape)


@pytest.mark.wide
def test_bounds_that_xla_takes() -> None:
    """An interval without an inside, an infinite and an undefined one."""
    np.testing.assert_array_equal(draw("UNIFORM", "f32", 3, 3, 4), 3)
    np.testing.assert_array_equal(draw("UNIFORM", "f32", 0, np.inf, 4), np.inf)
    assert np.isnan(draw("UNIFORM", "f32", 0, np.nan, 4)).all()
    np.testing.assert_array_equal(draw("NORMAL", "f32", 5, 0, 4), 5)
    draw("UNIFORM", "i32", 3, 3, 4)  # any numbers, but no division by zero
