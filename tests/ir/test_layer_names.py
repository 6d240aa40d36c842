"""Nodes that read weights get the names of their layers."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.names import MODULES, name_layers
from hlo2onnx.ir.notes import common_callers, scope_of


def names(weights: list[str], *, scope: str = "Net/Linear/mul", modules: str = "Net/Linear") -> str:
    """The name of the node that reads initializers of these names one after the other."""
    graph = oir.Graph([], [], nodes=[], opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    x = b.value("x", oir.DataType.FLOAT, [2])
    graph.inputs.append(x)
    values = []
    for index, name in enumerate(weights):
        values.append(b.const(np.array([index, 2], np.float32)))
        del graph.initializers[str(values[-1].name)]
        values[-1].name = name
        graph.register_initializer(values[-1])
    b.scope, b.metadata = scope, {MODULES: modules} if modules else {}
    y = b.Sum(x, *values)
    graph.outputs.append(b.Neg(y))
    name_layers(graph)
    assert y.name == y.producer().name
    return str(y.name)


@pytest.mark.parametrize(
    ("weights", "expected"),
    [
        (["fc/kernel"], "Net/fc/mul"),
        (["fc/kernel/value", "fc/bias/value"], "Net/fc/mul"),
        (["blocks/0/query/kernel", "blocks/0/key/kernel"], "Net/blocks/0/mul"),
        (["one/kernel", "other/kernel"], "Net/Linear/mul"),
        (["Net/Linear/mul/constant", "Net/other/constant_1"], "Net/Linear/mul"),
        (["kernel"], "Net/Linear/mul"),
        (["m/states/0/3", "m/states/0/4/value"], "Net/Linear/mul"),
        (["const_2", "fc/kernel"], "Net/fc/mul"),
        ([], "Net/Linear/mul"),
    ],
)
def test_the_layer_of_the_weights(weights: list[str], expected: str) -> None:
    assert names(weights) == expected


def test_other_scopes_stay() -> None:
    assert names(["fc/kernel"], scope="encoder/mul", modules="") == "encoder/mul"
    assert names(["fc/kernel"], scope="Loop/mul") == "Loop/mul"


def test_taken_names_and_outputs() -> None:
    graph = oir.Graph([], [], nodes=[], opset_imports={"": 23})
    b = GraphBuilder(graph, 23)
    x = b.value("x", oir.DataType.FLOAT, [4])
    weight = b.value("fc/sizes", oir.DataType.INT64, [2])
    graph.inputs.extend([x, weight])
    b.scope = "Net/fc/split"
    b.Neg(x)
    b.scope, b.metadata = "Net/Linear/split", {MODULES: "Net/Linear"}
    types = [(oir.DataType.FLOAT, [2])] * 2
    one, other = b.outputs("Split", x, weight, n_outputs=2, types=types, axis=0)
    one.name = "result"
    graph.outputs.append(one)
    name_layers(graph)
    assert one.producer().name == "Net/fc/split_1"
    assert (one.name, other.name) == ("result", "Net/fc/split_1:1")


STACK = (
    "a.py:3 in <lambda>\na.py:2 in norm\nlib/nn.py:9 in Dense.__call__\n"
    "a.py:5 in build.<locals>.predict"
)
FUNCTIONS = ("predict", "Dense", "norm")


@pytest.mark.parametrize(
    ("name", "scope"),
    [
        ("Net/Dense_0/add", ("Net", "Dense_0")),
        ("Net/jit(silu)/mul", ("Net", "silu")),
        ("transpose(jvp(Net))/Dense_0/dot", ("transpose(jvp(Net))", "Dense_0")),
        ("Net/while/body/closed_call/add", ("Net",)),
        ("add", FUNCTIONS),
        ("while/body/add", FUNCTIONS),
        ("vmap()/add", FUNCTIONS),
        ("bsd,dkh->bskh/dot_general_1", FUNCTIONS),
        ("vmap(BNTS,BSNH->BTNH)/dot", FUNCTIONS),
        ("jit(softmax)/exp", (*FUNCTIONS, "softmax")),
        ("jit(norm)/exp", FUNCTIONS),
        ("Net/vmap(jit(clip))/max", ("Net", "clip")),
        ("vmap(eqx.nn.Linear)/dot", ("eqx.nn.Linear",)),
    ],
)
def test_scope(name: str, scope: tuple[str, ...]) -> None:
    assert scope_of(name, {"jax.stack": STACK, "jax.source": "a.py:2"}) == scope


def test_without_functions_the_source_line_is_the_scope() -> None:
    assert scope_of("add", {"jax.source": "a.py:2"}) == ("a.py:2",)
    assert scope_of("add", {}) == ()


def test_callers_of_jax_are_left_out() -> None:
    nodes = [
        {"jax.stack": "a.py:2 in norm\na.py:5 in model\na.py:9 in main"},
        {"jax.stack": "a.py:6 in model\na.py:9 in main"},
        {"jax.source": "a.py:9"},
    ]
    callers = common_callers(nodes)
    assert callers == 1
    assert scope_of("add", nodes[0], callers) == ("model", "norm")
    assert scope_of("add", nodes[1], callers) == ("model",)
    assert common_callers([]) == 0
