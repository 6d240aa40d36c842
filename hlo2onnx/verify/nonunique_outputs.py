"""Judges outputs that depend on results of decompositions that are not unique.

For example, eigenvectors are unique only up to their signs, so XLA's can differ from the model's.
If outputs differ, the reference gets the model's choice:

-   If outputs are elements of vectors, perhaps scaled, the model's vectors are read from them. If
    these are as good as LAPACK's, XLA computes the other outputs from them.
-   Otherwise, our own algorithms, run in XLA, make the choice, if they are as good.

An output that still differs is wrong. But it cannot be judged if the outputs of two such choices
differ as much.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property
from typing import NamedTuple

import numpy as np

from hlo2onnx.frontend.signature import Port
from hlo2onnx.verify.compare import Comparison, compare
from hlo2onnx.verify.decompositions import WHAT
from hlo2onnx.verify.element_kinds import in_f64
from hlo2onnx.verify.f64_reference import is_evaluation_of
from hlo2onnx.verify.reference import StaticReference
from hlo2onnx.verify.reference_with_factors import Results, Site

Arrays = Sequence[np.ndarray]

_REMARK = "with the model's choice of results that are not unique"
_TIMES_SPREAD = 4
"""Limit of a difference that may come from a choice, relative to that of other choices."""


class _Places(NamedTuple):
    """The origin of the elements of an output, for one decomposition.

    Complex numbers count as two elements.

    Attributes:
        element: Index among the free results; -1 for a constant, -2 for anything else.
        factor: Its factor.
    """

    element: np.ndarray
    factor: np.ndarray


class Choices:
    """The references of one verification: with XLA's choices, with ours, and with others.

    Args:
        reference: A program that has decompositions.
        arrays: The inputs.
        outputs: The outputs of the program.
        expected: XLA's results.
        compared: `compare` with the tolerances of the user.
    """

    def __init__(
        self,
        reference: StaticReference,
        arrays: Arrays,
        outputs: Sequence[Port],
        expected: Arrays,
        compared: Callable[..., Comparison] = compare,
    ) -> None:
        opened = reference.opened()
        assert opened is not None
        self._compare = compared
        self._reference = reference
        self._opened = opened
        self._arrays = arrays
        self._outputs = outputs
        self._expected = expected
        self._xla = opened.choices(arrays, lambda _, site: site.xla)
        self._places = [self._places_of(index) for index in range(len(self._xla))]

    def judged(self, found: Sequence[Comparison], actual: Arrays) -> list[Comparison]:
        """Repeats the comparisons of one run for outputs that differ."""
        pairs = zip(actual, self._expected, strict=True)
        if any(got.shape != want.shape or got.dtype != want.dtype for got, want in pairs):
            return list(found)
        choices, is_read = self._of_model(actual)
        known = all(is_read) and not self._opened.closed
        wanted, _ = self._opened(self._arrays, choices)
        exact: list[np.ndarray | None] = [None] * len(wanted)
        if not all(item.ok for item in self._compared(actual, wanted, exact)):
            exact = self._in_f64(choices, is_read, wanted)
        result = list(found)
        for index, again in enumerate(self._compared(actual, wanted, exact)):
            item = found[index]
            if item.ok and (again.ok or not any(is_read)):
                continue
            if again.ok:
                result[index] = replace(again, remark=_REMARK)
            elif not known and self._may_be_a_choice(index, actual[index], wanted[index]):
                result[index] = replace(again, unjudged=self._what)
            else:
                result[index] = again
        return result

    def _compared(
        self, actual: Arrays, wanted: Arrays, exact: Sequence[np.ndarray | None]
    ) -> list[Comparison]:
        rows = zip(self._outputs, actual, wanted, exact, strict=True)
        return [
            self._compare(port.name, got, want, truth, port.step) for port, got, want, truth in rows
        ]

    # -- the model's choice -----------------------------------------------------------------------

    def _of_model(self, actual: Arrays) -> tuple[list[Results], list[bool]]:
        """The model's results of each decomposition, and whether they are known."""
        flat = [_real(array) for array in actual]
        is_read: list[bool] = []

        def choose(index: int, site: Site) -> Results:
            choice, read = self._chosen(index, site, self._read(index, flat))
            is_read.append(read)
            return choice

        return self._opened.choices(self._arrays, choose), is_read

    def _chosen(self, index: int, site: Site, found: Results) -> tuple[Results, bool]:
        """The results of a decomposition, and whether they are right and determine the choice.

        Args:
            found: The results in the model's outputs.
        """
        decomposition = self._opened.decompositions[index]
        complete = {name for name, x in found.items() if not np.isnan(x).any()}
        read = decomposition.is_told_by(complete)
        if found:  # LAPACK's results complete them, except in a space that has found vectors
            made = decomposition.completed(site.operand, site.xla, found)
            if decomposition.are_good(site.operand, made, site.xla):
                return made, read
            if complete >= set(decomposition.free):
                return site.xla, False
        own = self._opened.own(index, site)
        if found:
            made = decomposition.completed(site.operand, own, found)
            if decomposition.are_good(site.operand, made, site.xla):
                return made, read
        return own, False

    def _read(self, index: int, flat: Arrays) -> Results:
        """The free results of a decomposition in the outputs; NaN for unknown elements."""
        like, free = self._xla[index], self._opened.decompositions[index].free
        size = sum(_real(like[name]).size for name in free)
        values = np.full(size, np.nan)
        for output, places in zip(flat, self._places[index], strict=True):
            taken = places.element >= 0
            values[places.element[taken]] = output[taken] / places.factor[taken]
        parts = _split(values, like, free)
        return {name: x for name, x in parts.items() if not np.isnan(x).all()}

    def _places_of(self, index: int) -> list[_Places]:
        """The origins of the elements of the outputs.

        The program runs with ones, with numbers and with other numbers as results of the
        decomposition.
        """
        like, free = self._xla[index], self._opened.decompositions[index].free
        size = sum(_real(like[name]).size for name in free)
        mixed = np.random.default_rng(0).integers(1, 1000, size)
        probes = (np.ones(size), np.arange(size) + 2.0, mixed.astype(np.float64))
        runs = []
        for probe in probes:
            choice = {**like, **_split(probe, like, free)}
            choices = [*self._xla[:index], choice, *self._xla[index + 1 :]]
            runs.append([_real(x) for x in self._opened(self._arrays, choices)[0]])
        return [_matched(*outputs, mixed=mixed) for outputs in zip(*runs, strict=True)]

    def _in_f64(
        self, choices: Sequence[Results], is_read: Sequence[bool], wanted: Arrays
    ) -> list[np.ndarray | None]:
        """The outputs in f64, for the model's vectors, or for ours if these are unknown."""
        opened = self._reference.opened(is_wide=True)
        if opened is None:
            return [None] * len(wanted)
        wide = opened.choices(
            self._arrays,
            lambda index, site: choices[index] if is_read[index] else opened.own(index, site),
        )
        found, _ = opened(self._arrays, wide)
        pairs = zip(found, wanted, strict=True)
        return [truth if is_evaluation_of(truth, want) else None for truth, want in pairs]

    # -- outputs that cannot be judged ------------------------------------------------------------

    def _may_be_a_choice(self, index: int, got: np.ndarray, wanted: np.ndarray) -> bool:
        """Whether an output differs no more than the outputs of other choices."""
        if self._places and all((at[index].element != -2).all() for at in self._places):
            return False  # all outputs are elements of vectors, and these are not right
        port = self._outputs[index]
        others = [outputs[index] for outputs in self._others]
        if all(compare(port.name, other, wanted, step=port.step).ok for other in others):
            return False
        spread = max(_distance(other, wanted) for other in others)
        return _distance(got, wanted) <= _TIMES_SPREAD * spread

    @cached_property
    def _others(self) -> list[Arrays]:
        """The outputs for choices other than the model's."""
        opened, decompositions = self._opened, self._opened.decompositions
        ours = opened.choices(self._arrays, opened.own)
        flipped = opened.choices(
            self._arrays, lambda index, site: decompositions[index].flipped(site.xla)
        )
        found: list[Arrays] = [self._expected]
        found += [opened(self._arrays, choices)[0] for choices in (ours, flipped)]
        return found

    @cached_property
    def _what(self) -> str:
        kinds = dict.fromkeys(item.kind for item in self._opened.every)
        return "; ".join(WHAT[kind] for kind in kinds)


