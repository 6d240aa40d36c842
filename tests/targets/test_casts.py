"""Which types hold which, which Casts cancel, and in which types operators may run instead."""

from __future__ import annotations

from collections import Counter

import ml_dtypes
import numpy as np
import onnx_ir as oir
import pytest
from rewriting import model_of

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.replace import remove_unused
from hlo2onnx.targets.legalize.carriers import (
    apart_from_outputs,
    carried,
    carriers_of,
    collapse_casts,
    holds,
)
from hlo2onnx.targets.workarounds.graph_fusions import widen_before_transposing

T = oir.DataType
NARROW = [
    T.FLOAT16, T.BFLOAT16, T.FLOAT8E4M3FN, T.FLOAT8E4M3FNUZ, T.FLOAT8E5M2, T.FLOAT8E5M2FNUZ,
    T.FLOAT8E8M0, T.FLOAT4E2M1, T.INT4, T.UINT4, T.INT8, T.UINT8, T.INT16, T.UINT16,
]  # fmt: skip
FLOATS = [*NARROW[:8], T.FLOAT, T.DOUBLE]
INTEGERS = [*NARROW[8:], T.INT32, T.UINT32, T.INT64, T.UINT64]


def every(dtype: oir.DataType) -> np.ndarray:
    """All values of a type of up to 16 bits."""
    kind = dtype.numpy()
    if kind in (np.dtype(ml_dtypes.int4), np.dtype(ml_dtypes.uint4)):
        return np.arange(-8 if dtype == T.INT4 else 0, 8 if dtype == T.INT4 else 16).astype(kind)
    bits = np.arange(1 << dtype.bitwidth)
    return bits.astype(np.uint16 if dtype.bitwidth == 16 else np.uint8).view(kind)


@pytest.mark.parametrize("narrow", NARROW)
def test_a_type_holds_another_where_every_value_comes_back(narrow: oir.DataType) -> None:
    """Two floats as wide as each other never do, whatever their values are."""
    with np.errstate(all="ignore"):
        found, wanted = both_answers(narrow)
    assert found == wanted


Answers = dict[oir.DataType, bool]


def both_answers(narrow: oir.DataType) -> tuple[Answers, Answers]:
    """What `holds` says of each type, and what conversions there and back say."""
    numbers = every(narrow).astype(np.float64)
    found: Answers = {}
    wanted: Answers = {}
    for wide in (INTEGERS if narrow in INTEGERS else []) + FLOATS:
        if wide in FLOATS and narrow in FLOATS and wide.bitwidth <= narrow.bitwidth:
            wanted[wide] = wide == narrow
        elif wide in INTEGERS:
            info = ml_dtypes.iinfo(wide.numpy())
            wanted[wide] = info.min <= numbers.min() and numbers.max() <= info.max
        else:
            kept = numbers.astype(wide.numpy()).astype(np.float64)
            wanted[wide] = bool(np.array_equal(kept, numbers, equal_nan=True))
        found[wide] = holds(wide, narrow)
    return found, wanted


@pytest.mark.parametrize("wide", [*FLOATS, *INTEGERS])
def test_which_types_hold_truths_and_wide_numbers(wide: oir.DataType) -> None:
    assert holds(wide, T.BOOL) == (wide in INTEGERS or wide in (T.FLOAT, T.DOUBLE))
    assert not holds(T.BOOL, wide)
    assert holds(wide, T.INT32) == (wide in (T.INT32, T.INT64, T.DOUBLE))
    assert holds(wide, T.UINT32) == (wide in (T.UINT32, T.INT64, T.UINT64, T.DOUBLE))
    assert holds(wide, T.UINT64) == (wide == T.UINT64)
    assert holds(wide, T.INT64) == (wide == T.INT64)
    assert holds(wide, T.FLOAT) == (wide in (T.FLOAT, T.DOUBLE))
    assert holds(wide, T.DOUBLE) == (wide == T.DOUBLE)


@pytest.mark.parametrize(
    ("dtype", "same_bits", "same_values"),
    [
        (T.BOOL, "u8 i8 i32 i64", "u8 i32 i64"),
        (T.INT2, "i8 i32 i64", "i8 i32 i64"),
        (T.UINT2, "u8 i32 i64", "u8 i32 i64"),
        (T.INT4, "i8 i32 i64", "i8 i32 i64"),
        (T.UINT4, "u8 i32 i64", "u8 i32 i64"),
        (T.INT8, "u8 i32 i64", "i32 i64"),
        (T.UINT8, "i8 i32 i64", "i32 i64 u32"),
        (T.INT16, "u16 i32 i64", "i32 i64"),
        (T.UINT16, "i16 i32 i64", "i32 i64 u32"),
        (T.INT32, "u32 i64", "i64"),
        (T.UINT32, "i32 u64 i64", "i64 u64"),
        (T.INT64, "u64", ""),
        (T.UINT64, "i64", ""),
        (T.FLOAT16, "f32", "f32"),
        (T.FLOAT8E5M2, "f32", "f32"),
        (T.FLOAT, "", ""),
        (T.DOUBLE, "", ""),
        (T.STRING, "", ""),
    ],
)
def test_carriers(dtype: oir.DataType, same_bits: str, same_values: str) -> None:
    """Moves keep bits, sums wrap, and what compares needs the values."""
    for key, wanted in (
        ("Gather", same_bits),
        ("ScatterND[add]", same_bits),
        ("Add", same_values if dtype == T.BOOL else same_bits),
        ("Less", same_values),
        ("ScatterND[max]", same_values),
        ("ScatterElements[min]", same_values),
    ):
        assert [carrier.short_name() for carrier in carriers_of(key, dtype)] == wanted.split()


