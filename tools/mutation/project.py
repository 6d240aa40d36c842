"""The repository to mutate, and its folders."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path

FOLDERS = {
    "handlers": "dialect_handlers",
    "rules": "hlo2onnx/raising",
    "targets": "hlo2onnx/targets",
    "graphs": "hlo2onnx/ir",
}
"""The parts of this repository that are mutated."""

PRELOADED = (
    "jax",
    "jax.export",
    "jax.experimental.sparse",
    "jax.scipy.linalg",
    "jax.scipy.special",
    "jaxlib.mlir.dialects.stablehlo",
    "numpy.testing",
    "ml_dtypes",
    "onnx.checker",
    "onnx.helper",
    "onnx.reference",
    "onnx_ir.passes",
    "onnxruntime",
    "sympy",
    "scipy.linalg",
    "scipy.special",
    "flax.linen",
    "flax.nnx",
    "equinox",
    "optax",
    "hypothesis",
    "mpmath",
)
"""Libraries that the server imports once, before it forks. Importing them starts no runtime."""


@dataclass(frozen=True)
class Project:
    """A repository to mutate.

    Attributes:
        root: Where it lies; the paths below are relative to it.
        cache: The folder of the recorded coverage and of the results.
        folders: The mutated files' folders, by the name that the table gives them.
        tests: The folder of the tests.
        equivalent: The list of the mutants known to be equivalent.
        preloaded: Modules that the server imports before it forks, where they are installed.
    """

    root: Path
    cache: Path
    folders: Mapping[str, str] = field(default_factory=lambda: dict(FOLDERS))
    tests: str = "tests"
    equivalent: str = "tools/mutation/equivalent.json"
    preloaded: tuple[str, ...] = PRELOADED

    @property
    def packages(self) -> frozenset[str]:
        """The top-level packages that the mutated files belong to."""
        return frozenset(folder.partition("/")[0] for folder in self.folders.values())

    @property
    def is_own(self) -> bool:
        """Whether this is hlo2onnx, not a repository of the tool's tests."""
        return "hlo2onnx" in self.packages

    def files(self) -> list[str]:
        """Every file that is mutated."""
        found = (path for folder in self.folders.values() for path in self._in(folder))
        return sorted({path.relative_to(self.root).as_posix() for path in found})

    def test_files(self) -> list[str]:
        """Every file with tests."""
        found = (self.root / self.tests).rglob("test_*.py")
        return sorted(path.relative_to(self.root).as_posix() for path in found)

    def text(self, file: str) -> str:
        """The content of a file."""
        return (self.root / file).read_text(encoding="utf-8")

    def _in(self, folder: str) -> Iterator[Path]:
        return (self.root / folder).rglob("*.py")
