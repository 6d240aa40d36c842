"""Judges models by XLA's results, which are computed once."""

from __future__ import annotations

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property, partial

import numpy as np

from hlo2onnx.errors import OverBudgetError, VerificationError
from hlo2onnx.frontend.source import Source
from hlo2onnx.runtime.calling import from_model, to_model
from hlo2onnx.runtime.sessions import check_model
from hlo2onnx.verify.budget import MODEL, Budget
from hlo2onnx.verify.compare import Comparison, Verification, compare
from hlo2onnx.verify.element_kinds import without_denormals
from hlo2onnx.verify.nonunique_outputs import Choices
from hlo2onnx.verify.reference import Reference
from hlo2onnx.verify.runners import Candidate
from hlo2onnx.verify.sensitivity import Run, Slack, differences, movements
from hlo2onnx.verify.settings import Settings
from hlo2onnx.verify.tolerance import tolerance_of, weakness
from hlo2onnx.verify.trial import Trial, TrialMaker, given_trials

Arrays = Sequence[np.ndarray]
Runs = list[list[Comparison]]
"""The comparisons of the outputs, in each run: with graph optimization, and without."""

_ENOUGH = 2
"""After this many trials that differ, the others are only compared: the verdict is known."""
_LEAST = 2
"""Runs that are made however long they take."""
_SECONDS = 10.0
"""The smallest time limit of the model on generated inputs."""
_SHARE = 2.0
"""The same, relative to the time for these inputs and XLA's results."""
_AMPLIFIED = "the program amplifies rounding: XLA's result changes as much"
_AT_STEP = "floats are at the step to the next integer"


