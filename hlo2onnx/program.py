"""The result of a translation: a model with methods to run, verify and save it."""

from __future__ import annotations

import tempfile
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal, Self

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import UsageError, VerificationError
from hlo2onnx.frontend.bind import as_stored, bound_arrays, with_new_weights
from hlo2onnx.frontend.mlir.functions import functions_of, too_many_ops
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.interface.caller import check_types
from hlo2onnx.interface.description import Description
from hlo2onnx.ir.nodes import GUARDS
from hlo2onnx.ir.weights import Renewal, WeightsChangedError
from hlo2onnx.options import Options
from hlo2onnx.pickling import (
    model_bytes,
    model_from,
    node_types,
    picklable_options,
    source_bytes,
    source_from,
)
from hlo2onnx.pipeline import explain_rule, run_stages
from hlo2onnx.raising.explanation import Explanation
from hlo2onnx.report import Report
from hlo2onnx.runtime import saving
from hlo2onnx.runtime.calling import caller_of, loaded_caller
from hlo2onnx.runtime.files import default_data
from hlo2onnx.runtime.metadata import updated_in_place
from hlo2onnx.runtime.paths import output_file, output_folder
from hlo2onnx.runtime.profiling import Profile, profile
from hlo2onnx.runtime.profiling.optimized_nodes import model_nodes
from hlo2onnx.runtime.saving import save_models, stored_apart, weight_bytes, write_for_runtime
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.runtime.sessions import Providers
from hlo2onnx.verify.inputs import random_array
from hlo2onnx.verify.verified import Verified


