"""Several programs that share their weights."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path

from hlo2onnx.program import OnnxProgram
from hlo2onnx.runtime.paths import output_folder
from hlo2onnx.runtime.saving import save_models


class OnnxPrograms(Mapping[str, OnnxProgram]):
    """Programs by name, as `hlo2onnx.translate({"prefill": ..., "decode": ...})` gives them."""

    def __init__(self, programs: Mapping[str, OnnxProgram]) -> None:
        self._programs = dict(programs)

    def __getitem__(self, name: str) -> OnnxProgram:
        return self._programs[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._programs)

    def __len__(self) -> int:
        return len(self._programs)

    def save(
        self, folder: str | Path, *, weights: str = "weights.data", strip: bool = False
    ) -> None:
        """Writes `<name>.onnx` for each program and one file of weights, each weight once.

        All files are written before the first model is replaced. If the save is killed in the
        moment between two models, each of them is whole, the old one or the new one.

        Args:
            folder: The folder, which must exist.
            weights: Name of the file of weights. A hash of its content is put before the suffix:
                `weights-<hash>.data`.
            strip: Whether to leave out metadata and doc strings, as in `OnnxProgram.save`.

        Raises:
            UsageError: There is no such folder.
            WriteError: A file cannot be written. The text names it and the reason.
        """
        folder = output_folder(folder)
        models = {folder / f"{name}.onnx": item.model for name, item in self._programs.items()}
        save_models(models, folder / weights, strip)

    def __repr__(self) -> str:
        return f"<OnnxPrograms {', '.join(self._programs)}>"
