"""Measure which (operator, element type, opset) ONNX Runtime's CPU provider can load and run.

    python tools/probe_kernels.py                     rewrite hlo2onnx/targets/ort_cpu.json
    python tools/probe_kernels.py --ops Add,Cast      rewrite these operators' lines only
    python tools/probe_kernels.py --check             compare with the file; exit 1 if not equal

One node makes one model (see `probe_recipes.py`). A worker process loads and runs it, with graph
optimisation off; a model that kills or hangs the worker counts as unsupported and costs a restart.
float16 may run through casts that the runtime itself inserts: it runs, so it counts.
"""

from __future__ import annotations

import argparse
import json
import multiprocessing
import sys
import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir
import onnxruntime as ort
from onnx import helper
from probe_recipes import DTYPES, SKIPPED, VARIANTS, build_model, recipe_for

from hlo2onnx.targets import Target, target
from hlo2onnx.targets.target import MAIN_PARAMETER, MIN_OPSET, PAIR_PARAMETERS, op_key

TABLE = Path(__file__).parents[1] / "hlo2onnx" / "targets" / "ort_cpu.json"
TIMEOUT_SECONDS = 20.0
NO_KERNEL = "no kernel"
NO_KERNEL_TEXTS = ("Could not find an implementation", "Failed to find kernel")

Fact = tuple[str, tuple[ir.DataType, ...]]
"""Operator key and one element type, or the two of a pair."""
Found = dict[Fact, set[int]]
"""Opsets in which each fact holds; an empty set when in none."""


def serve(connection: Connection) -> None:
    """Worker: run each model that arrives, answer "" or the reason why it does not run."""
    ort.set_default_logger_severity(4)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    options.log_severity_level = 4
    options.intra_op_num_threads = options.inter_op_num_threads = 1
    options.enable_cpu_mem_arena = False
    while model := connection.recv_bytes():
        try:
            session = ort.InferenceSession(model, options, providers=["CPUExecutionProvider"])
            session.run_with_ort_values([out.name for out in session.get_outputs()], {})
            answer = ""
        except Exception as error:  # noqa: BLE001  (what is refused, and why, is the result)
            text = str(error)
            answer = NO_KERNEL if any(t in text for t in NO_KERNEL_TEXTS) else text
        connection.send(answer)


class Worker:
    """A process that runs models, replaced when a model kills or hangs it."""

    def __init__(self) -> None:
        self.deaths: list[str] = []
        self._context = multiprocessing.get_context("spawn")
        self._start()

    def _start(self) -> None:
        self._pipe, remote = self._context.Pipe()
        self._process = self._context.Process(target=serve, args=(remote,), daemon=True)
        self._process.start()
        remote.close()

    def why_not(self, model: bytes, what: str) -> str:
        """Load and run a model; give "" when it runs, else the reason."""
        self._pipe.send_bytes(model)
        try:
            if self._pipe.poll(TIMEOUT_SECONDS):
                answer: str = self._pipe.recv()
                return answer
            reason = f"no answer in {TIMEOUT_SECONDS:.0f} s"
        except EOFError:
            reason = "killed the process"
        self._process.kill()
        self._process.join()
        self.deaths.append(f"{what}: {reason}, exit code {self._process.exitcode}")
        self._start()
        return reason

    def stop(self) -> None:
        """End the process."""
        self._pipe.send_bytes(b"")
        self._process.join()


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
    ops: Found = field(default_factory=dict)
    pairs: Found = field(default_factory=dict)
    refusals: list[str] = field(default_factory=list)
    cases: int = 0

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
                for dtype in self._allowed(schema, main):
                    self._case(self.ops, key, schema, {main: dtype}, opset)
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
                self._case(self.ops, key, schema, {position: dtype, main: lead}, opset)

    def _matrix(self, key: str, schema: Any, opset: int) -> None:
        one, other = PAIR_PARAMETERS[key]
        for first in self._allowed(schema, one):
            for second in self._allowed(schema, other):
                self._case(self.pairs, key, schema, {one: first, other: second}, opset)

    def _allowed(self, schema: Any, position: int) -> list[ir.DataType]:
        allowed = dtypes_at(schema, position)
        return [dtype for dtype in DTYPES if dtype in allowed and dtype in self.dtypes]

    def _case(
        self, found: Found, key: str, schema: Any, fixed: dict[int, ir.DataType], opset: int
    ) -> None:
        """Run one case; in `ops`, the first of `fixed` is what the fact is about."""
        shown = tuple(fixed.values())[: 2 if found is self.pairs else 1]
        holds = found.setdefault((key, shown), set())
        model = build_model(key, schema, fixed, opset, ir_version_for(opset))
        what = f"{key} {' '.join(d.short_name() for d in shown)} opset {opset}"
        self.cases += 1
        reason = self.worker.why_not(model, what)
        if not reason:
            holds.add(opset)
        elif reason != NO_KERNEL:
            self.refusals.append(f"{what}: {reason.strip()}")


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


def ir_version_for(opset: int) -> int:
    """Give the IR version that models of an opset state: 10, and the one due above opset 23."""
    if opset <= 23:
        return 10
    version: int = helper.find_min_ir_version_for([helper.make_opsetid("", opset)])
    return version


def find_limits(worker: Worker) -> Limits:
    """Find the newest opset and IR version that the runtime loads."""

    def loads(opset: int, ir_version: int) -> bool:
        schema = onnx.defs.get_schema("Identity", opset, "")
        model = build_model("Identity", schema, {0: ir.DataType.FLOAT}, opset, ir_version)
        return not worker.why_not(model, "limits")

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


