"""What each tool does to a model, and what its result must still compute."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.compose
import onnx.utils
import onnx.version_converter

Arrays = Mapping[str, np.ndarray]

NEXT_OPSET = 24
"""The opset that models of older ones are converted to."""


@dataclass(frozen=True)
class Outcome:
    """A model that a tool made, with a call of it.

    Attributes:
        model: The path of the model.
        inputs: The arrays to call it with.
        outputs: The arrays that it must return. Empty if they are not known.
    """

    model: Path
    inputs: Arrays
    outputs: Arrays


@dataclass(frozen=True)
class Given:
    """A translated model, with a call of it.

    Attributes:
        path: The path of the model.
        inputs: The arrays to call it with.
        outputs: What it returns.
        run: Calls a model: path, inputs -> outputs.
    """

    path: Path
    inputs: Arrays
    outputs: Arrays
    run: Callable[[Path, Arrays], Arrays]

    def load(self) -> onnx.ModelProto:
        """The model."""
        return onnx.load(self.path)

    def saved(self, model: onnx.ModelProto) -> Outcome:
        """A model that must compute the same."""
        path = self.path.with_name("made.onnx")
        onnx.save(model, path)
        return Outcome(path, self.inputs, self.outputs)


@dataclass(frozen=True)
class Tool:
    """A tool of another project.

    Attributes:
        name: Its name on the page.
        package: The distribution that it is in.
        apply: Runs it.
        rtol: Largest error, relative to the largest element of an output. 0: the same bits. None:
            the tool promises no numbers, and its result must only run.
        fails: The examples that are known to fail, separated by blanks. The page says why.
    """

    name: str
    package: str
    apply: Callable[[Given], Outcome]
    rtol: float | None
    fails: str = ""


def _extract(given: Given) -> Outcome:
    """All of the model, between its inputs and its outputs."""
    path = given.path.with_name("made.onnx")
    onnx.utils.extract_model(given.path, path, list(given.inputs), list(given.outputs))
    return Outcome(path, given.inputs, given.outputs)


def _compose(given: Given) -> Outcome:
    """The model after itself: an output of the first is an input of the second, if one fits."""
    model = given.load()
    link = next(iter(_links(model)), None)
    merged = onnx.compose.merge_models(
        model, model, [link] if link else [], prefix1="first/", prefix2="second/"
    )
    inputs, second, expected = dict(given.inputs), dict(given.inputs), dict(given.outputs)
    outputs = expected
    if link:
        second[link[1]] = expected.pop(link[0])
        outputs = dict(given.run(given.path, second))
        del second[link[1]]
    return Outcome(
        given.saved(merged).model,
        _prefixed("first/", inputs) | _prefixed("second/", second),
        _prefixed("first/", expected) | _prefixed("second/", outputs),
    )


def _links(model: onnx.ModelProto) -> list[tuple[str, str]]:
    """Outputs and inputs of the same type and shape."""
    return [
        (output.name, item.name)
        for output in model.graph.output
        for item in model.graph.input
        if output.type == item.type
    ]


def _prefixed(prefix: str, arrays: Arrays) -> dict[str, np.ndarray]:
    return {prefix + name: array for name, array in arrays.items()}


def _convert_version(given: Given) -> Outcome:
    model = given.load()
    (opset,) = (item.version for item in model.opset_import if not item.domain)
    return given.saved(onnx.version_converter.convert_version(model, max(opset, NEXT_OPSET)))


def _made_by(module: str, function: str, **options: Any) -> Callable[[Given], Outcome]:
    """A tool that is a function from model to model."""

    def apply(given: Given) -> Outcome:
        made = getattr(importlib.import_module(module), function)(given.load(), **options)
        model, same = made if isinstance(made, tuple) else (made, True)
        if not same:
            raise AssertionError(f"{module} says that its result differs")
        return given.saved(model)

    return apply


def _half(module: str) -> Callable[[Given], Outcome]:
    return _made_by(f"{module}.float16", "convert_float_to_float16", keep_io_types=True)


def _quantize(given: Given) -> Outcome:
    from onnxruntime.quantization import quantize_dynamic

    path = given.path.with_name("made.onnx")
    quantize_dynamic(given.path, path)
    return Outcome(path, given.inputs, given.outputs)


def _reference(given: Given) -> Outcome:
    """The reference implementation of ONNX loads and runs the model."""
    from onnx.reference import ReferenceEvaluator

    names = list(given.outputs)
    found: Sequence[Any] = ReferenceEvaluator(given.load()).run(names, dict(given.inputs))
    return Outcome(given.path, given.inputs, dict(zip(names, map(np.asarray, found), strict=True)))


TOOLS = {
    tool.name: tool
    for tool in (
        Tool("onnx.utils.extract_model", "onnx", _extract, 0,
             "captured diffusion gaussian_process kalman kalman_smoother pca"),
        Tool("onnx.compose", "onnx", _compose, 0),
        Tool("onnx.version_converter", "onnx", _convert_version, 0),
        Tool("onnx.reference", "onnx", _reference, 1e-3,
             "beam_search diffusion euler_2d fori_loop game_of_life kdv navier_stokes rk4 sod"
             " sod_f64 stored_weights"),
        Tool("onnxslim", "onnxslim", _made_by("onnxslim", "slim"), 1e-3),
        Tool("onnxsim", "onnxsim", _made_by("onnxsim", "simplify"), 1e-3),
        Tool("onnxconverter_common.float16", "onnxconverter-common",
             _half("onnxconverter_common"), None,
             "beam_search char_rnn diffusion embedding gpt2_decode graph_network histogram"
             " int8_mlp kalman_smoother knn segments stored_weights switch train_step vae"),
        Tool("onnxruntime.transformers.float16", "onnxruntime",
             _half("onnxruntime.transformers"), None,
             "beam_search embedding euler_2d graph_network histogram knn segments sod train_step"),
        Tool("onnxruntime.quantization", "onnxruntime", _quantize, None,
             "cnn decoder gpt2_decode gpt2_prefill train_step vit"),
    )
}  # fmt: skip


def fault(tool: Tool, found: Arrays, expected: Arrays) -> str:
    """What is wrong with the outputs of a result; empty if nothing is."""
    for name, want in expected.items():
        have = found.get(name)
        if have is None:
            return f"the result has no output {name}"
        if have.shape != want.shape or have.dtype != want.dtype:
            return f"{name} is {have.dtype}{have.shape}, not {want.dtype}{want.shape}"
        if tool.rtol is None or np.array_equal(have, want, equal_nan=want.dtype.kind in "fc"):
            continue
        scale = np.max(np.abs(want), initial=0, where=np.isfinite(want)) if want.size else 0
        if not np.allclose(have, want, rtol=0, atol=tool.rtol * scale, equal_nan=True):
            return f"{name} has other numbers"
    return ""
