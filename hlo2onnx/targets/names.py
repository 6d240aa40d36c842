"""Common names of runtimes and devices: the target of each, or which one to take instead."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Final

ALIASES: Final[Mapping[str, str]] = {
    **dict.fromkeys(("cpu", "onnxruntime", "onnxruntime-cpu", "ort"), "ort-cpu"),
    **dict.fromkeys(("cuda", "gpu", "nvidia", "onnxruntime-gpu", "ort-gpu"), "ort-cuda"),
    **dict.fromkeys(("tensorrt", "tensorrt-rtx", "trt", "trt-rtx"), "ort-tensorrt"),
    **dict.fromkeys(("apple", "coreml", "ios", "macos"), "ort-coreml"),
    **dict.fromkeys(("android", "mobile", "onnxruntime-mobile", "xnnpack"), "ort-xnnpack"),
    **dict.fromkeys(("browser", "node", "onnxruntime-web", "wasm", "web"), "ort-web"),
    "webgpu": "ort-webgpu",
    **dict.fromkeys(("opencv", "tvm"), "static"),
    **dict.fromkeys(("intel", "ov"), "openvino"),
    **dict.fromkeys(("reference", "standard"), "onnx"),
}
"""Other names of targets, in lower case."""

_TFLITE: Final = "it runs no ONNX models: take ort-xnnpack for phones, ort-coreml for Apple's"
_PROVIDER: Final = (
    "it has no table: take ort-cpu, whose models ONNX Runtime runs on {} where it can, or measure a"
    " table there"
)
_AMD: Final = _PROVIDER.format("AMD's GPUs")

INSTEAD: Final[Mapping[str, str]] = {
    **dict.fromkeys(("litert", "tflite"), _TFLITE),
    **dict.fromkeys(("amd", "migraphx", "rocm"), _AMD),
    **dict.fromkeys(("directml", "dml", "ort-directml"), _PROVIDER.format("DirectML")),
    **dict.fromkeys(("hexagon", "qnn", "snpe"), _PROVIDER.format("Qualcomm's processors")),
    **dict.fromkeys(("nnapi", "ort-nnapi"), "Android 15 deprecates it: take ort-xnnpack"),
    "webnn": _PROVIDER.format("WebNN"),
    **dict.fromkeys(("metal", "mps"), "take ort-coreml, or ort-webgpu in a browser"),
}
"""Names of runtimes without a table, in lower case -> what to take instead."""
