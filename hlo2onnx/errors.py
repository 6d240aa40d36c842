"""Every error a user of hlo2onnx can meet. Texts say what, where, why and what to do next."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass


class Hlo2OnnxError(Exception):
    """Base of all errors raised on purpose; the CLI prints its text and exits with 1."""


class LoadError(Hlo2OnnxError):
    """The source is not a StableHLO program that can be read."""


class UsageError(Hlo2OnnxError):
    """An option or argument is not one hlo2onnx knows; the CLI exits with 2."""


class WriteError(Hlo2OnnxError, OSError):
    """A file could not be written: the disk is full, or the folder allows it not."""


class SignatureError(Hlo2OnnxError, TypeError):
    """The arguments of a call do not fit the program's signature."""


class VerificationError(Hlo2OnnxError):
    """A reference run or an ONNX Runtime run of the program could not be made."""


class InternalError(Hlo2OnnxError):
    """A handler or rule broke its contract (wrong type, shape or arity): a bug in hlo2onnx."""


class UnsupportedOp(Hlo2OnnxError):  # noqa: N818  (named for what it reports, as in torch.onnx)
    """Raised by a handler for an op it cannot express; the walker adds op, types and location.

    Args:
        why: What in ONNX or in the target stands in the way.
        next: What the user can do about it.
    """

    def __init__(self, why: str, next: str = "") -> None:
        super().__init__(why)
        self.why = why
        self.next = next


@dataclass(frozen=True)
class Refusal:
    """One op of the module that could not be translated."""

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
"""How many places an error lists for one reason."""


class TranslationError(Hlo2OnnxError):
    """The module holds ops that cannot be translated; `refusals` lists every one of them."""

    def __init__(self, refusals: Sequence[Refusal]) -> None:
        self.refusals = tuple(refusals)
        count = len(self.refusals)
        head = f"{count} op{'s' if count != 1 else ''} of this program cannot be translated to ONNX"
        super().__init__("\n".join([head, *map(str, _grouped(self.refusals))]))


def _grouped(refusals: Sequence[Refusal]) -> list[Refusal]:
    """The refusals with repeats of one op, type and reason folded into one."""
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
