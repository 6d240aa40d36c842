"""Makes the trials of a verification: inputs of a program, and XLA's results for them.

The first inputs are ordinary numbers. Others take values that matter to the program. Those that
reach a new side of a guard are preferred.
"""

from __future__ import annotations

import math
import time
from collections.abc import Sequence
from dataclasses import dataclass, replace

import ml_dtypes
import numpy as np

from hlo2onnx.errors import OtherResultsError, OverBudgetError, SignatureError, VerificationError
from hlo2onnx.frontend.signature import Signature
from hlo2onnx.frontend.source import Source
from hlo2onnx.frontend.specialize import symbols_of
from hlo2onnx.ir.dims import evaluate, is_positive
from hlo2onnx.runtime.calling import extents_of
from hlo2onnx.verify.budget import XLA
from hlo2onnx.verify.compare import Coverage
from hlo2onnx.verify.coverage import TRIPS, Probe
from hlo2onnx.verify.element_kinds import is_float
from hlo2onnx.verify.inputs import (
    COLUMNS,
    LIMITS,
    ORDINARY,
    POSITIVE,
    RECIPES,
    SIZE,
    Recipe,
    in_domain,
    private_generator,
    random_array,
)
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.roles import Role
from hlo2onnx.verify.settings import Sizes


@dataclass(frozen=True)
class Trial:
    """Inputs of a program and XLA's results for them.

    Attributes:
        arrays: One for each input of the program.
        expected: XLA's results.
        kind: Description of the inputs for the user: "random inputs, seed 0".
        is_ordinary: Whether they are the user's own, or ordinary numbers. Others were made to reach
            special cases.
        sizes: The sizes of the dynamic dimensions: "b = 3, s = 4".
        column: The column of the table of samples that counts them.
        meets_nan: Whether the run takes the maximum or minimum of NaN.
        converts_nan: Whether it converts NaN to an integer.
    """

    arrays: Sequence[np.ndarray]
    expected: Sequence[np.ndarray] = ()
    kind: str = ""
    is_ordinary: bool = True
    sizes: str = ""
    column: str = ""
    meets_nan: bool = False
    converts_nan: bool = False

    def overflows(self, wide: Sequence[np.ndarray] | None) -> bool:
        """Whether results are so large that their squares overflow, or infinite by overflow.

        Args:
            wide: The results of the program in f64, if known.
        """
        unknown: list[np.ndarray | None] = [None] * len(self.expected)
        found = unknown if wide is None else wide
        return any(map(_overflows, self.expected, found))

    @property
    def has_nan(self) -> bool:
        """Whether NaN is in the inputs or the results, in a maximum, or converted."""
        every = (*self.arrays, *self.expected)
        return self.meets_nan or self.converts_nan or any((x != x).any() for x in every)


def _overflows(array: np.ndarray, wide: np.ndarray | None) -> bool:
    if not is_float(array) or not array.size:
        return False
    largest = math.sqrt(float(ml_dtypes.finfo(array.dtype).max))
    size = np.abs(array.astype(np.float64))
    if (np.isfinite(size) & (size > largest)).any():
        return True
    return wide is not None and bool((np.isinf(size) & np.isfinite(wide)).any())


# -- making them -----------------------------------------------------------------------------------

MOST = 24
"""Default limit of the inputs for the first sizes."""
CANDIDATES = 96
"""Limit of the inputs that are tried to find those that reach new guards."""
SHARE = 0.4
"""Limit of the time for more runs, relative to the time until the first result."""
_ANY_DOMAIN = 4
"""One of so many samples that are not ordinary may leave the domain of roots and logarithms."""
_BYTES = 1 << 28
"""Limit of the memory of inputs and outputs, beyond two trials."""


def given_trials(
    signature: Signature, reference: Reference, given: Sequence[tuple[Sequence[np.ndarray], str]]
) -> list[Trial]:
    """The trials of the user's inputs, as many as there is time for after the first.

    Args:
        given: The inputs and their descriptions.
    """
    found: list[Trial] = []
    symbols = symbols_of(signature)
    for arrays, kind in given:
        begin = time.monotonic()
        extents = extents_of(signature, arrays) if symbols else {}
        sizes = _named({name: extents[name] for name in symbols})
        try:
            run = reference.at(arrays).again if found else reference
            found.append(Trial(arrays, run(arrays), kind, sizes=sizes))
        except OverBudgetError:
            reference.budget.leave_out(kind)
        reference.budget.measured(XLA, time.monotonic() - begin)
    return found


