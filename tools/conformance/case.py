"""Runs one harness: JAX lowers it, hlo2onnx translates it, `verify` compares it with XLA."""

from __future__ import annotations

import hashlib
import re
import traceback
import zlib
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import jax
import jax.export
import jax.numpy as jnp
import numpy as np
from jax._src.internal_test_util import test_harnesses

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.load import load
from hlo2onnx.runtime.calling import caller_of
from hlo2onnx.runtime.sessions import check_model
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.runners import Candidate
from tools.conformance.outcome import Outcome, one_line
from tools.conformance.running import Place, place_of
from tools.conformance.sets import EXACT

STATUS_OF_PHASE = {
    "lower": "jax-error",
    "symbolic": "unexported",
    "translate": "error",
    "xla": "jax-error",
    "check": "invalid",
    "run": "run-error",
}
"""What it means when a phase raises; a TranslationError means `refused`."""

CLEAR_EVERY = 100
"""JAX's caches are emptied after so many cases, which bounds the memory."""

_XLA_SWITCH = re.compile(r"enable_?xla_(True|False)")
"""A switch for conversions to TensorFlow: for us both of its values are the same program."""


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
        """Name and group of every harness."""
        cases = [(h.fullname, h.group_name) for h in self._harnesses.values()]
        return {"cases": sorted(cases), "jax": jax.__version__}

    def run(self, name: str, options: Mapping[str, Any]) -> Outcome:
        """Runs one harness.

        Args:
            options: `symbolic`: whether leading dimensions are symbolic in what is translated;
                `runtime`: where the model runs, see `running.place_of`. All requests of a process
                name the same one.
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
        self._place = self._place or place_of(options.get("runtime", ""))
        case = _Case(harness, self._place)
        try:
            return self._outcome(case, bool(options.get("symbolic")))
        except TranslationError as error:
            outcome = Outcome(name, "refused", _refusals(error), str(error))
        except Exception as error:  # noqa: BLE001  (the phase says whose failure it is)
            reason = one_line(f"{type(error).__name__}: {error}")
            outcome = Outcome(name, STATUS_OF_PHASE[case.phase], reason, traceback.format_exc())
        self._done[case.digest] = outcome
        return outcome

    def _outcome(self, case: _Case, symbolic: bool) -> Outcome:
        case.lower(symbolic)
        if case.digest in self._done:
            return replace(self._done[case.digest], name=case.harness.fullname)
        outcome = self._done[case.digest] = case.compared()
        return outcome


class _Case:
    """A harness on its way.

    Attributes:
        phase: Where it is, a key of `STATUS_OF_PHASE`.
        digest: The same for harnesses that are the same program with the same arguments.
    """

    def __init__(self, harness: Any, place: Place) -> None:
        self.harness = harness
        self._place = place
        self.phase = "lower"
        self.digest = harness.fullname

    def lower(self, symbolic: bool) -> None:
        """Lowers the program, for symbolic leading dimensions perhaps."""
        self._arguments = arguments_of(self.harness)
        self._lowered = self._translated = jax.jit(self.harness.dyn_fun).lower(*self._arguments)
        if symbolic:
            self.phase = "symbolic"
            specs = with_symbolic_dimensions(self._arguments)
            self._translated = jax.jit(self.harness.dyn_fun).lower(*specs)
        self.digest = _digest(self.harness.group_name, self._translated, self._arguments)

    def compared(self) -> Outcome:
        """Translates the program, and runs it with and without graph optimization."""
        name, place = self.harness.fullname, self._place
        self.phase = "translate"
        program = hlo2onnx.translate(self._translated, target=place.target)
        self.phase = "xla"
        source = load(self._lowered)
        inputs = caller_of(source.signature).arrays(tuple(self._arguments), {})
        judge = Judge(source, [(inputs, "")])
        self.phase = "check"
        content = program.model_proto.SerializeToString()
        check_model(content)
        self.phase = "run"
        found = judge(Candidate(content, program.input_names, place.runner))
        exact = self.harness.group_name in EXACT
        bad = [
            f"{label} {item.name} {item.dtype}{list(item.shape)}: relative error {item.max_rel:.1e}"
            for label, items in found.runs
            for item in items
            if not item.ok or (exact and item.max_abs > 0)
        ]
        return Outcome(name, "mismatch", bad[0], str(found)) if bad else Outcome(name, "pass")


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


def _refusals(error: TranslationError) -> str:
    reasons = dict.fromkeys(f"{refusal.op}: {refusal.why}" for refusal in error.refusals)
    return one_line("; ".join(reasons))
