"""`tools.mutation` on a small package: which mutants it makes, and which survive its tests."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path

import pytest
from processes import ROOT, environment

from tools.mutation.generate import mutants_of, sample
from tools.mutation.mutant import Mutant
from tools.mutation.project import Equivalents, Project

SOURCE = '''\
"""A module."""

LIMIT = 3
SIZES = {"small": 4}
GROWN = {"small": lambda n: n + 4}


def clamp(x: int, low: int = 0) -> int:
    """x, at least `low`."""
    assert low >= 0, "low < 0"
    if x < low:
        return low
    return x


def pick(n: int) -> int:
    return SIZES["small"] - n if n else 10


def unused(a, b):
    return a and b
'''

TESTS = """\
import pytest
from toy.core import GROWN, SIZES, clamp, pick


@pytest.mark.parametrize("x", [-2, 5])
def test_clamp(x):
    assert clamp(x) == max(x, 0)


def test_pick():
    assert pick(1) == 3


def test_grown():
    assert GROWN["small"](1) == 5


def test_fails_without_any_change():
    assert pick(1) == 4
"""


EQUIVALENT = {
    "file": "toy/core.py",
    "function": "clamp",
    "original": "if x < low:",
    "mutant": "if x <= low:",
}


def changes(source: str) -> set[tuple[str, str]]:
    """The operator and the changed line of each mutant."""
    return {(mutant.operator, mutant.mutant) for mutant in mutants_of("a.py", source)}


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ("y = a < b", {("off by one", "y = a <= b")}),
        ("y = a >= b", {("off by one", "y = a > b")}),
        ("y = a == b", {("negated", "y = a != b")}),
        ("y = not a", {("negated", "y = a")}),
        ("y = -a", {("sign dropped", "y = a")}),
        ("need(a, f'why {b < 1}', 2 + 3)", {("guard dropped", "pass")}),
        (
            "if a: f()",
            {("condition forced", "if True: f()"), ("condition forced", "if False: f()")},
        ),
        ("y = f(a)[1]", {("constant changed", "y = f(a)[2]")}),
        ("y = f(keep=True)", {("constant changed", "y = f(keep=False)")}),
        ("y = [a, *b]", {("items swapped", "y = [*b, a]")}),
        ("y = em.Sub(a, b)", {("operands swapped", "y = em.Sub(b, a)")}),
        ("y = em.Add(a, b)", set()),
        ("y = np.minimum(a, b)", {("min/max swapped", "y = np.maximum(a, b)")}),
        ("y = sorted(a, key=f)", {("order dropped", "y = list(a)")}),
        (
            "y = a - b",
            {("operands swapped", "y = b - a"), ("operator changed", "y = a + b")},
        ),
        (
            "y = (a or b) * c",
            {
                ("and/or swapped", "y = (a and b) * c"),
                ("condition dropped", "y = (a) * c"),
                ("condition dropped", "y = (b) * c"),
                ("operator changed", "y = (a or b) // c"),
            },
        ),
        (
            "y = a if b else c",
            {("condition forced", "y = a"), ("condition forced", "y = c")},
        ),
    ],
)
def test_changes(source: str, expected: set[tuple[str, str]]) -> None:
    assert changes(source) == expected


@pytest.mark.parametrize(
    "source",
    [
        "LIMIT = 1 << 16",
        '"""Text: 1 < 2."""',
        "x: Literal[1, 2]",
        "assert a < 1",
        "raise ValueError(1 + 2)",
        "y = f'{a + 1}'",
        "import a",
        "y = zip(a, b, strict=True)",
        "y = cast(1, a)",
        "for a in (b, c): f(a)",
        "RULES: tuple = (a, b)",
    ],
)
def test_left_alone(source: str) -> None:
    assert not changes(source)


def test_order_of_alternatives_does_not_matter() -> None:
    found = mutants_of("a.py", "if a in (1, 2) or isinstance(a, (b, c)): f()")
    assert not [mutant for mutant in found if mutant.operator == "items swapped"]


def test_mutants_keep_the_number_of_lines() -> None:
    text = "y = f(\n    a,\n    b <\n    1,\n)\nz = 1\n"
    for mutant in mutants_of("a.py", text):
        source = mutant.source(text)
        compile(source, "a.py", "exec")
        assert source.count("\n") == text.count("\n")


def test_keys_survive_moved_lines() -> None:
    before = mutants_of("a.py", SOURCE)
    after = mutants_of("a.py", SOURCE.replace("LIMIT = 3\n", "LIMIT = 3\n\n\n"))
    assert [mutant.key for mutant in before] == [mutant.key for mutant in after]
    assert len({mutant.key for mutant in before}) == len(before)


def test_larger_samples_contain_smaller_ones() -> None:
    mutants = mutants_of("a.py", SOURCE)
    small, large = (_keys(sample(mutants, count)) for count in (3, 6))
    assert len(small) == 3
    assert small < large
    assert _keys(sample(mutants, 3, seed=1)) != small
    assert sample(mutants, None) == mutants


def _keys(mutants: Iterable[Mutant]) -> set[str]:
    return {mutant.key for mutant in mutants}


@pytest.fixture(scope="module")
def toy(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A repository with one package and its tests."""
    root = tmp_path_factory.mktemp("repository")
    for path, text in {
        "toy/__init__.py": "",
        "toy/core.py": SOURCE,
        "tests/test_core.py": TESTS,
        "tools/mutation/equivalent.json": json.dumps([{"reason": "same", "mutants": [EQUIVALENT]}]),
        "pytest.ini": "[pytest]\naddopts = --import-mode=importlib\n",
    }.items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        (root / path).write_text(text)
    (root / "docs").mkdir()
    return root


