"""Compiles models for the CPU with TVM, and runs them."""

import frames
import numpy as np
import onnx
import tvm
from frames import NUMPY
from tvm import relax
from tvm.relax.frontend.onnx import from_onnx


def load(header, source):
    model = onnx.load(source) if isinstance(source, str) else onnx.load_from_string(source)
    module = relax.get_pipeline("zero")(from_onnx(model, keep_params_in_input=False))
    machine = relax.VirtualMachine(tvm.compile(module, target="llvm"), tvm.cpu())
    return machine, model


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    machine, model = MODELS.of(header, content)
    feeds = {
        item["name"]: np.frombuffer(data, NUMPY[item["type"]]).reshape(item["shape"]).copy()
        for item, data in inputs
    }
    machine.set_input("main", *[tvm.runtime.tensor(feeds[x.name]) for x in model.graph.input])
    machine.invoke_stateful("main")
    made = machine.get_outputs("main")
    made = [made] if hasattr(made, "numpy") else list(made)
    outputs = []
    for described, output in zip(model.graph.output, (x.numpy() for x in made), strict=False):
        kind = described.type.tensor_type.elem_type
        if output.dtype != np.dtype(NUMPY[kind]):
            raise TypeError(f"{described.name} is {output.dtype}, not {np.dtype(NUMPY[kind])}")
        outputs.append((kind, output.shape, output.tobytes()))
    return frames.outputs(outputs)


if __name__ == "__main__":
    known = {"takes": [*NUMPY], "gives": [*NUMPY], "keeps": True, "reads_files": True}
    frames.serve({"version": tvm.__version__, **known}, answer)
