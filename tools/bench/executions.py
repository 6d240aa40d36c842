"""Counts the nodes that ONNX Runtime runs in a call of a zoo program: the cost of small loops.

    python -m tools.bench.executions --envs DIR                     every program of SMALL_LOOPS
    python -m tools.bench.executions --envs DIR 'brax*' quadax_quadgk
    python -m tools.bench.executions --envs DIR diffrax_tsit5 --by source --top 40
    python -m tools.bench.executions --envs DIR --save before.json
    python -m tools.bench.executions --envs DIR --against before.json

A node of a body counts once for each trip. Counts do not depend on the load of the machine. DIR has
the environments of `tools.zoo`. `--save` keeps the counts, and `--against` prints them beside the
new ones, with both sums and the geometric mean of the ratios.
"""

from __future__ import annotations

import argparse
import json
import math
import subprocess
import sys
import tempfile
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from pathlib import Path
from typing import Any

from tools import run_module
from tools.zoo.environments import environment_of
from tools.zoo.program import load_all

SMALL_LOOPS = (
    "blackjax_hmc", "blackjax_mala", "blackjax_nuts", "blackjax_smc", "brax_hopper_positional",
    "brax_inverted_pendulum", "brax_reacher_spring", "diffrax_kvaerno5",
    "diffrax_neural_ode_gradient", "diffrax_sde", "diffrax_tsit5", "distrax_hmm", "dynamax_hmm",
    "dynamax_kalman", "dynamiqs_lindblad", "evosax_cma_es", "evosax_differential_evolution",
    "evosax_open_es", "flashbax_trajectories", "gymnax_asterix", "gymnax_cart_pole",
    "gymnax_pendulum", "jax_cfd_spectral", "jax_md_fire", "jaxlie_chain", "jaxopt_lbfgs",
    "jaxopt_osqp", "jaxopt_projected_gradient", "jaxsim_dynamics", "jumanji_game_2048",
    "jumanji_snake", "jumanji_tsp", "lineax_cg", "lineax_direct", "lineax_gmres",
    "matfree_log_determinant", "mctx_gumbel_muzero", "mctx_muzero", "mjx_contacts", "mjx_pendulum",
    "netket_metropolis", "numpyro_nuts", "numpyro_potential", "numpyro_predictive", "numpyro_svi",
    "optax_lbfgs", "optimistix_bfgs", "optimistix_levenberg_marquardt", "optimistix_newton",
    "ott_sinkhorn", "ott_sorting", "pgx_2048", "pgx_chess", "pgx_connect_four", "pgx_go",
    "pgx_minatar", "pgx_tic_tac_toe", "quadax_quadgk", "quadax_romberg", "tfp_linear_gaussian",
    "tinygp_celerite", "xminigrid_steps",
)  # fmt: skip
"""Programs that spend their time in loops over small arrays: RL, physics, solvers, samplers."""

SECONDS = 600
RUNS = 2
DEPTH = 3
"""Leading components of a scope that are shown."""

GROUPS = ("operator", "scope", "source", "loop")


@dataclass
class Executions:
    """How often the nodes of a program run in one call, by some property of the nodes.

    Attributes:
        operator, scope, source: Executions by each of them.
        loop: Executions by the Loop, Scan or If whose body holds the nodes, with its trips.
        error: Why there are none.
    """

    operator: Counter[str] = field(default_factory=Counter)
    scope: Counter[str] = field(default_factory=Counter)
    source: Counter[str] = field(default_factory=Counter)
    loop: Counter[str] = field(default_factory=Counter)
    error: str = ""

    @property
    def total(self) -> int:
        """Executions of all nodes."""
        return round(sum(self.operator.values()))


def executions(program: Any, args: Sequence[Any]) -> Executions:
    """Runs a translated program, an `OnnxProgram`, with ONNX Runtime's profiler and counts."""
    found, profile = Executions(), program.profile(*args, runs=RUNS, depth=DEPTH)
    for node in profile.nodes:
        found.operator[node.operator] += node.trips
        found.scope["/".join(node.scope[:DEPTH]) or "(none)"] += node.trips
        found.source[node.source or "(none)"] += node.trips
    _add_bodies(found, program.model.graph, node_trips(profile))
    return found


