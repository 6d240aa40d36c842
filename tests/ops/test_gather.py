"""gather over its dimension numbers, and what each shape of it becomes."""

from __future__ import annotations

import numpy as np
import pytest
from against_xla import against_xla
from gather_case import Case
from hypothesis import given, settings
from hypothesis import strategies as st
from rule_names import RULE_NAMES
from window_layouts import WindowLayout, window_layouts

from hlo2onnx import TranslationError, translate
from hlo2onnx.frontend.mlir.types import numpy_type

ROWS = Case((7, 3), (5, 1), (5, 3), (1, 3), (0,), 1, offset=(1,), collapsed=(0,))
COLUMNS = Case((3, 7), (5, 1), (3, 5), (3, 1), (1,), 1, offset=(0,), collapsed=(1,))
SCALAR = Case((7, 3), (1,), (3,), (1, 3), (0,), 0, offset=(0,), collapsed=(0,))
IMPLICIT = Case((7, 3), (2, 5), (2, 5, 3), (1, 3), (0,), 2, offset=(2,), collapsed=(0,))
KEPT = Case((7, 3), (5, 1), (5, 1, 3), (1, 3), (0,), 1, offset=(1, 2))
PAIRS = Case((4, 5, 3), (6, 2), (6, 3), (1, 1, 3), (0, 1), 1, offset=(1,), collapsed=(0, 1))
SWAPPED = Case((4, 5, 3), (6, 2), (6, 3), (1, 1, 3), (1, 0), 1, offset=(1,), collapsed=(0, 1))
PIXELS = Case((3, 4, 5), (6, 2), (3, 6), (3, 1, 1), (1, 2), 1, offset=(0,), collapsed=(1, 2))
APART = Case((4, 3, 5), (6, 2), (6, 3), (1, 3, 1), (0, 2), 1, offset=(1,), collapsed=(0, 2))
ALONG = Case((4, 5), (4, 2, 1), (4, 2), (1, 1), (1,), 2, collapsed=(1,), batching=((0, 0),))
ALONG_FIRST = Case(
    (5, 2, 4), (4, 3, 2), (4, 3, 2), (1, 1, 1), (0,), 3, collapsed=(0,), batching=((1, 2), (2, 0))
)
BATCHED_ROWS = Case(
    (4, 5, 3), (4, 2, 1), (4, 2, 3), (1, 1, 3), (1,), 2, (2,), (1,), batching=((0, 0),)
)
FRAMES = Case((9, 2), (4, 1), (4, 3, 2), (3, 2), (0,), 1, offset=(1, 2))
PATCHES = Case((6, 7, 2), (4, 2), (4, 3, 2, 2), (3, 2, 2), (0, 1), 1, offset=(1, 2, 3))
INNER_PATCHES = Case((2, 6, 7), (4, 2), (4, 2, 3, 2), (2, 3, 2), (1, 2), 1, offset=(1, 2, 3))
BATCHED_WINDOW = Case((4, 9), (4, 1), (4, 3), (1, 3), (1,), 1, offset=(1,), batching=((0, 0),))
WINDOW = Case((6, 7), (2,), (3, 2), (3, 2), (0, 1), 0, offset=(0, 1))
CORNER = Case((4, 5), (3, 1), (3, 2), (1, 2), (0,), 1, offset=(1,), collapsed=(0,))
WHOLE = Case((4, 5), (3, 1), (3, 4, 5), (4, 5), (1,), 1, offset=(1, 2))

