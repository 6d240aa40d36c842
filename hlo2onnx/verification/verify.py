"""One verification: XLA once, ORT with and without graph optimisation.

Where a float output is outside its tolerance, the program is evaluated in f64 as well: an error of
up to twice XLA's own is XLA's rounding, not ours.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx

from hlo2onnx.calling import from_model, to_model
from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.mlir.constants import densify
from hlo2onnx.mlir.context import clone_module
from hlo2onnx.sources.signature import Port
from hlo2onnx.sources.source import Source
from hlo2onnx.verification.compare import Comparison, Verification, compare
from hlo2onnx.verification.inputs import is_float, random_array
from hlo2onnx.verification.ort import OrtProgram, check_model
from hlo2onnx.verification.widen import is_evaluation_of, widen, widened
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
    check_model(model)
    outputs = source.signature.outputs
    run = reference(source)
    notes = []
    if arrays is None:
        arrays, expected, note = _random_run(source.signature.inputs, run, seed)
        notes.append(note)
    else:
        expected = run(arrays)
    notes += _nan_notes(outputs, expected)
    feeds = to_model(input_names, arrays)
    content = model.SerializeToString()
    results = [
        from_model(outputs, OrtProgram(content, optimize=optimize)(feeds))
        for optimize in (True, False)
    ]
    unknown: list[np.ndarray | None] = [None] * len(outputs)
    optimized, plain = (_compared(outputs, actual, expected, unknown) for actual in results)
    if not all(item.ok for item in (*optimized, *plain)):
        exact = _in_f64(source, arrays, expected)
        optimized, plain = (_compared(outputs, actual, expected, exact) for actual in results)
    for one, two in zip(optimized, plain, strict=True):
        if one.ok != two.ok:
            which = "with" if two.ok else "without"
            notes.append(f"{one.name} differs only {which} ORT's graph optimisation")
    return Verification(optimized, plain, notes)


def _random_run(
    inputs: Sequence[Port], run: XlaProgram, seed: int
) -> tuple[list[np.ndarray], list[np.ndarray], str]:
    """Random inputs, XLA's results on them, and what kind of inputs they are.

    Normal ones; but where XLA's result then holds NaN (variances and the like must not be
    negative), their absolute values.
    """
    rng = np.random.default_rng(seed)
    arrays = [random_array(port, rng) for port in inputs]
    expected = run(arrays)
    if any((want != want).any() for want in expected):
        positive = [np.abs(a) if is_float(a) else a for a in arrays]
        results = run(positive)
        if not any((want != want).any() for want in results):
            return positive, results, f"random inputs, seed {seed}, floats made positive"
    return arrays, expected, f"random inputs, seed {seed}"


def _compared(
    outputs: Sequence[Port],
    actual: Sequence[np.ndarray],
    expected: Sequence[np.ndarray],
    exact: Sequence[np.ndarray | None],
) -> list[Comparison]:
    rows = zip(outputs, actual, expected, exact, strict=True)
    return [compare(port.name, got, want, truth) for port, got, want, truth in rows]


def _in_f64(
    source: Source, arrays: Sequence[np.ndarray], expected: Sequence[np.ndarray]
) -> list[np.ndarray | None]:
    """The results of the program in f64; None for those it has no believable evaluation of."""
    module = clone_module(source.module)
    densify(module)
    try:
        run = XlaProgram(widened(module.get_asm()).encode())
        found = run([widen(array) for array in arrays])
    except VerificationError:
        return [None] * len(expected)
    return [
        truth if is_evaluation_of(truth, want) else None
        for truth, want in zip(found, expected, strict=True)
    ]


def _nan_notes(outputs: Sequence[Port], expected: Sequence[np.ndarray]) -> list[str]:
    """Says where XLA's own result is not worth comparing with."""
    notes = []
    for port, want in zip(outputs, expected, strict=True):
        nans = int((want != want).sum())
        if nans:
            notes.append(f"{port.name}: {nans} of {want.size} elements are NaN in XLA itself")
    return notes
