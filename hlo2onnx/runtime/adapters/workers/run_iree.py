"""Compiles models for the CPU with IREE, and runs them."""

import os
import tempfile
from importlib import metadata

import frames
import iree.compiler.api as compiler
import iree.runtime as iree
import numpy as np
import onnx
from frames import NUMPY
from iree.compiler.extras import onnx_importer
from iree.compiler.ir import Context

FLAGS = (
    "--iree-hal-target-device=local",
    "--iree-hal-local-target-device-backends=llvm-cpu",
    "--iree-llvmcpu-target-cpu=generic",
)
CONFIG = iree.Config("local-sync")


def load(header, source):
    read = onnx.load if isinstance(source, str) else onnx.load_from_string
    model = onnx.shape_inference.infer_shapes(read(source), data_prop=True)
    info = onnx_importer.ModelInfo(model)
    module = info.create_module(context=Context()).operation
    onnx_importer.NodeImporter.define_function(info.main_graph, module).import_all()
    outputs = [value.type.tensor_type.elem_type for value in model.graph.output]
    names = [value.name for value in model.graph.input]
    loaded = iree.load_vm_module(
        iree.VmModule.copy_buffer(CONFIG.vm_instance, compiled(module.get_asm())), CONFIG
    )
    return loaded[model.graph.name], names, outputs


def compiled(text):
    session = compiler.Session()
    session.set_flags(*FLAGS)
    invocation = session.invocation()
    invocation.enable_console_diagnostics()
    source = compiler.Source.wrap_buffer(session, text.encode() + b"\0")
    with tempfile.TemporaryFile() as said:
        console = os.dup(2)
        os.dup2(said.fileno(), 2)
        try:
            is_done = invocation.parse_source(source) and invocation.execute()
        finally:
            os.dup2(console, 2)
            os.close(console)
        said.seek(0)
        if not is_done:
            raise RuntimeError(said.read(2000).decode(errors="replace"))
    with compiler.Output.open_membuffer() as output:
        invocation.output_vm_bytecode(output)
        return bytes(output.map_memory())


MODELS = frames.Models(load)


def answer(header, body):
    content, inputs = frames.split(header, body)
    function, names, kinds = MODELS.of(header, content)
    feeds = {item["name"]: array(item, data) for item, data in inputs}
    made = function(*[feeds[name] for name in names])
    outputs = [np.asarray(x) for x in (made if isinstance(made, (list, tuple)) else [made])]
    return frames.outputs(list(map(contents, kinds, outputs)))


def contents(kind, output):
    """Give the element type, shape and bytes of an output. Booleans are bytes."""
    wanted = np.dtype(NUMPY[kind])
    if output.dtype != wanted and (kind != 9 or output.dtype.itemsize != 1):
        raise TypeError(f"gives {output.dtype}, not {wanted}")
    return kind, output.shape, output.tobytes()


def array(item, data):
    return np.frombuffer(data, NUMPY[item["type"]]).reshape(item["shape"]).copy()


if __name__ == "__main__":
    known = {"takes": [*NUMPY], "gives": [*NUMPY], "keeps": True, "reads_files": False}
    frames.serve({"version": metadata.version("iree-base-compiler"), **known}, answer)
