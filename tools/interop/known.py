"""Failures that are the tools' own, each with a small model that fails in the same way."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import onnx

from tools.interop.checks import Arrays

COMMON = "onnxconverter_common.float16"
TRANSFORMERS = "onnxruntime.transformers.float16"


@dataclass(frozen=True)
class Reason:
    """Why some tools fail.

    Attributes:
        text: The reason, in one or two sentences.
        tools: The tools.
        symptom: What is in their error texts.
        programs: The examples that fail so, for each tool.
        graph: A model that fails so, in ONNX's text format, without its head.
        shapes: The shapes of the model's inputs: ones of f32, or of the type given.
        opset: The opset of the model.
    """

    text: str
    tools: tuple[str, ...]
    symptom: str
    programs: tuple[tuple[str, ...], ...]
    graph: str
    shapes: dict[str, tuple[int, ...] | np.ndarray]
    opset: int = 23

    def model(self) -> onnx.ModelProto:
        """The small model."""
        head = f'<ir_version: 10, opset_import: ["": {self.opset}]>\n'
        return onnx.parser.parse_model(head + self.graph)

    def inputs(self) -> Arrays:
        """Arrays to call the small model with."""
        return {
            name: given if isinstance(given, np.ndarray) else np.ones(given, np.float32)
            for name, given in self.shapes.items()
        }


REASONS = {
    "body values": Reason(
        "It follows only the inputs that a node names, and drops nodes whose values only bodies"
        " read.",
        ("onnx.utils.extract_model",),
        "is not output of any previous nodes",
        (("diffusion", "kalman", "kalman_smoother", "pca"),),
        """g (float[2] x, bool c) => (float[2] y) {
          h = Neg(x)
          y = If(c) <then_branch = t () => (float[2] a) { a = Abs(h) },
                     else_branch = e () => (float[2] b) { b = Exp(x) }>
        }""",
        {"x": (2,), "c": np.array(True)},
    ),
    "large body constants": Reason(
        "It does not look into bodies for initializers of the main graph. Constants of 4 KB and"
        " more that several graphs read are such initializers.",
        ("onnx.compose", "onnx.utils.extract_model"),
        "is not output of any previous nodes",
        ((), ()),
        """g (float[2] x, bool c) => (float[2] y) <float[2] w = {1, 2}> {
          y = If(c) <then_branch = t () => (float[2] a) { a = Add(x, w) },
                     else_branch = e () => (float[2] b) { b = Exp(x) }>
        }""",
        {"x": (2,), "c": np.array(True)},
    ),
    "loops without a condition": Reason(
        "It makes no trip of a Loop that has a trip count and no condition.",
        ("onnx.reference",),
        "other numbers",
        (("euler_2d", "fori_loop"),),
        """g (float[2] x, int64 n) => (float[2] y) {
          y = Loop(n, , x) <body = b (int64 i, bool k, float[2] s) => (bool j, float[2] r) {
            j = Identity(k)  r = Exp(s)
          }>
        }""",
        {"x": (2,), "n": np.array(2, np.int64)},
    ),
    "stacks without a condition": Reason(
        "It makes no trip of a Loop without a condition, and cannot stack no rows.",
        ("onnx.reference",),
        "need at least one array to concatenate",
        (("diffusion", "game_of_life", "kdv", "navier_stokes", "rk4", "sod", "sod_f64"),),
        """g (float[2] x, int64 n) => (float[a, 2] y) {
          z, y = Loop(n, , x) <body = b (int64 i, bool k, float[2] s)
            => (bool j, float[2] r, float[2] t) {
            j = Identity(k)  r = Exp(s)  t = Sin(s)
          }>
        }""",
        {"x": (2,), "n": np.array(2, np.int64)},
    ),
    "long GatherElements": Reason(
        "Its GatherElements takes at most 64 elements along the axis: `numpy.choose` does.",
        ("onnx.reference",),
        "at most 64 array objects",
        (("beam_search",),),
        "g (float[65] x, int64[1] i) => (float[1] y) { y = GatherElements(x, i) }",
        {"x": (65,), "i": np.zeros(1, np.int64)},
    ),
    "Cast": Reason(
        "It leaves a Cast to float as it is, and takes its result for float16.",
        (COMMON,),
        "does not match expected type",
        (
            (
                "diffusion",
                "graph_network",
                "histogram",
                "int8_mlp",
                "segments",
                "stored_weights",
                "train_step",
                "vae",
            ),
        ),
        """g (int32[2] x, float[2] z) => (float[2] y) { [a] h = Cast <to = 1> (x)
          [b] y = Add(h, z) }""",
        {"x": np.ones(2, np.int32), "z": (2,)},
    ),
    "outputs that are read": Reason(
        "With `keep_io_types=True`, nodes that read an output of the model read it as float still,"
        " among nodes of float16.",
        (COMMON,),
        "does not match expected type",
        (("gpt2_decode", "switch"),),
        "g (float[2] x) => (float[2] y, float[2] z) { [a] y = Neg(x) [b] z = Exp(y) }",
        {"x": (2,)},
    ),
    "inputs of bodies": Reason(
        "With `keep_io_types=True`, bodies read an input of the model as float still, among nodes"
        " of float16.",
        (COMMON,),
        "",
        (("char_rnn", "kalman_smoother"),),
        """g (float[2] x, float[2] z, bool c) => (float[2] y) { [h] h = Neg(z)
          [i] y = If(c) <then_branch = t () => (float[2] a) { [a] a = Add(h, x) },
                         else_branch = e () => (float[2] b) { [b] b = Exp(h) }>
        }""",
        {"x": (2,), "z": (2,), "c": np.array(True)},
    ),
    "BitCast": Reason(
        "It changes the type on one side of a BitCast only. (TopK needs BitCast for NaN's order.)",
        (COMMON, TRANSFORMERS),
        "",
        (("beam_search", "knn"), ("beam_search", "knn")),
        """g (float[2] x, int32[2] z) => (int32[2] y) { [a] h = BitCast <to = 6> (x)
          [b] y = Add(h, z) }""",
        {"x": (2,), "z": np.ones(2, np.int32)},
        opset=26,
    ),
    "nodes of bodies that stay float": Reason(
        "It puts the Casts of a node in a body that must stay float (Min, Max, ...) into the main"
        " graph.",
        (COMMON, TRANSFORMERS),
        "",
        (("euler_2d",), ("euler_2d", "sod")),
        """g (float[2] x, bool c) => (float[2] y) {
          [i] y = If(c) <then_branch = t () => (float[2] a) { [h] h = Neg(x) [a] a = Min(h, x) },
                         else_branch = e () => (float[2] b) { [b] b = Exp(x) }>
        }""",
        {"x": (2,), "c": np.array(True)},
    ),
    "scatters of float16": Reason(
        "It converts ScatterElements and ScatterND with a reduction, which ONNX Runtime has no"
        " float16 kernels of.",
        (COMMON, TRANSFORMERS),
        "MLFloat16 data type is not supported with Scatter",
        (("embedding",), ("embedding", "graph_network", "histogram", "segments", "train_step")),
        """g (float[2] x, int64[1] i, float[1] u) => (float[2] y) {
          [s] y = ScatterElements <reduction = "add"> (x, i, u) }""",
        {"x": (2,), "i": np.zeros(1, np.int64), "u": (1,)},
    ),
    "computed weights": Reason(
        "It refuses a Conv with a bias whose weights are no constant, such as arguments that are"
        " not bound (`bind=`).",
        ("onnxruntime.quantization",),
        "to be an initializer",
        (("cnn", "train_step"),),
        """g (float[1,1,4,4] x, float[1,1,2,2] w, float[1] b) => (float[1,1,3,3] y) {
          [n] v = Neg(w) [c] y = Conv(x, v, b) }""",
        {"x": (1, 1, 4, 4), "w": (1, 1, 2, 2), "b": (1,)},
    ),
}
"""By their names."""


def reason_of(tool: str, program: str, problem: str) -> str:
    """The name of the known reason of a problem; "" if there is none."""
    for name, reason in REASONS.items():
        for its, programs in zip(reason.tools, reason.programs, strict=True):
            if its == tool and program in programs and reason.symptom in problem:
                return name
    return ""
