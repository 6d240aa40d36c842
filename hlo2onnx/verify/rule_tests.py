"""Translates a program again without some rules, to confirm that these are the reason."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from hlo2onnx.errors import Hlo2OnnxError
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.pipeline import run_stages
from hlo2onnx.raising.half_in_f32 import REWRITE as IN_F32
from hlo2onnx.raising.rule_names import rules_named
from hlo2onnx.runtime.calling import to_model
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.verify.checks import OutputJudge
from hlo2onnx.verify.divergence import RuleTest
from hlo2onnx.verify.runners import Start

MANY_RULES = 6
"""Up to this many rules are switched off one by one."""

LEGALIZATION = "legalize: "


class RuleTests:
    """Translations of a program, compared with XLA on the same inputs.

    Args:
        source: The program.
        options: Those of its translation.
        judge: Compares the outputs.
        start: Starts a session from a serialized model.
    """

    def __init__(
        self,
        source: Source,
        options: Options,
        judge: OutputJudge,
        start: Start,
    ) -> None:
        self._source = source
        self._options = replace(options, dump=None)
        self._judge = judge
        self._start = start

    def run(self, rewrites: Iterable[str]) -> list[RuleTest]:
        """Translates with the same options, then without each rule, then without all of them.

        Stops as soon as the outputs agree.
        """
        first = self._test(())
        if first.agrees:
            return [first]
        off = rules_named(self._options.without, retired=True)
        kept = {*off, IN_F32}  # which no option switches off one by one
        rules = [
            name for name in rewrites if not name.startswith(LEGALIZATION) and name not in kept
        ]
        found = [first]
        for name in rules[:MANY_RULES]:
            found.append(self._test((name,)))
            if found[-1].agrees:
                return found
        if len(rules) > 1:
            found.append(self._test(tuple(rules)))
        return found

    def _test(self, rules: tuple[str, ...]) -> RuleTest:
        options = replace(self._options, without=frozenset({*self._options.without, *rules}))
        try:
            model, _ = run_stages(self._source, options)
            session = self._start(to_proto(model).SerializeToString())
            names = [str(value.name) for value in model.graph.inputs]
            inputs = self._source.signature.inputs
            made = session(to_model(names, self._judge.arrays, inputs))
        except Hlo2OnnxError as error:
            return RuleTest(rules, False, f"it failed: {error}")
        found = self._judge(dict(enumerate(made)))
        return RuleTest(rules, all(item.ok for item in found.values()))
