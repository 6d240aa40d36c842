"""Runs models in onnx.reference, the standard in numpy."""

import frames
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

TYPES = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20]
"""Element types of at least a byte; 8 is that of texts."""


def load(header, source):
    read = onnx.load if isinstance(source, str) else onnx.load_from_string
    return ReferenceEvaluator(read(source))


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    feeds = {
        item["name"]: np.frombuffer(data, helper.tensor_dtype_to_np_dtype(item["type"]))
        .reshape(item["shape"])
        .copy()
        for item, data in inputs
    }
    results = [np.asarray(result) for result in MODELS.of(header, content).run(None, feeds)]
    return frames.outputs(
        [(helper.np_dtype_to_tensor_dtype(x.dtype), x.shape, x.tobytes()) for x in results]
    )


if __name__ == "__main__":
    known = {"takes": TYPES, "gives": TYPES, "keeps": True, "reads_files": True}
    frames.serve({"version": onnx.__version__, **known}, answer)
