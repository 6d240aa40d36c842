"""Scatters of one element or row for each batch of the operand, and along several axes."""

from __future__ import annotations

import numpy as np
import pytest
from rule_names import RULE_NAMES
from scatter_case import Case

from hlo2onnx.targets import load_target

MASKED = {
    "elements": Case((4, 7), (4, 1), (4,), (1,), 1, (), (1,), ((0, 0),)),
    "batches behind": Case((7, 4), (4, 1), (4,), (0,), 1, (), (0,), ((1, 0),)),
    "two batches": Case((3, 4, 7), (4, 3, 1), (4, 3), (2,), 2, (), (2,), ((0, 1), (1, 0))),
    "batches around": Case((3, 7, 4), (4, 3, 1), (4, 3), (1,), 2, (), (1,), ((0, 1), (2, 0))),
    "rows": Case((4, 7, 3), (4, 1), (4, 3), (1,), 1, (1,), (1,), ((0, 0),)),
    "rows first": Case((3, 4, 7), (4, 1), (3, 4), (2,), 1, (0,), (2,), ((1, 0),)),
    "rows with an axis of 1": Case((4, 7, 3), (4, 1), (4, 1, 3), (1,), 1, (1, 2), (), ((0, 0),)),
    "vector first": Case((4, 7), (1, 4), (4,), (1,), 0, (), (1,), ((0, 1),)),
    "no vector": Case((4, 7), (4,), (4,), (1,), 1, (), (1,), ((0, 0),)),
    "a free axis of 1": Case((4, 7), (4, 1, 1), (4, 1), (1,), 2, (), (1,), ((0, 0),)),
    "one batch": Case((1, 7), (1, 1), (1,), (1,), 1, (), (1,), ((0, 0),)),
}
PLACES = [0, 6, 7, -1, -(2**31), 2**31 - 1, -7, 3, 5, 1, 2, 4]


@pytest.mark.costly
@pytest.mark.parametrize("region", ["set", "add", "maximum", "doubling", "keep"])
@pytest.mark.parametrize("name", MASKED)
def test_one_place_in_each_batch(name: str, region: str) -> None:
    case = MASKED[name]
    run = case.run(np.resize(PLACES, case.indices), region)
    assert not run.nodes["ScatterND"] and not run.nodes["ScatterElements"]


@pytest.mark.costly
@pytest.mark.parametrize("element", ["i1", "i8", "ui32", "i64", "f16", "bf16", "f64"])
def test_element_types_of_one_place_in_each_batch(element: str) -> None:
    for shift in range(3):
        MASKED["elements"].run(PLACES[shift : shift + 4], element=element)
    MASKED["rows"].run(PLACES[:4], "and" if element == "i1" else "set", element)


@pytest.mark.parametrize("index", ["i8", "ui8", "ui32", "i64", "ui64"])
def test_index_types_of_one_place_in_each_batch(index: str) -> None:
    most = 2 ** (int(index.lstrip("ui")) - (index[0] == "i")) - 1
    MASKED["elements"].run([0, 6, 7, most], index=index)
    COLUMNS["elements"].run([0, 6, 7, 1, 4, most, 3, 2], index=index)


COLUMNS = {
    "elements": Case((4, 7, 5), (4, 2), (4,), (1, 2), 1, (), (1, 2), ((0, 0),)),
    "swapped": Case((4, 7, 5), (4, 2), (4,), (2, 1), 1, (), (1, 2), ((0, 0),)),
    "batches between": Case((7, 4, 5), (4, 2), (4,), (0, 2), 1, (), (0, 2), ((1, 0),)),
    "batches behind": Case((7, 5, 4), (4, 2), (4,), (1, 0), 1, (), (0, 1), ((2, 0),)),
    "two batches": Case((3, 4, 7, 5), (4, 3, 2), (4, 3), (2, 3), 2, (), (2, 3), ((0, 1), (1, 0))),
    "rows": Case((4, 7, 5, 3), (4, 2), (4, 3), (1, 2), 1, (1,), (1, 2), ((0, 0),)),
    "pairs": Case((7, 5, 3), (2, 2), (2, 3), (0, 1), 1, (1,), (0, 1)).with_unique(),
    "one of three": Case((7, 5, 6), (3,), (), (0, 1, 2), 0, (), (0, 1, 2)),
    "three backwards": Case((7, 5, 6), (3,), (1, 1, 1), (2, 0, 1), 0, (0, 1, 2)),
    "one row": Case((7, 5, 6, 3), (1, 3), (1, 3), (0, 1, 2), 1, (1,), (0, 1, 2)),
    "one batch": Case((1, 7, 5), (1, 2), (1,), (1, 2), 1, (), (1, 2), ((0, 0),)),
}
PAIRS = [0, 4, 6, 0, 7, 2, 3, 5, -1, 1, 2, -1, 3, 3, 1, 2, -(2**31), 1, 2, 2**31 - 1, 4, 4, 5, 0]


@pytest.mark.costly
@pytest.mark.parametrize("region", ["set", "add", "keep"])
@pytest.mark.parametrize("name", COLUMNS)
def test_an_index_along_each_axis(name: str, region: str) -> None:
    case = COLUMNS[name]
    for shift in range(0, 12, 2):
        indices = np.resize(np.roll(PAIRS, shift), case.indices)
        run = case.run(indices, region, without=RULE_NAMES)
        assert run.nodes["ScatterND"] or region == "keep"


@pytest.mark.costly
@pytest.mark.parametrize("name", COLUMNS)
def test_an_index_along_each_axis_for_other_regions(name: str) -> None:
    """These read the old elements, which takes an index that lies inside."""
    for region in ("doubling", "maximum"):
        COLUMNS[name].run(np.resize(PAIRS, COLUMNS[name].indices), region)


ELEMENTS = int(load_target("ort-cpu").costs.small_elements)
NEAR_MISSES = {
    "large": Case((2, ELEMENTS), (2, 1), (2,), (1,), 1, (), (1,), ((0, 0),)),
    "two windows": Case((4, 7), (4, 2, 1), (4, 2), (1,), 2, (), (1,), ((0, 0),)),
    "wide window": Case((4, 7), (4, 1), (4, 2), (1,), 1, (1,), (), ((0, 0),)),
    "two axes": COLUMNS["elements"],
}


@pytest.mark.parametrize("name", NEAR_MISSES)
def test_near_misses_of_a_mask(name: str) -> None:
    case = NEAR_MISSES[name]
    run = case.run(np.resize(PLACES, case.indices))
    assert run.nodes["ScatterND"] or run.nodes["ScatterElements"]


SPARE_ROWS = Case((2, 2, 1), (2, 2, 2), (2, 2), (1, 2), 2, (), (1, 2), ((0, 0),), unique=True)


def test_more_updates_than_elements_go_to_a_spare_row() -> None:
    """The spare row follows the operand as one axis: an index along each axis would not name it."""
    run = SPARE_ROWS.run([0, 0, 1, 0, 5, 0, 1, 0], without=RULE_NAMES)
    assert run.nodes["Slice"] and not run.nodes["Compress"]
