"""Builds the distributions of a release, checks them, and uses them in fresh environments.

    python -m tools.release FOLDER      by default into dist

It needs the extra `release`. What it writes is what the release workflow uploads: an sdist, and the
wheels hlo2onnx, hlo2onnx-runtime and hlo2onnx-report. Exit code: 0, or that of a failing command.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tarfile
import tempfile
import venv
from collections.abc import Sequence
from pathlib import Path

from tools import EXAMPLES, ROOT, command_line
from tools.release.split import split

_ENVIRON = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
"""Fresh environments see nothing of the checkout."""

_LOADS = """
import sys, time
start = time.perf_counter()
import hlo2onnx.runtime
program = hlo2onnx.runtime.load(sys.argv[1])
print(f"import and load: {time.perf_counter() - start:.2f} s")
import numpy as np
print(program(np.ones((1, 48), np.float32)).shape)
try:
    hlo2onnx.translate
except ImportError as error:
    print(error)
else:
    sys.exit("hlo2onnx.translate is there")
"""


def main(argv: Sequence[str] | None = None) -> int:
    """Builds and checks; returns the exit code."""
    parser = command_line("release", __doc__)
    parser.add_argument("folder", nargs="?", type=Path, default=ROOT / "dist", help="default: dist")
    folder = parser.parse_args(argv).folder
    if folder.exists() and any(folder.iterdir()):
        parser.error(f"{folder} is not empty")
    try:
        with tempfile.TemporaryDirectory() as work:
            sdist, wheels = build(folder, Path(work))
            check_files(sdist, wheels)
            model = use_whole(wheels, Path(work))
            use_runtime(wheels[1], Path(work), model)
    except subprocess.CalledProcessError as error:
        return error.returncode
    for path in (sdist, *wheels):
        print(f"{path.stat().st_size / 1e3:8.0f} kB  {path}")
    return 0


def build(folder: Path, work: Path) -> tuple[Path, list[Path]]:
    """The sdist and the three wheels."""
    folder.mkdir(parents=True, exist_ok=True)
    _run(sys.executable, "-m", "build", "--quiet", "--outdir", work / "whole", ROOT)
    (made,), (wheel,) = (work / "whole").glob("*.tar.gz"), (work / "whole").glob("*.whl")
    sdist = folder / made.name
    sdist.write_bytes(made.read_bytes())
    return sdist, split(wheel, folder)


def check_files(sdist: Path, wheels: Sequence[Path]) -> None:
    """Fails if an index would refuse a file, or if the sdist lacks a file of the repository."""
    _run(sys.executable, "-m", "twine", "check", "--strict", sdist, *wheels)
    *code, report = wheels
    contents = (sys.executable, "-m", "check_wheel_contents", "--ignore")
    # Two packages at the top: `hlo2onnx` and the handlers that it loads as a plug-in.
    _run(*contents, "W009", *code)
    # No Python, and each license both beside its library, for the reports, and in the metadata.
    _run(*contents, "W002,W010", report)
    tracked = subprocess.run(
        ["git", "ls-files"], cwd=ROOT, capture_output=True, text=True, check=True
    ).stdout.split("\n")
    with tarfile.open(sdist) as archive:
        packed = {name.partition("/")[2] for name in archive.getnames()}
    missing = set(filter(None, tracked)) - packed - {".gitignore"}
    if missing:
        sys.exit(f"{sdist.name} lacks {sorted(missing)}")


def use_whole(wheels: Sequence[Path], work: Path) -> Path:
    """What the README says, where only the wheels are installed; returns a saved model."""
    core, runtime, report = wheels
    python = _environment(work / "whole-env", f"{core}[ort,report]", runtime, report)
    model = work / "mlp.onnx"
    command = (python.with_name("hlo2onnx"), EXAMPLES / "mlp.mlir")
    _run(*command, "-o", model, "--verify", "--report", work / "report.html")
    readme = (ROOT / "README.md").read_text(encoding="utf-8")
    example = readme.partition("```python\n")[2].partition("```")[0]
    _run(python, "-I", "-c", example, cwd=work)
    return model


def use_runtime(wheel: Path, work: Path, model: Path) -> None:
    """The runtime alone loads and calls a model, and says what it cannot do."""
    python = _environment(work / "runtime-env", f"{wheel}[ort]")
    _run(python, "-I", "-c", _LOADS, model, cwd=work)
    command = [python.with_name("hlo2onnx"), model]
    refused = subprocess.run(command, capture_output=True, text=True, env=_ENVIRON, check=False)
    if refused.returncode != 3 or "pip install hlo2onnx" not in refused.stderr:
        sys.exit(f"the command of the runtime: {refused.returncode}, {refused.stderr}")


def _environment(folder: Path, *requirements: str | Path) -> Path:
    """The interpreter of a new environment with these requirements and no conflicts."""
    venv.create(folder, with_pip=True)
    python = folder / ("Scripts" if sys.platform == "win32" else "bin") / "python"
    _run(python, "-m", "pip", "install", "--quiet", *requirements)
    _run(python, "-m", "pip", "check")
    return python


def _run(*command: str | Path, cwd: Path = ROOT) -> None:
    print("+", Path(command[0]).name, *command[1:3], flush=True)
    subprocess.run([str(part) for part in command], cwd=cwd, env=_ENVIRON, check=True)


if __name__ == "__main__":
    sys.exit(main())
