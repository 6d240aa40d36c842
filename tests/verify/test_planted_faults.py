"""`verify()` notices when a model lacks a guard that few inputs need."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
import pytest
from mostly_wide import mostly_wide

import hlo2onnx
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.programs import F32, I32, of


@dataclass(frozen=True)
class Fault:
    """A program, and a fault of its model: a change that `tools.model_mutation` makes.

    Attributes:
        name: What the model lacks.
        detail: The change, of the last node that has it.
        shown_by: Arguments that show the fault.
    """

    name: str
    function: Callable[..., Any]
    types: tuple[jax.ShapeDtypeStruct, ...]
    detail: str
    shown_by: Sequence[Any]


_COUNT = np.arange(9.0)
_MEAN = np.random.default_rng(0).standard_normal((4, 3)).astype(np.float32)
_WEIGHTS = np.random.default_rng(1).standard_normal((3, 2)).astype(np.float32)
_X, _I = of(F32, 9), of(I32, 9)


def take(mode: str) -> Callable[[jax.Array, jax.Array], jax.Array]:
    return lambda x, i: jnp.take(x, i, mode=mode)


def sliced(x: jax.Array, i: jax.Array) -> jax.Array:
    return jax.lax.dynamic_slice(x, (i,), (5,))


def without_nan(x: jax.Array) -> jax.Array:
    return jnp.where(jnp.isnan(x), 0.0, x) * 2


def branches(x: jax.Array) -> jax.Array:
    return jax.lax.cond(x.sum() > 100, lambda: x * 3, lambda: x + 1)


FAULTS = (
    Fault("gather clamp", take("clip"), (_X, _I), "Clip -> operand 0", (_COUNT, 20)),
    Fault("gather fill", take("fill"), (_X, _I), "Where -> operand 1", (_COUNT, 20)),
    Fault("dynamic_slice clamp", sliced, (_X, of(I32)), "Clip -> operand 0", (_COUNT, 7)),
    Fault("division by zero", jax.lax.div, (_I, _I), "Where -> operand 2", (5, 0)),
    Fault("clip to +-6", lambda x: jnp.clip(x, -6, 6), (_X,), "Clip -> operand 0", (7.0,)),
    Fault("integer abs", jnp.abs, (_I,), "Abs -> operand 0", (-3,)),
    Fault(
        "shift by too much",
        jax.lax.shift_right_arithmetic,
        (_I, _I),
        "Min -> operand 0",
        (-5, 40),
    ),
    Fault("float to int", lambda x: x.astype(I32), (_X,), "Where -> operand 2", (1e10,)),
    Fault("NaN guard", without_nan, (_X,), "Where -> operand 2", (np.nan,)),
    Fault("branch not taken", branches, (_X,), "always else_branch", (50.0,)),
    Fault("log of negatives", lambda x: jnp.log(x - 10), (_X,), "Log -> Sqrt", (12.0,)),
    Fault("relu6", jax.nn.relu6, (_X,), "Min -> operand 0", (7.0,)),
    Fault(
        "zeroed weights",
        lambda x: (x - _MEAN) @ _WEIGHTS,
        (of(F32, 4, 3),),
        "all of float32[3, 2]: zero",
        (1.0,),
    ),
)
"""Each model is right on ordinary random numbers, or nearly so."""

QUICK = ("dynamic_slice clamp", "clip to +-6", "NaN guard", "zeroed weights")


@pytest.mark.costly
@pytest.mark.parametrize("fault", mostly_wide(FAULTS, QUICK, lambda fault: fault.name))
def test_planted_fault_is_caught(fault: Fault) -> None:
    with jax.enable_x64(False):
        program = hlo2onnx.translate(jax.jit(fault.function).lower(*fault.types))
    pairs = zip(fault.shown_by, fault.types, strict=True)
    arguments = [np.broadcast_to(np.asarray(x, t.dtype), t.shape).copy() for x, t in pairs]
    found = program.verify()
    assert found.ok and not found.says_little, "the right model must pass"
    assert not differs(program, *arguments), "the right model must pass on the input, too"
    model = program.model_proto
    *_, planted = (mutant for mutant in mutants_of(model) if mutant.detail == fault.detail)
    program.model = oir.from_proto(planted.apply(model))
    assert differs(program, *arguments), "the input must show the fault"
    assert differs(program), "verify() does not find the fault"


def differs(program: hlo2onnx.OnnxProgram, *arguments: object) -> bool:
    """Whether a verification says that a model differs or does not run."""
    try:
        return bool(program.verify(*arguments).differing)
    except hlo2onnx.VerificationError:
        return True
