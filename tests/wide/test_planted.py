"""A bisection names faults that are planted in translated models."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir
import pytest

from hlo2onnx.errors import Hlo2OnnxError
from hlo2onnx.verify.inputs import random_array
from tools.model_mutation.mutant import ordered
from tools.model_mutation.operators import mutants_of
from tools.model_mutation.programs import translated

pytestmark = pytest.mark.wide

KINDS = ("operands swapped", "operator changed", "comparison changed")
"""The operators of mutation that change what one node computes."""
COUNT = 2
PROGRAMS = ["switch", "lstm", "small_sorting", "small_complex_numbers", "small_lower_precision"]


@pytest.mark.parametrize("name", PROGRAMS)
def test_the_changed_node_is_named(name: str) -> None:
    """Of the mutants that a verification catches."""
    program, named = translated(name), 0
    model = program.model_proto
    rng = np.random.default_rng(1)
    arrays = [random_array(port, rng) for port in program._source.signature.inputs]
    for mutant in ordered([each for each in mutants_of(model) if each.operator in KINDS], seed=1):
        program.model = oir.from_proto(mutant.apply(model))
        try:
            if not program.verify(*arrays).differing:
                continue
        except Hlo2OnnxError:  # the changed model does not run
            continue
        found = program.bisect(*arrays)
        assert mutant.node in {node.name for node in found.nodes}, f"{mutant}\n{found}"
        named += 1
        if named == COUNT:
            return
    pytest.fail(f"only {named} mutants are caught")
