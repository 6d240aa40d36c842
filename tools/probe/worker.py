"""A process that loads and runs models, and returns their outputs or the reason of a failure."""

from __future__ import annotations

import ctypes
import multiprocessing
from multiprocessing.connection import Connection
from typing import Any

import onnxruntime as ort

from tools.probe.values import Output

TIMEOUT_SECONDS = 20.0
NO_KERNEL = "no kernel"
NO_KERNEL_TEXTS = ("Could not find an implementation", "Failed to find kernel")

Answer = list[Output] | str
"""The outputs of a model, or the reason why it does not run."""


def serve(connection: Connection) -> None:
    """Worker: run each model that arrives, answer its outputs or why it does not run."""
    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    while model := connection.recv_bytes():
        answer: Answer
        try:
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            names = [out.name for out in session.get_outputs()]
            answer = [*map(_output, session.run_with_ort_values(names, {}))]
        except Exception as error:  # noqa: BLE001  (what is refused, and why, is the result)
            text = str(error)
            answer = NO_KERNEL if any(t in text for t in NO_KERNEL_TEXTS) else text
        connection.send(answer)


def _output(value: Any) -> Output:
    size = value.tensor_size_in_bytes()
    content = ctypes.string_at(value.data_ptr(), size) if size else b""
    return Output(value.element_type(), tuple(value.shape()), content)


class Worker:
    """A process that runs models, replaced when a model kills or hangs it."""

    def __init__(self) -> None:
        self.deaths: list[str] = []
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, remote = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(remote,), daemon=True)
        self._process.start()
        remote.close()

    def run(self, model: bytes, what: str) -> Answer:
        """Load and run a model; give its outputs, or the reason why it does not run."""
        self._pipe.send_bytes(model)
        try:
            if self._pipe.poll(TIMEOUT_SECONDS):
                answer: Answer = self._pipe.recv()
                return answer
            reason = f"no answer in {TIMEOUT_SECONDS:.0f} s"
        except EOFError:
            reason = "killed the process"
        self._process.kill()
        self._process.join()
        self.deaths.append(f"{what}: {reason}, exit code {self._process.exitcode}")
        self._start()
        return reason

    def stop(self) -> None:
        """End the process."""
        self._pipe.send_bytes(b"")
        self._process.join()
