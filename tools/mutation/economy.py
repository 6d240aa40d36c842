"""Makes the tests of hlo2onnx cheaper in a child that runs a mutant.

ORT gets one thread, as its pool costs more than the small models of the tests. What XLA computes of
a program is kept on the disk: a mutant does not change it.
"""

from __future__ import annotations

import hashlib
import importlib
import pickle
import sys
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

LARGEST_KEPT = 1 << 24
"""Bytes of results of one run that are kept."""


def economize(cache: Path) -> None:
    """Applies to this process, before it runs tests."""
    _keep_bytecode(cache)
    if "onnxruntime" in sys.modules:
        _one_thread(sys.modules["onnxruntime"])
    module = importlib.import_module("hlo2onnx.verify.xla")
    _keep_results(module.XlaProgram, cache / "xla")


def _keep_bytecode(cache: Path) -> None:
    """Keeps the bytecode of tests, which pytest rewrites, outside of the repository."""
    sys.dont_write_bytecode = False
    sys.pycache_prefix = str(cache / "bytecode")


def _one_thread(runtime: Any) -> None:
    plain = runtime.InferenceSession.__init__

    def start(self: Any, model: Any, sess_options: Any = None, *rest: Any, **more: Any) -> None:
        options = runtime.SessionOptions() if sess_options is None else sess_options
        options.intra_op_num_threads = 1
        plain(self, model, options, *rest, **more)

    runtime.InferenceSession.__init__ = start


def _keep_results(program: Any, folder: Path) -> None:
    """Looks results up by the bytes of the program and of its arguments."""
    folder.mkdir(parents=True, exist_ok=True)
    compile_, run = program.__init__, program.__call__

    def start(self: Any, bytecode: bytes) -> None:
        self.digest = hashlib.sha256(bytecode)
        self.compile = lambda: compile_(self, bytecode)
        compiles = folder / self.digest.hexdigest()
        if not compiles.exists():
            _compile(self)
            compiles.touch()

    def call(
        self: Any, arguments: Iterable[np.ndarray], wanted: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        arrays = list(arguments)
        path = folder / _digest(self.digest.copy(), arrays, wanted)
        if path.exists():
            results: list[np.ndarray] = pickle.loads(path.read_bytes())
            return results
        _compile(self)
        results = run(self, arrays, wanted)
        if sum(array.nbytes for array in results) <= LARGEST_KEPT:
            part = path.with_suffix(".part")
            part.write_bytes(pickle.dumps(results))
            part.replace(path)
        return results

    program.__init__, program.__call__ = start, call


def _compile(program: Any) -> None:
    compile_: Callable[[], None] | None = program.compile
    if compile_ is not None:
        compile_()
    program.compile = None


def _digest(digest: Any, arrays: Sequence[np.ndarray], wanted: Sequence[int] | None) -> str:
    for array in map(np.asarray, arrays):
        digest.update(f"{array.dtype} {array.shape} {array.strides}".encode())
        digest.update(np.ascontiguousarray(array).tobytes())
    digest.update(str(wanted and list(wanted)).encode())
    return str(digest.hexdigest())
