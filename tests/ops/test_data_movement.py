"""Ops that move data: reshape, transpose, broadcast_in_dim, slice, concatenate, reverse."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from against_xla import Run, against_xla
from gather_case import filled
from mlir_text import tensor

ELEMENTS = [
    "i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "f16", "bf16", "f32", "f64",
    "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "complex<f32>", "complex<f64>",
]  # fmt: skip

MODULE = """
module {{ func.func public @main({arguments}) -> {result} {{
  %0 = {body} : {type}
  return %0 : {result}
}} }}
"""


def moved(
    body: str, operands: Sequence[Sequence[int]], result: Sequence[int], element: str = "f32"
) -> Run:
    """Runs one op, `body`, on operands of these shapes."""
    types = [tensor(dims, element) for dims in operands]
    text = MODULE.format(
        arguments=", ".join(f"%arg{index}: {item}" for index, item in enumerate(types)),
        result=tensor(result, element),
        body=body,
        type=f"({', '.join(types)}) -> {tensor(result, element)}",
    )
    return against_xla(text, *(filled(dims, element) for dims in operands)).bit_exact()


RESHAPES = [
    ((2, 3), (3, 2)),
    ((2, 3), (6,)),
    ((6,), (1, 2, 1, 3)),
    ((), (1, 1)),
    ((1, 1), ()),
    ((0, 3), (3, 0, 2)),
    ((0,), (0, 5)),
    ((2, 3), (2, 3)),
]


@pytest.mark.parametrize(("operand", "result"), RESHAPES)
def test_reshape(operand: tuple[int, ...], result: tuple[int, ...]) -> None:
    run = moved("stablehlo.reshape %arg0", [operand], result)
    run.graph_is("Identity" if operand == result else "Reshape")


@pytest.mark.parametrize(
    ("operand", "permutation"),
    [
        ((2, 3), (1, 0)),
        ((2, 3, 4), (2, 0, 1)),
        ((2, 3, 4), (0, 1, 2)),
        ((), ()),
        ((0, 3), (1, 0)),
        ((1, 4, 1, 2), (3, 0, 2, 1)),
    ],
)
def test_transpose(operand: tuple[int, ...], permutation: tuple[int, ...]) -> None:
    result = [operand[axis] for axis in permutation]
    moved(f"stablehlo.transpose %arg0, dims = {list(permutation)}", [operand], result)


BROADCASTS = [
    ((), (), (2, 3), ["Expand"]),
    ((3,), (1,), (2, 3), ["Expand"]),
    ((2,), (0,), (2, 3), ["Reshape", "Expand"]),
    ((2, 1), (0, 1), (2, 3), ["Expand"]),
    ((2, 3), (1, 0), (3, 2), ["Transpose"]),
    ((2, 3), (2, 0), (3, 4, 2), ["Transpose", "Reshape", "Expand"]),
    ((2, 3), (0, 2), (2, 1, 3), ["Reshape"]),
    ((3,), (1,), (1, 3), ["Reshape"]),
    ((2, 3), (0, 1), (2, 3), ["Identity"]),
    ((1, 1), (0, 1), (0, 3), ["Identity"]),
    ((0, 1), (0, 2), (0, 4, 5), ["Identity"]),
    ((1,), (0,), (1,), ["Identity"]),
    ((), (), (), ["Identity"]),
]


@pytest.mark.parametrize(("operand", "dims", "result", "nodes"), BROADCASTS)
def test_broadcast_in_dim(
    operand: tuple[int, ...], dims: tuple[int, ...], result: tuple[int, ...], nodes: list[str]
) -> None:
    body = f"stablehlo.broadcast_in_dim %arg0, dims = {list(dims)}"
    moved(body, [operand], result).graph_is(*nodes)


def test_broadcast_to_nothing() -> None:
    """ONNX Runtime drops an Expand from 1 to 0 between two other nodes."""
    against_xla(
        """