CASES = {
    "rows": ROWS,
    "columns": COLUMNS,
    "scalar": SCALAR,
    "implicit index vector": IMPLICIT,
    "kept axis": KEPT,
    "pairs": PAIRS,
    "swapped pairs": SWAPPED,
    "pixels": PIXELS,
    "axes apart": APART,
    "along": ALONG,
    "along the first": ALONG_FIRST,
    "batched rows": BATCHED_ROWS,
    "frames": FRAMES,
    "patches": PATCHES,
    "inner patches": INNER_PATCHES,
    "batched window": BATCHED_WINDOW,
    "window": WINDOW,
    "corner": CORNER,
    "whole": WHOLE,
    "index vector first": Case((4, 5), (2, 3), (3,), (1, 1), (0, 1), 0, collapsed=(0, 1)),
    "index vector between": Case(
        (4, 5, 2), (3, 2, 4), (3, 2, 4), (1, 1, 2), (1, 0), 1, offset=(1,), collapsed=(0, 1)
    ),
    "no index": Case((2,), (3, 0), (3, 2), (2,), (), 1, offset=(1,)),
    "no starts": Case((7, 3), (0, 1), (0, 3), (1, 3), (0,), 1, offset=(1,), collapsed=(0,)),
    "empty slices": Case((7, 3), (5, 1), (5, 0), (1, 0), (0,), 1, offset=(1,), collapsed=(0,)),
    "empty operand": Case((0, 3), (5, 1), (5, 0, 3), (0, 3), (0,), 1, offset=(1, 2)),
    "one start still": Case((1, 4), (3, 2), (3, 2), (1, 2), (0, 1), 1, (1,), (0,)),
    "batch of one": Case(
        (1, 5, 3), (1, 2, 1), (1, 2, 3), (1, 1, 3), (1,), 2, (2,), (1,), batching=((0, 0),)
    ),
    "window in one row": Case((7, 9), (2,), (4,), (1, 4), (0, 1), 0, (0,), (0,)),
    "one row, batch behind": Case((7, 3), (1, 1), (3, 1), (1, 3), (0,), 1, (0,), (0,)),
    "two rows, batch behind": Case((7, 3), (2, 1), (3, 2), (1, 3), (0,), 1, (0,), (0,)),
    "one leading pair": Case((4, 5, 3), (2,), (3,), (1, 1, 3), (0, 1), 0, (0,), (0, 1)),
    "one inner pair": Case((3, 4, 5), (2,), (3,), (3, 1, 1), (1, 2), 0, (0,), (1, 2)),
    "whole rows of a batch": Case(
        (4, 5), (4, 2, 1), (4, 2, 5), (1, 5), (1,), 2, (2,), batching=((0, 0),)
    ),
    "batched pairs": Case(
        (4, 5, 6), (4, 2, 2), (4, 2), (1, 1, 1), (1, 2), 2, (), (1, 2), ((0, 0),)
    ),
    "batched window among units": Case(
        (4, 5, 1), (4, 2, 1), (4, 2, 2, 1), (1, 2, 1), (1,), 2, (2, 3), batching=((0, 0),)
    ),
    "along, beside a unit": Case(
        (4, 5, 1), (4, 2, 1), (4, 2, 1), (1, 1, 1), (1,), 2, (2,), (1,), ((0, 0),)
    ),
    "along, grid": Case((4, 5), (2, 4, 3, 1), (2, 4, 3), (1, 1), (1,), 3, (), (1,), ((0, 1),)),
    "second column": Case((1, 5), (3, 2), (3,), (1, 1), (0, 1), 1, (), (0, 1)),
    "columns of three": Case((4, 1, 5), (6, 3), (6,), (1, 1, 1), (0, 1, 2), 1, (), (0, 1, 2)),
    "implicit batched rows": Case(
        (4, 5, 3), (4, 2), (4, 2, 3), (1, 1, 3), (1,), 2, (2,), (1,), ((0, 0),)
    ),
    "batched rows, vector first": Case(
        (4, 5, 3), (1, 4, 2), (4, 2, 3), (1, 1, 3), (1,), 0, (2,), (1,), ((0, 1),)
    ),
}


@pytest.mark.costly
@pytest.mark.parametrize("name", CASES)
def test_case(name: str) -> None:
    CASES[name].run()