def ranges(opsets: Iterable[int]) -> str:
    """Write {18, 19, 20, 23} as "18-20,23"."""
    parts: list[list[int]] = []
    for opset in sorted(opsets):
        if parts and parts[-1][-1] == opset - 1:
            parts[-1].append(opset)
        else:
            parts.append([opset])
    return ",".join(f"{p[0]}-{p[-1]}" if len(p) > 1 else str(p[0]) for p in parts)


def encode_row(support: Mapping[ir.DataType, set[int]]) -> dict[str, str]:
    """Write element types under the range of opsets that they share."""
    row: dict[str, list[str]] = {}
    for dtype in DTYPES:
        if support.get(dtype):
            row.setdefault(ranges(support[dtype]), []).append(dtype.short_name())
    return {opsets: " ".join(names) for opsets, names in sorted(row.items())}


def encode(prober: Prober) -> tuple[dict[str, Any], dict[str, Any]]:
    """Write what was found as the `ops` and `pairs` of a table."""
    ops: dict[str, dict[ir.DataType, set[int]]] = {}
    for (key, (dtype,)), opsets in prober.ops.items():
        ops.setdefault(key, {})[dtype] = opsets
    pairs: dict[str, dict[ir.DataType, dict[ir.DataType, set[int]]]] = {}
    for (key, (first, second)), opsets in prober.pairs.items():
        pairs.setdefault(key, {}).setdefault(first, {})[second] = opsets
    return (
        {key: encode_row(ops[key]) for key in ops},
        {
            key: {d.short_name(): row for d, s in rows.items() if (row := encode_row(s))}
            for key, rows in pairs.items()
        },
    )


def dump(table: Mapping[str, Any]) -> str:
    """Give the table as JSON with one line for each operator key (pairs: each first type)."""

    def lines(rows: Mapping[str, Any], depth: int, nested: bool = False) -> str:
        pad = " " * (2 * depth)
        body = [
            f"{pad}{json.dumps(k)}: "
            + (lines(v, depth + 1) if nested else json.dumps(v, ensure_ascii=False))
            for k, v in sorted(rows.items())
        ]
        return "{\n" + ",\n".join(body) + "\n" + " " * (2 * depth - 2) + "}"

    sections = [
        f"  {json.dumps(k)}: {lines(v, 2, k == 'pairs') if isinstance(v, dict) else json.dumps(v)}"
        for k, v in table.items()
    ]
    return "{\n" + ",\n".join(sections) + "\n}\n"


def table_of(prober: Prober) -> dict[str, Any]:
    """Give the whole table."""
    ops, pairs = encode(prober)
    return {
        "runtime": "onnxruntime",
        "runtime_version": ort.__version__,
        "onnx_version": onnx.__version__,
        "min_opset": MIN_OPSET,
        "max_opset": prober.limits.max_opset,
        "max_ir_version": prober.limits.max_ir_version,
        "ops": ops,
        "pairs": pairs,
        "skipped": SKIPPED,
    }


def merge(old: Mapping[str, Any], new: Mapping[str, Any]) -> dict[str, Any]:
    """Put the operators of a partial table into a full one."""
    merged = dict(new)
    for section in ("ops", "pairs"):
        probed = {key.partition("[")[0].partition(".")[0] for key in new[section]}
        kept = {
            key: row
            for key, row in old[section].items()
            if key.partition("[")[0].partition(".")[0] not in probed
        }
        merged[section] = kept | new[section]
    return merged


def differences(prober: Prober, known: Target) -> list[str]:
    """List what was found and is not what the table says."""
    found = []
    for opset in sorted(prober.opsets):
        for (key, (dtype,)), opsets in prober.ops.items():
            if known.supports(key, dtype, opset) != (opset in opsets):
                found.append((key, dtype.short_name(), opset, opset in opsets))
        for (key, (first, second)), opsets in prober.pairs.items():
            if known.supports_pair(key, first, second, opset) != (opset in opsets):
                names = f"{first.short_name()} {second.short_name()}"
                found.append((key, names, opset, opset in opsets))
    return [
        f"{key} {names} opset {opset}: "
        + ("runs, which the table denies" if runs else "does not run, as the table claims it does")
        for key, names, opset, runs in found
    ]


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--ops", help="operators, separated by commas; default: all")
    parser.add_argument("--opsets", help="such as 18-23 or 23; with --check only")
    parser.add_argument("--dtypes", help="short names, separated by commas; with --check only")
    parser.add_argument("--output", type=Path, default=TABLE, help="default: %(default)s")
    parser.add_argument("--check", action="store_true", help="compare with the file; exit 1")
    parser.add_argument("--refusals", type=Path, help="write why cases were refused to this file")
    given = parser.parse_args()
    if (given.opsets or given.dtypes) and not given.check:
        parser.error("--opsets and --dtypes make a partial table: use them with --check")
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
    if given.check:
        known = json.loads(given.output.read_text(encoding="utf-8"))
        found = differences(prober, target.from_json("file", known))
        print("\n".join(found) or "the table is right")
        return 1 if found else 0
    table = table_of(prober)
    if given.ops and given.output.exists():
        table = merge(json.loads(given.output.read_text(encoding="utf-8")), table)
    given.output.write_text(dump(table), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