class Judge:
    """The trials of a program. It can judge many models.

    Attributes:
        signature: The signature of the program.
        reference: The program in XLA.
        trials: Inputs, and XLA's results.
        coverage: The guards that the inputs have reached; None if that is unknown.

    Args:
        source: The program.
        given: Inputs of the user and their descriptions. None to make inputs for the program.
        settings: The options.
        budget: The time of all but one run of each side. Default: no limit.

    Raises:
        VerificationError: XLA does not compile or run the program.
    """

    def __init__(
        self,
        source: Source,
        given: Sequence[tuple[Arrays, str]] | None = None,
        settings: Settings | None = None,
        budget: Budget | None = None,
    ) -> None:
        settings = settings or Settings()
        self.signature = source.signature
        self._budget = budget or Budget()
        self.reference = Reference(
            source, settings.weights_dtype, settings.half, self._budget, lowers_again=True
        )
        self.coverage = None
        self._settings = settings
        is_fast = settings.half == "fast"
        self._compare = partial(compare, rtol=settings.rtol, atol=settings.atol, is_fast=is_fast)
        self._are_made = given is None
        self._notes: list[str] = []
        self._seconds = math.inf
        begin = time.monotonic()
        if given is not None:
            self.trials = given_trials(source.signature, self.reference, given)
        else:
            made = TrialMaker(
                source, self.reference, settings.seed, settings.samples, settings.each_sizes
            )
            self.trials, self.coverage = made.trials, made.coverage
            count = len(self.trials)
            head = f"{count} sample{'s' * (count > 1)} of random inputs, seed {settings.seed}"
            self._notes = [f"{head}\n{made.described()}", *made.notes]
            if settings.samples is None:
                self._seconds = max(_SECONDS, _SHARE * (time.monotonic() - begin))

        self._may_last = False
        for program in (self.reference.at(x.arrays) for x in self.trials[:1]):
            # A wrong model may have no last trip where XLA has one.
            self._may_last = program.may_not_end
            if (count := math.prod(program.devices)) > 1:
                where = f"on {count} devices of XLA, in a process of its own"
                self._notes.append(f"the reference is the original program {where}")

    def __call__(self, candidate: Candidate) -> Verification:
        """Compares a model with XLA's results, in all trials.

        Raises:
            VerificationError: The model is not valid, or it does not run.
        """
        check_model(candidate.model)
        runner = candidate.runner
        policy = candidate.denormals if runner.can_flush else "keep"
        notes = [*self._notes, *self._nan_notes()]
        trials = self._without_nan() if candidate.ignores_nan else self.trials
        if len(trials) < len(self.trials):
            count = len(self.trials) - len(trials)
            notes.append(f"{count} samples with NaN are left out: the model may ignore NaN")
        found = self._judged(candidate, trials, policy, self._seconds)
        if len(found) < len(trials):
            notes.append(f"{len(found)} of these samples ran: the model is slow")
            trials = trials[: len(found)]
        bad = [index for index, runs in enumerate(found) if not _all_ok(*runs)]
        if policy == "keep" and bad:
            # XLA flushes denormals to zero. Differences for this reason only are right.
            again = [trials[index] for index in bad]
            remark = "where ORT flushes denormals, too"
            if not runner.can_flush:
                remark = "with zeros instead of denormal inputs"
            for index, runs in zip(bad, self._judged_finally(candidate, again), strict=False):
                pairs = zip(found[index], runs, strict=True)
                found[index] = [_better(*pair, remark) for pair in pairs]
            if not runner.can_flush and not all(_all_ok(*runs) for runs in found):
                notes.append(f"XLA flushes denormals to zero; {runner.title} may keep them")
        bad_trials = [x for x, runs in zip(trials, found, strict=True) if not _all_ok(*runs)]
        notes.extend(self._shape_notes(bad_trials))
        if self._are_made:
            found = self._without_doubtful(trials, found, notes)
        optimized, *others = (
            self._worst([runs[run] for runs in found]) for run in range(len(found[0]))
        )
        plain = others[0] if others else []
        for one, two in zip(optimized, plain, strict=False):
            if one.ok != two.ok:
                which = "with" if two.ok else "without"
                notes.append(f"{one.name} differs only {which} graph optimization of the runtime")
        count = len(found)
        return Verification(
            optimized,
            plain,
            notes,
            self.coverage,
            count,
            runtime=runner.title,
            left_out=tuple(self._budget.left_out),
        )

    def _judged_finally(self, candidate: Candidate, trials: Sequence[Trial]) -> list[Runs]:
        """The comparisons of each trial, or of those for which there is time, with all evidence."""
        try:
            if not candidate.runner.can_flush:
                trials = [self._without_denormals(trial) for trial in trials]
            found = self._judged(candidate, trials, "flush")
        except OverBudgetError:
            found = []
        if len(found) < len(trials):
            self._budget.leave_out("runs without denormals")
        return found

    def differing(self, found: Verification) -> list[Arrays]:
        """The inputs on which a model differs; ordinary ones if it agrees."""
        kinds = {item.sample for item in found.comparisons if not item.ok}
        every = [trial.arrays for trial in self.trials if trial.kind in kinds]
        return every or [self.trials[0].arrays]

    def _without_nan(self) -> Sequence[Trial]:
        """The trials whose results and inputs have no NaN; all, if there are none."""
        found = [trial for trial in self.trials if not trial.has_nan]
        return found or self.trials

    def _without_denormals(self, trial: Trial) -> Trial:
        """A trial with zeros instead of denormal inputs."""
        arrays = [without_denormals(array) for array in trial.arrays]
        return replace(trial, arrays=arrays, expected=self.reference.at(arrays).again(arrays))

    def _judged(
        self,
        candidate: Candidate,
        trials: Sequence[Trial],
        denormals: str,
        seconds: float = math.inf,
    ) -> list[Runs]:
        """The comparisons of each trial, or of those for which the model runs in some seconds."""
        # One session at a time: each may have a copy of all weights.
        runner = candidate.runner
        policy = denormals if runner.can_flush else "keep"
        is_final = denormals == "flush"
        results: list[list[list[np.ndarray]]] = []
        for level in runner.levels:
            try:
                ran = self._ran(candidate, trials, level, policy, seconds)
            except OverBudgetError as error:
                if not results and not is_final:
                    raise VerificationError(
                        f"{error}, and XLA does: a loop of the model may not end\n"
                        "  next   more seconds=, or other inputs"
                    ) from error
                if not results:
                    raise
                self._budget.leave_out("the model without graph optimization")
                break
            results.append(ran)
            trials, seconds = trials[: len(ran)], math.inf
        results = [ran[: len(trials)] for ran in results]
        found: list[Runs] = []
        bad = 0
        for trial, *each in zip(trials, *results, strict=True):
            runs = self._judged_one(trial, each, bad >= _ENOUGH, is_final)
            bad += _differs(*runs) and not (self._are_made and self._is_doubtful(trial))
            found.append(runs)
        return found

    def _ran(
        self,
        candidate: Candidate,
        trials: Sequence[Trial],
        level: bool,
        denormals: str,
        seconds: float,
    ) -> list[list[np.ndarray]]:
        """The outputs in each trial, or in those for which there is time, from one session.

        Raises:
            OverBudgetError: There is no time for any of them.
            VerificationError: The model does not load or does not run.
        """
        budget = self._budget
        session = candidate.runner.session(candidate.model, optimize=level, denormals=denormals)
        found: list[list[np.ndarray]] = []
        until = time.monotonic() + seconds
        for trial in trials:
            begin = time.monotonic()
            if len(found) >= _LEAST and begin > until:
                break
            feeds = to_model(candidate.input_names, trial.arrays, self.signature.inputs)
            try:
                if budget.has_run_of_model:
                    budget.check()
                outputs = session(feeds, budget.limit_of_model(self._may_last))
            except OverBudgetError:
                if not found:
                    raise
                budget.leave_out("samples for the model")
                break
            budget.measured(MODEL, time.monotonic() - begin)
            found.append(from_model(self.signature.outputs, outputs))
        return found

    def _judged_one(
        self, trial: Trial, results: Sequence[Arrays], is_known: bool, is_final: bool
    ) -> Runs:
        """Compares the outputs of each run with XLA's.

        If some differ, it uses an evaluation in f64, then other choices of decompositions, and then
        XLA's results if it rounds otherwise.

        Args:
            is_known: Whether the verdict is known, and XLA's results suffice.
            is_final: Whether no other run of the model follows.
        """
        exact: list[np.ndarray | None] = [None] * len(trial.expected)

        def compared(slack: Sequence[Slack] | None = None) -> Runs:
            return [self._compared(trial, actual, exact, slack) for actual in results]

        runs = compared()
        if is_known or _all_ok(*runs):
            return runs
        if self._are_made:
            # The instrumentation of the program may change how XLA rounds.
            with suppress(OverBudgetError):
                trial = replace(trial, expected=self.reference.at(trial.arrays).again(trial.arrays))
            runs = compared()
        if not _all_ok(*runs):
            exact = self.reference.at(trial.arrays).in_f64(trial.arrays, trial.expected)
            if not is_final:  # flushed denormals are the better explanation of other integers
                exact = [None if x is None or x.dtype.kind in "biu" else x for x in exact]
            runs = compared()
        if not _all_ok(*runs):
            runs = self._with_choices(trial, results, runs)
        if is_final and not _all_ok(*runs):
            for remark, moved in self._slacks(trial):
                runs = [_better(*pair, remark) for pair in zip(runs, compared(moved), strict=True)]
                if _all_ok(*runs):
                    break
        return runs

    def _with_choices(self, trial: Trial, results: Sequence[Arrays], runs: Runs) -> Runs:
        """The comparisons with the model's choices of results that are not unique."""
        reference, arrays = self.reference.at(trial.arrays), trial.arrays
        outputs, expected = self.signature.outputs, trial.expected
        try:
            if reference.opened() is not None:
                choices = Choices(reference, arrays, outputs, expected, self._compare)
                return [choices.judged(*pair) for pair in zip(runs, results, strict=True)]
        except OverBudgetError:
            self._budget.leave_out("other results of decompositions")
        return runs

    def _slacks(self, trial: Trial) -> Iterator[tuple[str, list[Slack]]]:
        """The differences that come from rounding, and why."""
        reference, arrays = self.reference.at(trial.arrays), trial.arrays
        if steps := differences(reference.steps, arrays, trial.expected):
            yield _AT_STEP, steps
        runs: list[Run] = [reference.again, *reference.variants]
        for moved in movements([partial(self._moved, x) for x in runs], arrays, trial.expected):
            yield _AMPLIFIED, moved

    def _moved(self, run: Run, arrays: Arrays) -> Arrays:
        """A run on inputs or of a program that differ a little."""
        try:
            return run(arrays)
        except OverBudgetError:
            self._budget.leave_out("moved inputs")
            raise

    def _without_doubtful(
        self, trials: Sequence[Trial], found: list[Runs], notes: list[str]
    ) -> list[Runs]:
        """The comparisons without those that differ in doubtful samples, unless most are.

        A sample is doubtful if results overflow, or if it takes the maximum of NaN: XLA's own fused
        kernels may lose the NaN.
        """
        bad = [not _all_ok(*runs) for runs in found]
        rows = zip(bad, trials, strict=True)
        out = [is_bad and self._is_doubtful(trial) for is_bad, trial in rows]
        count = sum(out)
        if not count or count != sum(bad) or 2 * count > len(found):
            return found
        notes.append(
            f"{count} samples that overflow or have NaN in a maximum differ, and do not count"
        )
        return [runs for runs, is_out in zip(found, out, strict=True) if not is_out]

    def _is_doubtful(self, trial: Trial) -> bool:
        if trial.meets_nan:
            return True
        return trial.overflows(self.reference.at(trial.arrays).widened_results(trial.arrays))

    def _compared(
        self,
        trial: Trial,
        actual: Arrays,
        exact: Sequence[np.ndarray | None],
        slack: Sequence[Slack] | None = None,
    ) -> list[Comparison]:
        outputs = self.signature.outputs
        slacks: Sequence[Slack | None] = slack or [None] * len(outputs)
        rows = zip(outputs, actual, trial.expected, exact, slacks, strict=True)
        return [
            replace(
                self._compare(port.name, got, want, truth, port.step, slack=more),
                sample=trial.kind,
            )
            for port, got, want, truth, more in rows
        ]

    def _worst(self, trials: Sequence[Sequence[Comparison]]) -> list[Comparison]:
        """The comparison of each output to show: one that differs, or that of the largest error."""
        worst = [max(items, key=_badness) for items in zip(*trials, strict=True)]
        pairs = zip(worst, self._weaknesses, strict=True)
        return [replace(item, says_little=weak) for item, weak in pairs]

    @cached_property
    def _weaknesses(self) -> list[str]:
        """Why the trials say little of an output; "" for most."""
        found = []
        for index, port in enumerate(self.signature.outputs):
            arrays = [trial.expected[index] for trial in self.trials]
            tolerance = tolerance_of(arrays[0].dtype)
            if tolerance is not None:
                tolerance = tolerance.with_given(self._settings.rtol, self._settings.atol)
            weak = weakness(arrays, tolerance)
            if weak and not self.reference.at(self.trials[0].arrays).depends(port.position):
                weak = ""
            found.append(weak)
        return found

    def _shape_notes(self, trials: Sequence[Trial]) -> list[str]:
        """Notes on the sizes at which the user's function is not the program that was translated.

        Args:
            trials: Those in which the model differs.
        """
        by_sizes: dict[str, Trial] = {}
        for trial in trials:
            by_sizes.setdefault(trial.sizes, trial)
        return [
            f"at {sizes} the function is another program: Python code depends on the shape"
            for sizes, trial in by_sizes.items()
            if self.reference.is_another(trial.arrays, trial.expected)
        ]

    def _nan_notes(self) -> list[str]:
        """Notes on outputs with NaN in XLA's own result."""
        notes: dict[str, str] = {}
        for trial in self.trials:
            for port, want in zip(self.signature.outputs, trial.expected, strict=True):
                nans = int((want != want).sum())
                if nans and trial.is_ordinary:
                    of = f"{nans} of {want.size} elements are NaN in XLA itself"
                    where = f" in {trial.kind}" if trial.kind else ""
                    notes.setdefault(port.name, f"{port.name}: {of}{where}")
        return list(notes.values())


def _all_ok(*runs: Sequence[Comparison]) -> bool:
    return all(item.ok for run in runs for item in run)


def _differs(*runs: Sequence[Comparison]) -> bool:
    return any(not item.ok and not item.unjudged for run in runs for item in run)


def _better(
    kept: Sequence[Comparison],
    others: Sequence[Comparison],
    remark: str,
) -> list[Comparison]:
    """Accepts outputs that only another comparison accepts, and says so."""
    return [
        replace(other, remark=other.remark or remark) if other.ok and not item.ok else item
        for item, other in zip(kept, others, strict=True)
    ]


def _badness(item: Comparison) -> tuple[bool, bool, float]:
    return (not item.ok and not item.unjudged, not item.ok, item.max_rel)
