"""Runs models in onnx.reference, the standard in numpy."""

import frames
import numpy as np
import onnx
from onnx import helper
from onnx.reference import ReferenceEvaluator

TYPES = [1, 2, 3, 4, 5, 6, 7, 9, 10, 11, 12, 13, 16, 17, 18, 19, 20]
"""Element types of at least a byte; 8 is that of texts."""


def answer(header, body):
    content, inputs = frames.split(header, body)
    model = onnx.load_from_string(content)
    feeds = {
        item["name"]: np.frombuffer(data, helper.tensor_dtype_to_np_dtype(item["type"]))
        .reshape(item["shape"])
        .copy()
        for item, data in inputs
    }
    results = [np.asarray(result) for result in ReferenceEvaluator(model).run(None, feeds)]
    parts = [np.ascontiguousarray(result).tobytes() for result in results]
    described = [
        {
            "type": helper.np_dtype_to_tensor_dtype(r.dtype),
            "shape": list(r.shape),
            "size": len(part),
        }
        for r, part in zip(results, parts, strict=True)
    ]
    return {"outputs": described, "graph": 0}, parts


if __name__ == "__main__":
    frames.serve({"version": onnx.__version__, "takes": TYPES, "gives": TYPES}, answer)
