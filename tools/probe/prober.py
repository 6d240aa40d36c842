"""Runs the cases of each operator in a runtime, and finds what it loads.

Each model has one node (see `recipes`), and runs without graph optimization where the runtime can
be told so. A model that ends or hangs the runtime's process counts as unsupported. float16 may run
through casts that the runtime inserts; it counts as supported.

A kernel that runs is then tried on difficult numbers whose results ONNX defines to the last bit
(see `value_trials`). A kernel that gives another number counts as unsupported and stands in the
section `wrong`; in `limited`, too, if it is right for easier operands. A kernel that only loses the
sign of a zero counts as supported.
"""

from __future__ import annotations

from collections.abc import Generator, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, TypeAlias

import onnx
import onnx_ir as ir

from hlo2onnx.options import ir_version
from hlo2onnx.runtime.adapters.process import Answer, Runtime, lacks_kernel
from hlo2onnx.targets import target
from hlo2onnx.targets.target import (
    MAIN_PARAMETER,
    MIN_OPSET,
    PAIR_PARAMETERS,
    VARIANT_SINCE,
    op_key,
)
from tools.probe import table as kernel_table
from tools.probe import values
from tools.probe.models import DTYPES, Case, Ports, together
from tools.probe.recipes import SKIPPED, VARIANTS, build_case, recipe_for
from tools.probe.table import (
    LIMITED,
    LIMITED_PAIRS,
    OPS,
    PAIRS,
    SECTIONS,
    WRONG,
    WRONG_PAIRS,
    Fact,
    operator_of,
)
from tools.probe.value_trials import trials_of


@dataclass
class Limits:
    """What the runtime loads."""

    max_opset: int
    max_ir_version: int


_Ask: TypeAlias = tuple[Case, str]
"""What a job wants to be run, and its name."""
_Job: TypeAlias = Generator[_Ask, Answer | str, None]
"""One case: it asks for runs, and takes the answers."""


@dataclass
class Prober:
    """Runs every case of an operator and keeps what was found and why cases were refused.

    Attributes:
        by_version: Whether what holds in the first opset with a version of an operator is taken to
            hold in all opsets with that version.
        batch: How many cases run as one model; if that fails, they run in smaller ones.
        varied: Whether wide integers are tried as constants, too, see `trials_of`.
        denormals: Whether kernels are tried on denormal floats. XLA flushes them to zero, so a
            runtime that does the same is right.
    """

    runtime: Runtime
    limits: Limits
    opsets: frozenset[int]
    dtypes: frozenset[ir.DataType]
    by_version: bool = False
    batch: int = 1
    varied: bool = False
    denormals: bool = True
    found: dict[str, kernel_table.Found] = field(
        default_factory=lambda: {section: {} for section in SECTIONS}
    )
    refusals: list[str] = field(default_factory=list)
    cases: int = 0
    _right: dict[tuple[Fact, int, bool], bool] = field(default_factory=dict)

    def probe(self, op_type: str) -> None:
        """Probe all keys of an operator in all opsets."""
        since: dict[int, list[int]] = {}
        for opset in sorted(self.opsets):
            schema = schema_at(op_type, opset)
            if schema is None:
                continue
            same = since.setdefault(schema.since_version, [])
            if not same or not self.by_version:
                self._drive([*self._cases(op_type, schema, opset)])
            same.append(opset)
        if self.by_version:
            self._spread(op_type, since.values())

    def _spread(self, op_type: str, versions: Iterable[list[int]]) -> None:
        """Say of all opsets with a version what was found in the first of them."""
        for facts in self.found.values():
            for (key, _), opsets in facts.items():
                if operator_of(key) == op_type:
                    opsets |= {n for same in versions if same[0] in opsets for n in same}

    def _drive(self, jobs: list[_Job]) -> None:
        """Run jobs until all have ended; what they ask for at the same time runs together."""
        waiting = [(job, next(job)) for job in jobs]
        while waiting:
            answers: list[Answer | str] = []
            for start in range(0, len(waiting), self.batch):
                answers += self._answers([ask for _, ask in waiting[start : start + self.batch]])
            advanced = []
            for (job, _), answer in zip(waiting, answers, strict=True):
                try:
                    advanced.append((job, job.send(answer)))
                except StopIteration:
                    continue
            waiting = advanced

    def _answers(self, asks: list[_Ask]) -> list[Answer | str]:
        if len(asks) == 1:
            case, what = asks[0]
            return [self.runtime.run(case.model, case.feeds, what)]
        whole = together([case for case, _ in asks])
        answer = self.runtime.run(whole.model, whole.feeds, f"{asks[0][1]} and others")
        if isinstance(answer, str):
            half = len(asks) // 2
            return [*self._answers(asks[:half]), *self._answers(asks[half:])]
        outputs = iter(answer.outputs)
        return [Answer([*islice(outputs, case.outputs)]) for case, _ in asks]

    def _cases(self, op_type: str, schema: Any, opset: int) -> Iterator[_Job]:
        main = main_position(schema)
        if op_type not in ("BitCast", "Cast", "CastLike"):
            for key in (op_type, *(op_key(op_type, given) for given in VARIANTS.get(op_type, ()))):
                if opset < VARIANT_SINCE.get(key, 0):
                    continue
                for dtype in self._allowed(schema, main):
                    yield self._case(OPS, key, schema, {main: dtype}, opset)
        if op_type in PAIR_PARAMETERS:
            yield from self._matrix(op_type, schema, opset)
            return
        for position in further_positions(schema):
            key = f"{op_type}.{schema.inputs[position].name}"
            if key in PAIR_PARAMETERS:
                yield from self._matrix(key, schema, opset)
                continue
            lead = usual_main_dtype(schema, main)
            for dtype in self._allowed(schema, position):
                yield self._case(OPS, key, schema, {position: dtype, main: lead}, opset)

    def _matrix(self, key: str, schema: Any, opset: int) -> Iterator[_Job]:
        one, other = PAIR_PARAMETERS[key]
        for first in self._allowed(schema, one):
            for second in self._allowed(schema, other):
                yield self._case(PAIRS, key, schema, {one: first, other: second}, opset)

    def _allowed(self, schema: Any, position: int) -> list[ir.DataType]:
        allowed = dtypes_at(schema, position)
        return [dtype for dtype in DTYPES if dtype in allowed and dtype in self.dtypes]

    def _case(
        self, section: str, key: str, schema: Any, fixed: dict[int, ir.DataType], opset: int
    ) -> _Job:
        """Run one case; in `ops`, the first of `fixed` is what the fact is about."""
        fact = key, tuple(fixed.values())[: 2 if section == PAIRS else 1]
        holds = self.found[section].setdefault(fact, set())
        case = build_case(key, schema, fixed, opset, ir_version(opset), self._ports)
        what = f"{key} {' '.join(d.short_name() for d in fact[1])} opset {opset}"
        self.cases += 1
        answer = yield case, what
        if isinstance(answer, str):
            if not lacks_kernel(answer):
                self.refusals.append(f"{what}: {answer.strip()}")
            return
        if (yield from self._is_right(fact, schema, opset, what)):
            holds.add(opset)
            return
        wrong, limited = (WRONG_PAIRS, LIMITED_PAIRS) if section == PAIRS else (WRONG, LIMITED)
        self.found[wrong].setdefault(fact, set()).add(opset)
        if (yield from self._is_right(fact, schema, opset, what, limited=True)):
            self.found[limited].setdefault(fact, set()).add(opset)

    def _is_right(
        self, fact: Fact, schema: Any, opset: int, what: str, *, limited: bool = False
    ) -> Generator[_Ask, Answer | str, bool]:
        """Say whether the numbers are right, once for each version of the operator."""
        known = fact, schema.since_version, limited
        if known not in self._right:
            self._right[known] = yield from self._tried(fact, schema, opset, what, limited)
        return self._right[known]

    def _tried(
        self, fact: Fact, schema: Any, opset: int, what: str, limited: bool
    ) -> Generator[_Ask, Answer | str, bool]:
        trials = trials_of(*fact, limited=limited, varied=self.varied, denormals=self.denormals)
        if not trials:
            return not limited
        self.cases += 1
        case = values.case_of(trials, schema, opset, ir_version(opset), self._ports)
        answer = yield case, f"numbers of {what}"
        if isinstance(answer, str):
            self.refusals.append(f"numbers of {what}: {answer.strip()}")
            return False
        fault = values.judge(trials, answer.outputs, denormals=self.denormals)
        if fault:
            within = " within limits" if limited else ""
            self.refusals.append(f"{what}: wrong{within}: {fault}")
        return not fault

    @property
    def _ports(self) -> Ports:
        return Ports(self.runtime.takes, self.runtime.gives)


