"""The kinds of runtimes, and their names."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

WORKERS = Path(__file__).parent / "workers"


@dataclass(frozen=True)
class Kind:
    """How to start a runtime.

    Attributes:
        package: Its name in the registry.
        worker: The file of the worker.
        provider: The execution provider of onnxruntime.
        has_fusions: Whether its fusions can be switched off one by one.
        has_levels: Whether the graph optimization can be switched off.
        batch: How many cases the prober runs as one model, as loading a model takes long.
        tools: Further packages of npm that the worker needs.
        varied: Whether it may hold wide integers in another type where they are constants or
            results of nodes, so that the prober tries these, too.
    """

    package: str
    worker: str
    provider: str = ""
    has_fusions: bool = False
    has_levels: bool = True
    batch: int = 1
    varied: bool = False
    tools: tuple[str, ...] = ()

    @property
    def module(self) -> str:
        """The module that Python imports."""
        return "onnxruntime" if self.provider else self.package

    @property
    def title(self) -> str:
        """Its name for users."""
        return _TITLES.get(self.module, self.package)

    @property
    def is_npm(self) -> bool:
        """Whether the package is npm's."""
        return self.worker.endswith(".mjs")

    def command(self, place: str) -> list[str]:
        """The command that starts the worker.

        Args:
            place: The Python interpreter of the environment that has the package; for a package of
                npm, the folder whose node_modules has it.
        """
        worker = str(WORKERS / self.worker)
        if self.is_npm:
            return ["node", worker, place]
        return [place, worker, *filter(None, [self.provider])]


_TITLES = {"onnx": "onnx.reference", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def _onnxruntime(package: str, provider: str) -> Kind:
    return Kind(package, "run_onnxruntime.py", f"{provider}ExecutionProvider", has_fusions=True)


KINDS: Mapping[str, Kind] = {
    "ort-cpu": _onnxruntime("onnxruntime", "CPU"),
    "ort-cuda": _onnxruntime("onnxruntime-gpu", "CUDA"),
    "ort-tensorrt": _onnxruntime("onnxruntime-gpu", "Tensorrt"),
    "ort-coreml": _onnxruntime("onnxruntime", "CoreML"),
    "ort-directml": _onnxruntime("onnxruntime-directml", "Dml"),
    "ort-web": Kind("onnxruntime-web", "run_web.mjs"),
    "ort-webgpu": Kind("onnxruntime-web", "run_webgpu.mjs", tools=("puppeteer-core",)),
    "openvino": Kind("openvino", "run_openvino.py", has_levels=False, batch=24, varied=True),
    "reference": Kind("onnx", "run_reference.py", has_levels=False),
}
"""Runtimes by the names of their targets. `reference` is onnx.reference."""

CPU = "ort-cpu"
"""The kind that runs within the present process, too."""


@dataclass(frozen=True)
class Name:
    """A runtime's name and version: "ort-cpu@1.20" is a version of onnxruntime; without a version
    it is what the present interpreter imports."""

    kind: str
    version: str = ""

    @classmethod
    def parsed(cls, text: str) -> Name:
        """Read "ort-cpu@1.20".

        Raises:
            ValueError: There is no such kind.
        """
        kind, _, version = text.partition("@")
        if kind not in KINDS:
            raise ValueError(f"there is no runtime {kind}; there are {', '.join(KINDS)}")
        return cls(kind, version)

    def __str__(self) -> str:
        return f"{self.kind}@{self.version}" if self.version else self.kind
