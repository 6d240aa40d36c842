"""State that stays with the runtime, and programs that share weights."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest

import hlo2onnx
from hlo2onnx.errors import UsageError


@jax.jit
def plain(state: Any, x: jax.Array) -> Any:
    cache = jax.lax.dynamic_update_slice(state["cache"], x[None], (state["n"], 0))
    return {"cache": cache, "n": state["n"] + 1}, cache.sum() + x.sum()


decode = jax.jit(plain.__wrapped__, donate_argnums=0)


def start(dtype: Any = np.float32) -> Any:
    return {"cache": np.zeros((8, 4), dtype), "n": np.int32(0)}


@pytest.mark.parametrize("dtype", [np.float32, np.complex64, jnp.bfloat16])
def test_steps_equal_calls(dtype: Any) -> None:
    x = np.ones(4, dtype)
    program = hlo2onnx.translate(decode.lower(start(dtype), x))
    called: Any = start(dtype)
    stepped: Any = start(dtype)
    for _ in range(5):
        called, want = program(called, x)
        stepped, have = program.step(stepped, x)
        assert isinstance(stepped["cache"], hlo2onnx.StateArray)
        np.testing.assert_array_equal(have, want)
        np.testing.assert_array_equal(stepped["cache"].numpy(), called["cache"])
        np.testing.assert_array_equal(np.asarray(stepped["n"]), called["n"])
    # A state is an array as well.
    np.testing.assert_array_equal(program(stepped, x)[1], program(called, x)[1])


@jax.jit
def reading(state: jax.Array, x: jax.Array) -> Any:
    """Reads the old state as well: the difference needs both."""
    new = jax.lax.dynamic_update_slice(state, x[None], (x[0].astype(int), 0))
    return new, (new - state).sum() + jnp.tanh(new).sum()


@jax.jit
def scattering(state: jax.Array, x: jax.Array) -> Any:
    """Updates two rows after each other, which only the first can do over nothing else."""
    return state.at[2].set(x).at[:, 1].add(x[0], mode="drop"), state.shape[0] * x.sum()


@pytest.mark.parametrize(("function", "places"), [(plain, 1), (reading, 2), (scattering, 2)])
def test_memory_is_reused(function: Any, places: int) -> None:
    """A state that nothing else reads is updated in place; others have two places in turn."""
    donating = jax.jit(function.__wrapped__, donate_argnums=0)
    xs = np.random.default_rng(0).uniform(0, 8, (8, 4)).astype(np.float32)
    state: Any = start() if function is plain else start()["cache"]
    program = hlo2onnx.translate(donating.lower(state, xs[0]))
    called, addresses = state, []
    for x in xs:
        called, want = program(called, x)
        state, have = program.step(state, x)
        np.testing.assert_array_equal(have, want)
        for one, other in zip(jax.tree.leaves(state), jax.tree.leaves(called), strict=True):
            np.testing.assert_array_equal(np.asarray(one), other)
        leaf = state["cache"] if function is plain else state
        addresses.append(leaf.value.data_ptr())
    assert len(set(addresses[2:])) == places


def test_a_given_array_is_not_overwritten() -> None:
    given = start()
    program = hlo2onnx.translate(decode.lower(given, np.ones(4, np.float32)))
    program.step(given, np.ones(4, np.float32))
    assert not given["cache"].any()


def test_states_are_metadata() -> None:
    x = np.ones(4, np.float32)
    exported = jax.export.export(decode)(start(), x)
    for source in (decode.lower(start(), x), exported):
        proto = hlo2onnx.translate(source).model_proto
        metadata = {item.key: item.value for item in proto.metadata_props}
        assert json.loads(metadata["hlo2onnx.states"]) == {
            "result/0/cache": "state/cache",
            "result/0/n": "state/n",
        }
    proto = hlo2onnx.translate(plain.lower(start(), x)).model_proto
    assert "hlo2onnx.states" not in {item.key for item in proto.metadata_props}


def test_programs_share_their_weights(tmp_path: Path) -> None:
    weights = {"w": np.random.default_rng(0).standard_normal((64, 64)).astype(np.float32)}
    prefill = jax.jit(lambda params, xs: jnp.tanh(xs @ params["w"]))
    step = jax.jit(lambda params, x: jnp.tanh(x @ params["w"]) * 2)
    xs, x = np.ones((5, 64), np.float32), np.ones((1, 64), np.float32)
    programs = hlo2onnx.translate(
        {"prefill": prefill.lower(weights, xs), "step": step.lower(weights, x)},
        bind={"params": weights},
    )
    assert list(programs) == ["prefill", "step"]
    assert programs["step"].verify(x).ok
    programs.save(tmp_path)
    names = sorted(item.name for item in tmp_path.iterdir())
    assert names[:2] == ["prefill.onnx", "step.onnx"] and len(names) == 3
    assert (tmp_path / names[2]).stat().st_size == weights["w"].nbytes
    for name, array in (("prefill", xs), ("step", x)):
        onnx.checker.check_model(str(tmp_path / f"{name}.onnx"), full_check=True)
        session = onnxruntime.InferenceSession(tmp_path / f"{name}.onnx")
        (input_,) = session.get_inputs()
        np.testing.assert_array_equal(
            session.run(None, {input_.name: array})[0], programs[name](array)
        )
    with pytest.raises(UsageError, match="no folder"):
        programs.save(tmp_path / "missing")
    with pytest.raises(UsageError, match="a single function"):
        hlo2onnx.translate({"step": step}, x)
