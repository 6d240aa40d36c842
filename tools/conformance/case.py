"""Runs one harness: JAX lowers it, XLA runs it, hlo2onnx translates it, ONNX Runtime runs that."""

from __future__ import annotations

import hashlib
import re
import time
import traceback
import zlib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax._src.internal_test_util import test_harnesses

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.load import load
from hlo2onnx.runtime.calling import caller_of, from_model, to_model
from hlo2onnx.runtime.sessions import check_model
from tools.conformance.exact import exact_results
from tools.conformance.outcome import REASON_SEPARATOR, Outcome, one_line
from tools.conformance.residuals import as_good
from tools.conformance.running import Place, place_of
from tools.conformance.sets import EXACT
from tools.conformance.verdict import describe, mistakes

STATUS_OF_PHASE = {
    "arguments": "jax-error",
    "lower": "jax-error",
    "symbolic": "unexported",
    "xla": "jax-error",
    "translate": "error",
    "check": "invalid",
    "load": "load-error",
    "run": "run-error",
    "exact": "error",
    "compare": "error",
}
"""What it means when a phase raises; a TranslationError means `refused`."""

CLEAR_EVERY = 100
"""JAX's caches are emptied after so many cases, which bounds the memory."""

_XLA_SWITCH = re.compile(r"enable_?xla_(True|False)")
"""A switch for conversions to TensorFlow: for us both of its values are the same program."""

_SHORT = {"bool": "bool", "bfloat16": "bf16"}
_SHORT_KIND = {"float": "f", "int": "i", "uint": "u", "complex": "c"}


class Disagreement(Exception):  # noqa: N818  (a finding)
    """ONNX Runtime's outputs differ from XLA's: one line, then the details."""


class Runs:
    """Runs harnesses by name."""

    def __init__(self) -> None:
        self._harnesses = {harness.fullname: harness for harness in test_harnesses.all_harnesses}
        if len(self._harnesses) != len(test_harnesses.all_harnesses):
            raise ValueError("two harnesses have the same name")
        self._done: dict[str, Outcome] = {}
        self._count = 0
        self._place: Place | None = None

    def catalogue(self) -> dict[str, Any]:
        """Name, group and dtype of every harness."""
        cases = [(h.fullname, h.group_name, dtype_name(h.dtype)) for h in self._harnesses.values()]
        return {"cases": sorted(cases), "jax": jax.__version__}

    def run(self, name: str, options: Mapping[str, Any]) -> Outcome:
        """Runs one harness.

        Args:
            options: `dump`: folder that receives stages and inputs; `symbolic`: whether
                leading dimensions are symbolic in what is translated; `runtime`, `target` and
                `environments`: where the model runs, see `tools.conformance.running`. All requests
                of a process name the same runtime.
        """
        harness = self._harnesses[name]
        limits = [
            limitation.description
            for limitation in harness.jax_unimplemented
            if limitation.filter(device="cpu", dtype=harness.dtype)
        ]
        if limits:
            return Outcome(name, "skipped", f"JAX: {'; '.join(limits)}")
        self._count += 1
        if self._count % CLEAR_EVERY == 0:
            jax.clear_caches()
        self._place = self._place or place_of(options)
        dump, symbolic = options.get("dump"), bool(options.get("symbolic"))
        return self._attempt(harness, self._place, dump, symbolic)

    def _attempt(self, harness: Any, place: Place, dump: str | None, symbolic: bool) -> Outcome:
        clock = Clock()
        name = harness.fullname
        key = ""
        try:
            with clock("arguments"):
                arguments = arguments_of(harness)
            with clock("lower"):
                lowered = translated = jax.jit(harness.dyn_fun).lower(*arguments)
            if symbolic:
                with clock("symbolic"):
                    specs = with_symbolic_dimensions(arguments)
                    translated = jax.jit(harness.dyn_fun).lower(*specs)
            key = _digest(harness.group_name, translated, arguments)
            if dump is None and key in self._done:
                return replace(self._done[key], name=name, seconds=clock.seconds)
            folder = None if dump is None else _folder(dump, name)
            _translate_and_compare(harness, lowered, translated, arguments, place, clock, folder)
            outcome = Outcome(name, "pass", seconds=clock.seconds)
        except Disagreement as found:
            reason, _, detail = str(found).partition("\n")
            outcome = Outcome(name, "mismatch", one_line(reason), detail, clock.seconds)
        except TranslationError as error:
            outcome = Outcome(name, "refused", _refusals(error), str(error), clock.seconds)
        except Exception as error:  # noqa: BLE001  (the phase says whose failure it is)
            status = STATUS_OF_PHASE[clock.phase]
            reason = one_line(f"{type(error).__name__}: {error}")
            outcome = Outcome(name, status, reason, traceback.format_exc(), clock.seconds)
        if key:
            self._done[key] = outcome
        return outcome


class Clock:
    """Measures phases, and knows the last one."""

    def __init__(self) -> None:
        self.phase = ""
        self.seconds: dict[str, float] = {}

    @contextmanager
    def __call__(self, phase: str) -> Iterator[None]:
        """Measures a phase."""
        self.phase = phase
        start = time.perf_counter()
        try:
            yield
        finally:
            passed = time.perf_counter() - start
            self.seconds[phase] = round(self.seconds.get(phase, 0.0) + passed, 6)


