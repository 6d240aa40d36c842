"""The time of a verification, and what it leaves out."""

import time

import jax.numpy as jnp
import numpy as np
import pytest
from jax import lax

import hlo2onnx
from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.verify.budget import Budget
from hlo2onnx.verify.compare import Verification
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate
from hlo2onnx.verify.sensitivity import movements

THREE = np.float32(3)


def until(x):
    """A loop that ends for whole numbers only."""
    return lax.while_loop(lambda count: count != x, lambda count: count + 1, jnp.float32(0))


def judged(function, other, seconds) -> Verification:
    """The verdict on the model of another function."""
    program, wrong = (hlo2onnx.translate(each, THREE) for each in (function, other))
    with Budget(seconds) as budget:
        judge = Judge(program._source, [([THREE], "")], None, budget)
        return judge(Candidate(wrong.model_proto.SerializeToString(), wrong.input_names))


@pytest.mark.wide
def test_loop_that_does_not_end_on_moved_inputs():
    begin = time.monotonic()
    found = judged(lambda x: until(x) * jnp.sin(x), lambda x: until(x) * jnp.cos(x), 8)
    assert time.monotonic() - begin < 30
    assert not found.ok
    assert "moved inputs" in found.left_out
    assert "no time  for moved inputs" in str(found)


def test_loop_of_the_model_that_does_not_end():
    with pytest.raises(VerificationError, match="a loop of the model may not end"):
        judged(until, lambda x: until(x + 0.5), 0.2)


def test_without_time_one_run_of_each_side_is_judged():
    program = hlo2onnx.translate(lambda x: jnp.sin(x) * 2, np.ones((3, 4), np.float32))
    found = program.verify(inputs=lambda seed: np.full((3, 4), seed, np.float32), seconds=0)
    assert found.ok
    assert found.samples == 1
    assert "inputs of seed 1" in found.left_out


def test_all_of_a_short_verification_is_in_time():
    assert hlo2onnx.translate(jnp.sin, np.ones(3, np.float32)).verify().left_out == ()


@pytest.mark.parametrize("seconds", [-1, "a", float("nan"), None])
def test_wrong_seconds(seconds):
    program = hlo2onnx.translate(jnp.sin, THREE)
    with pytest.raises(hlo2onnx.UsageError, match="seconds="):
        program.verify(seconds=seconds)


def test_roundings_change_where_moved_inputs_have_no_end():
    def original(arrays):
        raise OverBudgetError("no result")

    def variant(arrays):
        if arrays[0] != THREE:
            raise OverBudgetError("no result")
        return [np.float32(2)]

    *_, last = movements([original, variant], [THREE], [np.float32(1)])
    assert last[0].limit >= 1


@pytest.mark.wide
def test_process_gives_the_results_of_this_one():
    x, kept = np.arange(6, dtype=np.float16).reshape(2, 3), np.ones(1 << 18, np.float32)
    program = hlo2onnx.translate(lambda x, y: (x * 2, y.sum(), x > 2), x, kept)
    text = str(program._source.module).encode()
    with Budget(60) as budget:
        remote, local = (budget.program(text, may_last, [kept]) for may_last in (True, False))
        for _ in range(2):
            for mine, other in zip(remote([x, kept]), local([x, kept]), strict=True):
                assert mine.dtype == other.dtype
                np.testing.assert_array_equal(mine, other)
        (chosen,) = remote([x, kept], [2])
        np.testing.assert_array_equal(chosen, x > 2)
        with pytest.raises(VerificationError, match="does not"):
            budget.program(b"nothing", True)
