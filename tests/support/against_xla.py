"""Runs a StableHLO program in XLA and, translated, in ONNX Runtime, and compares."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

import jax
import numpy as np

import hlo2onnx
from hlo2onnx.runtime.calling import caller_of, from_model, to_model
from hlo2onnx.runtime.sessions import OrtProgram, check_model
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.f64_reference import widen, widened
from hlo2onnx.verify.inputs import random_array
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.xla import XlaProgram
from tools.fuzzing.structure import known_conditions


class Run:
    """A translated program, and its results in XLA and ORT (optimised and plain)."""

    def __init__(self, text: str, inputs: Sequence[Any] | None, **options: Any) -> None:
        self.text = text
        self.program = hlo2onnx.translate(text, **options)
        source = self.program._source  # with the bound arguments and extents of the options
        signature = source.signature
        if inputs is None:
            rng = np.random.default_rng(0)
            inputs = [random_array(port, rng) for port in signature.inputs]
        self.inputs = caller_of(signature).arrays(tuple(inputs), {})
        check_model(self.program.model_proto)
        assert not known_conditions(self.program.model_proto)
        self.expected = Reference(source)(self.inputs)
        content = self.program.model_proto.SerializeToString()
        feeds = to_model(self.program.input_names, self.inputs)
        sessions = [
            OrtProgram(content, optimize=True, threads=2),  # two threads, as races could hide
            OrtProgram(content, optimize=False, threads=1),
        ]
        self.actual = [from_model(signature.outputs, session(feeds)) for session in sessions]

    @property
    def nodes(self) -> Counter[str]:
        """The number of nodes of each ONNX operator, subgraphs included."""
        return self.program.report.nodes

    def bit_exact(self) -> Run:
        """Asserts equal bits: for ops that only move data, and integers. NaN payloads count as
        equal; the sign of zero does not."""
        for outputs in self.actual:
            for got, want in zip(outputs, self.expected, strict=True):
                assert got.dtype == want.dtype
                assert got.shape == want.shape
                same = (_bits(got) == _bits(want)).all(-1) | (_is_nan(got) & _is_nan(want))
                assert same.all(), self._mismatch(got, want, ~same)
        return self

    def close(self) -> Run:
        """Asserts the tolerance of each output's type, or twice XLA's own error to an f64
        evaluation of the same program."""
        exact = self._in_f64() if not self._within_tolerance() else None
        for outputs in self.actual:
            for index, (got, want) in enumerate(zip(outputs, self.expected, strict=True)):
                truth = None if exact is None else exact[index]
                result = compare(f"result {index}", got, want, truth)
                assert result.ok, f"{result}\n{self._mismatch(got, want, np.not_equal(got, want))}"
        return self

    def graph_is(self, *op_types: str) -> Run:
        """Asserts that the model consists of exactly these operators."""
        assert sorted(self.nodes.elements()) == sorted(op_types), self.program.model
        return self

    def has_no(self, *op_types: str) -> Run:
        """Asserts that the model has none of these operators."""
        found = [op_type for op_type in op_types if self.nodes[op_type]]
        assert not found, f"{found} in\n{self.program.model}"
        return self

    def _within_tolerance(self) -> bool:
        pairs: list[Comparison] = [
            compare("", got, want)
            for outputs in self.actual
            for got, want in zip(outputs, self.expected, strict=True)
        ]
        return all(item.ok for item in pairs)

    def _in_f64(self) -> list[np.ndarray] | None:
        inputs = [widen(array) for array in self.inputs]
        return XlaProgram(widened(self.text).encode())(inputs)

    def _mismatch(self, got: np.ndarray, want: np.ndarray, where: np.ndarray) -> str:
        index = tuple(axis[:8] for axis in np.nonzero(where))
        return (
            f"ORT {got[index] if index else got} != XLA {want[index] if index else want}"
            f" at {index} of {want.dtype}{want.shape}\n{self.text}\n{self.program.model}"
        )


def against_jax(function: Callable[..., Any], *inputs: Any, **options: Any) -> Run:
    """Runs a function as JAX lowers it with 64-bit types; see `against_xla`."""
    with jax.enable_x64(True):
        text = jax.jit(function).lower(*inputs).as_text()
    return against_xla(text, *inputs, **options)


def against_xla(text: str, *inputs: Any, **options: Any) -> Run:
    """Translates and runs a module; makes random inputs if none are given."""
    parameters = len(re.findall(r"%arg\d+:", text.split("->")[0]))
    return Run(text, None if parameters and not inputs else inputs, **options)


def _bits(array: np.ndarray) -> np.ndarray:
    flat = np.ascontiguousarray(array).reshape(-1).view(np.uint8)
    return flat.reshape(*array.shape, array.dtype.itemsize)


def _is_nan(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind in "biu" or "int" in array.dtype.name:
        return np.zeros(array.shape, bool)
    return np.isnan(array.astype(np.complex128 if array.dtype.kind == "c" else np.float64))
