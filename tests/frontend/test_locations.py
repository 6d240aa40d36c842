"""Source lines, call stacks and scopes from MLIR locations."""

from __future__ import annotations

import sys
from pathlib import Path

import jax
import jax.numpy as jnp
import numpy as np
import pytest
from flax import linen as nn
from flax import nnx
from jaxlib.mlir import ir

import hlo2onnx
from hlo2onnx.frontend.mlir import locations
from hlo2onnx.frontend.mlir.locations import Frame, OriginReader, origin_of

X = np.ones((2, 4), np.float32)
HERE = "tests/frontend/test_locations.py"


def line_of(text: str) -> int:
    """The number of the line of this file that has the text, and is no call of this function."""
    lines = Path(__file__).read_text().splitlines()
    (found,) = (i for i, line in enumerate(lines, 1) if text in line and "line_of" not in line)
    return found


def metadata(program: hlo2onnx.OnnxProgram, op_type: str) -> list[dict[str, str]]:
    nodes = program.model.graph.all_nodes()
    return [dict(node.metadata_props) for node in nodes if node.op_type == op_type]


class Dense(nn.Module):
    @nn.compact
    def __call__(self, x: jax.Array) -> jax.Array:
        return nn.Dense(8, name="fc")(x)  # here


def test_the_source_is_the_users_line() -> None:
    module = Dense()
    params = module.init(jax.random.key(0), X)
    program = hlo2onnx.translate(jax.jit(module.apply).lower(params, X), bind={0: params})
    (found,) = metadata(program, "Gemm")
    assert found["jax.source"] == f"{HERE}:{line_of('# here')}"
    innermost, caller, *_ = found["jax.stack"].splitlines()
    assert innermost.startswith("flax/linen/linear.py:") and innermost.endswith("Dense.__call__")
    assert caller == f"{found['jax.source']} in Dense.__call__"


def test_library_functions_have_the_line_of_their_call() -> None:
    def model(x: jax.Array) -> jax.Array:
        y = jax.nn.relu6(x) * x  # first call
        return jax.nn.relu6(y) + x  # second call

    program = hlo2onnx.translate(jax.jit(model).lower(X))
    (first,), (second,) = metadata(program, "Min"), metadata(program, "Clip")
    assert first["jax.source"] == f"{HERE}:{line_of('# first call')}"
    assert second["jax.source"] == f"{HERE}:{line_of('# second call')}"


def test_a_function_that_is_called_twice_has_two_stacks() -> None:
    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        return jnp.tanh(x) * 2

    def model(x: jax.Array) -> jax.Array:
        y = inner(x)
        return inner(y)

    first, second = metadata(hlo2onnx.translate(jax.jit(model).lower(X)), "Tanh")
    assert first["jax.source"] == second["jax.source"]
    stacks = [item["jax.stack"].splitlines()[:2] for item in (first, second)]
    assert stacks[0][0] == stacks[1][0]
    lines = [int(stack[1].split(":")[1].split()[0]) for stack in stacks]
    assert lines[1] == lines[0] + 1


def test_expansions_have_the_line_of_their_op() -> None:
    """Also within a function that is called elsewhere."""

    @jax.jit
    def inner(x: jax.Array) -> jax.Array:
        y = x + 1
        return jax.scipy.special.digamma(y)  # expanded

    program = hlo2onnx.translate(jax.jit(lambda x: inner(x)).lower(X))
    lines = {node.metadata_props.get("jax.source") for node in program.model.graph}
    added = line_of("# expanded") - 1
    assert lines == {f"{HERE}:{added}", f"{HERE}:{added + 1}"}


class Block(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.fc = nnx.Linear(4, 4, rngs=rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return jnp.tanh(self.fc(x))


class Net(nnx.Module):
    def __init__(self, rngs: nnx.Rngs) -> None:
        self.first, self.second = Block(rngs), Block(rngs)

    def __call__(self, x: jax.Array) -> jax.Array:
        return self.second(self.first(x))


def test_nodes_of_nnx_have_the_names_of_their_layers() -> None:
    net = Net(nnx.Rngs(0))
    for start, block in enumerate((net.first, net.second)):
        block.fc.bias.set_value(jnp.arange(4.0) + start)
    names = {str(node.name): node.op_type for node in hlo2onnx.translate(net, X).model.graph}
    gemms = [name.rpartition("/")[0] for name, op_type in names.items() if op_type == "Gemm"]
    assert gemms == ["Net/first/fc", "Net/second/fc"]
    tanhs = [name for name, op_type in names.items() if op_type == "Tanh"]
    assert [name.rpartition("/")[0] for name in tanhs] == ["Net/Block", "Net/Block"]


@pytest.mark.parametrize(
    ("filename", "expected"),
    [
        ("{cwd}/models/net.py", "models/net.py"),
        (
            "/home/ada/venv/lib/python3.12/site-packages/flax/linen/linear.py",
            "flax/linen/linear.py",
        ),
        ("/home/ada/secret/net.py", "net.py"),
        (r"C:\Users\ada\secret\net.py", "net.py"),
        (r"C:\venv\Lib\site-packages\flax\nnx\module.py", "flax/nnx/module.py"),
        (r"\\server\share\net.py", "net.py"),
        ("models/net.py", "models/net.py"),
        ("<stdin>", "<stdin>"),
        ("-", "input"),
    ],
)
def test_paths_are_relative(filename: str, expected: str) -> None:
    filename = filename.replace("{cwd}", Path.cwd().as_posix())
    assert Frame(filename, 3).source == f"{expected}:3"


def test_the_root_folder_hides_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A path relative to it tells as much as an absolute one."""
    monkeypatch.chdir("/")
    monkeypatch.setattr(sys, "path", ["/"])
    locations._relative.cache_clear()
    assert Frame("/home/ada/secret/net.py", 3).source == "net.py:3"
    locations._relative.cache_clear()


def test_frames_outside_of_the_users_code_are_left_out() -> None:
    stack = (
        Frame("/v/lib/python3.12/site-packages/flax/linen/linear.py", 1, "Dense.__call__"),
        Frame("net.py", 2, "Net.__call__"),
        Frame(str(Path(hlo2onnx.__file__).parent / "api.py"), 3, "translate"),
        Frame("main.py", 4, "main"),
        Frame("/usr/lib/python3.12/runpy.py", 5, "run"),
        Frame("<frozen runpy>", 6, "run"),
    )
    origin = locations.Origin("", stack)
    assert origin.source == "net.py:2"
    assert origin.stack == [
        "flax/linen/linear.py:1 in Dense.__call__",
        "net.py:2 in Net.__call__",
        "main.py:4 in main",
    ]


def test_the_reader_finds_what_a_new_one_finds() -> None:
    """It remembers callers: of ops with other depths, and with callers in common."""

    def location(*frames: str) -> str:
        first, *rest = (f'"{name}"("{name}.py":{len(name)}:1)' for name in frames)
        return first if not rest else f"callsite({first} at {location(*frames[1:])})"

    stacks = ["abc", "bc", "xbc", "axbc", "c", "yc", "abc", "cba", "a", "aabc"]
    with ir.Context():
        given = [
            ir.Module.parse(f'module {{}} loc("jit(f)/add"({location(*(c * 3 for c in stack))}))')
            for stack in stacks
        ]
        reader = OriginReader()
        places = [module.operation.location for module in given]
        assert list(map(reader, places)) == list(map(origin_of, places))
        assert [frame.function for frame in reader(places[3]).frames] == [
            "aaa",
            "xxx",
            "bbb",
            "ccc",
        ]
