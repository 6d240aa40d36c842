"""`check`: what will not translate, what will not run on the target, and what may be slow."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any, Unpack, overload

from hlo2onnx.api import Keywords, Program, split_keywords
from hlo2onnx.command.slow_parts import SlowPart, slow_parts
from hlo2onnx.errors import Refusal, TranslationError, UsageError
from hlo2onnx.frontend.load import prepared
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.pipeline import diagnose
from hlo2onnx.report import begin_stage, to_json
from hlo2onnx.targets import load_target


@dataclass(frozen=True)
class Check:
    """What is known about the translation of a program.

    It is falsy if something cannot be translated. It prints as text.

    Attributes:
        source: Name of the program.
        target: Name of the runtime.
        refusals: The ops that cannot be translated, or cannot run on the target.
        slow: Parts that may be slow. They are warnings.
        notes: Notes of the translation.
        ops: Count of StableHLO ops.
        seconds: Time of the check.
    """

    source: str
    target: str
    refusals: Sequence[Refusal]
    slow: Sequence[SlowPart]
    notes: Sequence[str]
    ops: int
    seconds: float

    @property
    def ok(self) -> bool:
        """Whether the program can be translated for the target."""
        return not self.refusals

    def __bool__(self) -> bool:
        return self.ok

    def as_dict(self) -> dict[str, object]:
        """The check as plain JSON data."""
        return {
            **vars(self),
            "ok": self.ok,
            "refusals": [asdict(refusal) for refusal in self.refusals],
            "slow": [asdict(part) for part in self.slow],
            "notes": list(self.notes),
        }

    def to_json(self) -> str:
        """The check as JSON text."""
        return to_json(self.as_dict())

    def __str__(self) -> str:
        parts = []
        if self.refusals:
            parts.append(str(TranslationError(self.refusals)))
        if self.slow:
            count = f"{len(self.slow)} part{'s' if len(self.slow) != 1 else ''}"
            parts += [f"{count} of this program may be slow", *map(str, self.slow)]
        parts += [f"note     {note}" for note in self.notes]
        verdict = "can" if self.ok else "cannot"
        parts.append(
            f"{self.source} {verdict} be translated for {self.target}: checked {self.ops:,} ops in"
            f" {self.seconds:.1f} s"
        )
        return "\n".join(parts)


@overload
def check(
    source: Mapping[str, Program | Callable[..., object]], /, **options: Unpack[Keywords]
) -> dict[str, Check]: ...


@overload
def check(source: Program, /, **options: Unpack[Keywords]) -> Check: ...


@overload
def check(source: Callable[..., object], /, *args: PyTree, **keywords: Any) -> Check: ...


def check(source: object, /, *args: PyTree, **keywords: Any) -> Check | dict[str, Check]:
    """Says what will not translate, what will not run on the target, and what may be slow.

    Nothing is run, and the numbers of bound weights are not read.

    Args:
        source: As for `hlo2onnx.translate`. A mapping of programs gives a mapping of checks.
        args: Example arguments of a function.
        keywords: Options of `hlo2onnx.translate`, and keyword arguments of the function.

    Returns:
        The findings.

    Raises:
        LoadError: The source is not a readable program.
        UsageError: An option or its value is wrong.
    """
    options, kwargs = split_keywords(source, keywords)
    if isinstance(source, Mapping):
        if args or kwargs:
            raise UsageError("example arguments need a single function, not several programs")
        return {name: _checked(item, (), {}, options) for name, item in source.items()}
    return _checked(source, args, kwargs, options)


def _checked(
    source: object, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], options: Options
) -> Check:
    start = time.perf_counter()
    options = replace(options, dump=None, weights_dtype=None)
    begin_stage("load")
    loaded = prepared(source, args, kwargs, options)
    model, report, diagnosis = diagnose(_with_weights_as_inputs(loaded), options)
    slow: list[SlowPart] = []
    if model is not None:
        slow = slow_parts(model, load_target(options.target), diagnosis.expansions)
    return Check(
        loaded.description,
        report.target,
        tuple(diagnosis.refusals),
        tuple(slow),
        tuple(report.notes),
        sum(report.ops.values()),
        time.perf_counter() - start,
    )


def _with_weights_as_inputs(source: Source) -> Source:
    """The program without the numbers of its bound weights."""
    signature = source.signature
    ports = (*signature.inputs, *(item.port for item in signature.bound))
    inputs = tuple(sorted(ports, key=lambda port: port.position))
    return replace(source, signature=replace(signature, inputs=inputs, bound=()))
