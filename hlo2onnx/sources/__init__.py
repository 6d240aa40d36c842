"""Loading every accepted kind of program."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import jax

from hlo2onnx.errors import LoadError
from hlo2onnx.sources.files import from_module, from_text
from hlo2onnx.sources.lowered import from_lowered
from hlo2onnx.sources.source import Source

__all__ = ["Source", "load"]


def load(
    source: Any,
    args: Sequence[Any] = (),
    kwargs: Mapping[str, Any] | None = None,
    function: str | None = None,
) -> Source:
    """Makes a `Source` of whatever is given.

    Raises:
        LoadError: It is not a program.
    """
    if isinstance(source, jax.stages.Lowered):
        return from_lowered(source)
    if isinstance(source, str):
        return from_text(source, "the given text", function)
    if hasattr(source, "operation") and hasattr(source, "context"):
        return from_module(source, "the given module", function)
    raise LoadError(f"cannot translate a {type(source).__name__}")
