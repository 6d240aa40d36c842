"""Every example is a test: translated, checked, loaded, run and compared with JAX."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gallery
import jax
import jax.numpy as jnp
import numpy as np
import pytest
from gallery import Example, load_all, relative_error
from jaxlib.mlir import ir

import hlo2onnx
from hlo2onnx.frontend.load import load
from hlo2onnx.ir.op_families import ELEMENTWISE
from hlo2onnx.runtime.calling import caller_of
from hlo2onnx.runtime.sessions import check_model
from tools.fuzzing.structure import known_conditions

EXAMPLES = load_all()


@pytest.fixture(params=EXAMPLES, ids=[example.name for example in EXAMPLES])
def example(request: pytest.FixtureRequest) -> Iterator[Example]:
    with request.param.types():
        yield request.param


@pytest.mark.costly
def test_example(example: Example) -> None:
    function, args = example.build(**example.small)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered)
    assert not known_conditions(program.model_proto)
    # verify() also runs the full ONNX checker, and ORT with and without graph optimisation
    verification = program.verify(*args)
    assert verification.max_error <= example.tolerance, f"{verification}"
    expected = jax.tree.leaves(jax.jit(function)(*args))
    outputs = program(*args)
    assert relative_error(expected, jax.tree.leaves(outputs)) <= example.tolerance
    shapes = jax.eval_shape(function, *args)  # to run the function op by op takes seconds
    assert jax.tree.structure(outputs) == jax.tree.structure(shapes)


DIFFERENTIABLE = [example for example in EXAMPLES if example.gradient]


SLOW = frozenset(
    [
        *("diffusion", "euler_2d", "gaussian_process", "navier_stokes", "sod", "sod_f64"),
        *("kalman", "lstm", "pca"),
    ]
)
"""Their gradients take two to four seconds each. Those of kalman_smoother and gru are like the last
two's."""


@pytest.mark.costly
@pytest.mark.parametrize(
    "example",
    [
        pytest.param(item, id=item.name, marks=[pytest.mark.wide] if item.name in SLOW else [])
        for item in DIFFERENTIABLE
    ],
    indirect=True,
)
def test_gradient(example: Example) -> None:
    function, args = example.build_gradient(**example.small)
    program = hlo2onnx.translate(jax.jit(function).lower(*args))
    assert not known_conditions(program.model_proto)
    verification = program.verify(*args)
    assert verification.ok, f"{verification}"
    assert verification.max_error <= 10 * example.tolerance, f"{verification}"


@pytest.mark.wide
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


HALF = [
    ("vit", "bfloat16"),
    ("gpt2_prefill", "float16"),
    ("decoder", "bfloat16"),
    ("cnn", "float16"),
]


@pytest.mark.wide
@pytest.mark.parametrize(("name", "dtype"), HALF)
def test_half_precision(name: str, dtype: str) -> None:
    """Each op rounds once, as in XLA: the error to an f64 evaluation is at most twice XLA's."""
    (example,) = (example for example in EXAMPLES if example.name == name)
    function, args = example.build(dtype=jnp.dtype(dtype), **example.small)
    program = hlo2onnx.translate(jax.jit(function).lower(*args))
    assert program.verify(*args).ok


@pytest.mark.wide
@pytest.mark.parametrize("opset", [17, 18, 20, 21, 24, 26])
def test_every_opset(example: Example, opset: int) -> None:
    if example.name == "stored_weights":
        opset = max(opset, 21)  # the first one with 4 bits
    function, args = example.build(**example.small)
    program = hlo2onnx.translate(jax.jit(function).lower(*args), opset=opset)
    assert program.model.graph.opset_imports[""] == opset
    assert program.verify(*args).max_error <= example.tolerance


@pytest.mark.wide
def test_plain_standard(example: Example) -> None:
    """target='onnx' makes valid ONNX without detours, which ORT runs where it has the kernels."""
    function, args = example.build(**example.small)
    lowered = jax.jit(function).lower(*args)
    program = hlo2onnx.translate(lowered, target="onnx", opset=23)
    check_model(program.model_proto)
    assert not program.report.casts
    # ORT adds a zero point of another shape to the scales of rows of int8, and fails at its own.
    if example.name == "stored_weights":
        return
    # ORT's DFT is exact to 1e-3 only, which legalization knows.
    if not hlo2onnx.translate(lowered).report.casts and not program.report.nodes["DFT"]:
        assert program.verify(*args).max_error <= example.tolerance


@pytest.mark.wide
def test_the_shipped_modules_translate() -> None:
    """examples/mlir holds a file for each example, and each verifies."""
    folder = Path(gallery.__file__).parent / "mlir"
    files = {file.stem: file for file in folder.glob("*.mlir")}
    assert sorted(files) == sorted(example.name for example in EXAMPLES)
    for example in EXAMPLES:
        program = hlo2onnx.translate(files[example.name])
        with example.types():
            function, args = example.build(**example.small)
            source = load(jax.jit(function).lower(*args))
        # The inputs are the example's own: a variance, for one, must not be random.
        arrays = caller_of(source.signature).arrays(tuple(args), {})
        assert program.verify(*arrays).ok, example.name


def test_no_expand_feeds_an_elementwise_operator() -> None:
    (vit,) = (example for example in EXAMPLES if example.name == "vit")
    function, args = vit.build(**vit.small)
    program = hlo2onnx.translate(jax.jit(function).lower(*args))
    for node in program.model.graph.all_nodes():
        makers = [x.producer() for x in node.inputs if x is not None]
        names = {maker.op_type for maker in makers if maker is not None}
        if node.op_type in ELEMENTWISE:
            assert "Expand" not in names, node
        if node.op_type in ("Reshape", "Transpose"):
            assert node.op_type not in names, node
            assert tuple(node.inputs[0].shape) != tuple(node.outputs[0].shape) or (
                node.op_type == "Transpose"
            ), node
