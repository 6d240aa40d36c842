"""Which way reduce_window goes: the nodes of each one, at the edges of its conditions."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest
from against_xla import against_xla
from rule_names import RULE_NAMES
from window_case import Case

import hlo2onnx


def line(extent: int, window: int, low: int = 0, high: int = 0, **more: Any) -> Case:
    """One image of one channel and one row."""
    padding = [(0, 0), (0, 0), (low, high)]
    return Case([1, 1, extent], [1, 1, window], padding=padding, **more)


line_max = partial(line, region="maximum")
integers = partial(Case, element="i32")
integers_max = partial(integers, region="maximum")
fold = partial(integers, region="subtract", init="1")

GRAPHS = {
    # pooling
    "max 16x16": (Case([1, 1, 20, 20], [1, 1, 16, 16], region="maximum"), "MaxPool"),
    "max 1x257": (line_max(300, 257), "Max*9 Slice*18"),
    "max i32": (line_max(5, 2, element="i32"), "Max Slice*2"),
    "max ui8": (line_max(5, 2, element="ui8"), "MaxPool"),
    "min ui8": (line(5, 2, region="minimum", element="ui8"), "Min Slice*2"),
    "min f64": (line(5, 2, region="minimum", element="f64"), "MaxPool Neg*2"),
    "max gaps": (line_max(5, 2, gap=[1, 1, 2]), "Max Pad Reshape*2 Slice*3"),
    "max high=window": (line_max(4, 2, high=2, stride=[1, 1, 3]), "Max Pad Slice*2"),
    "max windows of holes": (line_max(2, 2, 1, 1, step=[1, 1, 3]), "Max Pad Slice*2"),
    "max cumulative 5": (line_max(5, 5, 4), "Concat*3 Max*3 Slice*9"),
    "max cumulative 4": (line_max(4, 4, 3), "MaxPool"),
    "mul": (line(5, 2, region="multiply"), "Mul Slice*2"),
    "sum 8x8": (Case([1, 1, 9, 9], [1, 1, 8, 8]), "Conv"),
    "sum 5x13": (Case([1, 1, 9, 14], [1, 1, 5, 13]), "Add*8 Slice*15"),
    "sum f64": (Case([1, 1, 9, 9], [1, 1, 2, 2], element="f64"), "Add*2 Slice*4"),
    "sum 3 axes": (Case([1, 3, 4, 5, 6], [1, 1, 2, 2, 2]), "Conv"),
    "sum 4 axes": (Case([3, 4, 5, 6], [2, 2, 2, 2]), "Add*4 Slice*8"),
    "sum one window": (Case([1, 1, 3, 4], [1, 1, 3, 4]), "Add*5 Slice*7"),
    "sum cumulative": (
        Case([1, 1, 5, 5], [1, 1, 5, 2], padding=[(0, 0), (0, 0), (4, 0), (0, 0)]),
        "Add CumSum Slice*2",
    ),
    "conv channels": (Case([2, 3, 4, 5], [1, 1, 2, 1]), "Conv Reshape*2 Transpose*2"),
    "conv 1 rest in front": (Case([3, 4], [1, 2]), "Conv Reshape*2"),
    "conv 1 rest behind": (Case([4, 3], [2, 1]), "Conv Reshape*2 Transpose*2"),
    "pool negative pads": (line_max(7, 2, -1, 1), "MaxPool Slice"),
    "sum low on rest": (Case([4, 1, 7], [1, 1, 2], padding=[(1, 0), (0, 0), (0, 0)]), "Conv Pad"),
    # separable
    "one by one 4": (integers_max([40], [4]), "Max*3 Slice*4"),
    "doubled 5": (integers_max([40], [5]), "Max*3 Slice*6"),
    "sum doubled 7": (integers([40], [7]), "Add*4 Slice*7"),
    "sliced 16": (integers([40], [16], stride=[20], region="and"), "BitwiseAnd*5 Slice*9"),
    "one dilated": (integers([9], [5], step=[2]), "Expand MatMul Reshape*3 Slice"),
    "scan max": (integers_max([8], [8], padding=[(7, 0)]), "Concat*3 Max*3 Slice*8"),
    "scan max exclusive": (integers_max([8], [8], padding=[(8, -1)]), "Max*3 Pad Slice*7"),
    "cumsum i8": (Case([8], [8], padding=[(7, 0)], element="i8"), "Add*3 Concat*3 Slice*8"),
    "cumsum ui32": (Case([8], [8], padding=[(7, 0)], element="ui32"), "Cast*2 CumSum"),
    "cumsum long": (Case([4096], [4096], padding=[(4095, 0)]), "CumSum"),
    "cumsum longer": (
        Case([4097], [4097], padding=[(4096, 0)]),
        "Add CumSum*2 Pad ReduceSum Reshape*2 Slice",
    ),
    "holes only": (integers([3], [2], padding=[(-4, 5)]), "Expand"),
    "init of max": (line_max(5, 2, init="0.0"), "Max MaxPool"),
    # fold
    "fold": (fold([5], [2]), "Slice*2 Sub*2"),
    "fold padded": (
        fold([5, 4], [2, 2], padding=[(1, 0), (0, 1)]),
        "Pad Slice*4 Sub*4 Where*3",
    ),
    "fold 64": (fold([9, 9], [8, 8]), "Slice*64 Sub*64"),
    "fold 65": (fold([6, 14], [5, 13]), "Add Div Expand Identity Loop Mod Slice Sub"),
    "fold scan 16": (fold([16], [16], padding=[(15, 0)]), "Pad Slice*16 Sub*16 Where*15"),
    "fold scan 17": (fold([17], [17], padding=[(16, 0)]), "Concat*5 Slice*15 Sub*6"),
    "fold loop padded": (
        fold([60], [65], padding=[(5, 5)]),
        "Add Expand Identity Loop Pad Reshape Slice*2 Sub Where",
    ),
    "fold scan and more": (
        fold([17, 3], [17, 2], padding=[(16, 0), (0, 0)]),
        "Pad Slice*34 Sub*34 Where*32",
    ),
}


@pytest.mark.parametrize("name", GRAPHS)
def test_graph(name: str) -> None:
    """What the handler emits: the rules do not run."""
    case, nodes = GRAPHS[name]
    program = hlo2onnx.translate(case.text, without=RULE_NAMES)
    expected = {}
    for item in nodes.split():
        op_type, _, count = item.partition("*")
        expected[op_type] = int(count or 1)
    assert program.report.nodes == expected


@pytest.mark.parametrize(
    ("case", "image", "groups"),
    [
        (Case([3, 4], [1, 2]), (3, 1, 4), 1),
        (Case([4, 3], [2, 1]), (1, 3, 4), 3),
        (Case([5, 3, 4], [1, 1, 2]), (5, 3, 4), 3),
        (Case([4, 3], [2, 2]), (1, 1, 4, 3), 1),
    ],
)
def test_batch_and_channels(case: Case, image: tuple[int, ...], groups: int) -> None:
    """A single axis in front of the pooled ones is the batch: all rows have one kernel."""
    program = hlo2onnx.translate(case.text, without=RULE_NAMES)
    (conv,) = (node for node in program.model.graph.all_nodes() if node.op_type == "Conv")
    x, weights = conv.inputs
    assert x is not None and weights is not None
    assert tuple(map(int, x.shape or ())) == image
    assert int((weights.shape or (0,))[0]) == conv.attributes.get_int("group", 1) == groups


@pytest.mark.parametrize(("constant", "counted"), [("1.0", True), ("2.0", False), (None, False)])
def test_only_ones_are_counted(constant: str | None, counted: bool) -> None:
    """The sums of other constants are not the numbers of elements."""
    case = Case([6], [3], padding=[(1, 0)])
    constant = constant or "[1.0, 2.0, 1.0, 1.0, 1.0, 1.0]"
    text = case.text.replace(
        "{\n", f"{{\n  %ones = stablehlo.constant dense<{constant}> : tensor<6xf32>\n", 1
    )
    text = text.replace('"(%arg0', '"(%ones')
    run = against_xla(text, without=RULE_NAMES).bit_exact()
    assert bool(run.nodes["Conv"]) != counted