class OnnxProgram(Verified):
    """An ONNX model with the calling convention of its program.

    Calling it runs the model in ONNX Runtime. A call takes and returns the same pytrees as the JAX
    function, with numpy arrays as leaves. Programs can be copied and pickled.

    Attributes:
        model: The model, as `onnx_ir.Model`.
        report: What the translation did.
        libraries: Paths of shared libraries with custom operators of the model. Sessions made here
            load them; your own sessions must call `register_custom_ops_library`.
        denormals: "keep", or "flush" if calls treat denormal floats as zeros, as XLA does.

    Args:
        source: The program that was translated; None if it is not known.
        options: The options of the translation.
        description: The signature of a model that was saved or pickled.
        providers: Execution providers of ONNX Runtime.
        types: Classes of pytree nodes, if the source is not known.
    """

    def __init__(
        self,
        model: oir.Model,
        source: Source | None,
        report: Report,
        libraries: Sequence[str] = (),
        options: Options | None = None,
        description: Description | None = None,
        providers: Providers | None = None,
        types: Iterable[type] = (),
    ) -> None:
        options = options or Options()
        self._types = check_types(types)
        if source is not None:
            caller = caller_of(source.signature)
        else:
            assert description is not None
            caller = loaded_caller(description, self._types)
        super().__init__(caller, libraries, options.denormals, providers)
        self.model = model
        self.report = report
        self._options = options
        self._lazy_source = source
        self._knows_weights = description is None

    @property
    def _source(self) -> Source:
        """The program that was translated.

        Raises:
            UsageError: The model was loaded without it.
        """
        if self._lazy_source is None:
            raise UsageError(
                "the source of a loaded model is not known\n"
                "  next   hlo2onnx.load(path, source=...)"
            )
        return self._lazy_source

    def __getstate__(self) -> dict[str, Any]:
        """Everything but the sessions. The copy makes its own when it is called."""
        source, types = self._lazy_source, self._types
        if source is not None and source.signature.trees is not None:
            types = tuple(node_types(source.signature.trees.out_tree))
        return {
            "model": model_bytes(self.model),
            "source": None if source is None else source_bytes(source),
            "description": self._caller.description,
            "types": types,
            "report": self.report,
            "libraries": tuple(self.libraries),
            "options": picklable_options(self._options),
            "denormals": self.denormals,
            "providers": self.providers,
        }

    def __setstate__(self, state: Mapping[str, Any]) -> None:
        source = None if state["source"] is None else source_from(state["source"])
        OnnxProgram.__init__(
            self,
            model_from(state["model"]),
            source,
            state["report"],
            state["libraries"],
            state["options"],
            state["description"],
            state["providers"],
            state["types"],
        )
        self.denormals = state["denormals"]

    def __copy__(self) -> Self:
        """A program with the same model and sessions of its own."""
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._forget_sessions()
        return made

    @property
    def input_names(self) -> list[str]:
        """Names of the model's inputs."""
        return [str(value.name) for value in self.model.graph.inputs]

    @property
    def output_names(self) -> list[str]:
        """Names of the model's outputs."""
        return [str(value.name) for value in self.model.graph.outputs]

    @property
    def model_proto(self) -> onnx.ModelProto:
        """The model as an `onnx.ModelProto`."""
        return to_proto(self.model)

    def save(
        self,
        path: str | Path,
        *,
        external_data: bool | str | None = None,
        weights: bool | Literal["inputs"] = True,
        strip: bool = False,
    ) -> None:
        """Writes the model.

        The new model replaces the old one in one step. If the save fails, or is killed, the old
        model is still there. Several threads may save a program.

        Args:
            path: Path of the model file. Its folder must exist.
            external_data: Whether to write the weights to `<name>-<hash>.data` beside the model.
                Default: only if they are more than 1 GB in total. The weights of the old model
                are removed if no other file in the folder mentions them. A text is the name of
                the file, without a hash: it replaces a file of that name just before the model is
                replaced, so that no old model should read it.
            weights: False writes the graph alone: pass `program.weights` to ONNX Runtime with
                `SessionOptions.add_external_initializers`. "inputs" makes the weights inputs of
                the model, after its own, under their names.
            strip: Whether to leave out all metadata but those of the user (`metadata=`), and all
                doc strings: source lines and call stacks of nodes, the signature, states, element
                types. Names stay. Such a model cannot be loaded by `hlo2onnx.load` or
                `hlo2onnx.runtime`.

        Raises:
            UsageError: The path is a folder, its folder does not exist, or one file would hold
                more than 2 GB; `weights` is something else, or `external_data` no name of a file.
            WriteError: A file cannot be written. The text names it and the reason.
        """
        path = output_file(path, "model.onnx")
        if weights not in (True, False, "inputs"):
            raise UsageError(f'weights={weights!r} is not one of True, False and "inputs"')
        external = external_data
        if external is None:
            external = weight_bytes(self.model) > saving.EXTERNAL_DATA_BYTES
        data = default_data(path)
        is_named = isinstance(external, str)
        if isinstance(external, str):
            if external in ("", "..", path.name) or Path(external).name != external:
                raise UsageError(f"external_data={external!r} does not name a file beside {path}")
            data = path.with_name(external)
        stored = data if external and weights is True else None
        save_models({path: self.model}, stored, strip, weights, hashed=not is_named)

    @property
    def weights(self) -> dict[str, np.ndarray]:
        """The weights in the model by their names, and other constants of at least 1 KB."""
        return {
            name: np.asarray(tensor.numpy(), order="C")
            for name, tensor in stored_apart(self.model).items()
        }

    def apply_weights(self, tree: PyTree) -> bool:
        """Replaces the weights of the program by others of the same shapes and types.

        What was folded is computed again. Where the new weights need another graph, the program is
        translated again: two parameters shared an array and no longer do, an integer such as a
        size has changed, or folding would lose digits now. No other thread may use the program
        meanwhile.

        Args:
            tree: The weights, as for `bind=`: a mapping of arguments to pytrees, or the pytree
                itself if one argument is bound. For a module or another callable with weights, one
                like it, or a mapping of names to arrays.

        Returns:
            Whether the graph stayed. If not, the last note of the report says why.

        Raises:
            UsageError: No weights are bound, weights are missing, or one has another shape or type;
                or the program was loaded or pickled.
        """
        if not self._knows_weights:
            raise UsageError(
                "a model that was loaded or pickled does not say which initializers its weights"
                " became\n  next   translate the program again"
            )
        source = with_new_weights(self._source, tree)
        renewal = Renewal(bound_arrays(source), bound_arrays(self._source))
        graph = self.model.graph
        stays = True
        try:
            renewal.renew(graph.initializers.values(), graph.meta.get(GUARDS, ()))
        except WeightsChangedError as reason:
            stays = False
            self.model, self.report = run_stages(source, self._options)
            self.report.note(f"the program was translated again for new weights: {reason}")
        self._lazy_source = as_stored(source, self.model.graph)
        self._forget_sessions()
        return stays

    @contextmanager
    def _serialized(self) -> Iterator[bytes | str]:
        """The serialized model, or the path of a file if the model is large.

        Raises:
            VerificationError: The model is not valid ONNX, or it would be too large after a
                runtime has inlined its functions.
        """
        source = self._lazy_source
        if self.model.functions and source is not None:
            found = too_many_ops(functions_of(source.module.operation), source.function)
            if found:
                raise VerificationError(f"runtimes inline all functions of a model: {found}")
        if weight_bytes(self.model) <= saving.MAPPED_BYTES:
            try:
                content = self.model_proto.SerializeToString()
            except Exception as error:  # someone has changed the model
                raise VerificationError(f"the model is not valid ONNX: {error}") from error
            yield content
            return
        with tempfile.TemporaryDirectory() as folder:
            yield str(write_for_runtime(self.model, Path(folder)))

    def _in_place(self) -> Collection[int]:
        states = self._caller.description.states.items()
        aliases = {int(place): output for place, output in states}
        return updated_in_place(self.model.graph, aliases)

    def profile(
        self, *args: PyTree, runs: int = 20, depth: int = 2, threads: int = 0, **kwargs: PyTree
    ) -> Profile:
        """Measures the time of a run in ONNX Runtime by operator, JAX scope, source line and node.

        Args:
            args, kwargs: The arguments of a call. Without arguments, random inputs are made.
            runs: Count of runs to take medians of.
            depth: Scopes are grouped by this many leading components.
            threads: Count of intra-op threads; 0 for the runtime's default.

        Returns:
            The profile. It prints as a table; `save("profile.svg")` draws it.

        Raises:
            SignatureError: The arguments do not fit.
            UsageError: `runs` or `depth` is less than 1, or `threads` is negative.
            VerificationError: ONNX Runtime is not installed, or it does not run the model.
        """
        description = self._caller.description
        if args or kwargs or not description.inputs:
            arrays = self._caller.arrays(args, kwargs)
        else:
            rng = np.random.default_rng(0)
            arrays = [random_array(port, rng, description.names) for port in description.inputs]
        feeds = self._caller.feeds(self.input_names, arrays)
        with self._serialized() as model:
            return profile(
                model,
                feeds,
                runs=runs,
                depth=depth,
                threads=threads,
                nodes=model_nodes(self.model),
                title=self.report.source,
                libraries=self.libraries,
                denormals=self.denormals,
                providers=self.providers,
            )

    def explain(self, rule: str) -> Explanation:
        """Where a rewrite rule fired, and why it did not fire elsewhere.

        Translates the program again with the same options.

        Args:
            rule: The name of the rule, as in docs/rules.md. Former names are valid too.

        Returns:
            Readable as text: each rewrite, and the nearest misses with node, source line and
            reason. The nearest miss is the one before which most conditions of the rule held.

        Raises:
            UsageError: There is no such rule, or the program was loaded without its source.
        """
        return explain_rule(self._source, self._options, rule)

    def __repr__(self) -> str:
        return (
            f"<OnnxProgram of {self.report.source}: {', '.join(self.input_names)} ->"
            f" {', '.join(self.output_names)}>"
        )


