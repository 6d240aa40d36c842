"""The time of a verification, and the process for what may not end within it."""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from types import TracebackType
from typing import Self

import numpy as np

from hlo2onnx.errors import OverBudgetError
from hlo2onnx.verify.xla import XlaProgram
from hlo2onnx.verify.xla_process import RemoteProgram, XlaProcess

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

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
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
        self, bytecode: bytes, may_last: bool, fixed: Sequence[np.ndarray] = ()
    ) -> XlaProgram | RemoteProgram:
        """A compiled program.

        Args:
            bytecode: As for `XlaProgram`.
            may_last: Whether it may run or compile without end.
            fixed: Arrays that are among the arguments of all runs. They do not change.

        Raises:
            OverBudgetError: There is no time to compile it.
            VerificationError: XLA does not compile it.
        """
        self.check()
        if not may_last or math.isinf(self.seconds):
            return XlaProgram(bytecode)
        if self._process is None:
            self._process = XlaProcess()
        return RemoteProgram(self._process, bytecode, lambda: self.limit, fixed)
