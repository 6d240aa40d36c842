"""Cases and their outcomes."""

from __future__ import annotations

from dataclasses import dataclass

STATUSES: dict[str, str] = {
    "pass": "every output agrees with XLA",
    "skipped": "JAX itself does not implement the case on the CPU",
    "unexported": "JAX does not lower the case for symbolic leading dimensions, or it has none",
    "jax-error": "JAX fails although it declares no limitation",
    "refused": "hlo2onnx raises a TranslationError",
    "error": "hlo2onnx raises anything else: a bug",
    "invalid": "the full ONNX checker rejects the model",
    "load-error": "ONNX Runtime does not load the model",
    "run-error": "ONNX Runtime does not run the model",
    "mismatch": "an output differs from XLA's",
    "crash": "the process died",
    "timeout": "the case took too long",
}
"""In the order of the way of a case."""

_APART = ("skipped", "unexported")
"""What JAX itself does not do."""

REASON_LENGTH = 300


@dataclass(frozen=True)
class Case:
    """One harness.

    Attributes:
        name: Its full name, unique.
        group: Its group, most often the name of a JAX primitive.
    """

    name: str
    group: str


@dataclass(frozen=True)
class Outcome:
    """The outcome of a case.

    Attributes:
        status: A key of `STATUSES`.
        reason: One line.
        detail: Traceback or differing values.
    """

    name: str
    status: str
    reason: str = ""
    detail: str = ""

    @property
    def counts(self) -> bool:
        """Whether the case is part of the total: JAX's own gaps are not."""
        return self.status not in _APART

    @property
    def failed(self) -> bool:
        """Whether the case has not passed, and counts."""
        return self.status not in ("pass", *_APART)

    @property
    def line(self) -> str:
        """Status and reason."""
        return f"{self.status}: {self.reason}" if self.reason else self.status


def one_line(text: str, length: int = REASON_LENGTH) -> str:
    """The text on one line, shortened."""
    line = " ".join(text.split())
    return line if len(line) <= length else line[: length - 1] + "…"