def dtype_name(dtype: Any) -> str:
    """ "f32", "u8", "bf16", "c64", "bool"; "" for None and for PRNG key types."""
    if dtype is None or jax.dtypes.issubdtype(dtype, jax.dtypes.extended):
        return ""
    name = np.dtype(dtype).name
    match = re.fullmatch(r"(float|int|uint|complex)(\d+.*)", name)
    return _SHORT_KIND[match[1]] + match[2] if match else _SHORT.get(name, name)


def arguments_of(harness: Any) -> list[Any]:
    """The arguments: the same ones in every run, and for both values of JAX's `enable_xla`."""
    seed = zlib.crc32(_XLA_SWITCH.sub("", harness.fullname).encode())
    return list(harness.dyn_args_maker(np.random.RandomState(seed)))


def _digest(group: str, lowered: Any, arguments: Sequence[Any]) -> str:
    digest = hashlib.sha256(f"{group}\n{lowered.as_text()}".encode())
    for array in map(np.asarray, jax.tree_util.tree_leaves(arguments)):
        digest.update(f"{array.dtype}{array.shape}".encode() + array.tobytes())
    return digest.hexdigest()


def with_symbolic_dimensions(arguments: Sequence[Any]) -> list[Any]:
    """The arguments' types with symbols for the leading dimensions of 2 and more; equal ones have
    the same symbol.

    Raises:
        ValueError: There are no such dimensions.
    """
    scope = jax.export.SymbolicScope()
    sizes = dict.fromkeys(
        shape[0]
        for shape in map(jnp.shape, jax.tree_util.tree_leaves(arguments))
        if shape and shape[0] > 1
    )
    if not sizes:
        raise ValueError("no leading dimension is longer than 1")
    names = ", ".join(f"n{size}" for size in sizes)
    symbols = dict(zip(sizes, jax.export.symbolic_shape(names, scope=scope), strict=True))

    def typed(leaf: Any) -> Any:
        shape = jnp.shape(leaf)
        if not shape or shape[0] not in symbols:
            return leaf
        return jax.ShapeDtypeStruct((symbols[shape[0]], *shape[1:]), leaf.dtype)

    return [jax.tree_util.tree_map(typed, argument) for argument in arguments]


def _translate_and_compare(
    harness: Any,
    lowered: Any,
    translated: Any,
    arguments: list[Any],
    place: Place,
    clock: Clock,
    folder: Path | None,
) -> None:
    """Runs the program in XLA and, translated, in a runtime with and without optimisation.

    Args:
        lowered: For the shapes of the arguments.
        translated: For these, or for symbolic ones.
        folder: Receives the stages of the translation, the inputs and XLA's results.

    Raises:
        Disagreement: The results differ.
    """
    with clock("translate"):
        signature = load(translated).signature
        inputs = caller_of(signature).arrays(tuple(arguments), {})
        program = hlo2onnx.translate(translated, dump=folder, target=place.target)
        proto = program.model_proto
        content = proto.SerializeToString()
    with clock("xla"):
        results = lowered.compile()(*arguments)
        expected = [np.asarray(leaf) for leaf in jax.tree_util.tree_leaves(results)]
    if folder is not None:
        for stem, arrays in (("inputs", inputs), ("xla", expected)):
            np.savez(folder / f"{stem}.npz", *map(_plain, arrays))
    with clock("check"):
        check_model(proto)
    feeds = to_model(program.input_names, inputs)
    runs = {}
    for label, optimize in place.runs.items():
        with clock("load"):
            session = place.load(content, optimize)
        with clock("run"):
            runs[label] = from_model(signature.outputs, session(feeds))
    with clock("compare"):
        exact: list[np.ndarray | None] = [None] * len(expected)
        bad = mistakes(harness.group_name, runs, expected, exact)
    if bad and harness.group_name not in EXACT:
        with clock("exact"):
            exact = exact_results(harness, lowered, arguments, inputs, expected)
            bad = mistakes(harness.group_name, runs, expected, exact)
            good = {
                (label, index)
                for label in {label for label, _ in bad}
                for index in as_good(harness.group_name, inputs, runs[label], expected)
            }
            bad = {place: found for place, found in bad.items() if place not in good}
    if bad:
        raise Disagreement(describe(bad, runs, expected, exact))


def _refusals(error: TranslationError) -> str:
    reasons = dict.fromkeys(
        f"{refusal.op}: {refusal.why}".replace(REASON_SEPARATOR, ", ") for refusal in error.refusals
    )
    return one_line(REASON_SEPARATOR.join(reasons))


def _folder(dump: str, name: str) -> Path:
    """A folder for a case: long names differ at their ends."""
    text = re.sub(r"\W+", "_", name).strip("_")
    short = text if len(text) <= 120 else f"{text[:110]}_{zlib.crc32(name.encode()):08x}"
    folder = Path(dump) / short
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _plain(array: np.ndarray) -> np.ndarray:
    """The array in a type that npz files know."""
    return array if array.dtype.isbuiltin == 1 else array.view(f"u{array.dtype.itemsize}")