class OnnxPrograms(Mapping[str, OnnxProgram]):
    """Programs by name, as `hlo2onnx.translate({"prefill": ..., "decode": ...})` gives them."""

    def __init__(self, programs: Mapping[str, OnnxProgram]) -> None:
        self._programs = dict(programs)

    def __getitem__(self, name: str) -> OnnxProgram:
        return self._programs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def save(
        self, folder: str | Path, *, weights: str = "weights.data", strip: bool = False
    ) -> None:
        """Writes `<name>.onnx` for each program and one file of weights, each weight once.

        All files are written before the first model is replaced. If the save is killed between two
        models, each of them is complete: the old one or the new one.

        Args:
            folder: The folder, which must exist.
            weights: Name of the file of weights. A hash of its content is put before the suffix:
                `weights-<hash>.data`.
            strip: Whether to leave out metadata and doc strings, as in `OnnxProgram.save`.

        Raises:
            UsageError: There is no such folder.
            WriteError: A file cannot be written. The text names it and the reason.
        """
        folder = output_folder(folder)
        models = {folder / f"{name}.onnx": item.model for name, item in self._programs.items()}
        save_models(models, folder / weights, strip)

    def __repr__(self) -> str:
        return f"<OnnxPrograms {', '.join(self._programs)}>"
