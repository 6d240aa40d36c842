"""The methods of a program that compare its numbers with XLA's, and write its HTML report.

They import what they need when they are called: a translation alone does not pay for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

import onnx_ir as oir

from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.report import Report
from hlo2onnx.runtime.calls import CallableProgram

if TYPE_CHECKING:
    from hlo2onnx.runtime.profiling.results import Profile
    from hlo2onnx.verify.compare import Verification
    from hlo2onnx.verify.divergence import Divergence
    from hlo2onnx.verify.judge import Judge
    from hlo2onnx.verify.runners import Runner
    from hlo2onnx.verify.settings import Settings, Sizes


class Verified(CallableProgram):
    """A program with its source, which XLA runs as the reference.

    Attributes:
        model: The model.
        report: What the translation did.
    """

    model: oir.Model
    report: Report
    _options: Options

    @property
    def input_names(self) -> list[str]:
        """The names of the model's inputs."""
        raise NotImplementedError

    @property
    def _source(self) -> Source:
        raise NotImplementedError

    def verify(
        self,
        *args: PyTree,
        seed: int = 0,
        rtol: float | None = None,
        atol: float | None = None,
        inputs: PyTree | Callable[[int], PyTree] | None = None,
        samples: int | None = None,
        sizes: Sizes | Sequence[Sizes] | None = None,
        intermediates: bool = False,
        runtime: str | None = None,
        seconds: float = 60,
        **kwargs: PyTree,
    ) -> Verification:
        """Compares the model with the original program in XLA on the CPU.

        The model runs in the runtime of its target where that is installed, and else in ONNX
        Runtime: `found.runtime` names it, and `found.fallback` says why it is another one.
        It runs with and without graph optimization. docs/verification.md describes the inputs and
        the judgement.

        Args:
            args, kwargs: The arguments of a call. Without arguments, inputs are made for the
                program: ordinary numbers, and values that reach its branches and guards.
            seed: Seed of the random inputs.
            rtol, atol: Tolerances of floats, as in `numpy.allclose`. Default: those of the type.
            inputs: Arguments, or a function of a seed that returns them: a tuple of positional
                ones, a dict of keywords, or one argument. It also takes keywords of the program
                that have the name of an option.
            samples: Count of inputs that are made. Default: up to 24, as the time allows.
            sizes: Sizes of the dynamic dimensions, or a list of such mappings. Default: different
                sizes, all 1, all 2, and all 0 where the program allows it.
            intermediates: Whether to `bisect` if an output differs.
            runtime: The runtime that runs the model, which must be installed: "ort-cpu" (ONNX
                Runtime), "ort-web", "openvino", "reference" (onnx.reference). A version may follow,
                and a Python interpreter, an environment or a folder with node_modules:
                "ort-cpu@1.20=venv". See docs/runtimes.md.
            seconds: Limit of the time beyond one run of each side. `found.left_out` says what there
                was no time for.

        Returns:
            One comparison per output and run, of the worst inputs. It prints as a table. It is
            falsy if an output differs or cannot be judged, and then has the notes of the report.

        Raises:
            SignatureError: The arguments do not fit.
            UsageError: An option is wrong, or the program was loaded without its source.
            VerificationError: XLA or the runtime cannot run the program, or the runtime is not
                installed.
        """
        from hlo2onnx.verify.settings import Settings

        stored = self._options.half_weights
        half = self._options.half
        settings = Settings(seed, rtol, atol, inputs, samples, sizes, stored, seconds, half)
        with self._runner(runtime) as (runner, fallback):
            judge, found = self._judged(settings, runner, args, kwargs)
            found = replace(found, fallback=fallback)
            if not found.ok:  # a note may be the reason
                found.notes.extend(self.report.notes)
                if intermediates:
                    found = replace(found, divergence=self._parted(judge, found, runner))
        return found

    def bisect(
        self, *args: PyTree, seed: int = 0, runtime: str | None = None, **kwargs: PyTree
    ) -> Divergence:
        """Finds the first op of the program that the model computes differently from XLA.

        Args:
            args, kwargs: The arguments of a call. Without arguments, these are the inputs that
                `verify` makes and on which it finds a difference, or ordinary numbers.
            seed: Seed of the inputs that are made.
            runtime: The runtime that runs the model and its parts, as for `verify`.

        Returns:
            Readable as text: the op with its source line, operands and error, the nodes of the
            model, and the rewrite rules that led to them. It is falsy if no value differs.

        Raises:
            SignatureError: The arguments do not fit.
            UsageError: The program was loaded without its source, or there is no such runtime.
            VerificationError: XLA or the runtime cannot run the program or a part of it.
        """
        from hlo2onnx.verify.settings import Settings

        settings = Settings(seed, weights_dtype=self._options.half_weights, half=self._options.half)
        with self._runner(runtime) as (runner, _):
            judge, found = self._judged(settings, runner, args, kwargs)
            return self._parted(judge, found, runner)

    def save_report(
        self,
        path: str | Path,
        *,
        verification: Verification | None = None,
        profile: Profile | None = None,
        errors: Mapping[str, float] | None = None,
        command: str = "",
    ) -> None:
        """Writes the report as one HTML page, which needs no other file and no network.

        The page shows the graph by JAX scope, and tables of what the translation did.

        Args:
            path: Path of the page. Its folder must exist.
            verification: What `verify` has returned. The page then shows the errors of the outputs.
            profile: What `profile` has returned. The page then shows the times of the nodes.
            errors: Errors of intermediate values by their names in the model, relative to the
                largest magnitude of each value. They colour the graph.
            command: The command that makes the report.

        Raises:
            UsageError: The path is not a file, or its folder does not exist.
            WriteError: The file cannot be written.
        """
        from hlo2onnx.verify.page import save_page
        from hlo2onnx.verify.program_page import program_page

        text = program_page(
            self.model,
            self.report,
            verification=verification,
            profile=profile,
            errors=errors,
            command=command,
        )
        save_page(path, text)

    def save_node_data(
        self,
        folder: str | Path,
        *,
        verification: Verification | None = None,
        profile: Profile | None = None,
        errors: Mapping[str, float] | None = None,
    ) -> list[Path]:
        """Writes what is known of the nodes for Model Explorer, as its custom node data.

        Model Explorer reads one data set from a file. `errors.json` has relative errors,
        `times.json` milliseconds in one run, and `rules.json` the rewrite rules that led to each
        node. A loaded or pickled program does not know its rules.

        Args:
            folder: The folder for the files. It may not exist yet.
            verification, profile, errors: As for `save_report`.

        Returns:
            The paths of the files. Data sets without any node are left out.

        Raises:
            UsageError: The path is that of a file.
            WriteError: A file cannot be written.
        """
        from hlo2onnx.verify.node_data import save_node_data
        from hlo2onnx.verify.program_page import errors_of, times_of

        known = errors_of(errors or {}, verification)
        return save_node_data(self.model, folder, times_of(profile), known)

    def _repr_html_(self) -> str:
        from hlo2onnx.verify.program_page import program_fragment

        return program_fragment(self.model, self.report)

    def _runner(self, runtime: str | None) -> AbstractContextManager[tuple[Runner, str]]:
        """What runs the model, and why it is not the runtime of the target."""
        from hlo2onnx.verify.runners import chosen_runner

        return chosen_runner(
            runtime, self.report.target, self.model, self.libraries, self.providers
        )

    def _parted(self, judge: Judge, found: Verification, runner: Runner) -> Divergence:
        """Bisects on the first inputs for which a value differs."""
        from hlo2onnx.verify.diagnosis import diagnosed

        inputs = judge.differing(found)
        return diagnosed(self._source, self._options, self.model, inputs, runner)

    def _judged(
        self,
        settings: Settings,
        runner: Runner,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
    ) -> tuple[Judge, Verification]:
        from hlo2onnx.pipeline import may_ignore_nan
        from hlo2onnx.verify.budget import Budget
        from hlo2onnx.verify.judge import Judge
        from hlo2onnx.verify.runners import Candidate

        source = self._source
        given = settings.given(source.signature, args, kwargs, self._caller.arrays)
        with self._serialized() as model, Budget(settings.seconds) as budget:
            # `_serialized` refuses programs that are too large for XLA as well.
            judge = Judge(source, given, settings, budget)
            drops_nan = may_ignore_nan(self.model, self._options, self.report)
            candidate = Candidate(model, self.input_names, runner, self.denormals, drops_nan)
            return judge, judge(candidate)