def run_tool(root: Path, *arguments: str) -> str:
    fixed = ("--root", str(root), "--package", "toy", "--cache", str(root / "cache"))
    child = subprocess.run(
        [sys.executable, "-m", "tools.mutation", *fixed, *arguments],
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )
    assert child.returncode == 0, child.stderr
    return child.stdout


@pytest.mark.wide
@pytest.mark.skipif(sys.version_info < (3, 12), reason="sys.monitoring came with Python 3.12")
def test_run(toy: Path) -> None:
    """Guards, constants of modules, lambdas and conditions die; the known equivalent is not run;
    what no test runs is said to be so; a second run finds nothing to do."""
    run_tool(toy, "--record")
    printed = run_tool(toy, "--write")
    assert "test_fails_without_any_change fails alone" in printed
    survivors = {line for line in printed.splitlines() if line.startswith("+ ")}
    assert survivors == {
        "+    return a",
        "+    return b",
        "+    return a or b",
        '+    return SIZES["small"] - n if n else 11',
        '+    return SIZES["small"] - n',
    }
    page = (toy / "docs" / "mutation.md").read_text()
    assert page.count("| 15 | 9 | 1 | 5 | 64.3% |") == 4
    verdicts = (toy / "cache" / "verdicts.jsonl").read_text()
    run_tool(toy)
    assert (toy / "cache" / "verdicts.jsonl").read_text() == verdicts


def test_entries_without_a_mutant_are_found(toy: Path) -> None:
    equivalents = Equivalents(Project(toy, toy / "cache", ["toy"]))
    mutants = mutants_of("toy/core.py", SOURCE)
    assert [m.mutant for m in mutants if equivalents.reason(m)] == ["if x <= low:"]
    assert not equivalents.unknown(mutants)
    assert equivalents.unknown([]) == ["toy/core.py | clamp | if x < low: | if x <= low:"]


def test_every_known_equivalent_is_a_mutant(tmp_path: Path) -> None:
    """Entries whose code has changed are to be removed or written anew."""
    project = Project(ROOT, tmp_path)
    equivalents = Equivalents(project)
    mutants = [m for file in equivalents.files for m in mutants_of(file, project.text(file))]
    assert not equivalents.unknown(mutants)
