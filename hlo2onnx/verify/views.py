"""What the report reads of other results. Their packages are above this one."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ElementView(Protocol):
    """One element of an output: see `hlo2onnx.verify.error_distribution.Element`."""

    @property
    def index(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def actual(self) -> str: ...  # noqa: D102
    @property
    def expected(self) -> str: ...  # noqa: D102
    @property
    def error(self) -> float: ...  # noqa: D102


class ErrorsView(Protocol):
    """Errors of an output: see `hlo2onnx.verify.error_distribution.ErrorDistribution`."""

    @property
    def counts(self) -> Sequence[tuple[str, int]]: ...  # noqa: D102
    @property
    def worst(self) -> Sequence[ElementView]: ...  # noqa: D102


class ComparisonView(Protocol):
    """One output: see `hlo2onnx.verify.compare.Comparison`."""

    @property
    def name(self) -> str: ...  # noqa: D102
    @property
    def dtype(self) -> str: ...  # noqa: D102
    @property
    def shape(self) -> tuple[int, ...]: ...  # noqa: D102
    @property
    def max_abs(self) -> float: ...  # noqa: D102
    @property
    def max_rel(self) -> float: ...  # noqa: D102
    @property
    def max_ulp(self) -> float: ...  # noqa: D102
    @property
    def nonfinite(self) -> int: ...  # noqa: D102
    @property
    def ok(self) -> bool: ...  # noqa: D102
    @property
    def unjudged(self) -> str: ...  # noqa: D102
    @property
    def remark(self) -> str: ...  # noqa: D102


class VerificationView(Protocol):
    """A verification: see `hlo2onnx.verify.compare.Verification`."""

    @property
    def optimized(self) -> Sequence[ComparisonView]: ...  # noqa: D102
    @property
    def plain(self) -> Sequence[ComparisonView]: ...  # noqa: D102
    @property
    def runs(self) -> Sequence[tuple[str, Sequence[ComparisonView]]]: ...  # noqa: D102
    @property
    def runtime(self) -> str: ...  # noqa: D102
    @property
    def fallback(self) -> str: ...  # noqa: D102
    @property
    def left_out(self) -> Sequence[str]: ...  # noqa: D102
    @property
    def notes(self) -> list[str]: ...  # noqa: D102
    @property
    def ok(self) -> bool: ...  # noqa: D102
