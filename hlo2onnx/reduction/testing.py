"""Tests programs in a child process, which is replaced if a program ends it.

A program is translated, the model is run, and its results are compared with those of XLA. An
`Outcome` says how that ended. Two outcomes are of the same kind if the same error ended both, at
the same op or at the same place of the code.
"""

from __future__ import annotations

import math
import os
import re
import signal
import sys
import traceback
from contextlib import suppress
from dataclasses import dataclass
from multiprocessing import Pipe
from typing import Literal

import jax
import numpy as np

from hlo2onnx.errors import TranslationError, VerificationError
from hlo2onnx.frontend.files import from_module
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.source import Source
from hlo2onnx.lowering.registry import load_handlers
from hlo2onnx.options import Options
from hlo2onnx.pipeline import run_stages
from hlo2onnx.program import OnnxProgram
from hlo2onnx.reduction.draft import Inputs
from hlo2onnx.runtime.adapters.installed import pickled, unpickled
from hlo2onnx.runtime.adapters.process import Answer, Runtime
from hlo2onnx.verify.compare import Verification
from hlo2onnx.verify.inputs import random_array

Kind = Literal["none", "refused", "error", "differs", "died", "timeout", "true"]

TITLES: dict[Kind, str] = {
    "none": "nothing fails",
    "refused": "the program cannot be translated",
    "error": "an error",
    "differs": "the model differs from XLA",
    "died": "the process dies",
    "timeout": "the time limit is reached",
    "true": "the given function says that it fails",
}

NONFINITE, FINITE = "NaN or inf", "finite numbers"
"""What differs."""

SPARE = 5
"""Seconds after the time limit at which a fork ends itself."""

TAIL = 2000
"""Characters of the standard error of a process that died, in its message."""

SMALLEST_PART = 0.1
"""A reduced program must have at least this part of the error of the whole program, or of
`CLEAR_ERROR`. Otherwise, the reduction could end at a rounding error."""
CLEAR_ERROR = 0.01


@dataclass(frozen=True)
class Outcome:
    """How the test of a program ended.

    Attributes:
        kind: What failed.
        stage: Where: "load", "translate" or "verify".
        causes: What went wrong, in terms that stay the same when the program shrinks: op and reason
            of each refusal, class and place of an error, the signal.
        error: For "differs", the largest error relative to the scale of its output.
        message: The whole text for the user.
    """

    kind: Kind = "none"
    stage: str = ""
    causes: tuple[str, ...] = ()
    error: float = 0.0
    message: str = ""

    def is_like(self, wanted: Outcome) -> bool:
        """Whether this is the failure that a reduction has to keep: its first cause."""
        if (self.kind, self.stage) != (wanted.kind, wanted.stage):
            return False
        if wanted.causes == (NONFINITE,) and self.kind == "differs":
            # A clear difference of finite numbers is behind many a NaN, and no rounding error.
            return self.causes == (NONFINITE,) or self.error >= CLEAR_ERROR
        if wanted.causes and wanted.causes[0] not in self.causes:
            return False
        return self.error >= SMALLEST_PART * min(wanted.error, CLEAR_ERROR)

    def __str__(self) -> str:
        cause = f": {self.causes[0]}" if self.causes else ""
        stage = f" ({self.stage})" if self.stage else ""
        return f"{TITLES[self.kind]}{stage}{cause}"


@dataclass(frozen=True)
class Request:
    """A program for a child process to test.

    Attributes:
        seconds: Limit of the time.
        verify: Whether to run the model. Not needed where the translation fails.
    """

    text: str
    inputs: Inputs
    options: Options
    seed: int
    seconds: float
    verify: bool = True


def tested(process: Runtime, request: Request) -> Outcome:
    """The outcome of a program, however it ends.

    Args:
        process: A `module_process` of this module.
    """
    process.seconds = request.seconds
    found = process.run(b"", pickled(request))
    if isinstance(found, Answer):
        outcome: Outcome = unpickled(found)
        return outcome
    died = _death(process.exit_code, process.said)
    if not found.startswith("no answer"):
        return died
    return Outcome("timeout", died.stage, message=f"no result after {request.seconds:g} s")


def _death(code: int, said: str) -> Outcome:
    """The outcome of a process that has ended.

    Args:
        said: What it wrote to its standard error.
    """
    said = said.rpartition(f"{_STAGE}load\n")[2]
    name = f"exit code {code}" if code >= 0 else signal.Signals(-code).name
    message = _STAGES.sub("", said).strip()[-TAIL:]
    text = "\n".join(filter(None, (name, message)))
    return Outcome("died", ["load", *_STAGES.findall(said)][-1], (name,), message=text)


# -- in the child -----------------------------------------------------------------------------

_STAGE = "hlo2onnx begins to "
_STAGES = re.compile(f"^{_STAGE}(.*)\n", re.M)
"""What the child writes before each stage."""