class TrialMaker:
    """Makes the trials of a program.

    Attributes:
        trials: The trials.
        coverage: The guards that they reach; None if that is unknown.
        notes: Notes on sizes that were left out.

    Args:
        source: The program.
        reference: The same in XLA.
        seed: Seed of the random inputs.
        samples: Count of inputs for the first sizes. Default: as many as a share of the time
            allows.
        sizes: The sizes of the symbols, in turn. Default: different sizes, all 1, all 2.

    Raises:
        VerificationError: XLA does not compile or run the program.
    """

    def __init__(
        self,
        source: Source,
        reference: Reference,
        seed: int,
        samples: int | None = None,
        sizes: Sequence[Sizes] | None = None,
    ) -> None:
        self._ports = source.signature.inputs
        self._reference = reference
        self._budget = reference.budget
        self._seed = seed
        self._most = samples
        self.trials: list[Trial] = []
        self.coverage: Coverage | None = None
        self.notes: list[str] = []
        self._roles: Sequence[Role] = [Role()] * len(self._ports)
        symbols = symbols_of(source.signature)
        if sizes is None:
            dims = [dim for port in self._ports for dim in port.shape if not isinstance(dim, int)]
            zeros = dict.fromkeys(symbols, 0)
            may_be_0 = all(not is_positive(x) and (evaluate(x, zeros) or 0) >= 0 for x in dims)
            first, *rest = _default_sizes(symbols, may_be_0)
            self._of_default_sizes(first, rest, symbols)
        else:
            for index, item in enumerate(sizes):
                complete = {**dict.fromkeys(symbols, SIZE), **item}
                if index:
                    self._few(complete)
                else:
                    self._many(complete)

    def _of_default_sizes(
        self, first: Sizes, rest: Sequence[Sizes], symbols: Sequence[str]
    ) -> None:
        try:
            self._check(first)
            self._many(first)
        except (VerificationError, SignatureError) as error:
            if not symbols or isinstance(error, OtherResultsError):
                raise
            self._many(dict.fromkeys(symbols, SIZE))
        for item in rest:
            try:
                self._check(item)
                self._few(item)
            except OtherResultsError:
                raise
            except (VerificationError, SignatureError):
                self.notes.append(f"the program does not take {_named(item)}")

    def _check(self, sizes: Sizes) -> None:
        """Raises an error if an extent would be less than the program allows: 0, or 1."""
        for port in self._ports:
            for dim in port.shape:
                size = dim if isinstance(dim, int) else evaluate(dim, sizes)
                if not isinstance(dim, int) and (size is None or size < is_positive(dim)):
                    raise VerificationError(f"with these sizes, {dim} would be {size}")

    def _few(self, sizes: Sizes) -> None:
        """Some inputs of these sizes."""
        if self._budget.is_over:
            self._budget.leave_out(_named(sizes))
            return
        start = 1000 + 10 * len(self.trials)
        probe = None
        if any(role.is_limited for role in self._roles):  # a loop might not end
            probe = self._reference.at(self._draw(sizes, start, ORDINARY).arrays).probe
        runner = _Runner(self._reference, probe)
        for number, recipe in enumerate((ORDINARY, LIMITS), start):
            trial = runner(self._draw(sizes, number, recipe))
            if trial is not None:
                self.trials.append(trial)

    def _many(self, sizes: Sizes) -> None:
        """Inputs of these sizes, until the time or the number is reached.

        Raises:
            VerificationError: A loop does not end on any of them.
        """
        started = time.monotonic()
        probe = self._reference.at(self._draw(sizes, 0, ORDINARY).arrays).probe
        if probe is not None:
            self._roles = probe.roles
        runner = _Runner(self._reference, probe)
        first = runner(self._draw(sizes, 0, ORDINARY))
        if first is not None:
            self._budget.measured(XLA, time.monotonic() - started)
        budget = SHARE * (time.monotonic() - started) + 0.1
        started = time.monotonic()
        second = runner(self._draw(sizes, 1, POSITIVE)) if self._most != 1 else None
        took = time.monotonic() - started
        self.trials += [trial for trial in (first, second) if trial is not None]
        most = self._most or min(MOST, 2 + int(budget / max(took, 1e-6)))
        if self._most is None and self.trials:
            last = self.trials[-1]
            size = sum(x.nbytes for x in (*last.arrays, *last.expected))
            most = max(2, min(most, _BYTES // max(size, 1)))
        until = started + budget if self._most is None else math.inf
        self._search(runner, sizes, most, until)
        if not self.trials and self._budget.is_over:
            raise VerificationError(
                f"XLA gives no result in {self._budget.seconds:g} s on random inputs\n"
                "  next   pass inputs for which the program ends, or more seconds="
            )
        if not self.trials:
            raise VerificationError(
                f"a loop of the program has more than {TRIPS} trips on random inputs\n"
                "  next   pass inputs for which it ends"
            )
        if probe is not None:
            self.coverage = probe.coverage(runner.reached)

    def _search(self, runner: _Runner, sizes: Sizes, most: int, until: float) -> None:
        """Adds trials that reach new sides of guards, and then others.

        Args:
            most: Limit of all trials.
            until: The time to stop.
        """
        spare: list[Trial] = []
        for number in range(2, CANDIDATES + 2):
            recipe = RECIPES[(number - 2) % len(RECIPES)]
            done = len(self.trials) + (len(spare) if runner.is_complete else 0)
            if max(done, len(self.trials)) >= most or time.monotonic() > until:
                break
            if self._budget.is_over:
                self._budget.leave_out("more samples")
                break
            before = runner.count
            trial = runner(self._draw(sizes, number, recipe))
            if trial is not None and runner.count > before:
                self.trials.append(trial)
            elif trial is not None and recipe.is_tame and len(spare) < most:
                spare.append(trial)
        self.trials += spare[: most - len(self.trials)]

    def described(self) -> str:
        """A table of the trials: how many there are of each kind, for each set of sizes."""
        columns = [name for name in COLUMNS if any(x.column == name for x in self.trials)]
        rows = [["", *columns]]
        for sizes in dict.fromkeys(trial.sizes for trial in self.trials):
            found = [trial.column for trial in self.trials if trial.sizes == sizes]
            rows.append([sizes, *(str(found.count(name)) for name in columns)])
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        first, *others = widths
        lines = [
            "  ".join([row[0].ljust(first)][: bool(first)] + list(map(str.rjust, row[1:], others)))
            for row in rows
        ]
        return "\n".join(lines)

    def _draw(self, sizes: Sizes, number: int, recipe: Recipe) -> Trial:
        """The inputs of one number, without results. They depend on nothing else but the seed."""
        turn = sum(RECIPES[other % len(RECIPES)] is recipe for other in range(max(0, number - 2)))
        rng = private_generator(self._seed, number)
        arrays = []
        is_changed = False
        for port, role in zip(self._ports, self._roles, strict=True):
            array = random_array(port, rng, sizes=sizes, role=role)
            if recipe in _PLAIN or number % _ANY_DOMAIN != 2:
                array = in_domain(array, role)
            arrays.append(recipe.change(array, role, rng, turn))
            is_changed |= arrays[-1] is not array
        named = _named(sizes)
        kind = "; ".join(text for text in (named, recipe.what if is_changed else "") if text)
        kind = f"sample {number}" + (f": {kind}" if kind else "")
        column = recipe.column if is_changed else ORDINARY.column
        return Trial(arrays, (), kind, recipe in _PLAIN, named, column)


_PLAIN = (ORDINARY, POSITIVE)


class _Runner:
    """Runs XLA, and notes the guards that were reached.

    Args:
        probe: The instrumented program; None to run the program itself.
    """

    def __init__(self, reference: Reference, probe: Probe | None) -> None:
        self._reference = reference
        self.probe = probe
        self.reached = np.zeros(0 if probe is None else len(probe.places), bool)

    def __call__(self, trial: Trial) -> Trial | None:
        """The trial with results; None if a loop does not end, or takes long."""
        try:
            if self.probe is None:
                return replace(trial, expected=self._reference.at(trial.arrays).again(trial.arrays))
            expected, reached = self.probe(trial.arrays)
        except OverBudgetError:
            self._reference.budget.leave_out("samples for which XLA takes long")
            return None
        if self.probe.is_endless(reached):
            return None
        self.reached |= reached
        meets_nan, converts_nan = self.probe.nans(reached)
        return replace(trial, expected=expected, meets_nan=meets_nan, converts_nan=converts_nan)

    @property
    def count(self) -> int:
        """Count of the sides that were reached."""
        return int(self.reached.sum())

    @property
    def is_complete(self) -> bool:
        """Whether all sides were reached."""
        return self.count == len(self.reached)


def _named(sizes: Sizes) -> str:
    return ", ".join(f"{name} = {size}" for name, size in sizes.items())


def _default_sizes(symbols: Sequence[str], may_be_0: bool) -> list[Sizes]:
    """Different sizes, all 1, all 2 and perhaps all 0; one empty mapping without symbols."""
    if not symbols:
        return [{}]
    different = {name: SIZE + place for place, name in enumerate(symbols)}
    sizes = (1, 2, 0) if may_be_0 else (1, 2)
    return [different, *(dict.fromkeys(symbols, size) for size in sizes)]
