"""Runs models in OpenCV's module dnn."""

import cv2
import frames
import numpy as np
import onnx
from frames import NUMPY


def load(header, source):
    model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
    content = np.frombuffer(model.SerializeToString(), np.uint8)
    net = cv2.dnn.readNetFromONNX(content, engine=cv2.dnn.ENGINE_NEW)
    return net, model


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    net, model = MODELS.of(header, content)
    for item, data in inputs:
        array = np.frombuffer(data, NUMPY[item["type"]]).reshape(item["shape"]).copy()
        net.setInput(array, item["name"])
    made = net.forward([output.name for output in model.graph.output])
    return frames.outputs([contents(*pair) for pair in zip(model.graph.output, made, strict=False)])


def contents(described, output):
    """Check the element type and the count of elements; shapes of rank 0 and 1 are not kept."""
    kind, output = described.type.tensor_type.elem_type, np.asarray(output)
    if output.dtype != np.dtype(NUMPY[kind]):
        raise TypeError(f"{described.name} is {output.dtype}, not {np.dtype(NUMPY[kind])}")
    dims = [dim.dim_value for dim in described.type.tensor_type.shape.dim]
    if output.ndim != len(dims) and all(dims) and output.size == np.prod(dims, dtype=int):
        output = output.reshape(dims)
    return kind, output.shape, np.ascontiguousarray(output).tobytes()


if __name__ == "__main__":
    known = {"takes": [*NUMPY], "gives": [*NUMPY], "keeps": True, "reads_files": True}
    frames.serve({"version": cv2.__version__, **known}, answer)