def node_trips(profile: Any) -> Counter[str]:
    """How often the nodes of a profile ran in a call, by name."""
    counts = Counter[str]()
    for node in profile.nodes:
        counts[node.name] = max(counts[node.name], node.trips)
    return counts


def _add_bodies(found: Executions, graph: Any, counts: Mapping[str, float]) -> None:
    from hlo2onnx.ir.traversal import subgraphs

    for node in graph:
        for body in subgraphs(node):
            trips = [counts[inner.name] for inner in body if inner.name in counts]
            if trips:
                key = f"{node.op_type} {node.name}: {len(trips)} nodes, {max(trips):g} trips"
                found.loop[key] += sum(trips)
            _add_bodies(found, body, counts)


def count(name: str, path: Path) -> None:
    """Translates a program and counts; runs in the environment that has its package."""
    import jax

    item = load_all()[name]
    if item.x64:
        jax.config.update("jax_enable_x64", True)
    function, args = item.build()
    import hlo2onnx

    lowered = (function if hasattr(function, "lower") else jax.jit(function)).lower(*args)
    found = executions(hlo2onnx.translate(lowered), args)
    path.write_text(json.dumps(vars(found)))


def count_in(python: Path, name: str) -> Executions:
    """Counts in a process of its own, in the given interpreter."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "found.json"
        arguments = ["--count", name, str(path)]
        try:
            done = run_module(
                "tools.bench.executions", arguments, folder=folder, seconds=SECONDS, python=python
            )
        except subprocess.TimeoutExpired:
            return Executions(error=f"no end after {SECONDS} s")
        if not path.exists():
            return Executions(error=done.stderr.strip().splitlines()[-1])
        return read(json.loads(path.read_text()))


def read(saved: Mapping[str, Any]) -> Executions:
    """The counts that `vars` gave."""
    return Executions(*(Counter(saved[group]) for group in GROUPS), error=saved["error"])


def table(found: Executions, group: str, top: int) -> str:
    """The groups of nodes that run the most."""
    counts: Counter[str] = getattr(found, group)
    return "\n".join(f"{round(runs):>9}  {name}" for name, runs in counts.most_common(top))


def comparison(before: Mapping[str, Executions], after: Mapping[str, Executions]) -> str:
    """Both sums over the programs that both have, and the geometric mean of the ratios."""
    names = [name for name in after if name in before and after[name].total]
    sums = [sum(items[name].total for name in names) for items in (before, after)]
    ratios = [after[name].total / before[name].total for name in names]
    mean = math.exp(sum(map(math.log, ratios)) / max(len(ratios), 1))
    return f"{len(names)} programs: {sums[0]} before, {sums[1]} after, geometric mean {mean:.3f}"


def main(argv: Sequence[str] | None = None) -> int:
    given = _options(argv)
    if given.count:
        count(given.count[0], Path(given.count[1]))
        return 0
    before = {}
    if given.against:
        saved = json.loads(given.against.read_text())
        before = {name: read(each) for name, each in saved.items()}
    programs, after = load_all(), {}
    patterns = given.programs or SMALL_LOOPS
    chosen = [name for name in programs if any(fnmatchcase(name, each) for each in patterns)]
    for name in chosen:
        python = given.envs / environment_of(programs[name]).name / "bin" / "python"
        found = after[name] = count_in(python, name)
        old = f"{before[name].total:>9} before" if name in before else ""
        print(f"{name:<32} {found.error or found.total:>9} {old}", flush=True)
        for group in given.by:
            print(table(found, group, given.top))
        if given.save:
            given.save.write_text(json.dumps({name: vars(each) for name, each in after.items()}))
    if before:
        print(comparison(before, after))
    return int(not chosen or any(found.error for found in after.values()))


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(
        prog="python -m tools.bench.executions",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    add = parser.add_argument
    add("programs", nargs="*", help="names or patterns of them; default: SMALL_LOOPS")
    add("--envs", type=Path, metavar="DIR", help="the environments of tools.zoo")
    add("--by", action="append", choices=GROUPS, default=[], help="print the largest groups")
    add("--top", type=int, default=20, metavar="N", help="groups to print (20)")
    add("--save", type=Path, metavar="FILE", help="write the counts as JSON")
    add("--against", type=Path, metavar="FILE", help="compare with these counts")
    add("--count", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args(argv)
    if not given.envs and not given.count:
        parser.error("--envs is missing")
    return given


if __name__ == "__main__":
    sys.exit(main())