def _real(array: np.ndarray) -> np.ndarray:
    """The elements in f64, flat; two for a complex one."""
    return in_f64(array).reshape(-1)


def _split(values: np.ndarray, like: Results, names: Sequence[str]) -> dict[str, np.ndarray]:
    """The reverse of `_real` for several arrays in a row."""
    found: dict[str, np.ndarray] = {}
    start = 0
    for name in names:
        is_complex = like[name].dtype.kind == "c"
        end = start + like[name].size * (1 + is_complex)
        part = values[start:end]
        found[name] = (part.view(np.complex128) if is_complex else part).reshape(like[name].shape)
        start = end
    return found


def _matched(
    ones: np.ndarray, numbers: np.ndarray, others: np.ndarray, *, mixed: np.ndarray
) -> _Places:
    """The origins of the elements of an output.

    Args:
        ones: The output for free results that are 1.
        numbers: The output for 2, 3, 4, ...
        others: The output for the mixed numbers.
    """
    with np.errstate(all="ignore"):
        quotient = np.nan_to_num(numbers / ones, nan=-1, posinf=-1, neginf=-1)
        index = np.clip(np.rint(quotient) - 2, -1, mixed.size - 1).astype(np.int64)
        want = ones * mixed[index]
        moved = (index >= 0) & (ones != 0) & (abs(others - want) <= 1e-5 * abs(want))
        # f32 has 24 bits for a number and the factor.
        moved &= abs(quotient - index - 2) <= 1e-6 * quotient
    same = (ones == numbers) & (ones == others)
    constant = same | (np.isnan(ones) & np.isnan(numbers) & np.isnan(others))
    return _Places(np.where(constant, -1, np.where(moved, index, -2)), ones)


def _distance(x: np.ndarray, y: np.ndarray) -> float:
    x, y = _real(x), _real(y)
    finite = np.isfinite(x) & np.isfinite(y)
    return float(np.linalg.norm(np.where(finite, x, 0) - np.where(finite, y, 0)))
