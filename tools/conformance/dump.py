"""Files to reproduce one case without the harnesses."""

from __future__ import annotations

import re
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

_REPRO = '''\
"""{name}"""

import ml_dtypes  # noqa: F401  (numpy learns its types)
import numpy as np

import hlo2onnx

with np.load("inputs.npz") as arrays:
    inputs = [arrays[str(i)].view(dtype) for i, dtype in enumerate({dtypes})]
program = hlo2onnx.translate(open("module.mlir").read())
print(program.model)
print(program.verify(*inputs))
'''


class Dump:
    """Writes the files of a case to a folder of its own, or nothing.

    Attributes:
        stages: Folder for hlo2onnx's own stage dumps; None if nothing is written.
    """

    def __init__(self, folder: str | None, name: str) -> None:
        self._name = name
        self._folder = None if folder is None else Path(folder) / _file_name(name)
        self.stages = self._folder and self._folder / "stages"
        if self._folder is not None:
            self._folder.mkdir(parents=True, exist_ok=True)

    def program(self, lowered: Any, inputs: Sequence[np.ndarray]) -> None:
        """Writes module.mlir, inputs.npz and repro.py."""
        if self._folder is not None:
            (self._folder / "module.mlir").write_text(lowered.as_text(debug_info=True))
            dtypes = [array.dtype.name for array in inputs]
            (self._folder / "repro.py").write_text(_REPRO.format(name=self._name, dtypes=dtypes))
            self._arrays("inputs", inputs)

    def model(self, content: bytes) -> None:
        """Writes model.onnx."""
        if self._folder is not None:
            (self._folder / "model.onnx").write_bytes(content)

    def expected(self, results: Sequence[np.ndarray]) -> None:
        """Writes xla.npz."""
        if self._folder is not None:
            self._arrays("xla", results)

    def _arrays(self, stem: str, arrays: Sequence[np.ndarray]) -> None:
        assert self._folder is not None
        numbered = {str(index): _plain(array) for index, array in enumerate(arrays)}
        np.savez(self._folder / f"{stem}.npz", **numbered)  # type: ignore[arg-type]


def _file_name(name: str) -> str:
    """A file name for a case: long names differ at their ends."""
    text = re.sub(r"\W+", "_", name).strip("_")
    return text if len(text) <= 120 else f"{text[:110]}_{zlib.crc32(name.encode()):08x}"


def _plain(array: np.ndarray) -> np.ndarray:
    """The array in a type that npz files know."""
    known = array.dtype.isbuiltin == 1
    return array if known else array.view(f"u{array.dtype.itemsize}")