def schema_at(op_type: str, opset: int) -> Any:
    """Give the schema in force in an opset, or None where there is none or a deprecated one."""
    try:
        schema = onnx.defs.get_schema(op_type, opset, "")
    except onnx.defs.SchemaError:
        return None
    return None if schema.deprecated else schema


def main_position(schema: Any) -> int:
    """Give the position of the main parameter."""
    return MAIN_PARAMETER.get(schema.name, 0)


def dtypes_at(schema: Any, position: int) -> frozenset[ir.DataType]:
    """Give the element types that a parameter allows."""
    return target.schema_dtypes(schema, target.parameter(schema, position).type_str)


def usual_main_dtype(schema: Any, main: int) -> ir.DataType:
    """Give the element type of the main parameter while another one varies: f32, u8 or another."""
    allowed = dtypes_at(schema, main)
    order = (ir.DataType.FLOAT, ir.DataType.UINT8, *DTYPES)
    return next(dtype for dtype in order if dtype in allowed)


def further_positions(schema: Any) -> Iterator[int]:
    """Give the inputs with a type variable of their own and a choice, one for each variable."""
    seen = {target.parameter(schema, main_position(schema)).type_str}
    for position, given in enumerate(schema.inputs):
        used = recipe_for(f"{schema.name}.{given.name}", schema).inputs
        is_used = position < len(used) and used[position] is not None
        if is_used and given.type_str not in seen and len(dtypes_at(schema, position)) > 1:
            seen.add(given.type_str)
            yield position


def find_limits(runtime: Runtime) -> Limits:
    """Find the newest opset and IR version that the runtime loads."""

    def loads(opset: int, ir_version: int) -> bool:
        schema = onnx.defs.get_schema("Identity", opset, "")
        case = build_case("Identity", schema, {0: ir.DataType.FLOAT}, opset, ir_version, Ports())
        return not isinstance(runtime.run(case.model, case.feeds, "limits"), str)

    newest = onnx.defs.onnx_opset_version()
    return Limits(
        next(n for n in range(newest, 0, -1) if loads(n, 10)),
        next(n for n in range(onnx.IR_VERSION, 0, -1) if loads(MIN_OPSET, n)),
    )


def operators(opsets: Iterable[int]) -> list[str]:
    """Give the operators of the default domain that exist in an opset and are not skipped."""
    names = {s.name for s in onnx.defs.get_all_schemas_with_history() if not s.domain}
    found = [n for n in names if any(schema_at(n, opset) is not None for opset in opsets)]
    return sorted(set(found) - set(" ".join(SKIPPED.values()).split()))
