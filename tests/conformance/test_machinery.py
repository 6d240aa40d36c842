"""The machinery that runs JAX's harnesses, without hlo2onnx's handlers."""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from hlo2onnx.verify.runners import OnnxRuntime, Session
from tools.conformance.__main__ import by_group, failures
from tools.conformance.case import _Case
from tools.conformance.known import SIDES, judge, read_known, side_of
from tools.conformance.known import vanished as vanished_lines
from tools.conformance.outcome import Case, Outcome, one_line
from tools.conformance.pool import Pool, WorkerDied, list_cases
from tools.conformance.running import Place
from tools.conformance.sets import EXACT, FAMILIES, chosen

FAKE = (sys.executable, str(Path(__file__).parent / "fake_worker.py"))


def run_fake(names: list[str], **options: object) -> list[Outcome]:
    pool = Pool(command=FAKE, **{"jobs": 1, "timeout": 30.0, **options})  # type: ignore[arg-type]
    try:
        return [future.result(60) for future in pool.submit(names)]
    finally:
        pool.close()


# --- workers ------------------------------------------------------------------------------------


def test_a_dead_worker_costs_one_case() -> None:
    before, dead, after = run_fake(["pass 1", "abort", "pass 2"])
    assert (before.status, after.status) == ("pass", "pass")
    assert before.reason != after.reason, "a new process must have taken over"
    assert dead == Outcome(
        "abort", "crash", "SIGABRT the runtime says goodbye", "the runtime says goodbye"
    )


def test_a_worker_that_exits_is_a_crash_too() -> None:
    [outcome] = run_fake(["exit"])
    assert outcome.line == "crash: exit code 7"


@pytest.mark.wide
def test_a_case_that_hangs_is_ended() -> None:
    hanging, after = run_fake(["hang", "pass"], timeout=1.5)
    assert hanging.line == "timeout: no answer in 1.5 s"
    assert after.status == "pass"


def test_an_exception_is_an_outcome() -> None:
    failed, after = run_fake(["raise", "pass"])
    assert failed.line == "error: ValueError: no such thing"
    assert "Traceback" in failed.detail
    assert after.status == "pass"


def test_what_libraries_print_does_not_disturb() -> None:
    assert [outcome.status for outcome in run_fake(["noise", "pass"])] == ["pass", "pass"]


def test_workers_are_recycled() -> None:
    outcomes = run_fake([f"pass {index}" for index in range(5)], recycle=2)
    assert len({outcome.reason for outcome in outcomes}) == 3


def test_several_workers_share_the_cases() -> None:
    outcomes = run_fake([f"pass {index}" for index in range(200)], jobs=2)
    assert [outcome.name for outcome in outcomes] == [f"pass {index}" for index in range(200)]


def test_a_worker_that_does_not_start_is_no_cases_fault() -> None:
    pool = Pool(jobs=1, command=(*FAKE, "broken"))
    [future] = pool.submit(["pass"])
    with pytest.raises(WorkerDied, match="exit code 1"):
        future.result(60)
    pool.close()


def test_closing_cancels_what_is_queued() -> None:
    pool = Pool(jobs=1, command=FAKE, timeout=1.0)
    hanging, queued = pool.submit(["hang", "pass"])
    while not hanging.running():
        time.sleep(0.01)
    pool.close()
    assert hanging.result().status == "timeout"
    assert queued.cancelled()


def test_the_list_of_cases() -> None:
    assert list_cases(FAKE) == ([Case("noise", "a"), Case("other", "b")], "0.10.2")


# --- known failures -----------------------------------------------------------------------------


def test_the_third_column_restricts_a_line(tmp_path: Path) -> None:
    old, new = SIDES
    path = tmp_path / "known.txt"
    path.write_text(f"# why\n\na\tbroken\nb\tbroken there\t{old}\n")
    assert read_known(path, old) == {"a": "broken", "b": "broken there"}
    assert read_known(path, new) == {"a": "broken"}
    path.write_text("a\tbroken\tjax<1\n")
    with pytest.raises(ValueError, match="are none of"):
        read_known(path, old)


def test_sides() -> None:
    versions = ("0.10.2", "0.11.0", "0.12.0.1", "1.0.0")
    assert [side_of(version) for version in versions] == [SIDES[0], *[SIDES[1]] * 3]


