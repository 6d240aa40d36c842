"""Runs programs in XLA in a child process, which is killed if one takes too long."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, TypeAlias

import jax
import ml_dtypes
import numpy as np

from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.runtime.adapters.kinds import WORKERS
from hlo2onnx.runtime.adapters.process import Answer, Runtime, StartError, Tensor
from hlo2onnx.verify.xla import XlaProgram

_LARGE = 1 << 20
"""Bytes of fixed arrays that the child keeps."""
_COMPILE = "compile"
"""The name of the input that asks for no run."""
_WANTED = "wanted"
"""The name of the places of the results to return. It is the last input."""
_KEEP, _KEPT = "keep ", "kept "
"""Start the names of inputs that the child is to keep, and that it has kept."""

_BUILT_IN = ("?", *("i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8"), "f2", "f4", "f8", "c8", "c16")
_NAMES = [f"{kind}int{bits}" for kind in ("", "u") for bits in (2, 4)] + [
    *("bfloat16", "float4_e2m1fn", "float8_e3m4", "float8_e4m3", "float8_e4m3b11fnuz"),
    *("float8_e4m3fn", "float8_e4m3fnuz", "float8_e5m2", "float8_e5m2fnuz", "float8_e8m0fnu"),
]
TYPES = [np.dtype(kind) for kind in (*_BUILT_IN, *(getattr(ml_dtypes, x) for x in _NAMES))]
"""Element types of messages, by number."""


class XlaProcess:
    """The child process. It starts at once, and again after a program that it did not survive.

    Raises:
        VerificationError: It does not start.
    """

    def __init__(self) -> None:
        path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
        try:
            self.runtime = Runtime([sys.executable, str(WORKERS / "run_module.py"), path, __name__])
        except StartError as error:
            raise VerificationError(f"cannot start Python: {error}") from error
        self._kept: dict[int, np.ndarray] = {}

    def end(self) -> None:
        """Ends the process, whatever it does."""
        error = KeyboardInterrupt()
        self.runtime.__exit__(type(error), error, None)

    def feeds(
        self, arguments: Iterable[np.ndarray], fixed: Mapping[int, np.ndarray]
    ) -> dict[str, Tensor]:
        """The arguments of a run as messages."""
        found: dict[str, Tensor] = {}
        for place, array in enumerate(arguments):
            key = id(array)
            if key not in fixed:
                found[f"{place}"] = _tensor(array)
            elif key in self._kept:
                found[f"{_KEPT}{place} {key}"] = Tensor(0, (), b"")
            else:
                found[f"{_KEEP}{place} {key}"] = _tensor(array)
                self._kept[key] = array
        return found

    def forget(self) -> None:
        """Takes note that there is a new process."""
        self._kept.clear()


class RemoteProgram:
    """A StableHLO module compiled by XLA in the child process.

    Args:
        process: The child process.
        bytecode: As for `hlo2onnx.verify.xla.XlaProgram`.
        limit: Gives the seconds that a run or the compilation may take.
        fixed: Arrays that are among the arguments of all runs.

    Raises:
        OverBudgetError: There is no time to compile it.
        VerificationError: XLA does not compile it.
    """

    def __init__(
        self,
        process: XlaProcess,
        bytecode: bytes,
        limit: Callable[[], float],
        fixed: Sequence[np.ndarray] = (),
    ) -> None:
        self._process = process
        self._limit = limit
        self._fixed = {id(array): array for array in fixed if array.nbytes >= _LARGE}
        self._session = process.runtime.session(bytecode, optimize=True)
        self._ask({_COMPILE: Tensor(0, (), b"")})

    def __call__(
        self, arguments: Iterable[np.ndarray], wanted: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Runs the program, as `XlaProgram` does.

        Raises:
            OverBudgetError: It takes too long.
            VerificationError: XLA does not run it.
        """
        feeds = self._process.feeds(arguments, self._fixed)
        if wanted is not None:
            feeds[_WANTED] = _tensor(np.array(wanted, np.int64))
        return list(map(_array, self._ask(feeds)))

    def _ask(self, feeds: Mapping[str, Tensor]) -> list[Tensor]:
        runtime = self._process.runtime
        runtime.seconds = self._limit()
        if runtime.seconds <= 0:
            raise OverBudgetError("no time is left")
        deaths = len(runtime.deaths)
        answer = self._session(feeds)
        if len(runtime.deaths) > deaths:
            self._process.forget()
        if isinstance(answer, Answer):
            return answer.outputs
        if answer.startswith("no answer"):
            raise OverBudgetError(f"XLA gives {answer}")
        raise VerificationError(f"XLA does not run this module: {answer}")


Compile: TypeAlias = Callable[[bytes], XlaProgram | RemoteProgram]
"""Compiles bytecode of a module."""


def _tensor(array: np.ndarray) -> Tensor:
    array = np.asarray(array)
    return Tensor(TYPES.index(array.dtype), array.shape, array.tobytes())


def _array(tensor: Tensor) -> np.ndarray:
    return np.ndarray(tensor.shape, TYPES[tensor.dtype], tensor.content)


# -- in the child -----------------------------------------------------------------------------

_kept_here: dict[str, np.ndarray] = {}


def load(bytecode: bytes) -> XlaProgram:
    """A program of the child, which leaves other devices alone."""
    jax.config.update("jax_platforms", "cpu")
    return XlaProgram(bytecode)


def answer(
    program: XlaProgram, inputs: Sequence[tuple[Mapping[str, Any], bytes]]
) -> tuple[list[dict[str, object]], list[bytes]]:
    """The results of a program in the child: their descriptions and contents."""
    if inputs and inputs[0][0]["name"] == _COMPILE:
        return [], []
    arguments = [_argument(*item) for item in inputs]
    wanted = None
    if inputs and inputs[-1][0]["name"] == _WANTED:
        wanted = arguments.pop().tolist()
    results = list(map(_tensor, program(arguments, wanted)))
    described = [{"type": x.dtype, "shape": x.shape, "size": len(x.content)} for x in results]
    return described, [x.content for x in results]


def _argument(item: Mapping[str, Any], data: bytes) -> np.ndarray:
    name = str(item["name"])
    key = name.rpartition(" ")[2]
    if name.startswith(_KEPT):
        return _kept_here[key]
    array = _array(Tensor(item["type"], tuple(item["shape"]), data))
    if name.startswith(_KEEP):
        _kept_here[key] = array
    return array
