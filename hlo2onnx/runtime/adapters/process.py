"""A runtime in a child process: it runs models, and gives their outputs or why they do not run."""

from __future__ import annotations

import itertools
import json
import struct
import subprocess
import tempfile
import threading
import weakref
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from typing import IO, Any, NamedTuple, Self, TypeAlias

import numpy as np
import onnx_ir as ir

from hlo2onnx.runtime.sessions import elements

TIMEOUT_SECONDS = 20.0
_NO_KERNEL_TEXTS = (
    "Could not find an implementation",
    "Failed to find kernel",
    "!node_provider_type.empty() was false",  # of onnxruntime-web on WebGPU
)

_KILLED = "killed the process"

_LENGTHS = struct.Struct("<QQ")
_CHUNK = 1 << 20
_ENDING_SECONDS = 5.0
"""Time to end by itself."""


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
    return elements(tensor.content, dtype.numpy(), dtype.bitwidth, tensor.shape)


@dataclass(frozen=True)
class Answer:
    """What a model gave."""

    outputs: list[Tensor]


Request: TypeAlias = Callable[[], tuple[bytes, Mapping[str, object]]]
"""Gives a model and options; it is called again for a new process."""


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
        reads_files: Whether it reads models from files, which may have external data.
        has_threads: Whether `run` can say how many threads work.
        deaths: What ended processes, and how.
        exit_code: That of the last process that ended.
        said: What it wrote to its standard error.
        seconds: Time for an answer, which may be infinite. It may change.

    Args:
        seconds: Time for an answer.

    Raises:
        StartError: The process does not start.
    """

    def __init__(self, command: Sequence[str], seconds: float = TIMEOUT_SECONDS) -> None:
        self.command = list(command)
        self.deaths: list[str] = []
        self.exit_code = 0
        self.said = ""
        self.seconds = seconds
        self._keys = itertools.count()
        self._loaded: set[int] = set()
        self._unused: list[int] = []
        self._errors: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `stop`
        try:
            self._start()
        except StartError:
            self._errors.close()
            raise

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: object, *_: object) -> None:
        self.stop(at_once=kind is not None)

    def _start(self) -> None:
        self._errors.seek(0)
        self._errors.truncate()
        try:
            self._process = subprocess.Popen(
                self.command,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=self._errors,
                bufsize=0,
            )
        except OSError as error:
            raise StartError(str(error)) from error
        self._reader = ThreadPoolExecutor(1, "hlo2onnx-runtime")
        try:
            hello, _ = self._receive(3 * max(self.seconds, TIMEOUT_SECONDS))
        except _DeathError as error:
            self._end()
            last = self.said.strip().rpartition("\n")[2].strip()
            raise StartError(last or f"{error}, exit code {self.exit_code}") from error
        self._is_new = True
        self._keeps = bool(hello.get("keeps"))
        self.reads_files = bool(hello.get("reads_files"))
        self.has_threads = bool(hello.get("has_threads"))
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
        threads: int = 1,
    ) -> Answer | str:
        """Load and run a model.

        Args:
            feeds: its inputs.
            what: a name for the case, if it ends the process.
            optimize: whether the runtime may optimize the graph. Not all can be told not to.
            disabled: optimizations to leave out; onnxruntime in Python only.
            threads: how many work on one operator; likewise.

        Returns:
            The outputs, or the reason why it does not run.
        """
        options = {"optimize": optimize, "disabled": list(disabled), "threads": threads}
        return self._asked(lambda: (model, options), feeds or {}, what)

    def session(self, model: bytes | str, *, optimize: bool) -> Session:
        """A model that is loaded at its first run.

        Args:
            model: Serialized model, or the path of a file if the runtime `reads_files`.
        """
        return Session(self, model, optimize)

    def _asked(
        self, request: Request, feeds: Mapping[str, Tensor], what: str = "a model"
    ) -> Answer | str:
        """The answer to a request. If it ends the process, there is a new one."""
        # A process may die of what an earlier model did: a new one tries again.
        for is_last in (self._is_new, True):
            self._is_new = False
            model, options = request()
            try:
                parts = [model, *(x.content for x in feeds.values())]
                self._send({**_header(model, feeds), **options}, parts)
                return _read_answer(*self._receive(self.seconds))
            except _DeathError as error:
                reason = str(error)
            self._end()
            self.deaths.append(f"{what}: {reason}, exit code {self.exit_code}")
            self._loaded.clear()
            self._start()
            if is_last or reason != _KILLED:
                break
        return reason

    def _end(self) -> None:
        self._process.kill()
        self.exit_code = self._process.wait()
        self._errors.seek(0)
        self.said = self._errors.read().decode(errors="replace")
        self._close()

    def stop(self, at_once: bool = False) -> None:
        """End the process. At once, or when it has answered the last request."""
        if self._errors.closed:
            return
        if at_once:
            self._process.kill()
        try:
            self._send({}, [])
            self._process.wait(_ENDING_SECONDS)
        except (_DeathError, subprocess.TimeoutExpired):
            self._process.kill()
            self._process.wait()
        self._close()
        self._errors.close()

    def _close(self) -> None:
        self._reader.shutdown()
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
            raise _DeathError(_KILLED) from error
        except ValueError as error:  # it is closed: a process did not start again
            raise _DeathError("there is no process") from error

    def _receive(self, seconds: float) -> tuple[dict[str, Any], bytes]:
        # Files of Windows cannot be waited for, so another thread reads.
        assert self._process.stdout is not None
        message = self._reader.submit(_message, self._process.stdout)
        try:
            return message.result(min(seconds, threading.TIMEOUT_MAX))
        except TimeoutError:
            raise _DeathError(f"no answer in {self.seconds:.0f} s") from None


def _header(model: bytes, feeds: Mapping[str, Tensor]) -> dict[str, Any]:
    return {
        "model": len(model),
        "inputs": [
            {"name": name, "type": x.dtype, "shape": x.shape, "size": len(x.content)}
            for name, x in feeds.items()
        ],
    }


def _message(stream: IO[bytes]) -> tuple[dict[str, Any], bytes]:
    header_size, body_size = _LENGTHS.unpack(_read(stream, _LENGTHS.size))
    header: dict[str, Any] = json.loads(_read(stream, header_size))
    return header, _read(stream, body_size)


def _read(stream: IO[bytes], size: int) -> bytes:
    found = bytearray()
    while len(found) < size:
        chunk = stream.read(min(size - len(found), _CHUNK))
        if not chunk:
            raise _DeathError(_KILLED)
        found += chunk
    return bytes(found)


class Session:
    """A model that stays loaded between runs, if the worker can keep it.

    Args:
        model: Serialized model, or the path of its file.
    """

    def __init__(self, runtime: Runtime, model: bytes | str, optimize: bool) -> None:
        self._runtime = runtime
        self._model = model
        self._optimize = optimize
        self._key = next(runtime._keys)
        weakref.finalize(self, runtime._unused.append, self._key)

    def __call__(self, feeds: Mapping[str, Tensor]) -> Answer | str:
        """The outputs for some inputs, or the reason why the model does not run."""
        answer = self._runtime._asked(self._request, feeds)
        if isinstance(answer, Answer):
            self._runtime._loaded.add(self._key)
        else:
            self._runtime._loaded.discard(self._key)
        return answer

    def _request(self) -> tuple[bytes, dict[str, object]]:
        """The model, if the process does not have it, and the options."""
        runtime = self._runtime
        options: dict[str, object] = {"optimize": self._optimize}
        if runtime._keeps:
            options |= {"key": self._key, "unused": runtime._unused[:]}
            runtime._unused.clear()
            if self._key in runtime._loaded:
                return b"", options
        if isinstance(self._model, str):
            return b"", options | {"path": self._model}
        return self._model, options


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
    return Answer(outputs)
