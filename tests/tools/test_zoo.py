"""The zoo's table of programs, its processes and its page; `tools.zoo` runs the programs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tools.zoo.__main__ import line, placement
from tools.zoo.environments import ENVIRONMENTS, environment_of
from tools.zoo.page import write_page
from tools.zoo.program import PROGRAMS, load_all, program
from tools.zoo.worker import Result, run_one


def test_the_zoo_is_large() -> None:
    programs = load_all().values()
    assert len(programs) >= 70
    assert len({item.package for item in programs}) >= 40
    assert all(item.summary for item in programs)
    assert {environment_of(item) for item in programs} == set(ENVIRONMENTS)


def test_packages_of_an_environment_have_programs() -> None:
    packages = {name for item in load_all().values() for name in item.packages}
    for environment in ENVIRONMENTS:
        assert environment.packages | set(environment.pins) <= packages


def test_names_are_unique_and_tolerances_have_reasons() -> None:
    def pgx_go() -> None:
        """The name of another one."""

    def unknown() -> None:
        """No such name yet."""

    load_all()
    with pytest.raises(ValueError, match="two programs pgx_go"):
        program("pgx")(pgx_go)
    with pytest.raises(ValueError, match="reason"):
        program("pgx", tolerance=1e-3)(unknown)
    assert "unknown" not in PROGRAMS


def _interpreter(path: Path, script: str) -> Path:
    path.write_text(f"#!/bin/sh\n{script}\n")
    path.chmod(0o755)
    return path


def test_a_process_that_is_killed_costs_one_program(tmp_path: Path) -> None:
    result = run_one(_interpreter(tmp_path / "dies", "kill -s SEGV $$"), "x")
    assert not result.ok
    assert result.error == "killed by SIGSEGV"


def test_a_process_that_does_not_end_is_ended(tmp_path: Path) -> None:
    slow = _interpreter(tmp_path / "slow", "exec sleep 20")
    result = run_one(slow, "x", seconds=0.1)
    assert not result.ok
    assert "no end after" in result.error


def test_nodes_that_a_device_lacks_are_counted() -> None:
    results = [
        Result("pgx_go", ok=True, nodes=5, copies={"": 1}),
        Result("pgx_chess", ok=True, nodes=5, fallback={"Atan f32 in Loop": 2}, copies={"Loop": 3}),
        Result("mctx_muzero", ok=True, nodes=5, fallback={"Atan f32": 1}),
        Result("pgx_2048", stage="translate", error="refused"),
    ]
    assert line(load_all()["pgx_chess"], results[1]).splitlines()[1:] == [
        "    not on the device: 2 Atan f32 in Loop",
        "    copies: 3 Loop",
    ]
    assert placement(results) == (
        "3 translated, 1 wholly on the device, 1 of them with copies; 1 with nodes in bodies on the"
        " CPU"
    )


def test_the_page_keeps_earlier_results(tmp_path: Path) -> None:
    load_all()
    first = Result("pgx_go", "1.0", "0.12", "done", True, "", 5, 1.0, 0.0, 2e-3, 1e-3, 3e-3)
    first.slowness = 0.6
    write_page([first, Result("pgx_chess", stage="verify", error="ORT says\nno")], tmp_path)
    write_page(
        [Result("brax_reacher_spring", "2", "0.12", "done", True, ort=1e-3, xla=1e-3)], tmp_path
    )
    again = Result("pgx_go", "1.0", "0.12", "done", True, seconds=3.25, estimate=5e-3)
    write_page([again], tmp_path)
    text = (tmp_path / "zoo.md").read_text()
    assert "2 of 3 programs are right, of 2 packages" in text
    assert "| pgx | 1.0 | 0.12 |" in text
    assert "| 3.25 | 0.0e+00 | 2.000 | 5.000 | 1.000 | 2.00 |" in text
    assert "1 of 1 estimates" in text, "5 ms are 3 on a machine that takes 0.6 of the time"
    assert "took 0.60 times" in text
    assert "<title>pgx_go</title>" in (tmp_path / "images" / "estimates.svg").read_text()
    assert "* `pgx_chess`: verify: ORT says\n" in text
