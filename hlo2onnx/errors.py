"""The errors of hlo2onnx. Their texts say what is wrong, where, why, and what to do."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class Hlo2OnnxError(Exception):
    """Base class of all errors that hlo2onnx raises. The CLI prints the text and exits with 1."""


class LoadError(Hlo2OnnxError):
    """The source is not a readable StableHLO program."""


class UsageError(Hlo2OnnxError):
    """An option or argument is unknown or has a wrong value. The CLI exits with 2."""


class WriteError(Hlo2OnnxError, OSError):
    """A file could not be written. The disk may be full, or permission may be missing."""


class SignatureError(Hlo2OnnxError, TypeError):
    """The arguments of a call do not fit the program's signature."""


class VerificationError(Hlo2OnnxError):
    """The program could not be run, in XLA for reference or in ONNX Runtime."""


class NotInstalledError(VerificationError):
    """A runtime or an extra is not installed where it was looked for. The text says how to install
    it. The CLI exits with 3."""


class OverBudgetError(VerificationError):
    """A verification ran out of time for a run or a compilation."""


class OtherResultsError(VerificationError):
    """The user's function has results of other types at some sizes."""


class InternalError(Hlo2OnnxError):
    """A handler or rule returned a wrong type, shape or count of values: a bug in hlo2onnx."""


class PluginError(Hlo2OnnxError):
    """A plug-in cannot be loaded, or registers something that is not a handler."""


class UnsupportedOp(Hlo2OnnxError):  # noqa: N818  (named for what it reports, as in torch.onnx)
    """A handler cannot express an op. The walker adds the op, its types and its location.

    Args:
        why: The reason: what ONNX or the target cannot do.
        next: What the user can do about it.
    """

    def __init__(self, why: str, next: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.next = next


@dataclass(frozen=True)
class Refusal:
    """One op of the module that could not be translated.

    Attributes:
        op: Name of the op; for a custom call with its target.
        types: Types of its operands and results.
        where: Source line and JAX scope.
        why: The reason.
        next: What the user can do about it; "" if nothing is known.
    """

    op: str
    types: str
    where: str
    why: str
    next: str

    def __str__(self) -> str:
        lines = [f"{self.op}: {self.why}", f"  where  {self.where}", f"  types  {self.types}"]
        if self.next:
            lines.append(f"  next   {self.next}")
        return "\n".join(lines)


PLACES = 4
"""An error lists at most this many places for one reason."""


class TranslationError(Hlo2OnnxError):
    """The module holds ops that cannot be translated.

    Attributes:
        refusals: All of these ops, each with its types, location and reason.
    """

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        count = len(self.refusals)
        head = f"{count} op{'s' if count != 1 else ''} of this program cannot be translated to ONNX"
        super().__init__("\n".join([head, *map(str, _grouped(self.refusals))]))


def _grouped(refusals: Sequence[Refusal]) -> list[Refusal]:
    """Merges refusals that differ only in their place."""
    groups: dict[tuple[str, str, str, str], list[str]] = {}
    for refusal in refusals:
        key = (refusal.op, refusal.types, refusal.why, refusal.next)
        places = groups.setdefault(key, [])
        if refusal.where not in places:
            places.append(refusal.where)
    folded = []
    for (op, types, why, next_), places in groups.items():
        shown = places if len(places) <= PLACES + 1 else places[:PLACES]
        rest = len(places) - len(shown)
        where = "\n         ".join([*shown, *([f"and {rest} more places"] if rest else [])])
        folded.append(Refusal(op, types, where, why, next_))
    return folded