def collapsed(build: object, **inputs: np.ndarray) -> tuple[int, Counter[str]]:
    model = model_of(build, inputs)  # type: ignore[arg-type]
    count = collapse_casts(model.graph)
    remove_unused(model.graph)
    return count, Counter(node.op_type for node in model.graph)


HALF, WIDE = np.ones(3, np.float16), np.ones(3, np.float32)


def test_casts_that_cancel() -> None:
    back_and_forth = lambda b, x: b.Neg(b.cast(b.cast(x, T.FLOAT), T.FLOAT16))  # noqa: E731
    assert collapsed(back_and_forth, x=HALF) == (1, Counter(Neg=1))
    whole = lambda b, x: b.cast(b.cast(x, T.UINT16), T.INT16)  # noqa: E731
    assert collapsed(lambda b, x: b.Neg(whole(b, x)), x=HALF.astype("i2")) == (1, Counter(Neg=1))


def test_roundings_stay() -> None:
    for source, first, second in (
        (WIDE, T.FLOAT16, T.FLOAT),
        (WIDE, T.INT32, T.FLOAT),
        (HALF, T.FLOAT, T.DOUBLE),
        (HALF.astype("i2"), T.INT8, T.INT16),
    ):
        build = lambda b, x, to=(first, second): b.cast(b.cast(x, to[0]), to[1])  # noqa: E731
        assert collapsed(build, x=source)[0] == 0
    assert collapsed(lambda b, x: b.cast(x, T.FLOAT), x=HALF)[0] == 0


@pytest.mark.parametrize(
    ("source", "wide", "reader", "moves"),
    [
        (np.float16, T.FLOAT, "MatMul", True),
        (ml_dtypes.bfloat16, T.FLOAT, "MatMul", True),
        (np.float16, T.FLOAT, "Add", False),
        (np.float16, T.DOUBLE, "MatMul", False),
        (ml_dtypes.float8_e5m2, T.FLOAT, "MatMul", False),
        (np.float64, T.FLOAT, "MatMul", False),
    ],
)
def test_widening_goes_before_transposing(
    source: type, wide: oir.DataType, reader: str, moves: bool
) -> None:
    def build(b: GraphBuilder, x: oir.Value) -> oir.Value:
        turned = b.cast(b.transpose(x, (1, 0)), wide)
        return b.op(reader, turned, turned)  # type: ignore[no-any-return]

    model = model_of(build, {"x": np.ones((3, 3)).astype(source)})
    builder = GraphBuilder(model.graph, 23)
    builder.adopt(model.graph)
    widen_before_transposing(model.graph, builder)
    remove_unused(model.graph)
    order = ["Cast", "Transpose"] if moves else ["Transpose", "Cast"]
    assert [node.op_type for node in model.graph] == [*order, reader]


# -- operands that share a type --------------------------------------------------------------------

F, H, N, B = (oir.val(name, dtype) for name, dtype in
              (("f", T.FLOAT), ("h", T.FLOAT16), ("n", T.INT64), ("b", T.BOOL)))  # fmt: skip
NORMALIZATION = oir.node("BatchNormalization", [H, H, H, F, F])


@pytest.mark.parametrize(
    ("node", "moved"),
    [
        (oir.node("Add", [H, H]), [0, 1]),
        (oir.node("Where", [B, H, H]), [1, 2]),
        (oir.node("Concat", [H, H, H], {"axis": 0}), [0, 1, 2]),
        (oir.node("Pow", [H, H]), [0, 1]),
        (oir.node("Pow", [H, F]), [0]),
        (oir.node("Pow", [N, N]), [0]),
        (oir.node("Gather", [H, N]), [0]),
        (oir.node("OneHot", [N, N, H]), [2]),
        (NORMALIZATION, [0, 1, 2]),
        (oir.node("Clip", [H, None, H]), [0, 1, 2]),
    ],
)
def test_operands_of_the_main_type(node: oir.Node, moved: list[int]) -> None:
    assert carried(node, 23)[0] == moved
    assert carried(node, 23)[1] == [0]


def test_results_of_other_types() -> None:
    assert carried(oir.node("Less", [H, H]), 23)[1] == []
    assert carried(oir.node("TopK", [H, N], num_outputs=2), 23)[1] == [0]
    assert carried(oir.node("Split", [H, N], num_outputs=3), 23)[1] == [0, 1, 2]


@pytest.mark.parametrize(
    ("node", "position", "expected"),
    [
        (oir.node("Pow", [F, N]), 1, [1]),
        (oir.node("Add", [F, F]), 1, []),
        (oir.node("Slice", [F, N, N, None, N]), 1, [1, 2, 4]),
        (NORMALIZATION, 1, [1, 2]),
        (NORMALIZATION, 3, []),
        (oir.node("CastLike", [F, H]), 1, []),
        (oir.node("Gather", [F, N]), 1, [1]),
    ],
)
def test_operands_apart_from_results(node: oir.Node, position: int, expected: list[int]) -> None:
    assert apart_from_outputs(node, position, 23) == expected
