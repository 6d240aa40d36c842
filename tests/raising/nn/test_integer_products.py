"""Products of integer matrices in floats, without rounding."""

from __future__ import annotations

from dataclasses import replace

import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Build, Rewrite, clipped, fires, model_of
from target_costs import use_costs, with_costs

import hlo2onnx
from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import apply_rules
from hlo2onnx.raising.rules.nn.integer_products import IntegerMatMul
from hlo2onnx.targets import load_target

T = oir.DataType
MANY = with_costs(integer_matmul_work=8)
RNG = np.random.default_rng(0)
EDGES = np.array([-(2**31), 2**31 - 1, -1, 0, 1, 1023, 1024, 1025, -1024, -1025, 2**20, -(2**20),
                  2**20 - 1, 2**21, 2**30, -(2**30)])  # fmt: skip

PARTED = ["Cast"] * 5 + ["Mul"] * 5 + ["Round"] * 2 + ["Sub"] * 2 + ["MatMul"] * 2 + ["Add"]
MEASURED = ["Abs", "ReduceMax"] * 2 + ["Mul", "LessOrEqual", "If"]
CHOSEN = [*PARTED, *MEASURED, "MatMul", "Cast", "BitwiseAnd"]


def product(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
    return b.MatMul(x, y)


def integers(*shape: int, dtype: str = "i4") -> np.ndarray:
    known = np.iinfo(dtype)
    return RNG.integers(known.min, known.max, shape, dtype, endpoint=True)


@pytest.mark.parametrize("dtype", ["i4", "u4"])
@pytest.mark.parametrize("dims", [(16, 16, 16), (3, 2048, 2), (2, 3, 4, 5)])
def test_products_wrap(dims: tuple[int, ...], dtype: str) -> None:
    *batch, rows, terms, columns = dims
    inputs = {
        "x": integers(*batch, rows, terms, dtype=dtype),
        "y": integers(terms, columns, dtype=dtype),
    }
    more = ["Cast"] * 2 if dtype == "u4" else []
    Rewrite(product, inputs, IntegerMatMul(), target=MANY).gives(*CHOSEN, *more)


def test_at_the_edges() -> None:
    x = np.tile(EDGES, (16, 1)).astype("i4")
    for inputs in ({"x": x, "y": x.T.copy()}, {"x": x.T.copy(), "y": x}):
        Rewrite(product, inputs, IntegerMatMul(), target=MANY).gives(*CHOSEN)


def test_the_largest_sums() -> None:
    """Every sum of 2,048 products of parts is as large as parts allow."""
    for x, y in (
        (-(2**31), -(2**20)),
        (2**31 - 1, 2**20 - 1),
        (1024, -(2**31)),
        (-1024, 2**31 - 1),
    ):
        inputs = {"x": np.full((2, 2048), x, "i4"), "y": np.full((2048, 2), y, "i4")}
        Rewrite(product, inputs, IntegerMatMul(), target=MANY).gives(*CHOSEN)


@pytest.mark.parametrize(
    ("x", "y", "terms"),
    [
        (94906265, 94906265, 1),  # below 2^53
        (94906267, 94906267, 1),
        (-94906267, 94906267, 1),
        (67108865, 67108863, 2),
        (67108865, -67108863, 3),
        (-(2**31), 4194303, 1),
    ],
)
def test_sums_about_the_largest_of_f64(x: int, y: int, terms: int) -> None:
    """f64 would round some of them, and their last digits matter."""
    inputs = {"x": np.full((4, terms), x, "i4"), "y": np.full((terms, 4), y, "i4")}
    Rewrite(product, inputs, IntegerMatMul(), target=MANY).gives(*CHOSEN)


def test_without_branches() -> None:
    target = replace(MANY, flags=replace(MANY.flags, no_if=True))
    inputs = {"x": integers(4, 4), "y": integers(4, 4)}
    Rewrite(product, inputs, IntegerMatMul(), target=target).gives(*PARTED)


@pytest.mark.parametrize(
    ("bound", "terms", "dtype", "wraps"),
    [
        (2**10, 16, T.FLOAT, False),
        (2**10 + 1, 16, T.DOUBLE, False),
        (2**13, 31, T.DOUBLE, False),
        (2**13, 32, T.DOUBLE, True),
        (2**24, 32, T.DOUBLE, True),
    ],
)
def test_small_integers_need_one_product(
    bound: int, terms: int, dtype: oir.DataType, wraps: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(clipped(b, x, -bound, bound), clipped(b, y, -bound, bound))

    inputs = {"x": np.full((4, terms), -bound, "i4"), "y": np.full((terms, 4), bound, "i4")}
    rewrite = Rewrite(build, inputs, IntegerMatMul(), target=MANY)
    more = ["BitwiseAnd", "Cast"] if wraps else []
    rewrite.gives("Clip", "Clip", "Cast", "Cast", "MatMul", "Cast", *more)
    (matmul,) = (node for node in rewrite.model.graph if node.op_type == "MatMul")
    assert matmul.outputs[0].dtype == dtype


def test_one_more_and_they_are_parted() -> None:
    def build(b: GraphBuilder, x: oir.Value, y: oir.Value) -> oir.Value:
        return b.MatMul(clipped(b, x, -(2**24), 2**24), clipped(b, y, -(2**24) - 1, 2**24))

    inputs = {"x": np.ones((4, 32), "i4"), "y": np.ones((32, 4), "i4")}
    Rewrite(build, inputs, IntegerMatMul(), target=MANY).gives("Clip", "Clip", *CHOSEN)


OTHERS: dict[str, tuple[Build, tuple[int, ...], tuple[int, ...], str]] = {
    "i64": (product, (4, 4), (4, 4), "i8"),
    "f32": (product, (4, 4), (4, 4), "f4"),
    "small": (product, (1, 7), (7, 1), "i4"),
    "many terms": (product, (1, 2049), (2049, 1), "i4"),
}


@pytest.mark.parametrize("name", OTHERS)
def test_others_stay(name: str) -> None:
    build, *shapes, dtype = OTHERS[name]
    inputs = {key: np.ones(shape, dtype) for key, shape in zip("xy", shapes, strict=True)}
    assert not fires(build, inputs, IntegerMatMul(), target=MANY)


@pytest.mark.parametrize("target", ["onnx", "openvino", "ort-webgpu"])
def test_targets_without_the_figure_or_f64_stay(target: str) -> None:
    model = model_of(product, {"x": np.ones((512, 64), "i4"), "y": np.ones((64, 512), "i4")})
    assert not apply_rules(model, [IntegerMatMul()], load_target(target))


def test_a_program(monkeypatch: pytest.MonkeyPatch) -> None:
    use_costs(monkeypatch, integer_matmul_work=8)
    x, y = integers(5, 6), integers(6, 7)
    program = hlo2onnx.translate(jnp.matmul, x, y)
    assert program.report.rules["integer-matmul-in-floats"]
    np.testing.assert_array_equal(program(x, y), jnp.matmul(x, y))