func.func public @main(%arg0: tensor<2x2xf32>) -> tensor<2x0x2xf32> {
  %0 = stablehlo.broadcast_in_dim %arg0, dims = [0, 2] : (tensor<2x2xf32>) -> tensor<2x0x2xf32>
  %1 = stablehlo.negate %0 : tensor<2x0x2xf32>
  return %1 : tensor<2x0x2xf32>
}
"""
    ).bit_exact()


SLICES = [
    ((5,), [(1, 4, 1)]),
    ((9,), [(0, 9, 2)]),
    ((9,), [(1, 8, 3)]),
    ((9,), [(8, 9, 100)]),
    ((4, 5), [(0, 4, 1), (2, 4, 1)]),
    ((4, 5), [(3, 4, 1), (0, 5, 4)]),
    ((4, 5), [(2, 2, 1), (0, 5, 1)]),
    ((4, 5), [(4, 4, 1), (5, 5, 7)]),
    ((0, 5), [(0, 0, 1), (1, 3, 1)]),
    ((4, 5), [(0, 4, 1), (0, 5, 1)]),
    ((), []),
]


@pytest.mark.parametrize(("operand", "bounds"), SLICES)
def test_slice(operand: tuple[int, ...], bounds: list[tuple[int, int, int]]) -> None:
    result = [len(range(*bound)) for bound in bounds]
    shown = ", ".join(f"{start}:{limit}:{step}" for start, limit, step in bounds)
    run = moved(f"stablehlo.slice %arg0 [{shown}]", [operand], result)
    whole = all(bound == (0, n, 1) for bound, n in zip(bounds, operand, strict=True))
    run.graph_is("Identity" if whole else "Slice")


CONCATENATIONS = [
    ([(2, 3), (4, 3)], 0, ["Concat"]),
    ([(2, 3), (2, 1), (2, 2)], 1, ["Concat"]),
    ([(2, 3)], 0, ["Identity"]),
    ([(0, 3), (2, 3), (0, 3)], 0, ["Identity"]),
    ([(0, 3), (2, 3), (1, 3)], 0, ["Concat"]),
    ([(0, 3), (0, 3)], 0, ["Identity"]),
    ([(2, 0), (3, 0)], 0, ["Concat"]),
]


@pytest.mark.parametrize(("operands", "axis", "nodes"), CONCATENATIONS)
def test_concatenate(operands: list[tuple[int, ...]], axis: int, nodes: list[str]) -> None:
    result = list(operands[0])
    result[axis] = sum(dims[axis] for dims in operands)
    names = ", ".join(f"%arg{index}" for index in range(len(operands)))
    run = moved(
        f'"stablehlo.concatenate"({names}) <{{dimension = {axis} : i64}}>', operands, result
    )
    run.graph_is(*nodes)


@pytest.mark.parametrize(
    ("operand", "dims", "nodes"),
    [
        ((5,), (0,), ["Slice"]),
        ((4, 5), (0, 1), ["Slice"]),
        ((4, 5, 2), (2, 0), ["Slice"]),
        ((4, 5), (), ["Identity"]),
        ((1, 5), (0,), ["Identity"]),
        ((0, 5), (0, 1), ["Slice"]),
        ((0, 5), (0,), ["Identity"]),
    ],
)
def test_reverse(operand: tuple[int, ...], dims: tuple[int, ...], nodes: list[str]) -> None:
    body = f"stablehlo.reverse %arg0, dims = {list(dims)}"
    text = MODULE.format(
        arguments=f"%arg0: {tensor(operand, 'f32')}",
        result=tensor(operand, "f32"),
        body=body,
        type=tensor(operand, "f32"),
    )
    against_xla(text, filled(operand, "f32")).bit_exact().graph_is(*nodes)


@pytest.mark.costly
@pytest.mark.parametrize("element", ELEMENTS)
def test_element_types(element: str) -> None:
    """Every op in one program, so that each element type costs one compilation."""
    small, big, wide = (tensor(dims, element) for dims in ((3, 7), (2, 7, 3), (2, 7, 9)))
    text = f"""
    module {{ func.func public @main(%arg0: {small}, %arg1: {big}) -> {tensor((5, 9), element)} {{
      %0 = stablehlo.broadcast_in_dim %arg0, dims = [2, 1] : ({small}) -> {big}
      %1 = stablehlo.reverse %arg1, dims = [0, 2] : {big}
      %2 = stablehlo.concatenate %0, %1, %0, dim = 2 : ({big}, {big}, {big}) -> {wide}
      %3 = stablehlo.transpose %2, dims = [1, 0, 2] : ({wide}) -> {tensor((7, 2, 9), element)}
      %4 = stablehlo.reshape %3 : ({tensor((7, 2, 9), element)}) -> {tensor((14, 9), element)}
      %5 = stablehlo.slice %4 [1:14:3, 0:9] : ({tensor((14, 9), element)})
        -> {tensor((5, 9), element)}
      return %5 : {tensor((5, 9), element)}
    }} }}
    """
    against_xla(text, filled((3, 7), element), filled((2, 7, 3), element)).bit_exact()
