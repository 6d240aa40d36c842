"""The Python environments that the programs run in, and how they are made."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tools import ROOT
from tools.zoo.program import Program


@dataclass(frozen=True, eq=False)
class Environment:
    """An environment with packages that can be installed together.

    Attributes:
        name: Of its folder.
        jax: What pip is told about JAX.
        pythons: Minor versions of Python 3 that it can have, the best first; none for that of the
            running interpreter.
        pins: What pip is told about a package instead of its name, separated by spaces.
        packages: The packages whose programs run here and nowhere else.
    """

    name: str
    jax: str
    pythons: tuple[int, ...]
    pins: dict[str, str] = field(default_factory=dict)
    packages: frozenset[str] = frozenset()

    def requirements(self, programs: Iterable[Program]) -> list[str]:
        """What pip has to install for these programs, besides hlo2onnx."""
        names = sorted({name for item in programs for name in item.packages})
        return [self.jax, *(word for name in names for word in self.pins.get(name, name).split())]

    def find_python(self) -> str:
        """An interpreter that fits, on PATH or under pyenv.

        Raises:
            FileNotFoundError: There is none.
        """
        if not self.pythons or sys.version_info[1] in self.pythons[:1]:
            return sys.executable
        versions = Path(os.environ.get("PYENV_ROOT", Path.home() / ".pyenv")) / "versions"
        for minor in self.pythons:
            found = shutil.which(f"python3.{minor}")
            under = sorted(versions.glob(f"3.{minor}.*/bin/python3"))
            for path in [*([found] if found else []), *map(str, under)]:
                # A shim of pyenv is there whether the version is or not.
                if subprocess.run([path, "--version"], capture_output=True).returncode == 0:
                    return path
        raise FileNotFoundError(f"no Python 3.{self.pythons} on PATH or under {versions}")


CURRENT = Environment(
    "current",
    "jax>=0.12",
    (13, 12, 14),
    {
        # Releases of TensorFlow Probability use what JAX has removed since.
        "tfp-nightly": "tfp-nightly[jax]",
    },
)
OLDER = Environment(
    "older",
    "jax<0.11",
    (11,),
    {
        "gymnax": "gymnax>=1",
        "transformers": "transformers<5",
        "jax-cosmo": "jax-cosmo setuptools<81",
    },
    # They import what JAX has removed since, or (gymnax, which rejax needs) say that they do.
    frozenset(
        {"cola-ml", "flaxmodels", "gymnax", "jax-cosmo", "pennylane", "rejax", "transformers"}
    ),
)
ENVIRONMENTS = (CURRENT, OLDER)

LEFT_OUT = {
    "kfac-jax": "takes two results of `Primitive.get_bind_params`, which has three",
    "objax": "uses `jax.sharding.PmapSharding`",
    "rax's `approx_t12n`": "uses `jax.util`",
    "sbijax": "uses `jax.tree_map`",
    "transformers' T5": "uses `jax.numpy.clip(a_max=...)`",
    "flaxmodels' StyleGAN2": "uses `jax.numpy.reshape(newshape=...)`",
}
"""Packages, and programs of packages, that run on no version of JAX that hlo2onnx takes."""


def environment_of(program: Program) -> Environment:
    """The environment a program runs in."""
    for item in ENVIRONMENTS:
        if program.package in item.packages:
            return item
    return CURRENT


def make(environment: Environment, folder: Path, programs: Iterable[Program]) -> Path:
    """Makes the environment with what the programs need; returns its interpreter.

    Raises:
        subprocess.CalledProcessError: pip fails.
    """
    python = folder / environment.name / "bin" / "python"
    if not python.exists():
        own = environment.find_python()
        subprocess.run([own, "-m", "venv", folder / environment.name], check=True)
    pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    needed = environment.requirements(programs)
    command = [*pip, "--editable", f"{ROOT}[ort]", *needed]
    done = subprocess.run(command, stderr=subprocess.PIPE, text=True)
    sys.stderr.write(done.stderr)
    done.check_returncode()
    return python
