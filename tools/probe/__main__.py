"""Measures which (operator, element type, opset) ONNX Runtime's CPU provider runs correctly.

    python -m tools.probe                     rewrite hlo2onnx/targets/ort_cpu.json
    python -m tools.probe --ops Add,Cast      rewrite these operators' lines only
    python -m tools.probe --opsets 17         measure these opsets, and keep the others
    python -m tools.probe --check             compare with the file; exit 1 if not equal, or, if
                                              the file is of another version of the runtime, if
                                              that version lacks what the file says it has

Each model has one node (see `recipes`). A worker process loads and runs it without graph
optimisation. A model that kills or hangs the worker counts as unsupported. float16 may run through
casts that the runtime inserts; it counts as supported.

A kernel that runs is then tried on difficult numbers whose results ONNX defines to the last bit
(see `value_trials`). A kernel that gives another number counts as unsupported and stands in the
section `wrong`. A kernel that only loses the sign of a zero counts as supported and is noted.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper

from hlo2onnx.options import ir_version
from hlo2onnx.targets import target
from hlo2onnx.targets.target import (
    MAIN_PARAMETER,
    MIN_OPSET,
    PAIR_PARAMETERS,
    VARIANT_SINCE,
    op_key,
)
from tools import ROOT
from tools.probe import table as kernel_table
from tools.probe import values
from tools.probe.branches import inlines_branches
from tools.probe.fusions import harmful_fusions
from tools.probe.recipes import DTYPES, SKIPPED, VARIANTS, build_model, recipe_for
from tools.probe.table import OPS, PAIRS, SECTIONS, WRONG, WRONG_PAIRS, ZERO_SIGNS, Fact
from tools.probe.value_trials import trials_of
from tools.probe.worker import NO_KERNEL, Worker

TABLE = ROOT / "hlo2onnx" / "targets" / "ort_cpu.json"
KEPT = (
    "folds_batch_norm", "fuses_cast_transposes", "rounds_half", "slow_rnn", "images_only", "costs",
)  # fmt: skip
"""Keys of the table that this tool does not measure: it keeps what the file says."""

_AXES_OPSET = 18
"""The first opset in which all reductions take axes as an input."""


@dataclass
class Limits:
    """What the runtime loads."""

    max_opset: int
    max_ir_version: int


@dataclass
class Prober:
    """Runs every case of an operator and keeps what was found and why cases were refused."""

    worker: Worker
    limits: Limits
    opsets: frozenset[int]
    dtypes: frozenset[ir.DataType]
    found: dict[str, kernel_table.Found] = field(
        default_factory=lambda: {section: {} for section in SECTIONS}
    )
    refusals: list[str] = field(default_factory=list)
    cases: int = 0
    _verdicts: dict[tuple[Fact, int], str] = field(default_factory=dict)

    def probe(self, op_type: str) -> None:
        """Probe all keys of an operator in all opsets."""
        for opset in sorted(self.opsets):
            schema = schema_at(op_type, opset)
            if schema is not None:
                self._probe_schema(op_type, schema, opset)

    def _probe_schema(self, op_type: str, schema: Any, opset: int) -> None:
        main = main_position(schema)
        if op_type not in ("BitCast", "Cast", "CastLike"):
            for key in (op_type, *(op_key(op_type, given) for given in VARIANTS.get(op_type, ()))):
                if opset < VARIANT_SINCE.get(key, 0):
                    continue
                for dtype in self._allowed(schema, main):
                    self._case(OPS, key, schema, {main: dtype}, opset)
        if op_type in PAIR_PARAMETERS:
            self._matrix(op_type, schema, opset)
            return
        for position in further_positions(schema):
            key = f"{op_type}.{schema.inputs[position].name}"
            if key in PAIR_PARAMETERS:
                self._matrix(key, schema, opset)
                continue
            lead = usual_main_dtype(schema, main)
            for dtype in self._allowed(schema, position):
                self._case(OPS, key, schema, {position: dtype, main: lead}, opset)

    def _matrix(self, key: str, schema: Any, opset: int) -> None:
        one, other = PAIR_PARAMETERS[key]
        for first in self._allowed(schema, one):
            for second in self._allowed(schema, other):
                self._case(PAIRS, key, schema, {one: first, other: second}, opset)

    def _allowed(self, schema: Any, position: int) -> list[ir.DataType]:
        allowed = dtypes_at(schema, position)
        return [dtype for dtype in DTYPES if dtype in allowed and dtype in self.dtypes]

    def _case(
        self, section: str, key: str, schema: Any, fixed: dict[int, ir.DataType], opset: int
    ) -> None:
        """Run one case; in `ops`, the first of `fixed` is what the fact is about."""
        fact = key, tuple(fixed.values())[: 2 if section == PAIRS else 1]
        holds = self.found[section].setdefault(fact, set())
        model = build_model(key, schema, fixed, opset, ir_version(opset))
        what = f"{key} {' '.join(d.short_name() for d in fact[1])} opset {opset}"
        self.cases += 1
        answer = self.worker.run(model, what)
        if isinstance(answer, str):
            if answer != NO_KERNEL:
                self.refusals.append(f"{what}: {answer.strip()}")
            return
        verdict = self._verdict(fact, schema, opset, what)
        if verdict == values.WRONG:
            wrong = WRONG_PAIRS if section == PAIRS else WRONG
            self.found[wrong].setdefault(fact, set()).add(opset)
            return
        holds.add(opset)
        if verdict == values.ZEROS:
            self.found[ZERO_SIGNS].setdefault(fact, set()).add(opset)

    def _verdict(self, fact: Fact, schema: Any, opset: int, what: str) -> str:
        """Say whether the numbers are right, once for each version of the operator."""
        known = fact, schema.since_version
        if known not in self._verdicts:
            self._verdicts[known] = self._tried(fact, schema, opset, what)
        return self._verdicts[known]

    def _tried(self, fact: Fact, schema: Any, opset: int, what: str) -> str:
        trials = trials_of(*fact)
        if not trials:
            return values.RIGHT
        self.cases += 1
        graph = values.graph_of(trials, schema)
        answer = self.worker.run(
            values.serialized(graph, opset, ir_version(opset)), f"numbers of {what}"
        )
        if isinstance(answer, str):
            self.refusals.append(f"numbers of {what}: {answer.strip()}")
            return values.WRONG
        verdict, example = values.judge(trials, answer)
        if example:
            self.refusals.append(f"{what}: {verdict}: {example}")
        return verdict


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


def find_limits(worker: Worker) -> Limits:
    """Find the newest opset and IR version that the runtime loads."""

    def loads(opset: int, ir_version: int) -> bool:
        schema = onnx.defs.get_schema("Identity", opset, "")
        model = build_model("Identity", schema, {0: ir.DataType.FLOAT}, opset, ir_version)
        return not isinstance(worker.run(model, "limits"), str)

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


def table_of(prober: Prober, known: Mapping[str, Any]) -> dict[str, Any]:
    """Give the whole table; what is not probed here stays as it is known."""
    return {
        "runtime": "onnxruntime",
        "runtime_version": ort.__version__,
        "onnx_version": onnx.__version__,
        "min_opset": MIN_OPSET,
        "max_opset": prober.limits.max_opset,
        "max_ir_version": prober.limits.max_ir_version,
        "naive_sums": adds_naively(),
        "harmful_fusions": harmful_fusions(),
        "loses_nan": loses_nan(),
        "inlines_branches": inlines_branches(),
        **{key: known[key] for key in KEPT if key in known},
        **{section: kernel_table.encode(section, prober.found[section]) for section in SECTIONS},
        "skipped": SKIPPED,
    }


def adds_naively() -> bool:
    """Say whether a long f32 ReduceSum loses digits as a running sum does."""
    x = np.full((100_000, 4), 0.1, np.float32)
    node = helper.make_node("ReduceSum", ["x", "axes"], ["y"], keepdims=0)
    got = run_nodes([node], {"x": x}, x[0], {"axes": np.array([0])})
    right = x.astype(np.float64).sum(0)
    return bool((np.abs(got - right) > 1e-5 * right).any())


def loses_nan() -> bool:
    """Say whether the maximum of a NaN and a number is the number."""
    x = np.array([[1.0, np.nan], [np.nan, 1.0]], np.float32)
    node = helper.make_node("ReduceMax", ["x", "axes"], ["y"], keepdims=0)
    return not np.isnan(run_nodes([node], {"x": x}, x[0], {"axes": np.array([1])})).all()


def run_nodes(
    nodes: list[onnx.NodeProto],
    inputs: dict[str, np.ndarray],
    like: np.ndarray,
    constants: dict[str, np.ndarray],
) -> np.ndarray:
    """Run nodes with all optimizations; the result has the type and shape of `like`."""

    def described(name: str, array: np.ndarray) -> onnx.ValueInfoProto:
        element = helper.np_dtype_to_tensor_dtype(array.dtype)
        return helper.make_tensor_value_info(name, element, array.shape)

    graph = helper.make_graph(
        nodes,
        "nodes",
        [described(name, array) for name, array in inputs.items()],
        [described(nodes[-1].output[0], like)],
        [onnx.numpy_helper.from_array(array, name) for name, array in constants.items()],
    )
    model = helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", _AXES_OPSET)], ir_version=10
    )
    session = ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
    (result,) = session.run(None, inputs)
    return np.asarray(result)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.probe", description=(__doc__ or "").partition("\n")[0]
    )
    parser.add_argument("--ops", help="operators, separated by commas; default: all")
    parser.add_argument("--opsets", help="such as 18-23 or 23; default: all")
    parser.add_argument("--dtypes", help="short names, separated by commas; with --check only")
    parser.add_argument("--output", type=Path, default=TABLE, help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="compare with the file; exit 1")
    parser.add_argument("--refusals", type=Path, help="write what was refused or wrong, and how")
    given = parser.parse_args()
    if given.dtypes and not given.check:
        parser.error("--dtypes makes a partial table: use it with --check")
    return given


def main() -> int:
    given = parse_arguments()
    started = time.monotonic()
    worker = Worker()
    limits = find_limits(worker)
    worker.deaths.clear()
    newest = range(MIN_OPSET, limits.max_opset + 1)
    wanted = ir.DataType.from_short_name
    prober = Prober(
        worker,
        limits,
        frozenset(target.parse_ranges(given.opsets) if given.opsets else newest),
        frozenset(map(wanted, given.dtypes.split(",")) if given.dtypes else DTYPES),
    )
    every = operators(newest)
    asked = given.ops.split(",") if given.ops else every
    if unknown := set(asked) - set(every):
        worker.stop()
        sys.exit(f"not operators, or not probed: {', '.join(sorted(unknown))}")
    for op_type in asked:
        prober.probe(op_type)
    worker.stop()
    print(f"{prober.cases} cases in {time.monotonic() - started:.0f} s", file=sys.stderr)
    for death in worker.deaths:
        print(death, file=sys.stderr)
    if given.refusals:
        text = "".join(f"{reason}\n" for reason in sorted(prober.refusals))
        given.refusals.write_text(text, encoding="utf-8")
    known = json.loads(given.output.read_text(encoding="utf-8")) if given.output.exists() else {}
    if given.check:
        probed = [*prober.found[OPS], *prober.found[PAIRS]]
        exact = known.get("runtime_version") == ort.__version__
        common = prober.opsets & {*range(known["max_opset"] + 1)}
        different = kernel_table.differences(prober.found, probed, common, known, exact=exact)
        print("\n".join(different) or "the table is right")
        return 1 if different else 0
    if given.opsets and known:
        kernel_table.keep_opsets(prober.found, known, prober.opsets)
    table = table_of(prober, known)
    if (given.ops or given.opsets) and known:
        table = kernel_table.merge(known, table)
    given.output.write_text(kernel_table.dump(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
