"""Which floats are provably integers times a power of two, and which are not."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.float_ranges import Steps, moved

T = oir.DataType
Build = Callable[[GraphBuilder, oir.Value], oir.Value]
BYTE = Steps(0, 255, 1.0)


def steps_of(build: Build, x: type = np.uint8) -> Steps | None:
    model = model_of(lambda b, x: b.Identity(build(b, x)), {"x": np.zeros(3, x)})
    node = model.graph.outputs[0].producer()
    assert node is not None and node.inputs[0] is not None
    return Facts().steps(node.inputs[0])


def number(*items: float) -> Callable[[GraphBuilder], oir.Value]:
    return lambda b: b.const(np.array(items, np.float32))


def after(op_type: str, *items: float, first: bool = False) -> Build:
    """A byte as f32, and an operator with a constant."""

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        operands = [b.cast(x, T.FLOAT), number(*items)(b)]
        return b.op(op_type, *(operands[::-1] if first else operands))  # type: ignore[no-any-return]

    return build


@pytest.mark.parametrize(
    ("build", "expected"),
    [
        (lambda b, x: b.cast(x, T.FLOAT), BYTE),
        (lambda b, x: b.cast(x, T.DOUBLE), BYTE),
        (lambda b, x: b.cast(x, T.FLOAT8E5M2), None),
        (lambda b, x: b.Neg(b.cast(x, T.FLOAT)), None),
        (lambda b, x: b.cast(b.cast(x, T.FLOAT), T.DOUBLE), None),
        (after("Add", 3.0), Steps(3, 258, 1.0)),
        (after("Add", 3.0, first=True), Steps(3, 258, 1.0)),
        (after("Sub", 3.0), Steps(-3, 252, 1.0)),
        (after("Sub", 3.0, first=True), None),
        (after("Add", 0.5), None),
        (after("Add", np.inf), None),
        (after("Add", np.nan), None),
        (after("Add", 1.0, 1.0, 1.0), None),
        (after("Mul", 0.25), Steps(0, 255, 0.25)),
        (after("Mul", 0.25, first=True), Steps(0, 255, 0.25)),
        (after("Mul", 8.0), Steps(0, 255, 8.0)),
        (after("Mul", 3.0), None),
        (after("Mul", -2.0), None),
        (after("Mul", 0.0), None),
        (after("Mul", 2.0**-126), Steps(0, 255, 2.0**-126)),
        (after("Mul", 2.0**-127), None),
        (after("Mul", 2.0**120), Steps(0, 255, 2.0**120)),
        (after("Mul", 2.0**121), None),
        (after("Add", 2.0**24 - 255), Steps(2**24 - 255, 2**24, 1.0)),
        (after("Add", 2.0**24 - 254), None),
        (after("Sub", 2.0**24), Steps(-(2**24), 255 - 2**24, 1.0)),
        (after("Div", 2.0), None),
    ],
)
def test_steps(build: Build, expected: Steps | None) -> None:
    assert steps_of(build) == expected


def test_what_is_no_integer_has_no_steps() -> None:
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), np.float64) is None
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), bool) is None
    assert steps_of(lambda b, x: b.cast(x, T.FLOAT), np.int32) is None  # of 31 digits
    assert steps_of(lambda b, x: b.cast(x, T.DOUBLE), np.int32) == Steps(-(2**31), 2**31 - 1, 1.0)
    assert steps_of(lambda b, x: x, np.float32) is None


def test_offsets() -> None:
    assert moved(Steps(-2, 3, 0.25), 0.75) == Steps(1, 6, 0.25)
    assert moved(Steps(-2, 3, 0.25), -0.75) == Steps(-5, 0, 0.25)
    assert moved(Steps(-2, 3, 0.25), 0.3) is None
    assert moved(Steps(0, 1, 2.0**-100), 3e38) == Steps(
        int(3e38 * 2.0**100), 1 + int(3e38 * 2.0**100), 2.0**-100
    )
    assert moved(Steps(0, 1, 2.0**-1000), 1e300) is None
