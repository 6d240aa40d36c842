"""The kinds of runtimes: where each is installed, and how it starts. Installs nothing."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from hlo2onnx.errors import NotInstalledError, UsageError, VerificationError
from hlo2onnx.runtime.adapters.process import TIMEOUT_SECONDS, Answer, Runtime, StartError, Tensor

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
        tools: Further packages that the worker needs.
        imports: The module that Python imports, where it is not the package.
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
    imports: str = ""

    @property
    def module(self) -> str:
        """The module that Python imports."""
        return "onnxruntime" if self.provider else self.imports or self.package

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


_TITLES = {
    "cv2": "OpenCV",
    "iree.compiler": "IREE",
    "onnx": "onnx.reference",
    "onnxruntime": "ONNX Runtime",
    "openvino": "OpenVINO",
    "tvm": "TVM",
}


def _onnxruntime(package: str, provider: str) -> Kind:
    return Kind(package, "run_onnxruntime.py", f"{provider}ExecutionProvider", has_fusions=True)


KINDS: Mapping[str, Kind] = {
    "ort-cpu": _onnxruntime("onnxruntime", "CPU"),
    "ort-cuda": _onnxruntime("onnxruntime-gpu", "CUDA"),
    "ort-tensorrt": _onnxruntime("onnxruntime-gpu", "Tensorrt"),
    "ort-coreml": _onnxruntime("onnxruntime", "CoreML"),
    "ort-xnnpack": _onnxruntime("onnxruntime", "Xnnpack"),
    "ort-directml": _onnxruntime("onnxruntime-directml", "Dml"),
    "ort-web": Kind("onnxruntime-web", "run_web.mjs"),
    "ort-webgpu": Kind("onnxruntime-web", "run_webgpu.mjs", tools=("puppeteer-core",)),
    "openvino": Kind("openvino", "run_openvino.py", has_levels=False, batch=24, varied=True),
    "iree": Kind(
        "iree-base-compiler",
        "run_iree.py",
        has_levels=False,
        batch=24,
        tools=("iree-base-runtime", "onnx"),
        imports="iree.compiler",
    ),
    "tract": Kind("tract", "run_tract.py", has_levels=False, tools=("onnx",)),
    "opencv": Kind(
        "opencv-python-headless", "run_opencv.py", has_levels=False, tools=("onnx",), imports="cv2"
    ),
    "tvm": Kind("apache-tvm", "run_tvm.py", has_levels=False, tools=("onnx",), imports="tvm"),
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


CACHE = Path(
    os.environ.get("HLO2ONNX_RUNTIMES") or Path.home() / ".cache" / "hlo2onnx" / "runtimes"
)
"""The folder with the environments of `tools.probe`, one for each version of a package."""

SECONDS = 300.0
"""Time to load a model and run it once."""

_INTERPRETERS = ("bin/python", "Scripts/python.exe", "python.exe")


def named(text: str) -> tuple[Name, str]:
    """A runtime, its version and its place: "ort-cpu@1.20=FOLDER".

    Raises:
        UsageError: There is no such runtime.
    """
    if not isinstance(text, str):
        raise UsageError(f"runtime={text!r} is not a name of a runtime, such as 'openvino'")
    name, _, place = text.partition("=")
    try:
        return Name.parsed(name.strip()), place.strip()
    except ValueError as error:
        raise UsageError(f"runtime={text!r}: {error}") from None


def started(text: str, seconds: float = SECONDS) -> Runtime:
    """Starts a runtime that is installed.

    Args:
        text: Its name, such as "openvino"; perhaps with a version, "ort-cpu@1.20"; perhaps with its
            place: a Python interpreter, the folder of a virtual environment, or for a package of
            npm a folder in which Node finds it. Default: the present interpreter, or the working
            directory; with a version, also the environments of `tools.probe`.
        seconds: Time for an answer.

    Raises:
        NotInstalledError: It is not there, or in another version.
        UsageError: There is no such runtime.
    """
    name, given = named(text)
    kind = KINDS[name.kind]
    places = list(_folders(kind, name, given) if kind.is_npm else _interpreters(kind, name, given))
    problems = []
    for place in places:
        try:
            runtime = Runtime(kind.command(place), seconds)
        except StartError as error:
            problems.append(f"{kind.package} does not start in {_where(place)}: {error}")
            continue
        if is_version(runtime.version, name.version):
            return runtime
        runtime.stop()
        problems.append(f"{_where(place)} has {kind.package} {runtime.version}")
    raise NotInstalledError("; ".join([_missing(kind, name), *problems]) + _next(kind, name))


def pickled(content: object) -> dict[str, Tensor]:
    """An object as the input of a `module_process`."""
    return {"": Tensor(0, (), pickle.dumps(content))}


def unpickled(answer: Answer) -> Any:
    """The object in the answer of a `module_process`."""
    return pickle.loads(answer.outputs[0].content)


def module_process(module: str, seconds: float = TIMEOUT_SECONDS) -> Runtime:
    """A process that answers with a module of the package: see `workers/run_module.py`.

    Raises:
        VerificationError: It does not start.
    """
    path = json.dumps([entry for entry in sys.path if isinstance(entry, str)])
    try:
        return Runtime([sys.executable, str(WORKERS / "run_module.py"), path, module], seconds)
    except StartError as error:
        raise VerificationError(f"cannot start Python: {error}") from error


def _missing(kind: Kind, name: Name) -> str:
    """What is missing: the package in this interpreter, or a version of the runtime."""
    is_here = kind.module and not name.version
    return f"{kind.package if is_here else name} is not installed"


def is_version(version: str, wanted: str) -> bool:
    """Whether a version is the wanted one, "1.20" for example, or one of its patches."""
    return not wanted or version == wanted or version.startswith(f"{wanted}.")


def is_module(name: str) -> bool:
    """Whether this interpreter can import a module. It is not imported."""
    try:
        return find_spec(name) is not None
    except ModuleNotFoundError:  # of a package that a module is in
        return False


def _interpreters(kind: Kind, name: Name, given: str) -> Iterator[str]:
    """Interpreters that may have a package."""
    if given:
        yield _interpreter(Path(given).expanduser())
        return
    if name.version and (made := _one_of(CACHE / f"{kind.package}-{name.version}")):
        yield made
    if is_module(kind.module):
        yield sys.executable


def _interpreter(path: Path) -> str:
    found = str(path) if path.is_file() else _one_of(path)
    if not found:
        raise NotInstalledError(f"{path} is neither a Python interpreter nor an environment")
    return found


def _one_of(folder: Path) -> str:
    """The interpreter of an environment; "" if there is none."""
    found = (folder / place for place in _INTERPRETERS)
    return next((str(path) for path in found if path.is_file()), "")


def _folders(kind: Kind, name: Name, given: str) -> Iterator[str]:
    """Folders whose node_modules have a package."""
    if shutil.which("node") is None:
        raise NotInstalledError(f"Node.js is not installed; {kind.package} runs in it")
    start = Path(given).expanduser().resolve() if given else Path.cwd()
    if start.name == "node_modules":
        start = start.parent
    if given and not start.is_dir():
        raise NotInstalledError(f"there is no folder {given}")
    starts = [[start, *start.parents]]
    if name.version and not given:
        starts.insert(0, [CACHE / "-".join([kind.package, name.version, *kind.tools])])
    for each in starts:
        if (folder := _with_modules(each, (kind.package, *kind.tools))) is not None:
            yield str(folder)


def _with_modules(folders: Iterable[Path], packages: Iterable[str]) -> Path | None:
    """The first folder whose node_modules have all packages."""
    wanted = [Path("node_modules") / package / "package.json" for package in packages]
    return next((f for f in folders if all((f / path).is_file() for path in wanted)), None)


def _where(place: str) -> str:
    return "this interpreter" if place == sys.executable else place


def _next(kind: Kind, name: Name) -> str:
    """What to do."""
    if kind.is_npm:
        version = f"@{name.version}" if name.version else ""
        packages = " ".join([f"{kind.package}{version}", *kind.tools])
        return f"\n  next   npm install {packages}, here or in a folder: runtime='{name}=FOLDER'"
    others = "".join(f" {tool}" for tool in kind.tools)
    if not name.version:
        return f"\n  next   pip install {kind.package}{others}"
    packages = f"'{kind.package}=={name.version}.*' numpy{others}"
    return (
        f"\n  next   python -m venv FOLDER && FOLDER/bin/pip install {packages}, and then"
        f" runtime='{name}=FOLDER'"
    )
