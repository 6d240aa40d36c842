"""A runtime in a child process: it runs models, and gives their outputs or why they do not run."""

from __future__ import annotations

import json
import select
import struct
import subprocess
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from types import TracebackType
from typing import Any, NamedTuple, Self

import numpy as np
import onnx_ir as ir

TIMEOUT_SECONDS = 20.0
_NO_KERNEL_TEXTS = ("Could not find an implementation", "Failed to find kernel")

_LENGTHS = struct.Struct("<QQ")
_CHUNK = 1 << 20


class Tensor(NamedTuple):
    """A tensor as a runtime holds it: ONNX's number of its element type, its shape and bytes."""

    dtype: int
    shape: tuple[int, ...]
    content: bytes


def tensor_of(array: np.ndarray[Any, Any]) -> Tensor:
    """An array as a tensor; its type may be one of ml_dtypes of at least a byte."""
    kind = ir.DataType.from_numpy(array.dtype)
    return Tensor(int(kind), array.shape, np.ascontiguousarray(array).tobytes())


def array_of(tensor: Tensor) -> np.ndarray[Any, Any]:
    """A tensor as an array."""
    dtype = ir.DataType(tensor.dtype)
    raw = np.frombuffer(tensor.content, np.uint8)
    if dtype.bitwidth >= 8:
        return raw.view(dtype.numpy()).reshape(tensor.shape)
    per_byte = 8 // dtype.bitwidth
    shifts = np.arange(per_byte, dtype=np.uint8) * dtype.bitwidth
    codes = (raw[:, None] >> shifts & (1 << dtype.bitwidth) - 1).reshape(-1)
    return codes[: int(np.prod(tensor.shape))].view(dtype.numpy()).reshape(tensor.shape)


@dataclass(frozen=True)
class Answer:
    """What a model gave: its outputs, and the optimized model if that was wanted."""

    outputs: list[Tensor]
    graph: bytes = b""


class StartError(Exception):
    """The process of a runtime does not start."""


class _DeathError(Exception):
    """The process ended, or was ended."""


class Runtime:
    """A process that runs models, replaced when a model ends or hangs it.

    Attributes:
        command: How it is started.
        version: The runtime's.
        takes: Element types that it takes as inputs.
        gives: Element types that it gives as outputs.
        deaths: What ended processes, and how.
    """

    def __init__(self, command: Sequence[str], seconds: float = TIMEOUT_SECONDS) -> None:
        self.command = list(command)
        self.deaths: list[str] = []
        self._seconds = seconds
        self._start()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self.stop()

    def _start(self) -> None:
        self._process = subprocess.Popen(
            self.command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            bufsize=0,
        )
        try:
            hello, _ = self._receive(3 * self._seconds)
        except _DeathError as error:
            self._process.kill()
            code = self._process.wait()
            raise StartError(f"{' '.join(self.command)}: {error}, exit code {code}") from error
        self.version = str(hello["version"])
        self.takes = frozenset(map(ir.DataType, _known(hello["takes"])))
        self.gives = frozenset(map(ir.DataType, _known(hello["gives"])))

    def run(
        self,
        model: bytes,
        feeds: Mapping[str, Tensor] | None = None,
        what: str = "a model",
        *,
        optimize: bool = False,
        disabled: Sequence[str] = (),
        wants_graph: bool = False,
    ) -> Answer | str:
        """Load and run a model.

        Args:
            feeds: its inputs.
            what: a name for the case, if it ends the process.
            optimize: whether the runtime may optimize the graph. Not all can be told not to.
            disabled: optimizations to leave out; onnxruntime in Python only.
            wants_graph: whether to give the optimized model; likewise.

        Returns:
            The outputs, or the reason why it does not run.
        """
        given = {} if feeds is None else feeds
        header = {
            "model": len(model),
            "inputs": [
                {"name": name, "type": x.dtype, "shape": x.shape, "size": len(x.content)}
                for name, x in given.items()
            ],
            "optimize": optimize,
            "disabled": list(disabled),
            "wants_graph": wants_graph,
        }
        try:
            self._send(header, [model, *(x.content for x in given.values())])
            return _read_answer(*self._receive(self._seconds))
        except _DeathError as error:
            reason = str(error)
        self._process.kill()
        self.deaths.append(f"{what}: {reason}, exit code {self._process.wait()}")
        self._close()
        self._start()
        return reason

    def stop(self) -> None:
        """End the process."""
        try:
            self._send({}, [])
            self._process.wait(self._seconds)
        except (_DeathError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._close()

    def _close(self) -> None:
        for pipe in (self._process.stdin, self._process.stdout):
            assert pipe is not None
            with suppress(BrokenPipeError):
                pipe.close()

    def _send(self, header: Mapping[str, Any], parts: Sequence[bytes]) -> None:
        text = json.dumps(header).encode()
        whole = b"".join([_LENGTHS.pack(len(text), sum(map(len, parts))), text, *parts])
        assert self._process.stdin is not None
        left = memoryview(whole)
        try:
            while left:
                left = left[self._process.stdin.write(left) or 0 :]
        except BrokenPipeError as error:
            raise _DeathError("killed the process") from error

    def _receive(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        end = time.monotonic() + seconds
        header_size, body_size = _LENGTHS.unpack(self._read(_LENGTHS.size, end))
        header: dict[str, Any] = json.loads(self._read(header_size, end))
        return header, self._read(body_size, end)

    def _read(self, size: int, end: float) -> bytes:
        stream = self._process.stdout
        assert stream is not None
        found = bytearray()
        while len(found) < size:
            ready, _, _ = select.select([stream], [], [], max(end - time.monotonic(), 0))
            if not ready:
                raise _DeathError(f"no answer in {self._seconds:.0f} s")
            chunk = stream.read(min(size - len(found), _CHUNK))
            if not chunk:
                raise _DeathError("killed the process")
            found += chunk
        return bytes(found)


def lacks_kernel(error: str) -> bool:
    """Whether an answer says that the runtime has no kernel."""
    return any(known in error for known in _NO_KERNEL_TEXTS)


def _known(numbers: Sequence[int]) -> list[int]:
    known = {dtype.value for dtype in ir.DataType}
    return [number for number in numbers if number in known]


def _read_answer(header: Mapping[str, Any], body: bytes) -> Answer | str:
    if "error" in header:
        return str(header["error"])
    outputs, at = [], 0
    for item in header["outputs"]:
        end = at + item["size"]
        outputs.append(Tensor(item["type"], tuple(item["shape"]), body[at:end]))
        at = end
    return Answer(outputs, body[at:])
