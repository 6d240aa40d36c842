"""The examples of sequences, searches and segments: the operators that each one is about."""

from __future__ import annotations

from collections import Counter

import gallery
import jax
import numpy as np
import pytest
from example_graphs import (
    EXAMPLES,
    GUARDS,
    body,
    in_body,
    loops,
    nodes,
    shapes,
    stacks,
    states,
    translated,
)

from hlo2onnx.targets import load_target


def test_lstm_carries_its_state_alone() -> None:
    """A Loop for each layer, with a state and a cell; the weights are captured."""
    for loop in loops("lstm"):
        assert states(loop) == [(3, 16), (3, 16)]
        assert stacks(loop) == [(7, 3, 16)]
        assert (in_body(loop)["MatMul"], in_body(loop)["Gemm"]) == (1, 1), "a sum of two products"
        assert not any(in_body(loop)[guard] for guard in (*GUARDS, "Cast"))
        (gather,) = (node for node in body(loop) if node.op_type == "Gather")
        assert gather.inputs[1] is body(loop).inputs[0], "a row is taken by the trip's own number"
    assert len(loops("lstm")) == 2


def test_lstm_gradient_runs_back_over_stacks() -> None:
    """Forwards, a row of each residual is stacked; backwards, nothing but sums is carried."""
    found = loops("lstm", gradient=True)
    assert len(found) == 4
    forwards, backwards = found[:2], found[2:]
    for loop in forwards:
        assert states(loop) == [(3, 16), (3, 16)]
    for loop, features in zip(backwards, (16, 8), strict=True):
        gradients = [(features, 16), (16,), (16, 16), (3, 16)]
        assert set(states(loop)) == set(gradients)
        assert not any(in_body(loop)[guard] for guard in (*GUARDS, "Cast", "ScatterND"))


def test_gru_scans_both_ways() -> None:
    forwards, backwards = loops("gru")
    for loop in (forwards, backwards):
        assert states(loop) == [(3, 16)]
        assert stacks(loop) == [(7, 3, 16)]
        products = in_body(loop)["MatMul"], in_body(loop)["Gemm"]
        assert products == (0, 1), "the inputs are projected outside"
    assert in_body(backwards) == in_body(forwards) + Counter(Sub=1), "6 - trip"
    (reader,) = (node for node, _ in backwards.outputs[1].uses())
    assert reader.op_type == "Slice", "the stack, last row first, is turned round"


def test_sampling_needs_no_guards() -> None:
    """The position counts from 0 to the end: it is inside of the noise and of the text."""
    (loop,) = loops("char_rnn")
    assert states(loop) == [(), (), (16,), (20,)]
    assert loop.inputs[0] is None, "no limit but the condition"
    assert in_body(loop)["Clip"] == 1, "the character, of which the first comes from outside"
    assert in_body(loop)["Where"] == 3, "NaN wins argmax, and one writes into the text"
    # Vectors are multiplied as vectors; the two Reshapes make an index and an update.
    assert (in_body(loop)["MatMul"], in_body(loop)["Unsqueeze"]) == (2, 0)
    assert in_body(loop)["Reshape"] <= 2


def test_beams_are_found_by_division() -> None:
    """place // vocab and place % vocab are a Div and a Mod; parents need no guard."""
    (loop,) = loops("beam_search")
    assert states(loop) == [(), (4, 13), (4,), (4, 16)]
    found = in_body(loop)
    assert (found["Mod"], found["Sign"], found["TopK"]) == (1, 0, 1)
    assert found["Clip"] == 1, "the token"
    assert found["Gather"] == 5


def test_decoding_writes_one_row_of_each_cache() -> None:
    """Four caches, each written by one ScatterND at one clamped position."""
    found = nodes("gpt2_decode")
    assert (found["ScatterND"], found["Loop"], found["Clip"]) == (4, 0, 2)
    model = translated("gpt2_decode").model
    caches = [shape for shape in shapes(model.graph.outputs) if shape == (2, 4, 8, 8)]
    assert len(caches) == 4
    writes = [node for node in model.graph if node.op_type == "ScatterND"]
    assert len({node.inputs[1] for node in writes}) == 1, "the index is made once"


@pytest.mark.parametrize(
    ("name", "gradient"),
    [("graph_network", False), ("graph_network", True), ("segments", False), ("segments", True),
     ("embedding", False), ("histogram", False)],
)  # fmt: skip
def test_repeated_indices_are_added_in_order(name: str, gradient: bool) -> None:
    """ScatterND would race where an index repeats, unless it has few elements."""
    model = translated(name, gradient).model
    scatters = [node for node in model.graph.all_nodes() if node.op_type.startswith("Scatter")]
    assert scatters
    most = load_target("ort-cpu").costs.ordered_scatter_elements
    updates = [node.inputs[2] for node in scatters if node.op_type == "ScatterND"]
    updates = [
        maker.inputs[0] if (maker := x.producer()) and maker.op_type == "Compress" else x
        for x in updates  # Compress takes some of the rows
    ]
    assert all(np.prod(shape) <= most for shape in shapes(updates))


def test_neighbours_are_gathered_without_guards() -> None:
    """What top_k finds is inside: take's filling of what is not leaves nothing behind."""
    found = nodes("knn")
    assert (found["TopK"], found["Gather"]) == (1, 1)
    assert not any(found[op_type] for op_type in ("Clip", "And", "GreaterOrEqual", "LessOrEqual"))
    assert found["Where"] <= 1, "NaN as the least distance"


def test_unique_is_one_sort_and_sums() -> None:
    found = nodes("unique")
    assert (found["TopK"], found["Loop"], found["Sign"], found["Div"]) == (1, 0, 0, 0)
    assert found["ScatterND"] == 1, "the codes go to distinct places"
    assert sum(found.values()) <= 50


@pytest.mark.parametrize("effect", [-(2**31), -1, 0, 1, 2, 3, 4, 5, 2**31 - 1])
def test_switch_takes_the_nearest_branch(effect: int) -> None:
    """lax.switch clamps; four Ifs in a tree choose between five branches."""
    function, (_, signal) = EXAMPLES["switch"].build(**EXAMPLES["switch"].small)
    index = np.int32(effect)
    expected, actual = jax.jit(function)(index, signal), translated("switch")(index, signal)
    assert gallery.relative_error(expected, actual) <= EXAMPLES["switch"].tolerance
    assert nodes("switch")["If"] == 4


def test_sampling_ends_before_the_text_does() -> None:
    """In the small variant too, or the condition would not be tested."""
    for name in ("char_rnn", "beam_search"):
        _, args = EXAMPLES[name].build(**EXAMPLES[name].small)
        text = np.asarray(translated(name)(*args)[0])
        assert text.any() and not text[..., -1].any(), text


def test_an_associative_scan_is_no_loop() -> None:
    assert nodes("linear_recurrence")["Loop"] == 0
    assert nodes("linear_recurrence", gradient=True)["Loop"] == 0
