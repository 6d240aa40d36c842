"""Saves that are killed or run out of space at a random moment.

Run as a script, so that it can fork: the children use no library with threads. Each trial forks
a child that saves the next generation of a model over the last one. All weights of a
generation hold its number, so a mixture of two generations is visible.

    python interrupted_saves.py FOLDER COUNT {kill,limit}...
"""

from __future__ import annotations

import json
import os
import random
import resource
import signal
import sys
import time
from collections import Counter
from pathlib import Path

import numpy as np
import onnx_ir as oir
import onnxruntime

from hlo2onnx.errors import WriteError
from hlo2onnx.runtime.saving import save_models

WEIGHTS = 8
SIDE = 200
NBYTES = WEIGHTS * SIDE * SIDE * 4
REFUSED = 3
"""Exit code of a child whose save raised a WriteError."""


def model(generation: int) -> oir.Model:
    """The model x -> (w0 + x, w1 + x, ...)."""
    x = oir.Value(name="x", shape=oir.Shape(()), type=oir.TensorType(oir.DataType.FLOAT))
    weights, nodes = [], []
    for index in range(WEIGHTS):
        array = np.full((SIDE, SIDE), generation, np.float32)
        tensor = oir.tensor(array, name=f"w{index}")
        weight = oir.Value(name=f"w{index}", const_value=tensor)
        weight.shape, weight.type = tensor.shape, oir.TensorType(oir.DataType.FLOAT)
        result = oir.Value(name=f"y{index}", shape=tensor.shape, type=weight.type)
        nodes.append(oir.Node("", "Add", [weight, x], outputs=[result]))
        weights.append(weight)
    outputs = [node.outputs[0] for node in nodes]
    imports = {"": 18}
    graph = oir.Graph([x], outputs, nodes=nodes, initializers=weights, opset_imports=imports)
    graph.name = "main"
    return oir.Model(graph, ir_version=10)


def generation_of(path: Path) -> int:
    """The generation that a saved model computes.

    Raises:
        AssertionError: It is a mixture.
        Exception: ONNX Runtime does not load it.
    """
    options = onnxruntime.SessionOptions()
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])
    results = session.run(None, {"x": np.zeros((), np.float32)})
    found = {float(item) for result in results for item in np.unique(result)}
    assert len(found) == 1, f"a mixture of {sorted(found)}"
    return int(found.pop())


def save(path: Path, generation: int, external: bool) -> None:
    save_models(
        {path: model(generation)}, path.with_name(f"{path.name}.data") if external else None
    )


def in_child(work: object, *args: object) -> int:
    """Forks a process for some work; returns its id."""
    child = os.fork()
    if child:
        return child
    try:
        work(*args)  # type: ignore[operator]
    except WriteError as error:
        assert "model.onnx" in str(error) and error.__cause__ is not None
        os._exit(REFUSED)
    except BaseException as error:  # noqa: BLE001
        print(repr(error), file=sys.stderr)
        os._exit(1)
    os._exit(0)


def limited(path: Path, generation: int, external: bool, room: int) -> None:
    resource.setrlimit(resource.RLIMIT_FSIZE, (room, room))
    save(path, generation, external)


def trials(folder: Path, how: str, external: bool, count: int) -> Counter[str]:
    """Counts the outcomes of the saves; fails at the first one without a whole model."""
    rng = random.Random(0)
    for item in folder.iterdir():
        item.unlink()
    path, found = folder / "model.onnx", Counter[str]()
    save(path, 0, external)
    start = time.perf_counter()
    for generation in (1, 2, 3):
        os.waitpid(in_child(save, path, generation, external), 0)
    usual = (time.perf_counter() - start) / 3
    for generation in range(4, count + 4):
        before = generation_of(path)
        room = rng.randrange(int(1.4 * NBYTES))
        if how == "kill":
            child = in_child(save, path, generation, external)
            time.sleep(rng.uniform(0, 1.2 * usual))
            os.kill(child, signal.SIGKILL)
        else:
            child = in_child(limited, path, generation, external, room)
        _, status = os.waitpid(child, 0)
        code = os.waitstatus_to_exitcode(status)
        after = generation_of(path)
        assert after in (before, generation), f"{after} after {before} and {generation}"
        assert code in (0, REFUSED, -signal.SIGKILL)
        assert (code != 0 or after == generation) and (code != REFUSED or after == before)
        left = {item.name for item in folder.iterdir()} - {"model.onnx"}
        temporary = {name for name in left if name.startswith(".")}
        assert how == "kill" or not temporary, temporary
        found["new" if after == generation else "old"] += 1
        found["with leftovers"] += bool(temporary)
        for name in temporary:
            (folder / name).unlink()
        if how != "kill":
            assert len(left) == external, left
    return found


def main(folder: str, count: str, *ways: str) -> None:
    """Prints the counts for each mode, for weights in the model and in a second file."""
    for how in ways:
        for external in (False, True):
            found = trials(Path(folder), how, external, int(count))
            print(json.dumps({"how": how, "external": external, **found}), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
