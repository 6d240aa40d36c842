"""Every example is a test: translated, checked, loaded, run and compared with JAX."""

from __future__ import annotations

from typing import Any

import jax
import numpy as np
import pytest
from gallery import Example, load_all, relative_error
from jaxlib.mlir import ir

import hlo2onnx

EXAMPLES = load_all()


@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example(example: Example) -> None:
    function, args = example.build(**example.small)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered)
    # verify() also runs the full ONNX checker, and ORT with and without graph optimisation
    verification = program.verify(*args)
    assert verification.max_error <= example.tolerance, f"{verification}"
    expected = jax.tree.leaves(jax.jit(function)(*args))
    actual = jax.tree.leaves(program(*args))
    assert relative_error(expected, actual) <= example.tolerance
    assert jax.tree.structure(program(*args)) == jax.tree.structure(function(*args))


@pytest.mark.wide
@pytest.mark.parametrize("example", EXAMPLES, ids=[example.name for example in EXAMPLES])
def test_example_at_full_size(example: Example) -> None:
    function, args = example.build()
    program = hlo2onnx.translate(jax.jit(function).lower(*args))
    assert program.verify(*args).max_error <= example.tolerance


def _constant_bytes(module: Any) -> int:
    """Bytes of the distinct constants in a module, those with one value throughout left out."""
    found: set[bytes] = set()

    def visit(operation: Any) -> Any:
        if operation.name == "stablehlo.constant":
            attribute = operation.attributes["value"]
            if not attribute.is_splat:
                found.add(np.asarray(attribute).tobytes())
        return ir.WalkResult.ADVANCE

    module.operation.walk(visit)
    return sum(map(len, found))


def test_weights_are_stored_once() -> None:
    """A network's initializers hold hardly more bytes than its weights."""
    (vit,) = (example for example in EXAMPLES if example.name == "vit")
    function, args = vit.build(**vit.small)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered)
    stored = [v.const_value.numpy() for v in program.model.graph.initializers.values()]
    contents = {(array.shape, array.tobytes()) for array in stored if array.size > 1}
    assert len(contents) == len([array for array in stored if array.size > 1])
    weights = _constant_bytes(lowered.compiler_ir())
    assert sum(array.nbytes for array in stored) <= weights + 4096