def test_the_file_only_shrinks() -> None:
    listed = {"old": "mismatch: …", "fixed": "refused: …", "gone": "…", "now skipped": "…"}
    problems = judge(
        listed,
        [
            Outcome("old", "mismatch", "relative error 1"),
            Outcome("fixed", "pass"),
            Outcome("new", "crash", "SIGFPE"),
            Outcome("now skipped", "skipped", "JAX: unimplemented"),
            Outcome("fine", "pass"),
        ],
    )
    assert [problem.split()[:2] for problem in problems] == [
        ["pass,", "though"],
        ["new", "failure"],
        ["skipped,", "though"],
    ]
    assert "crash: SIGFPE" in problems[1]
    assert "delete its line" in problems[0]
    assert vanished_lines(listed, ["old", "fixed", "now skipped"]) == ["gone"]


# --- selections ---------------------------------------------------------------------------------

CASES = [
    Case(f"{group}_{index}", group)
    for group in ("add", "dot_general", "gather")
    for index in range(12)
]


def test_patterns_select_groups() -> None:
    found = chosen(CASES, ("add", "dot_*"))
    assert {case.group for case in found} == {"add", "dot_general"}


def test_samples_take_from_every_group() -> None:
    sample = chosen(reversed(CASES), every=5)
    assert [sum(case.group == group for case in sample) for group in ("add", "gather")] == [3, 3]


# --- tables -------------------------------------------------------------------------------------


def test_tables() -> None:
    cases = [Case("a1", "a"), Case("a2", "a"), Case("b1", "b"), Case("b2", "b")]
    outcomes = {
        "a1": Outcome("a1", "pass"),
        "a2": Outcome("a2", "refused", "x.y: no 3; z.w: no handler"),
        "b1": Outcome("b1", "skipped", "JAX: unimplemented"),
        "b2": Outcome("b2", "refused", "x.y: no 4"),
    }
    rows = by_group(cases, outcomes).splitlines()
    assert rows[1].split() == ["a", "1", "2", "50.0%", "1", "refused"]
    assert rows[2].split() == ["b", "0", "1", "0.0%", "1", "skipped,", "1", "refused"]
    assert rows[3].split()[:4] == ["all", "1", "3", "33.3%"]
    assert "    refused: x.y: no 4" in failures(list(outcomes.values()))


def test_long_reasons_are_cut() -> None:
    assert one_line("a\n  b\tc") == "a b c"
    assert one_line("x" * 400)[-1] == "…" and len(one_line("x" * 400)) == 300


# --- comparing ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("group", "off", "status"),
    [("exp", 3e-7, "pass"), ("exp", 0.5, "mismatch"), ("gather", 3e-7, "mismatch")],
)
def test_what_computes_nothing_must_be_equal(group: str, off: float, status: str) -> None:
    class Off(OnnxRuntime):
        def session(self, model: bytes | str, **options: Any) -> Session:
            right = super().session(model, **options)
            return lambda feeds, *_: [array + np.float32(off) for array in right(feeds)]

    harness = SimpleNamespace(
        fullname="case",
        group_name=group,
        dyn_fun=lambda x: x * 2,
        dyn_args_maker=lambda rng: [rng.random_sample(3).astype(np.float32) + 1],
    )
    found = _Case(harness, Place("ort-cpu", Off()))
    found.lower(symbolic=False)
    assert found.compared().status == status


# --- the harnesses' own groups ------------------------------------------------------------------


def test_families_do_not_overlap() -> None:
    groups = " ".join(FAMILIES.values()).split()
    assert sorted(groups) == sorted(set(groups))
    assert set(groups) >= EXACT


@pytest.mark.wide
def test_every_group_of_harnesses_is_in_a_family() -> None:
    cases, version = list_cases()
    names = [case.name for case in cases]
    assert len(set(names)) == len(names) > 7000
    new = {"exp2", "log2"} if side_of(version) == SIDES[0] else set()
    assert {case.group for case in cases} == set(" ".join(FAMILIES.values()).split()) - new
    assert chosen(cases) == sorted(cases, key=lambda case: (case.group, case.name))


@pytest.mark.wide
def test_jax_limitations_are_skipped() -> None:
    pool = Pool(jobs=1)
    [future] = pool.submit(["clamp_dtypes_min_bool_operand_bool_2_3_max_bool_"])
    assert future.result(200).line == "skipped: JAX: unimplemented"
    pool.close()
