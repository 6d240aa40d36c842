"""Runs models in onnxruntime.

    python run_onnxruntime.py [PROVIDER]

The nodes run on this execution provider only, CPUExecutionProvider by default.
"""

import ctypes

import frames
import numpy as np
import onnxruntime as ort
from frames import NUMPY

PROVIDER = frames.argument(1) or "CPUExecutionProvider"
HELD = {16: "u2", 17: "u1", 18: "u1", 19: "u1", 20: "u1"}
"""Others, and integers of their size: bf16 and the f8 types."""
PACKED = {21: 4, 22: 4, 23: 4, 25: 2, 26: 2}
"""Bits of the types that share bytes."""
OTHERS = [*HELD, *PACKED, 24]
"""Types that numpy lacks."""


def options(header):
    made = ort.SessionOptions()
    level = ort.GraphOptimizationLevel
    made.graph_optimization_level = (
        level.ORT_ENABLE_ALL if header["optimize"] else level.ORT_DISABLE_ALL
    )
    made.log_severity_level = 4
    made.intra_op_num_threads = header.get("threads", 1)
    made.inter_op_num_threads = 1
    made.enable_cpu_mem_arena = False
    if PROVIDER != "CPUExecutionProvider":
        made.add_session_config_entry("session.disable_cpu_ep_fallback", "1")
    return made


def load(header, source):
    disabled = header.get("disabled")
    more = {"disabled_optimizers": disabled} if disabled else {}
    return ort.InferenceSession(source, options(header), providers=[PROVIDER], **more)


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    feeds = {item["name"]: value(item, content) for item, content in inputs}
    session = MODELS.of(header, content)
    names = [item.name for item in session.get_outputs()]
    made = session.run_with_ort_values(names, feeds)
    return frames.outputs([(item.element_type(), item.shape(), bytes_of(item)) for item in made])


def value(item, content):
    kind = item["type"]
    array = np.frombuffer(content, NUMPY.get(kind) or HELD[kind]).reshape(item["shape"]).copy()
    if kind in NUMPY:
        return ort.OrtValue.ortvalue_from_numpy(array)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(array, kind)


def bytes_of(output):
    size = size_of(output)
    return ctypes.string_at(output.data_ptr(), size) if size else b""


def size_of(output):
    if hasattr(output, "tensor_size_in_bytes"):  # from 1.21 on
        return output.tensor_size_in_bytes()
    kind = output.element_type()
    bits = PACKED.get(kind) or 8 * np.dtype(NUMPY.get(kind) or HELD.get(kind, "u1")).itemsize
    return (int(np.prod(output.shape())) * bits + 7) // 8


if __name__ == "__main__":
    ort.set_default_logger_severity(4)
    has_others = hasattr(ort.OrtValue, "ortvalue_from_numpy_with_onnx_type")
    takes = [*NUMPY, *(HELD if has_others else ())]
    known = {"takes": takes, "gives": [*NUMPY, *OTHERS], "keeps": True, "reads_files": True}
    known["has_threads"] = PROVIDER == "CPUExecutionProvider"
    frames.serve({"version": ort.__version__, **known}, answer)