EMITTED = {
    "rows": ("Reshape Clip Gather", "Gather"),
    "scalar": ("Reshape Clip Gather", "Slice Reshape"),
    "implicit index vector": ("Clip Gather", "Gather"),
    "kept axis": ("Reshape Clip Gather Reshape", "Gather Reshape"),
    "pairs": ("Max Min Cast GatherND", "GatherND"),
    "swapped pairs": ("Gather Max Min Cast GatherND", "GatherND"),
    "pixels": ("Reshape Max Min Cast Mul ReduceSum Gather", "Reshape Mul ReduceSum Gather"),
    "axes apart": ("Transpose Max Min Cast GatherND", "Transpose GatherND"),
    "along": ("Reshape Clip GatherElements", "GatherElements"),
    "along the first": (
        "Clip Transpose GatherElements Transpose",
        "Transpose GatherElements Transpose",
    ),
    "batched rows": ("Clip Cast GatherND", "GatherND"),
    "frames": ("Reshape Clip Unsqueeze Add Gather", "Unsqueeze Add Gather"),
    "patches": ("Max Min Cast Unsqueeze Add GatherND", "Unsqueeze Add GatherND"),
    "inner patches": (
        "Reshape Max Min Cast Mul ReduceSum Unsqueeze Add Gather Transpose",
        "Reshape Mul ReduceSum Unsqueeze Add Gather Transpose",
    ),
    "batched window": ("Clip Cast Unsqueeze Add GatherND", "Unsqueeze Add GatherND"),
    "window": ("Max Min Add Slice", "Slice"),
    "corner": ("Slice Reshape Clip Gather", "Slice Gather"),
    "whole": ("Reshape Expand", "Reshape Expand"),
    "index vector first": ("Transpose Max Min Cast GatherND", "GatherND"),
    "index vector between": (
        "Gather Transpose Max Min Cast GatherND Transpose",
        "GatherND Transpose",
    ),
    "no index": ("Reshape Expand", None),
    "no starts": ("Identity", None),
    "empty slices": ("Identity", "Identity"),
    "one start still": ("Gather Clip Unsqueeze Add Gather Reshape", "Unsqueeze Add Gather Reshape"),
    "batch of one": ("Reshape Clip Gather Reshape", "Gather Reshape"),
    "window in one row": ("Max Min Add Slice Reshape", "Slice Reshape"),
    "one row, batch behind": ("Reshape Clip Gather Reshape", "Slice Reshape"),
    "one leading pair": ("Max Min Cast GatherND", "Slice Reshape"),
    "along, beside a unit": (
        "Reshape Clip Reshape GatherElements Reshape Reshape",
        "Reshape GatherElements Reshape Reshape",
    ),
    "along, grid": (
        "Reshape Clip Transpose Reshape GatherElements Reshape Transpose",
        "Transpose Reshape GatherElements Reshape Transpose",
    ),
    "second column": ("Gather Clip Gather Reshape", "Gather Reshape"),
    "columns of three": (
        "Transpose Gather Max Min Cast GatherND Reshape",
        "Transpose GatherND Reshape",
    ),
    "batched rows, vector first": ("Reshape Clip Cast GatherND", "GatherND"),
}
"""What a handler makes of each case with computed and with known starts, before any rule."""


@pytest.mark.costly
@pytest.mark.parametrize("name", EMITTED)
def test_nodes_without_rules(name: str) -> None:
    """No node is there for a rule to remove."""
    for known, expected in enumerate(EMITTED[name]):
        if expected is not None:
            run = CASES[name].run(known=bool(known), without=RULE_NAMES)
            assert " ".join(node.op_type for node in run.program.model.graph) == expected


@pytest.mark.costly
@pytest.mark.parametrize("case", [ROWS, PAIRS, ALONG, PATCHES, WINDOW], ids=repr)
@pytest.mark.parametrize(
    "element",
    ["f16", "bf16", "f64", "i1", "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64",
     "f8E4M3FN", "f8E5M2", "complex<f32>", "complex<f64>"],
)  # fmt: skip
def test_element_types(case: Case, element: str) -> None:
    case.run(element=element)


