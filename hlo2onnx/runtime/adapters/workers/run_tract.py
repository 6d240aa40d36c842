"""Runs models in tract.

tract takes the inputs and gives the outputs in the order of the model. Its tensors have the types
of numpy.
"""

import tempfile
from pathlib import Path

import frames
import numpy as np
import onnx
import tract
from frames import NUMPY


def load(header, source):
    if isinstance(source, str):
        return prepared(source)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "model.onnx"
        path.write_bytes(source)
        return prepared(str(path))


def prepared(path):
    made = tract.onnx().load(path)
    names = [made.input_name(index) for index in range(made.input_count())]
    graph = onnx.load(path, load_external_data=False).graph
    kinds = [value.type.tensor_type.elem_type for value in graph.output]
    return made.into_model().into_runnable(), names, kinds


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    runnable, names, kinds = MODELS.of(header, content)
    feeds = {item["name"]: array(item, data) for item, data in inputs}
    outputs = [output.to_numpy() for output in runnable.run([feeds[name] for name in names])]
    for output, kind in zip(outputs, kinds, strict=False):
        if output.dtype != np.dtype(NUMPY[kind]):
            raise TypeError(f"gives {output.dtype}, not {np.dtype(NUMPY[kind])}")
    described = zip(kinds, outputs, strict=False)
    return frames.outputs([(kind, output.shape, output.tobytes()) for kind, output in described])


def array(item, data):
    return np.frombuffer(data, NUMPY[item["type"]]).reshape(item["shape"]).copy()


if __name__ == "__main__":
    known = {"takes": [*NUMPY], "gives": [*NUMPY], "keeps": True, "reads_files": True}
    frames.serve({"version": tract.version(), **known}, answer)
