"""Failures that are the tools' own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

COMMON = "onnxconverter_common.float16"
TRANSFORMERS = "onnxruntime.transformers.float16"


@dataclass(frozen=True)
class Reason:
    """Why a tool fails.

    Attributes:
        tool: The tool.
        symptom: What is in its error texts.
        programs: The examples that fail so, separated by blanks.
        text: The reason, in one or two sentences.
    """

    tool: str
    symptom: str
    programs: str
    text: str


_BITCAST = (
    "It changes the type on one side of a BitCast only. (TopK needs BitCast for NaN's order.)"
)
_NODES_OF_BODIES_THAT_STAY_FLOAT = (
    "It puts the Casts of a node in a body that must stay float (Min, Max, ...) into the main "
    "graph."
)
_SCATTERS_OF_FLOAT16 = (
    "It converts ScatterElements and ScatterND with a reduction, which ONNX Runtime has no "
    "float16 kernels of."
)

REASONS: Sequence[Reason] = (
    Reason("onnx.utils.extract_model", "is not output of any previous nodes",
           "diffusion kalman kalman_smoother pca",
           "It follows only the inputs that a node names, and drops nodes whose values only "
           "bodies read."),
    Reason("onnx.reference", "other numbers", "euler_2d fori_loop",
           "It makes no trip of a Loop that has a trip count and no condition."),
    Reason("onnx.reference", "need at least one array to concatenate",
           "diffusion game_of_life kdv navier_stokes rk4 sod sod_f64",
           "It makes no trip of a Loop without a condition, and cannot stack no rows."),
    Reason("onnx.reference", "at most 64 array objects", "beam_search",
           "Its GatherElements takes at most 64 elements along the axis: `numpy.choose` does."),
    Reason(COMMON, "does not match expected type",
           "diffusion graph_network histogram int8_mlp segments stored_weights train_step vae",
           "It leaves a Cast to float as it is, and takes its result for float16."),
    Reason(COMMON, "does not match expected type", "gpt2_decode switch",
           "With `keep_io_types=True`, nodes that read an output of the model read it as float "
           "still, among nodes of float16."),
    Reason(COMMON, "", "char_rnn kalman_smoother",
           "With `keep_io_types=True`, bodies read an input of the model as float still, among "
           "nodes of float16."),
    Reason(COMMON, "", "beam_search knn", _BITCAST),
    Reason(TRANSFORMERS, "", "beam_search knn", _BITCAST),
    Reason(COMMON, "", "euler_2d", _NODES_OF_BODIES_THAT_STAY_FLOAT),
    Reason(TRANSFORMERS, "", "euler_2d sod", _NODES_OF_BODIES_THAT_STAY_FLOAT),
    Reason(COMMON, "MLFloat16 data type is not supported with Scatter", "embedding",
           _SCATTERS_OF_FLOAT16),
    Reason(TRANSFORMERS, "MLFloat16 data type is not supported with Scatter",
           "embedding graph_network histogram segments train_step", _SCATTERS_OF_FLOAT16),
    Reason("onnxruntime.quantization", "to be an initializer", "cnn train_step",
           "It refuses a Conv with a bias whose weights are no constant, such as arguments that "
           "are not bound (`bind=`)."),
)  # fmt: skip


def reason_of(tool: str, program: str, problem: str) -> str:
    """The known reason of a problem; "" if there is none."""
    for reason in REASONS:
        if reason.tool == tool and program in reason.programs.split() and reason.symptom in problem:
            return reason.text
    return ""
