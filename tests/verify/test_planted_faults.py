"""`verify()` notices when a model lacks a guard that few inputs need."""

from __future__ import annotations

import jax
import onnx_ir as oir
import pytest
from mostly_wide import mostly_wide

import hlo2onnx
from tools.model_mutation.planted import FAULTS, Fault

QUICK = ("dynamic_slice clamp", "clip to +-6", "NaN guard", "zeroed weights")


@pytest.mark.costly
@pytest.mark.parametrize("fault", mostly_wide(FAULTS, QUICK, lambda fault: fault.name))
def test_planted_fault_is_caught(fault: Fault) -> None:
    with jax.enable_x64(False):
        program = fault.program()
    arguments = fault.arguments()
    assert not differs(program), "the right model must pass"
    assert not differs(program, *arguments), "the right model must pass on the input, too"
    program.model = oir.from_proto(fault.plant(program.model_proto))
    assert differs(program, *arguments), "the input must show the fault"
    assert differs(program), "verify() does not find the fault"


def differs(program: hlo2onnx.OnnxProgram, *arguments: object) -> bool:
    """Whether a verification says that a model differs or does not run."""
    try:
        return bool(program.verify(*arguments).differing)
    except hlo2onnx.VerificationError:
        return True
