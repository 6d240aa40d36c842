"""The time of a verification, and the process for what may not end within it."""

from __future__ import annotations

import math
import pickle
import tempfile
import time
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Self, TypeAlias

import jax
import numpy as np

from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.runtime.adapters.installed import module_process, pickled, unpickled
from hlo2onnx.runtime.adapters.process import Answer
from hlo2onnx.verify.xla import XlaProgram, XlaRun

SECONDS = 60.0
"""Default time of a verification, beyond one run of each side."""
XLA, MODEL = "XLA", "the model"
"""The sides."""
_SHARE = 1 / 3
"""The part of the time that is left for one run: others may end."""
_LEAST = 10.0
"""Seconds of a run, if there are as many: a process starts and compiles in them."""


class Budget:
    """The time of a verification beyond one run of each side. Use it in a `with` block.

    XLA cannot be interrupted. Programs that may run or compile without end run in a process of
    their own, which is killed at the limit.

    Attributes:
        seconds: The time.
        left_out: What there was no time for.

    Args:
        seconds: The time. Default: no limit, and no other process.
    """

    def __init__(self, seconds: float = math.inf) -> None:
        self.seconds = seconds
        self.left_out: list[str] = []
        self._until = time.monotonic() + seconds
        self._sides: set[str] = set()
        self._process: XlaProcess | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process is not None:
            self._process.end()
            self._process = None

    @property
    def left(self) -> float:
        """The seconds that are left."""
        return self._until - time.monotonic()

    @property
    def is_over(self) -> bool:
        """Whether no time is left."""
        return self.left <= 0

    @property
    def limit(self) -> float:
        """The seconds that one run may take: all until there is a result, and then a part."""
        left = self.left
        if not self._sides:
            return left
        return max(left * _SHARE, min(left, _LEAST))

    def measured(self, side: str, seconds: float) -> None:
        """Adds the time of the first run of a side."""
        if side not in self._sides:
            self._sides.add(side)
            self._until += seconds

    @property
    def has_run_of_model(self) -> bool:
        """Whether the model has run."""
        return MODEL in self._sides

    def limit_of_model(self, may_last: bool) -> float:
        """The seconds that a run of the model may take.

        Args:
            may_last: Whether the first run may take without end, as its loops depend on inputs.
        """
        is_free = not self.has_run_of_model and not may_last
        return math.inf if is_free else self.left

    def leave_out(self, what: str) -> None:
        """Notes what there was no time for."""
        if what not in self.left_out:
            self.left_out.append(what)

    def check(self) -> None:
        """Raises an `OverBudgetError` if no time is left."""
        if self.is_over:
            raise OverBudgetError("no time is left")

    def program(
        self,
        bytecode: bytes,
        may_last: bool,
        fixed: Sequence[np.ndarray] = (),
        devices: tuple[int, int] = (1, 1),
    ) -> XlaRun:
        """A compiled program.

        Args:
            bytecode: As for `XlaProgram`.
            may_last: Whether it may run or compile without end.
            fixed: Arrays that are among the arguments of all runs. They do not change.
            devices: The counts of replicas and of partitions. Several ones need a process that has
                as many: the devices of this one are the user's.

        Raises:
            OverBudgetError: There is no time to compile it.
            VerificationError: XLA does not compile it.
        """
        self.check()
        if devices == (1, 1) and (not may_last or math.isinf(self.seconds)):
            return XlaProgram(bytecode)
        if self._process is None:
            self._process = XlaProcess()
        limit = (lambda: self.limit) if may_last else (lambda: math.inf)
        return RemoteProgram(self._process, bytecode, limit, fixed, devices)


# -- the process ----------------------------------------------------------------------------------

_LARGE = 1 << 20
"""Bytes of fixed arrays that the child reads from files."""


@dataclass(frozen=True)
class _File:
    """An array in a file, which the child maps into its memory."""

    path: str
    dtype: np.dtype
    shape: tuple[int, ...]

    def array(self) -> np.ndarray:
        return np.memmap(self.path, self.dtype, "r", shape=self.shape)


class XlaProcess:
    """The child process. It starts at once, and again after a program that it did not survive.

    Raises:
        VerificationError: It does not start.
    """

    def __init__(self) -> None:
        self.runtime = module_process(__name__)
        self._folder = tempfile.TemporaryDirectory()
        self._files: dict[int, tuple[_File, np.ndarray]] = {}

    def end(self) -> None:
        """Ends the process, whatever it does."""
        self.runtime.stop(at_once=True)
        self._folder.cleanup()

    def file(self, array: np.ndarray) -> _File:
        """The file of an array that does not change."""
        if id(array) not in self._files:
            path = Path(self._folder.name, str(len(self._files)))
            path.write_bytes(array.tobytes())
            self._files[id(array)] = _File(str(path), array.dtype, array.shape), array
        return self._files[id(array)][0]


class RemoteProgram:
    """A StableHLO module compiled by XLA in the child process.

    Args:
        process: The child process.
        bytecode: As for `hlo2onnx.verify.xla.XlaProgram`.
        limit: Gives the seconds that a run or the compilation may take.
        fixed: Arrays that are among the arguments of all runs.
        devices: The counts of replicas and of partitions: the same for all programs of a process.

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
        devices: tuple[int, int] = (1, 1),
    ) -> None:
        self._process = process
        self._limit = limit
        self._fixed = {id(array): array for array in fixed if array.nbytes >= _LARGE}
        content = pickle.dumps((bytecode, *devices))
        self._session = process.runtime.session(content, optimize=True)
        self._ask(None)

    def __call__(
        self, arguments: Iterable[np.ndarray], wanted: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Runs the program, as `XlaProgram` does.

        Raises:
            OverBudgetError: It takes too long.
            VerificationError: XLA does not run it.
        """
        given = [self._process.file(x) if id(x) in self._fixed else x for x in arguments]
        return self._ask((given, wanted))

    def _ask(self, given: _Given) -> list[np.ndarray]:
        runtime = self._process.runtime
        runtime.seconds = self._limit()
        if runtime.seconds <= 0:
            raise OverBudgetError("no time is left")
        answer = self._session(pickled(given))
        if isinstance(answer, Answer):
            found: list[np.ndarray] = unpickled(answer)
            return found
        if answer.startswith("no answer"):
            raise OverBudgetError(f"XLA gives {answer}")
        raise VerificationError(f"XLA does not run this module: {answer}")


_Given: TypeAlias = tuple[Sequence[np.ndarray | _File], Sequence[int] | None] | None
"""The arguments and the places of the wanted results; None for no run."""


# -- in the child -----------------------------------------------------------------------------


@cache
def _use_devices(count: int) -> None:
    jax.config.update("jax_platforms", "cpu")
    jax.config.update("jax_num_cpu_devices", count)


def load(content: bytes) -> XlaProgram:
    """A program of the child, which leaves other devices alone."""
    bytecode, replicas, partitions = pickle.loads(content)
    _use_devices(replicas * partitions)
    return XlaProgram(bytecode, replicas, partitions)


def answer(program: XlaProgram, given: _Given) -> list[np.ndarray]:
    """The results of a program in the child."""
    if given is None:
        return []
    arguments, wanted = given
    return program([x.array() if isinstance(x, _File) else x for x in arguments], wanted)
