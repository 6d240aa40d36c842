"""The orders of blocks that DepthToSpace and SpaceToDepth have, and orders close to them."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest
from rewriting import Rewrite
from symbolic import free

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.raising.engine import Rewriter
from hlo2onnx.raising.rules.shapes.depth_to_space import TO_LAST, DepthToSpaceOperator

Dims = tuple[int, ...]

DEEP, WIDE = (2, 45, 4, 6), (2, 5, 12, 18)
DEEP_LAST, WIDE_LAST = (2, 4, 6, 45), (2, 12, 18, 5)
SECOND: dict[str, tuple[Dims, Dims, Dims, Dims, str]] = {
    "DCR": (DEEP, (2, 3, 3, 5, 4, 6), (0, 3, 4, 1, 5, 2), WIDE, "DepthToSpace"),
    "CRD": (DEEP, (2, 5, 3, 3, 4, 6), (0, 1, 4, 2, 5, 3), WIDE, "DepthToSpace"),
    "to depth": (WIDE, (2, 5, 4, 3, 6, 3), (0, 3, 5, 1, 2, 4), DEEP, "SpaceToDepth"),
}
LAST: dict[str, tuple[Dims, Dims, Dims, Dims, str]] = {
    "DCR": (DEEP_LAST, (2, 4, 6, 3, 3, 5), (0, 1, 3, 2, 4, 5), WIDE_LAST, "DepthToSpace"),
    "CRD": (DEEP_LAST, (2, 4, 6, 5, 3, 3), (0, 1, 4, 2, 5, 3), WIDE_LAST, "DepthToSpace"),
    "to depth": (WIDE_LAST, (2, 4, 3, 6, 3, 5), (0, 1, 3, 2, 4, 5), DEEP_LAST, "SpaceToDepth"),
}
TO_THE_END: dict[str, tuple[Dims, Dims, Dims, Dims, str]] = {
    "DCR": (DEEP, (2, 3, 3, 5, 4, 6), (0, 4, 1, 5, 2, 3), WIDE_LAST, "DepthToSpace"),
    "CRD": (DEEP, (2, 5, 3, 3, 4, 6), (0, 4, 2, 5, 3, 1), WIDE_LAST, "DepthToSpace"),
    "to depth": (WIDE, (2, 5, 4, 3, 6, 3), (0, 2, 4, 3, 5, 1), DEEP_LAST, "SpaceToDepth"),
}


def numbers(shape: Dims) -> np.ndarray:
    return np.arange(np.prod(shape), dtype=np.float32).reshape(shape)


def put_together(b: GraphBuilder, x: oir.Value, view: Dims, perm: Dims, dims: Dims) -> oir.Value:
    return b.reshape(b.Transpose(b.reshape(x, view), perm=perm), dims)


def of(shape: Dims, *move: Dims, before: Dims | None = None, op_type: str = "Transpose") -> Rewrite:
    """The rule on what is put together so; of a tensor that was transposed before."""
    view, perm, dims = move

    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        if before is not None:
            x = b.Transpose(x, perm=before) if op_type == "Transpose" else b.op(op_type, x)
        return put_together(b, x, view, perm, dims)

    if before is not None and op_type == "Transpose":
        shape = tuple(shape[before.index(axis)] for axis in range(4))
    return Rewrite(build, {"x": numbers(shape)}, DepthToSpaceOperator())


@pytest.mark.parametrize("name", SECOND)
def test_channels_second(name: str) -> None:
    *shapes, op_type = SECOND[name]
    of(*shapes).gives(op_type)  # type: ignore[arg-type]


@pytest.mark.parametrize("name", TO_THE_END)
def test_channels_move_to_the_end(name: str) -> None:
    *shapes, op_type = TO_THE_END[name]
    of(*shapes).gives(op_type, "Transpose")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LAST)
def test_channels_last(name: str) -> None:
    *shapes, op_type = LAST[name]
    of(*shapes, before=TO_LAST).gives(op_type, "Transpose")  # type: ignore[arg-type]


@pytest.mark.parametrize("name", LAST)
@pytest.mark.parametrize(
    ("before", "op_type"), [(None, ""), (TO_LAST, "Neg"), ((0, 3, 2, 1), "Transpose")]
)
def test_channels_that_were_not_brought_to_the_end(
    name: str, before: Dims | None, op_type: str
) -> None:
    *shapes, _ = LAST[name]
    of(*shapes, before=before, op_type=op_type).nothing()  # type: ignore[arg-type]


NEAR_MISSES: dict[str, tuple[Dims, Dims, Dims, Dims]] = {
    "blocks of one": ((2, 5, 4, 6), (2, 1, 1, 5, 4, 6), (0, 3, 4, 1, 5, 2), (2, 5, 4, 6)),
    "more rows": ((2, 30, 4, 6), (2, 3, 2, 5, 4, 6), (0, 3, 4, 1, 5, 2), (2, 5, 12, 12)),
    "more columns": ((2, 5, 12, 12), (2, 5, 4, 3, 6, 2), (0, 3, 5, 1, 2, 4), (2, 30, 4, 6)),
    "another operand": ((2, 9, 20, 6), (2, 3, 3, 5, 4, 6), (0, 3, 4, 1, 5, 2), WIDE),
    "another result": (DEEP, (2, 3, 3, 5, 4, 6), (0, 3, 4, 1, 5, 2), (10, 1, 12, 18)),
    "fewer axes": ((2, 45, 24), (2, 3, 3, 5, 4, 6), (0, 3, 4, 1, 5, 2), WIDE),
    "a result of channels second": (DEEP, (2, 3, 3, 5, 4, 6), (0, 4, 1, 5, 2, 3), WIDE),
    "another order": (DEEP, (2, 3, 3, 5, 4, 6), (0, 3, 4, 2, 5, 1), WIDE),
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_other_blocks(name: str) -> None:
    of(*NEAR_MISSES[name]).nothing()


def test_one_reshape_and_other_makers() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> list[oir.Value]:
        view, perm = (2, 3, 3, 5, 4, 6), (0, 3, 4, 1, 5, 2)
        return [
            b.Neg(b.reshape(x, view)),
            b.reshape(b.Transpose(b.Neg(b.reshape(x, view)), perm=perm), WIDE),
            b.reshape(b.Neg(b.reshape(x, view)), DEEP),
        ]

    Rewrite(build, {"x": numbers(DEEP)}, DepthToSpaceOperator()).nothing()


def test_blocks_of_a_free_size_stay() -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        view = free(b, b.reshape(x, (2, 3, 3, 5, 4, 6)), 2, "s", "s", 5, 4, 6)
        parts = b.op("Reshape", view, b.i64([2, 3, 3, 5, 4, 6]), types=[(x.dtype, view.shape)])
        return b.reshape(b.Transpose(parts, perm=(0, 3, 4, 1, 5, 2)), WIDE)

    Rewrite(build, {"x": numbers(DEEP)}, DepthToSpaceOperator()).nothing()


@pytest.mark.parametrize("name", SECOND)
def test_what_the_target_is_asked_for(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    *shapes, op_type = SECOND[name]
    asked = []
    monkeypatch.setattr(Rewriter, "supports", lambda _, key, dtype: asked.append(key))
    of(*shapes).nothing()  # type: ignore[arg-type]
    assert set(asked) == {"DepthToSpace[CRD]" if name == "CRD" else op_type}
