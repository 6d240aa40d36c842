"""Runs models in OpenVINO, on its CPU plugin.

On processors with units for bf16 the plugin would compute f32 programs in it: the precision of the
inference is set to f32.
"""

import frames
import numpy as np
import openvino as ov
from frames import NUMPY

BF16 = 16
CORE = ov.Core()
CONFIG = {"INFERENCE_PRECISION_HINT": "f32", "INFERENCE_NUM_THREADS": 1}


MODELS = frames.Models(
    lambda header, source: CORE.compile_model(CORE.read_model(source), "CPU", CONFIG)
)


def answer(header, body):
    content, inputs = frames.split(header, body)
    compiled = MODELS.of(header, content)
    request = compiled.create_infer_request()
    kept = {name for port in compiled.inputs for name in port.names}
    for item, data in inputs:
        if item["name"] not in kept:  # no operator reads it
            continue
        request.set_tensor(item["name"], tensor(item, data))
    request.infer()
    outputs = [request.get_output_tensor(index) for index in range(len(compiled.outputs))]
    return frames.outputs([contents(output) for output in outputs])


def tensor(item, data):
    if item["type"] == BF16:
        made = ov.Tensor(ov.Type.bf16, ov.Shape(item["shape"]))  # of its own memory
        made.data.view("u2").reshape(-1)[:] = np.frombuffer(data, "u2")
        return made
    return ov.Tensor(np.frombuffer(data, NUMPY[item["type"]]).reshape(item["shape"]).copy())


def contents(output):
    """Give ONNX's number of the element type, the shape and the bytes of a tensor."""
    if output.element_type == ov.Type.bf16:
        return BF16, output.shape, np.ascontiguousarray(output.data).view("u2").tobytes()
    code = output.data.dtype.str[1:].replace("b1", "?")
    return {name: kind for kind, name in NUMPY.items()}[code], output.shape, output.data.tobytes()


if __name__ == "__main__":
    types = [*NUMPY, BF16]
    known = {"takes": types, "gives": types, "keeps": True, "reads_files": True}
    frames.serve({"version": ov.__version__.split("-")[0], **known}, answer)
