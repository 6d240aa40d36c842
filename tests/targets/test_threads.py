"""Models without work for a second thread ask for one."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime as ort
import pytest
from jax import lax

import hlo2onnx
import hlo2onnx.runtime
from hlo2onnx.interface.description import CONFIG, advised_threads

ONES = {size: np.ones(size, np.float32) for size in (8, 2000, 20_000)}
M = {size: np.ones((size, size), np.float32) for size in (8, 64, 256)}


def steps(x: jax.Array) -> jax.Array:
    return lax.fori_loop(0, 100, lambda i, x: jnp.sin(x) + x[::-1], x)


PROGRAMS: dict[str, tuple[Callable[..., Any], tuple[Any, ...], int]] = {
    "steps": (steps, (ONES[8],), 1),
    "large": (steps, (ONES[20_000],), 0),
    "row": (lambda x: jnp.tanh(x[3, :4]), (M[64],), 1),
    "large-sum": (lambda x: x.sum(), (ONES[20_000],), 0),
    "matmul": (jnp.matmul, (M[8], M[8]), 1),
    "row-by-matrix": (jnp.matmul, (np.ones((1, 256), np.float32), M[256]), 0),
    "large-matmul": (jnp.matmul, (M[64], M[64]), 0),
    "sort": (lambda x: lax.top_k(x, 3), (ONES[8],), 0),
    "branch": (lambda p, x: lax.cond(p, lambda x: x + 1, jnp.sin, x), (True, ONES[20_000]), 0),
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_where_no_node_has_work(name: str) -> None:
    function, args, threads = PROGRAMS[name]
    model = hlo2onnx.translate(function, *args).model_proto
    assert advised_threads(model.SerializeToString()) == threads


def test_symbolic_extents_may_be_large() -> None:
    program = hlo2onnx.translate(steps, "n")
    assert CONFIG not in program.model.metadata_props
    program = hlo2onnx.translate(steps, "n", specialize={"n": 8})
    assert CONFIG in program.model.metadata_props


def test_a_target_without_costs_says_nothing() -> None:
    program = hlo2onnx.translate(steps, ONES[8], target="onnx")
    assert CONFIG not in program.model.metadata_props


def test_sessions_have_one_thread(tmp_path: Path) -> None:
    program = hlo2onnx.translate(steps, ONES[8])
    program.save(tmp_path / "steps.onnx")
    loaded = hlo2onnx.runtime.load(tmp_path / "steps.onnx")
    for each in (program, loaded):
        np.testing.assert_array_equal(each(ONES[8]), program(ONES[8]))
        assert each.session().get_session_options().intra_op_num_threads == 1
        chosen = each.session(threads=2).get_session_options()
        assert chosen.intra_op_num_threads == 2
    two = hlo2onnx.runtime.load(tmp_path / "steps.onnx", threads=2)
    assert two._runtime.session.get_session_options().intra_op_num_threads == 2
    assert loaded._runtime.session.get_session_options().intra_op_num_threads == 1


def test_options_of_the_user_stay() -> None:
    options = ort.SessionOptions()
    session = hlo2onnx.translate(steps, ONES[8]).session(options=options)
    assert session.get_session_options().intra_op_num_threads == 0


def test_large_weights_are_skipped(tmp_path: Path) -> None:
    """The metadata are read from a file with a graph of many fields, and from one without any."""
    program = hlo2onnx.translate(lambda x: x[:8] + ONES[8], ONES[2000])
    program.save(tmp_path / "model.onnx")
    assert advised_threads(str(tmp_path / "model.onnx")) == 1
    program.save(tmp_path / "stripped.onnx", strip=True)
    assert advised_threads(str(tmp_path / "stripped.onnx")) == 0


@pytest.mark.parametrize("config", ["", "3", "{}", '{"session_options": {}}', "{"])
def test_other_metadata_ask_for_nothing(config: str) -> None:
    model = onnx.ModelProto()
    model.ir_version = 10
    model.metadata_props.add(key=CONFIG, value=config)
    assert advised_threads(model.SerializeToString()) == 0


@pytest.mark.parametrize("content", [b"", b"no model", b"\xff", b"\x72\x05\x0a"])
def test_what_is_no_model_asks_for_nothing(content: bytes) -> None:
    assert advised_threads(content) == 0


def test_runtimes_form_of_the_metadata() -> None:
    """ONNX Runtime reads these keys with ORT_LOAD_CONFIG_FROM_MODEL=1."""
    config = hlo2onnx.translate(steps, ONES[8]).model.metadata_props[CONFIG]
    assert json.loads(config) == {"session_options": {"intra_op_num_threads": 1}}
