"""Environments with one version of a runtime: a virtual environment, or a folder of npm."""

from __future__ import annotations

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from hlo2onnx.runtime.adapters.installed import CACHE, KINDS, Name
from hlo2onnx.runtime.adapters.process import TIMEOUT_SECONDS, Runtime

OTHERS = ("python3.13", "python3.12", "python3.11", "python3.10")
"""Interpreters to try if the package has no wheel for the present one."""

_DONE = "complete"
"""The file that says that an environment is complete."""


class InstallError(Exception):
    """A package cannot be installed."""


def start(name: Name, folder: Path = CACHE, seconds: float = TIMEOUT_SECONDS) -> Runtime:
    """Start a runtime, in an environment that is made in the folder if it is not there.

    Packages of npm have no place in the present interpreter: without a version they are the newest
    that the registry has.
    """
    kind = KINDS[name.kind]
    place = sys.executable
    if kind.is_npm:
        place = str(npm_folder(kind.package, name.version, folder, kind.tools))
    elif name.version:
        place = str(python_environment(kind.package, name.version, folder, kind.tools))
    return Runtime(kind.command(place), seconds)


def python_environment(
    package: str, version: str, folder: Path, others: Sequence[str] = ()
) -> Path:
    """The interpreter of an environment with a package, numpy and others; made if it is not there.

    Raises:
        InstallError: No interpreter here can install it.
    """
    place = folder / f"{package}-{version}"
    python = place / "bin" / "python"
    if (place / _DONE).exists():
        return python
    wanted = [
        f"{package}=={version}.*",
        "numpy",
        *others,
        *(["ml_dtypes"] if package == "onnx" else []),
    ]
    found = (sys.executable, *filter(None, map(shutil.which, OTHERS)))
    problem = ""
    for interpreter in found:
        print(f"installing {wanted[0]} in {place}", file=sys.stderr)
        shutil.rmtree(place, ignore_errors=True)
        made = _run(interpreter, "-m", "venv", str(place))
        made = made or _run(
            str(python), "-m", "pip", "install", "-q", "--only-binary=:all:", *wanted
        )
        if not made:
            (place / _DONE).touch()
            return python
        problem = made
    raise InstallError(f"{package} {version}: {problem}")


def npm_folder(package: str, version: str, folder: Path, others: Sequence[str] = ()) -> Path:
    """A folder whose node_modules has a package; made if it is not there.

    Args:
        version: that of the package; "" for the newest.
        others: further packages, in their newest version.

    Raises:
        InstallError: npm cannot install them.
    """
    place = folder / "-".join([package, version or "latest", *others])
    if (place / _DONE).exists():
        return place
    wanted = [f"{package}@{version or 'latest'}", *(f"{name}@latest" for name in others)]
    print(f"installing {' '.join(wanted)} in {place}", file=sys.stderr)
    place.mkdir(parents=True, exist_ok=True)
    (place / "package.json").write_text('{"private": true}', encoding="utf-8")
    options = ("--no-audit", "--no-fund", "--ignore-scripts", "--prefix", str(place))
    if problem := _run("npm", "install", *options, *wanted):
        raise InstallError(f"{' '.join(wanted)}: {problem}")
    (place / _DONE).touch()
    return place


def _run(*command: str) -> str:
    """Run a command; give the end of what it says if it fails, and "" if not."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False)
    except OSError as error:
        return str(error)
    return (done.stderr.strip()[-500:] or "it fails") if done.returncode else ""
