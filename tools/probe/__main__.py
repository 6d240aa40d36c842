"""Measures which (operator, element type, opset) a runtime runs correctly, and its properties.

    python -m tools.probe                          compare with, or write, the table of ort-cpu
    python -m tools.probe --runtime ort-cpu@1.20   of that version, in an environment of its own
    python -m tools.probe --runtime ort-web@1.30   of onnxruntime-web in Node
    python -m tools.probe --runtime ort-webgpu@1.30  ... in headless Chromium
    python -m tools.probe --runtime ort-cuda       of another execution provider, on your machine
    python -m tools.probe --ops Add,Cast           rewrite these operators' lines only
    python -m tools.probe --check                  compare with the file; exit 1 if not equal, or,
                                                   if the file is of another version of the
                                                   runtime, if that version lacks what the file says
                                                   it has

The table is hlo2onnx/targets/tables/NAME.json, unless --output says another file. A table that is
written for the first time extends that of ort-cpu: it has the costs, which are not measured but
for `ordered_scatter`, and the rows that differ. `prober` says what counts as supported,
`flag_trials` has the properties.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import fields
from pathlib import Path
from typing import Any

import onnx
import onnx_ir as ir

from hlo2onnx.runtime.adapters.installed import KINDS, Name
from hlo2onnx.targets import target
from hlo2onnx.targets.costs import Flags
from hlo2onnx.targets.target import MIN_OPSET
from tools import ROOT, command_line
from tools.probe import table as kernel_table
from tools.probe.environments import start
from tools.probe.flag_trials import has_flag, measured_flags
from tools.probe.fusions import harmful_fusions
from tools.probe.models import DTYPES
from tools.probe.ordered_scatter import ordered_scatter_elements
from tools.probe.prober import Prober, find_limits, operators
from tools.probe.recipes import SKIPPED
from tools.probe.table import OPS, PAIRS, SECTIONS

TABLES = ROOT / "hlo2onnx" / "targets" / "tables"
BASE = TABLES / "ort-cpu.json"
"""The table that others extend."""
KEPT = (
    "about", "com.microsoft", "costs", "default_opset", "expands_attention", "fallback",
    "folds_batch_norm", "fuses_attention", "fuses_cast_transposes", "images_only",
    "reduces_in_f32", "rejects_unread_rows", "rounds_half", "saturates_int8", "sequential_top_k",
    "shares_memory", "slow_half", "slow_rnn", "slow_transposes", "slow_where", "sums_in_f64",
)  # fmt: skip
"""Keys of the table that this tool does not measure: it keeps what the file says."""
_FLAGS = tuple(field.name for field in fields(Flags))


def table_of(prober: Prober, name: Name, known: Mapping[str, Any]) -> dict[str, Any]:
    """Give the whole table; what is not probed here stays as it is known."""
    runtime, kind = prober.runtime, KINDS[name.kind]
    newest = prober.limits.max_opset
    flags = dict(measured_flags(runtime))
    for flag, fault in flags.items():
        if fault:
            prober.refusals.append(f"{flag}: {fault}")
    made = {
        "runtime": kind.package,
        "runtime_version": runtime.version,
        "onnx_version": onnx.__version__,
        "about": "",
        "min_opset": MIN_OPSET,
        "max_opset": newest,
        "max_ir_version": prober.limits.max_ir_version,
        "harmful_fusions": harmful_fusions(runtime, kind),
        **dict.fromkeys(_FLAGS, False),
        **{flag: bool(fault) for flag, fault in flags.items()},
        **{key: known[key] for key in KEPT if key in known},
        "costs": {
            **known.get("costs", {}),
            "ordered_scatter_elements": ordered_scatter_elements(runtime),
        },
        **{s: kernel_table.encode(s, prober.found[s], newest) for s in SECTIONS},
        "skipped": SKIPPED,
    }
    return {key: value for key, value in made.items() if value is not False or key in KEPT}


def parse_arguments() -> argparse.Namespace:
    parser = command_line("probe", __doc__)
    add = parser.add_argument
    add("--runtime", default="ort-cpu", help=f"one of {', '.join(KINDS)}, perhaps with @VERSION")
    add("--ops", help="operators, separated by commas; default: all")
    add("--opsets", help="such as 18-23 or 23, with --check; default: all")
    add("--dtypes", help="short names, separated by commas, with --check; default: all")
    add("--by-version", action="store_true", help="probe one opset for each version of an operator")
    add("--output", type=Path, help="default: the table of that name in hlo2onnx")
    add("--check", action="store_true", help="compare with the file; exit 1")
    add("--refusals", type=Path, help="write what was refused or wrong, and how")
    given = parser.parse_args()
    try:
        given.runtime = Name.parsed(given.runtime)
    except ValueError as error:
        parser.error(str(error))
    given.output = given.output or TABLES / f"{given.runtime}.json"
    if (given.dtypes or given.opsets) and not given.check:
        parser.error("--dtypes and --opsets make a partial table: use them with --check")
    return given


def probed(given: argparse.Namespace) -> Prober:
    """Probe what the arguments ask for."""
    runtime = start(given.runtime)
    limits = find_limits(runtime)
    runtime.deaths.clear()
    newest = range(MIN_OPSET, limits.max_opset + 1)
    opsets = target.parse_ranges(given.opsets, limits.max_opset) if given.opsets else newest
    names = given.dtypes.split(",") if given.dtypes else ()
    dtypes = frozenset(map(ir.DataType.from_short_name, names)) or frozenset(DTYPES)
    kind = KINDS[given.runtime.kind]
    prober = Prober(
        runtime,
        limits,
        frozenset(opsets),
        dtypes,
        given.by_version,
        kind.batch,
        kind.varied,
        not has_flag(runtime, "flushes_denormals"),
    )
    every = operators(newest)
    asked = given.ops.split(",") if given.ops else every
    if unknown := set(asked) - set(every):
        runtime.stop()
        sys.exit(f"not operators, or not probed: {', '.join(sorted(unknown))}")
    for op_type in asked:
        prober.probe(op_type)
    return prober


def known_table(path: Path) -> dict[str, Any]:
    """Give the table of a file with all rows, {} where there is none."""
    if not path.exists():
        return {}
    known: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    if "extends" not in known:
        return known
    base = known_table(BASE)
    sections = (*SECTIONS, "skipped", "costs")
    merged = {name: {**base[name], **known.get(name, {})} for name in sections}
    return {**base, **known, **merged}


def written(table: Mapping[str, Any], *, extends: bool) -> str:
    """Give the text of a table; without the rows of `BASE` if it extends it."""
    if not extends:
        return kernel_table.dump(table)
    own = kernel_table.without_rows_of(known_table(BASE), table)
    return kernel_table.dump({"extends": BASE.stem, **own})


def main() -> int:
    given = parse_arguments()
    started = time.monotonic()
    prober = probed(given)
    runtime = prober.runtime
    with runtime:
        known = known_table(given.output)
        if given.check:
            different = differences(prober, known)
            print("\n".join(different) or "the table is right")
        else:
            table = table_of(prober, given.runtime, known or known_table(BASE))
            if given.ops and known:
                table = kernel_table.merge(known, table)
            text = written(table, extends=given.output.resolve() != BASE)
            given.output.write_text(text, encoding="utf-8")
    print(f"{prober.cases} cases in {time.monotonic() - started:.0f} s", file=sys.stderr)
    for death in runtime.deaths:
        print(death, file=sys.stderr)
    if given.refusals:
        text = "".join(f"{reason}\n" for reason in sorted(prober.refusals))
        given.refusals.write_text(text, encoding="utf-8")
    return int(given.check and bool(different))


def differences(prober: Prober, known: Mapping[str, Any]) -> list[str]:
    """List what was found and is not what a table says."""
    facts = [*prober.found[OPS], *prober.found[PAIRS]]
    exact = known.get("runtime_version") == prober.runtime.version
    common = prober.opsets & {*range(known["max_opset"] + 1)}
    return kernel_table.differences(prober.found, facts, common, known, exact=exact)


if __name__ == "__main__":
    sys.exit(main())
