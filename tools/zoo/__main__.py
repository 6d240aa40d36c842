"""Translates, verifies and times programs of real packages.

    python -m tools.zoo                            prints the programs
    python -m tools.zoo --make-env DIR             makes the environments, with pip
    python -m tools.zoo --envs DIR                 runs every program
    python -m tools.zoo --envs DIR 'brax*' mctx_muzero
    python -m tools.zoo --envs DIR --times --write     ... times them, writes docs/zoo.md, draws
    python -m tools.zoo --envs DIR --target ort-cuda   ... for a target, and what its device lacks
    python -m tools.zoo --sample --make-env DIR    only the programs of the wide tests

Each program runs in its own process, with random weights. The exit code is 0 if all gave XLA's
numbers, except programs whose entry names a fault of another package; 1 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from tools import command_line
from tools.zoo.environments import environment_of, make
from tools.zoo.machine import slowness
from tools.zoo.page import write_page
from tools.zoo.program import Program, load_all
from tools.zoo.worker import TARGET, Result, run_one


def main(argv: Sequence[str] | None = None) -> int:
    given = _options(argv)
    chosen = [item for item in load_all().values() if _is_chosen(item, given)]
    if not chosen:
        print("no program fits", file=sys.stderr)
        return 2
    if given.make_env:
        make_environments(given.make_env, chosen)
        return 0
    if given.envs is None:
        for item in chosen:
            print(f"{item.name:<32} {item.package:<24} {item.summary}")
        return 0
    results, machine = [], slowness() if given.times else 1.0
    options = ["--times"] * given.times + ["--draw"] * given.write + [f"--target={given.target}"]
    for item in chosen:
        python = given.envs / environment_of(item).name / "bin" / "python"
        result = run_one(python, item.name, options)
        result.slowness = machine
        results.append(result)
        print(line(item, result), flush=True)
        if given.write:
            write_page([result])
    failed = [r for item, r in zip(chosen, results, strict=True) if not r.ok and not item.fault]
    print(f"{len(chosen)} programs, {sum(r.ok for r in results)} right, {len(failed)} failed")
    if given.times:
        print(f"the examples took {machine:.2f} times their estimates")
    if given.target != TARGET:
        print(placement(results))
    return int(bool(failed))


def make_environments(folder: Path, programs: Sequence[Program]) -> None:
    """Makes or completes the environments that the programs run in."""
    environments = {environment_of(item).name: environment_of(item) for item in programs}
    for environment in environments.values():
        print(f"{folder / environment.name}", flush=True)
        make(environment, folder, [x for x in programs if environment_of(x) == environment])


def line(item: Program, result: Result) -> str:
    """A result on the terminal."""
    text = f"{item.name:<32} {'ok' if result.ok else 'FAILS':<6}"
    text += f"{result.nodes:>6} nodes {result.seconds:>6.1f} s   error {result.max_error:.1e}"
    if result.ort:
        text += f"   ORT {1e3 * result.ort:.2f} ms, XLA {1e3 * result.xla:.2f} ms"
    for what, counts in (("not on the device", result.fallback), ("copies", result.copies)):
        if counts:
            text += f"\n    {what}: {', '.join(f'{n} {x}'.strip() for x, n in counts.items())}"
    if not result.ok:
        text += f"\n    {result.stage}: " + "\n    ".join(result.error.splitlines()[:12])
    return text


def placement(results: Sequence[Result]) -> str:
    """How many programs are wholly on the device of the target."""
    translated = [r for r in results if r.nodes]
    wholly = [r for r in translated if not r.fallback]
    looped = [r for r in translated if any(" in " in where for where in r.fallback)]
    copied = [r for r in wholly if any(r.copies.values())]
    return (
        f"{len(translated)} translated, {len(wholly)} wholly on the device, {len(copied)} of them"
        f" with copies; {len(looped)} with nodes in bodies on the CPU"
    )


def _is_chosen(item: Program, given: argparse.Namespace) -> bool:
    if given.sample and not item.sample:
        return False
    names = (item.name, item.package)
    return not given.programs or any(fnmatchcase(n, p) for n in names for p in given.programs)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = command_line("zoo", __doc__)
    add = parser.add_argument
    add("programs", nargs="*", help="names, packages or patterns of them; default: all")
    add("--make-env", type=Path, metavar="DIR", help="make the environments, a folder of DIR each")
    add("--envs", type=Path, metavar="DIR", help="run the programs in the environments made there")
    add("--sample", action="store_true", help="only the programs of the wide tests")
    add("--target", default=TARGET, metavar="NAME", help=f"translate for it; default: {TARGET}")
    add("--times", action="store_true", help="time the programs in ONNX Runtime and in XLA")
    add("--write", action="store_true", help="write docs/zoo.md and docs/zoo.json, and draw")
    given = parser.parse_args(argv)
    if given.write and given.target != TARGET:
        parser.error(f"--write is for {TARGET}")
    return given


if __name__ == "__main__":
    sys.exit(main())
