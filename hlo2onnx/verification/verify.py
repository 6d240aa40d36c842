"""One verification: XLA once, ORT with and without graph optimisation."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from hlo2onnx.calling import from_model, to_model
from hlo2onnx.errors import UsageError
from hlo2onnx.mlir.constants import densify
from hlo2onnx.mlir.context import clone_module
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.compare import Comparison, Verification, compare
from hlo2onnx.verification.inputs import random_array
from hlo2onnx.verification.ort import OrtProgram, check_model
from hlo2onnx.verification.xla import XlaProgram, module_bytecode


def reference(source: Source) -> XlaProgram:
    """The program compiled by XLA.

    Raises:
        VerificationError: XLA does not compile it.
    """
    if source.function != "main":
        raise UsageError("only a module's @main can be verified: XLA runs no other function")
    module = clone_module(source.module)
    densify(module)
    return XlaProgram(module_bytecode(module))


def verify(
    source: Source,
    model: onnx.ModelProto,
    input_names: Sequence[str],
    arrays: Sequence[np.ndarray] | None,
    seed: int,
) -> Verification:
    """Compares a model with the program it was made from; see `OnnxProgram.verify`."""
    notes = []
    if arrays is None:
        rng = np.random.default_rng(seed)
        arrays = [random_array(port, rng) for port in source.signature.inputs]
        notes.append(f"random inputs, seed {seed}")
    check_model(model)
    expected = reference(source)(arrays)
    feeds = to_model(input_names, arrays)
    content = model.SerializeToString()
    runs: list[list[Comparison]] = []
    outputs = source.signature.outputs
    for optimize in (True, False):
        actual = from_model(outputs, OrtProgram(content, optimize=optimize)(feeds))
        triples = zip(outputs, actual, expected, strict=True)
        runs.append([compare(port.name, got, want) for port, got, want in triples])
    optimized, plain = runs
    for one, two in zip(optimized, plain, strict=True):
        if one.ok != two.ok:
            which = "with" if two.ok else "without"
            notes.append(f"{one.name} differs only {which} ORT's graph optimisation")
    return Verification(optimized, plain, notes)