@pytest.mark.parametrize("index", ["i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64"])
def test_extreme_starts_are_clamped(index: str) -> None:
    info = np.iinfo(numpy_type(index))
    edges = [info.min, info.max, info.max // 2 + 1, 6, 7]
    ROWS.run(np.array(edges, info.dtype)[:, None], index=index)
    edges = [0, info.max, info.max, 0, info.min, 3, info.max // 2 + 1, 5]
    PATCHES.run(np.array(edges, info.dtype).reshape(4, 2), index=index)


def test_starts_beyond_i32_are_clamped() -> None:
    ROWS.run(np.array([2**31 + 5, 2**32 - 1, -(2**31) - 5, 2**32, 3])[:, None], index="i64")


@pytest.mark.parametrize("index", ["i8", "ui8"])
def test_narrow_starts_reach_into_long_axes(index: str) -> None:
    case = Case((300,), (4, 1), (4,), (1,), (0,), 1, collapsed=(0,))
    case.run(np.array([[127], [0], [100], [np.iinfo(numpy_type(index)).max]]), index=index)


def test_proven_starts_are_not_clamped() -> None:
    """u8 starts cannot leave an axis of 256 elements."""
    case = Case((256,), (4,), (4,), (1,), (0,), 1, collapsed=(0,))
    case.run(np.array([0, 255, 7, 128]), index="ui8").graph_is("Cast", "Gather")


COLUMNS_OF_IOTA = """
module {{ func.func public @main(%arg0: tensor<70000x3xf32>) -> tensor<{count}xf32> {{
  %row = stablehlo.iota dim = 0 : tensor<{count}x1x{index}>
  %zero = stablehlo.constant dense<0> : tensor<{index}>
  %column = stablehlo.broadcast_in_dim %zero, dims = [] : (tensor<{index}>) ->
    tensor<{count}x1x{index}>
  %starts = stablehlo.concatenate %row, %column, dim = 1 :
    (tensor<{count}x1x{index}>, tensor<{count}x1x{index}>) -> tensor<{count}x2x{index}>
  %0 = "stablehlo.gather"(%arg0, %starts) <{{
    dimension_numbers = #stablehlo.gather<collapsed_slice_dims = [0, 1],
      start_index_map = [0, 1], index_vector_dim = 1>, slice_sizes = array<i64: 1, 1>}}> :
    (tensor<70000x3xf32>, tensor<{count}x2x{index}>) -> tensor<{count}xf32>
  return %0 : tensor<{count}xf32>
}} }}
"""


@pytest.mark.parametrize("count", [5, 70_000])
def test_joined_columns_are_proven_one_by_one(count: int) -> None:
    """The row goes beyond the columns' limit, but is within its own, stored or counted."""
    text = COLUMNS_OF_IOTA.format(count=count, index="i64")
    against_xla(text).bit_exact().has_no("Min", "Max", "Clip")


@pytest.mark.parametrize("dims", [(300, 301), (2, 300, 301)])
def test_large_windows_are_counted_by_axis(dims: tuple[int, ...]) -> None:
    """No constant as large as the window is stored."""
    *outer, rows, columns = dims
    axes = (len(outer), len(outer) + 1)
    sizes = (*outer, rows - 3, columns - 2)
    offset = tuple(range(1, 1 + len(dims)))
    run = Case(dims, (2, 2), (2, *sizes), sizes, axes, 1, offset=offset).run()
    stored = run.program.model.graph.initializers.values()
    assert max(value.const_value.size for value in stored if value.const_value) <= 2 * columns


def test_collapsed_empty_slice_is_refused() -> None:
    for count in (1, 2):
        case = Case((0,), (count, 1), (count,), (0,), (0,), 1, collapsed=(0,))
        with pytest.raises(TranslationError, match="slice size 0"):
            translate(case.text())
    Case((0,), (0, 1), (0,), (0,), (0,), 1, collapsed=(0,)).run()


@pytest.mark.wide
@settings(max_examples=15, deadline=None, derandomize=True)
@given(window_layouts(), st.sampled_from(["i32", "i64", "ui8", "i16"]))
def test_any_dimension_numbers(drawn: WindowLayout, index: str) -> None:
    case = Case(
        drawn.operand, drawn.indices, drawn.windows, drawn.sizes, drawn.indexed, drawn.vector,
        drawn.kept, drawn.dropped, drawn.batching,
    )  # fmt: skip
    case.run(index=index)
