"""Tensors in groups: the parts of each StableHLO value."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import starmap

import onnx_ir as oir

from hlo2onnx.lowering.context import Parts


def each(action: Callable[..., oir.Value], *groups: Iterable[Parts]) -> list[Parts]:
    """The action on every tensor, or on the tensors at the same place of several lists."""
    return [tuple(starmap(action, zip(*parts, strict=True))) for parts in zip(*groups, strict=True)]


def flat(parts: Iterable[Parts]) -> list[oir.Value]:
    """All parts in one list."""
    return [part for item in parts for part in item]


def regrouped(values: Iterable[oir.Value], like: Iterable[Parts]) -> list[Parts]:
    """The values in groups of the same sizes as these."""
    rest = iter(values)
    return [tuple(next(rest) for _ in parts) for parts in like]