def load(_: bytes) -> None:
    """Prepares the process."""
    with suppress(ImportError):  # Windows
        import resource

        resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    jax.config.update("jax_platforms", "cpu")
    load_handlers()


def answer(_: None, request: Request) -> Outcome:
    """The outcome of a program. On Linux, a fork finds it: forks start at once."""
    if sys.platform != "linux":
        return _outcome(request)
    receiver, sender = Pipe(duplex=False)
    if not (fork := os.fork()):
        # If this process is killed, an endless program must not stay behind.
        signal.alarm(math.ceil(request.seconds) + SPARE)
        sender.send(_outcome(request))
        os._exit(0)
    sender.close()
    try:
        found: Outcome = receiver.recv()
    except EOFError:
        code = os.waitstatus_to_exitcode(os.waitpid(fork, 0)[1])
        said = os.pread(2, os.fstat(2).st_size, 0).decode(errors="replace")
        return _death(code, said)
    os.waitpid(fork, 0)
    return found


def _outcome(request: Request) -> Outcome:
    """The outcome of a program that does not end the process."""
    stage = "load"

    def begin(name: str) -> None:
        nonlocal stage
        stage = name
        print(f"{_STAGE}{name}", file=sys.stderr, flush=True)

    try:
        begin("load")
        source = from_module(parse_module(request.text, "the program"), "the program", None)
        begin("translate")
        model, report = run_stages(source, request.options)
        program = OnnxProgram(model, source, report, (), request.options)
        if not request.verify:
            return Outcome()
        begin("verify")
        is_given = any(array is not None for array in request.inputs)
        arrays = _arrays(source, request) if is_given else ()
        return _verified(program.verify(*arrays, seed=request.seed))
    except TranslationError as error:
        causes = [f"{refusal.op}: {stable(refusal.why)}" for refusal in error.refusals]
        return Outcome("refused", stage, tuple(dict.fromkeys(causes)), message=str(error))
    except Exception as error:  # noqa: BLE001  (any error is a kind of failure)
        return Outcome("error", stage, (_cause(error),), message=_text(error))


def _verified(found: Verification) -> Outcome:
    wrong = found.differing
    if not wrong:
        return Outcome()
    kind = NONFINITE if any(item.nonfinite for item in wrong) else FINITE
    error = max(item.max_rel for item in wrong)
    return Outcome("differs", "verify", (kind,), float(np.nan_to_num(error)), str(found))


def _arrays(source: Source, request: Request) -> list[np.ndarray]:
    """The arrays of all inputs: the given ones, and random ones."""
    rng = np.random.default_rng(request.seed)
    pairs = [
        (request.inputs[port.position], random_array(port, rng)) for port in source.signature.inputs
    ]
    return [other if array is None else array for array, other in pairs]


# -- causes -----------------------------------------------------------------------------------

_NAMES = re.compile(
    r"'[^']*'|\"[^\"]*\"|[\w./-]*/[\w./-]+|\[[^\]]*\]|(?<=\()[^()]*(?=\))|\b\d+(\.\d+)?"
)
"""Parts of messages that change when a program shrinks: names, paths, lists, numbers."""

FEWEST_WORDS = 3
"""Words of a clause that says something."""

_WALKER = "hlo2onnx.lowering.walker"


def stable(message: str) -> str:
    """The first line of a message without names, paths and numbers."""
    line = next(iter(message.strip().splitlines()), "")
    return " ".join(_NAMES.sub("_", line).split())


def _cause(error: Exception) -> str:
    """The class of an error, the op that was being translated, and the place or the message."""
    name = type(error).__name__
    if isinstance(error, VerificationError):
        return f"{name}: {_innermost(str(error))}"
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    ops = [
        str(frame.f_locals["op"].key)
        for frame in frames
        if frame.f_code.co_name == "op" and frame.f_globals.get("__name__") == _WALKER
    ]
    place = ""
    if frames:
        place = f" in {frames[-1].f_globals.get('__name__')}.{frames[-1].f_code.co_name}"
    return f"{name}{place}" + (f" for {ops[-1]}" if ops else "")


def _innermost(message: str) -> str:
    """What failed, and the last clause of a runtime's message.

    The clauses before it name the nodes around the cause, such as loops.
    """
    line = next(iter(message.strip().splitlines()), "")
    what, *clauses = re.split(r": (?=[A-Z])", line)
    last = next((each for each in reversed(clauses) if len(each.split()) >= FEWEST_WORDS), "")
    return ": ".join(filter(None, (stable(what.partition(":")[0]), stable(last))))


def _text(error: Exception) -> str:
    if isinstance(error, VerificationError):
        return f"{type(error).__name__}: {error}"
    return "".join(traceback.format_exception(error)).strip()
