"""Which way reduce_window goes: the nodes of each one, at the edges of its conditions."""

from __future__ import annotations

import pytest
from against_xla import against_xla
from window_case import Case

import hlo2onnx
from hlo2onnx.raising.rules import RULES

RULE_NAMES = frozenset(rule.name for rule in RULES)

GRAPHS = {
    # pooling
    "max 16x16": (Case([1, 1, 20, 20], [1, 1, 16, 16], region="maximum"), "MaxPool"),
    "max 1x257": (Case([1, 1, 2, 300], [1, 1, 1, 257], region="maximum"), "Max*9 Slice*18"),
    "max 3 axes": (Case([1, 3, 4, 5, 6], [1, 1, 2, 2, 2], region="maximum"), "MaxPool"),
    "max 4 axes": (Case([3, 4, 5, 6], [2, 2, 2, 2], region="maximum"), "Max*4 Slice*8"),
    "max i32": (Case([1, 1, 5, 5], [1, 1, 2, 2], region="maximum", element="i32"), "Max*2 Slice*4"),
    "max ui8": (Case([1, 1, 5, 5], [1, 1, 2, 2], region="maximum", element="ui8"), "MaxPool"),
    "min ui8": (Case([1, 1, 5, 5], [1, 1, 2, 2], region="minimum", element="ui8"), "Min*2 Slice*4"),
    "min f64": (Case([1, 1, 5, 5], [1, 1, 2, 2], region="minimum", element="f64"), "MaxPool Neg*2"),
    "max gaps": (
        Case([1, 1, 5], [1, 1, 2], gap=[1, 1, 2], region="maximum"),
        "Max Pad Reshape*2 Slice*3",
    ),
    "max low=window": (
        Case(
            [1, 1, 4], [1, 1, 2], step=[1, 1, 3], padding=[(0, 0), (0, 0), (2, 0)], region="maximum"
        ),
        "Max Pad Slice*2",
    ),
    "max high=window": (
        Case(
            [1, 1, 4],
            [1, 1, 2],
            stride=[1, 1, 3],
            padding=[(0, 0), (0, 0), (0, 2)],
            region="maximum",
        ),
        "Max Pad Slice*2",
    ),
    "max high=window-1": (
        Case(
            [1, 1, 4],
            [1, 1, 2],
            stride=[1, 1, 3],
            padding=[(0, 0), (0, 0), (0, 1)],
            region="maximum",
        ),
        "MaxPool",
    ),
    "max windows of holes": (
        Case(
            [1, 1, 2], [1, 1, 2], step=[1, 1, 3], padding=[(0, 0), (0, 0), (1, 1)], region="maximum"
        ),
        "Max Pad Slice*2",
    ),
    "max cumulative 5": (
        Case([1, 1, 5], [1, 1, 5], padding=[(0, 0), (0, 0), (4, 0)], region="maximum"),
        "Concat*3 Max*3 Slice*9",
    ),
    "max cumulative 4": (
        Case([1, 1, 4], [1, 1, 4], padding=[(0, 0), (0, 0), (3, 0)], region="maximum"),
        "MaxPool",
    ),
    "mul": (Case([1, 1, 5], [1, 1, 2], region="multiply"), "Mul Slice*2"),
    "sum 8x8": (Case([1, 1, 9, 9], [1, 1, 8, 8]), "Conv"),
    "sum 5x13": (Case([1, 1, 9, 14], [1, 1, 5, 13]), "Add*16 Slice*18"),
    "sum f64": (Case([1, 1, 9, 9], [1, 1, 2, 2], element="f64"), "Add*2 Slice*4"),
    "sum bf16": (Case([1, 1, 9, 9], [1, 1, 2, 2], element="bf16"), "Cast*2 Conv"),
    "sum 3 axes": (Case([1, 3, 4, 5, 6], [1, 1, 2, 2, 2]), "Conv"),
    "sum 4 axes": (Case([3, 4, 5, 6], [2, 2, 2, 2]), "Add*4 Slice*8"),
    "sum one window of two": (Case([1, 1, 3, 4], [1, 1, 3, 2]), "Conv"),
    "sum one window": (Case([1, 1, 3, 4], [1, 1, 3, 4]), "Add*5 Slice*7"),
    "sum cumulative": (
        Case([1, 1, 5, 5], [1, 1, 5, 2], padding=[(0, 0), (0, 0), (4, 0), (0, 0)]),
        "Add CumSum Slice*2",
    ),
    "sum strides of 1": (Case([4, 4], [1, 1], stride=[2, 1]), "Slice"),
    "conv channels": (Case([2, 3, 4, 5], [1, 1, 2, 1]), "Conv Reshape*2 Transpose*2"),
    "conv 1 rest in front": (Case([3, 4], [1, 2]), "Conv Reshape*2"),
    "conv 1 rest behind": (Case([4, 3], [2, 1]), "Conv Reshape*2 Transpose*2"),
    "conv no rest": (Case([4, 3], [2, 2]), "Conv Reshape*2"),
    "pool negative pads": (
        Case([1, 1, 7], [1, 1, 2], padding=[(0, 0), (0, 0), (-1, 1)], region="maximum"),
        "MaxPool Slice",
    ),
    "pool stride on rest": (
        Case([4, 1, 7], [1, 1, 2], stride=[2, 1, 1], region="maximum"),
        "MaxPool Slice",
    ),
    "pool low on rest": (
        Case([4, 1, 7], [1, 1, 2], padding=[(1, 0), (0, 0), (0, 0)], region="maximum"),
        "Max Pad Slice*2",
    ),
    "sum low on rest": (Case([4, 1, 7], [1, 1, 2], padding=[(1, 0), (0, 0), (0, 0)]), "Conv Pad"),
    # separable
    "one by one 4": (Case([40], [4], region="maximum", element="i32"), "Max*3 Slice*4"),
    "doubled 5": (Case([40], [5], region="maximum", element="i32"), "Max*4 Slice*5"),
    "sum doubled 7": (Case([40], [7], element="i32"), "Add*6 Slice*7"),
    "xor doubled 11": (Case([40], [11], element="i32", region="xor"), "BitwiseXor*5 Slice*9"),
    "sliced 6 by stride 6": (
        Case([40], [6], stride=[6], element="i32", region="and"),
        "BitwiseAnd*6 Slice*6",
    ),
    "sliced 6 by stride 5": (
        Case([40], [6], stride=[5], element="i32", region="and"),
        "BitwiseAnd*6 Slice*6",
    ),
    "sliced 16": (
        Case([40], [16], stride=[20], element="i32", region="and"),
        "BitwiseAnd*16 Slice*16",
    ),
    "sliced 17": (
        Case([60], [17], stride=[30], element="i32", region="and"),
        "BitwiseAnd*6 Slice*10",
    ),
    "reduced tiles": (
        Case([40], [8], stride=[8], element="i32"),
        "Expand MatMul Reshape*3 Squeeze",
    ),
    "reduced tiles, rest": (
        Case([40], [5], stride=[8], element="i32"),
        "Expand MatMul Reshape*3 Slice Squeeze",
    ),
    "reduced tiles, short room": (
        Case([29], [5], stride=[8], element="i32"),
        "Expand MatMul Pad Reshape*3 Slice Squeeze",
    ),
    "tiles dilated": (Case([60], [5], stride=[9], step=[2], element="i32"), "Add*4 Slice*5"),
    "one dilated": (Case([9], [5], step=[2], element="i32"), "Expand MatMul Reshape*3 Slice"),
    "one of 4": (Case([4], [4], element="i32"), "Add*3 Slice*4"),
    "overlap by 1": (Case([40], [8], stride=[7], element="i32"), "Add*7 Slice*8"),
    "tiles of 4": (Case([40], [4], stride=[4], element="i32"), "Add*3 Slice*4"),
    "scan max": (
        Case([8], [8], padding=[(7, 0)], region="maximum", element="i32"),
        "Concat*3 Max*3 Slice*8",
    ),
    "scan max reverse": (
        Case([8], [8], padding=[(0, 7)], region="maximum", element="i32"),
        "Concat*3 Max*3 Slice*8",
    ),
    "scan max exclusive": (
        Case([8], [8], padding=[(8, -1)], region="maximum", element="i32"),
        "Max*7 Pad Slice*9",
    ),
    "cumsum i8": (Case([8], [8], padding=[(7, 0)], element="i8"), "Add*3 Concat*3 Slice*8"),
    "cumsum bf16": (Case([8], [8], padding=[(7, 0)], element="bf16"), "Cast*2 CumSum"),
    "cumsum ui32": (Case([8], [8], padding=[(7, 0)], element="ui32"), "Cast*2 CumSum"),
    "cumsum long": (Case([4096], [4096], padding=[(4095, 0)]), "CumSum"),
    "cumsum longer": (
        Case([4097], [4097], padding=[(4096, 0)]),
        "Add CumSum*2 Pad ReduceSum Reshape*2 Slice",
    ),
    "cumsum square": (
        Case([16384], [16384], padding=[(16383, 0)]),
        "Add CumSum*2 ReduceSum Reshape*2",
    ),
    "holes only": (Case([3], [2], padding=[(-4, 5)], element="i32"), "Expand"),
    "init 5": (Case([40], [4], element="i32", init="5"), "Add*4 Slice*4"),
    "init of max": (Case([1, 1, 5], [1, 1, 2], region="maximum", init="0.0"), "Max MaxPool"),
    # fold
    "fold": (Case([5], [2], element="i32", region="subtract", init="1"), "Slice*2 Sub*2"),
    "fold padded": (
        Case([5], [2], element="i32", region="subtract", init="1", padding=[(1, 0)]),
        "Pad Slice*2 Sub*2 Where",
    ),
    "fold padded both": (
        Case([5, 4], [2, 2], element="i32", region="subtract", init="1", padding=[(1, 0), (0, 1)]),
        "Pad Slice*4 Sub*4 Where*3",
    ),
    "fold 64": (
        Case([9, 9], [8, 8], element="i32", region="subtract", init="1"),
        "Slice*64 Sub*64",
    ),
    "fold 65": (
        Case([6, 14], [5, 13], element="i32", region="subtract", init="1"),
        "Add Div Expand Identity Loop Mod Slice Sub",
    ),
    "fold scan 16": (
        Case([16], [16], element="i32", region="subtract", init="1", padding=[(15, 0)]),
        "Pad Slice*16 Sub*16 Where*15",
    ),
    "fold scan 17": (
        Case([17], [17], element="i32", region="subtract", init="1", padding=[(16, 0)]),
        "Concat*5 Slice*15 Sub*6",
    ),
    "fold scan exclusive": (
        Case([17], [17], element="i32", region="subtract", init="1", padding=[(17, -1)]),
        "Pad Slice*17 Sub*16 Where*16",
    ),
    "fold loop padded": (
        Case([60], [65], element="i32", region="subtract", init="1", padding=[(5, 5)]),
        "Add Expand Identity Loop Pad Reshape Slice*2 Sub Where",
    ),
    "fold scan and more": (
        Case(
            [17, 3], [17, 2], element="i32", region="subtract", init="1", padding=[(16, 0), (0, 0)]
        ),
        "Pad Slice*34 Sub*34 Where*32",
    ),
    "slices pay": (Case([42], [7], region="maximum", element="i32"), "Max*6 Slice*7"),
    "slices pay no more": (Case([43], [7], region="maximum", element="i32"), "Max*3 Slice*6"),
    "fold scan of rows": (
        Case(
            [3, 17], [1, 17], element="i32", region="subtract", init="1", padding=[(0, 0), (16, 0)]
        ),
        "Concat*5 Slice*15 Sub*6",
    ),
    "fold scan behind": (
        Case([17], [17], element="i32", region="subtract", init="1", padding=[(0, 16)]),
        "Concat*5 Slice*15 Sub*6",
    ),
    "negative low and gaps": (
        Case([5], [2], element="i32", region="maximum", gap=[3], padding=[(-1, 0)]),
        "Max Pad Reshape*2 Slice*3",
    ),
    "padding of ui8": (
        Case(
            [1, 1, 5], [1, 1, 3], element="ui8", region="maximum", padding=[(0, 0), (0, 0), (1, 2)]
        ),
        "MaxPool",
    ),
    "padding in f64": (
        Case(
            [1, 1, 5], [1, 1, 3], element="f64", region="maximum", padding=[(0, 0), (0, 0), (2, 0)]
        ),
        "MaxPool",
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


@pytest.mark.parametrize(
    ("case", "node"),
    [
        (Case([2, 3, 9], [1, 1, 3]), "Conv"),
        (Case([20], [20], padding=[(19, 0)]), "CumSum"),
    ],
)
def test_sums_of_complex_numbers_are_those_of_their_parts(case: Case, node: str) -> None:
    text = case.text.replace("f32>", "complex<f32>>").replace("dense<0.0>", "dense<(0.0, 0.0)>")
    assert hlo2onnx.translate(text).report.nodes[node] == 2


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


def test_equal_counts_are_one_number() -> None:
    case = Case([6], [3])
    ones = "%ones = stablehlo.constant dense<1.0> : tensor<6xf32>"
    text = case.text.replace("{\n", f"{{\n  {ones}\n", 1).replace('"(%arg0', '"(%ones')
    program = hlo2onnx.translate(text, without=RULE_NAMES)
    assert program.report.nodes == {"Expand": 1}
