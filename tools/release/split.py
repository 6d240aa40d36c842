"""Splits the wheel of a checkout into the three wheels of a release.

hlo2onnx-runtime runs saved models: it needs numpy only. hlo2onnx-report holds JavaScript libraries
with licenses of their own. hlo2onnx has the rest, under Apache-2.0 alone, and needs the first.
"""

from __future__ import annotations

from collections.abc import Mapping
from email.message import Message
from email.parser import Parser
from fnmatch import fnmatch
from pathlib import Path

from wheel.wheelfile import WheelFile

from tools.release import REPORT, RUNTIME

_RUNTIME_README = """\
# hlo2onnx-runtime

Runs models that [hlo2onnx]({repository}) has saved, without JAX:

    pip install 'hlo2onnx-runtime[ort]'

```python
import hlo2onnx.runtime

program = hlo2onnx.runtime.load("model.onnx")
print(program(x))  # the pytrees of the JAX function, in and out
```

`hlo2onnx` translates JAX functions and StableHLO files; it needs this distribution.
"""

_REPORT_README = """\
# hlo2onnx-report

The JavaScript libraries that draw the graph in the HTML reports of [hlo2onnx]({repository}), with
their licenses. Install it by `pip install 'hlo2onnx[report]'`.
"""


def split(wheel: Path, folder: Path) -> list[Path]:
    """Writes the three wheels.

    Args:
        wheel: The wheel of a checkout, with all files.
        folder: Where the new wheels go.
    """
    with WheelFile(wheel) as archive:
        files = {name: archive.read(name) for name in archive.namelist()}
    info = next(name.partition("/")[0] for name in files if name.endswith(".dist-info/METADATA"))
    code = {name: data for name, data in files.items() if not name.startswith(info)}
    about = {name.partition("/")[2]: data for name, data in files.items() if name.startswith(info)}
    metadata = Parser().parsestr(about["METADATA"].decode())
    runtime = {name: data for name, data in code.items() if _is_one_of(name, RUNTIME)}
    report = {name: data for name, data in code.items() if _is_one_of(name, REPORT)}
    rest = code.keys() - runtime.keys() - report.keys()
    licenses = {name: data for name, data in about.items() if name.startswith("licenses/")}
    own = {"licenses/LICENSE": licenses["licenses/LICENSE"], "WHEEL": about["WHEEL"]}
    scripts, plugins = _entry_points(about["entry_points.txt"].decode())
    return [
        _write(
            folder,
            _core(metadata),
            {name: code[name] for name in sorted(rest)},
            own | {"entry_points.txt": plugins, "top_level.txt": about["top_level.txt"]},
        ),
        _write(folder, _runtime(metadata), runtime, own | {"entry_points.txt": scripts}),
        _write(
            folder,
            _report(metadata, [name for name in licenses if "vendor" in name]),
            report,
            {name: data for name, data in licenses.items() if "vendor" in name}
            | {"WHEEL": about["WHEEL"]},
        ),
    ]


def _is_one_of(name: str, patterns: tuple[str, ...]) -> bool:
    return any(fnmatch(name, pattern) for pattern in patterns)


def _entry_points(text: str) -> tuple[bytes, bytes]:
    """The section of the command, which the runtime has, and that of the handlers."""
    sections = [f"[{section}".encode() for section in text.split("[")[1:]]
    (scripts,) = (section for section in sections if section.startswith(b"[console_scripts]"))
    (plugins,) = (section for section in sections if section.startswith(b"[hlo2onnx.handlers]"))
    return scripts, plugins


def _core(whole: Message) -> Message:
    """The metadata of hlo2onnx: that of the whole, with the two other distributions."""
    metadata = _copied(whole, without=("License-Expression", "License-File", "Requires-Dist"))
    metadata["License-Expression"] = "Apache-2.0"
    metadata["License-File"] = "LICENSE"
    version = whole["Version"]
    metadata["Requires-Dist"] = f"hlo2onnx-runtime=={version}"
    metadata["Requires-Dist"] = f'hlo2onnx-report=={version}; extra == "report"'
    for requirement in whole.get_all("Requires-Dist", []):
        metadata["Requires-Dist"] = requirement
    metadata.set_payload(whole.get_payload())
    return metadata


def _runtime(whole: Message) -> Message:
    metadata = _named(whole, "hlo2onnx-runtime", "Runs models of hlo2onnx without JAX.")
    metadata["License-Expression"] = "Apache-2.0"
    metadata["License-File"] = "LICENSE"
    kept = {"numpy": "", "onnxruntime": 'extra == "ort"'}
    for requirement in whole.get_all("Requires-Dist", []):
        package, _, marker = requirement.partition(";")
        if marker.strip() == kept.get(package.rstrip("<>=.0123456789 ")):
            metadata["Requires-Dist"] = requirement
    metadata["Provides-Extra"] = "ort"
    metadata.set_payload(_RUNTIME_README.format(repository=_repository(whole)))
    return metadata


def _report(whole: Message, licenses: list[str]) -> Message:
    metadata = _named(whole, "hlo2onnx-report", "Draws the graphs in the reports of hlo2onnx.")
    metadata["License-Expression"] = "MIT AND ISC AND BSD-3-Clause"
    for name in licenses:
        metadata["License-File"] = name.removeprefix("licenses/")
    metadata.set_payload(_REPORT_README.format(repository=_repository(whole)))
    return metadata


def _copied(whole: Message, without: tuple[str, ...]) -> Message:
    metadata = Message()
    for key, value in whole.items():
        if key not in (*without, "Dynamic"):
            metadata[key] = value
    return metadata


def _named(whole: Message, name: str, summary: str) -> Message:
    """Metadata of another distribution of the same project and version."""
    of_whole = ("Name", "Summary", "License-Expression", "License-File", "Requires-Dist")
    metadata = _copied(whole, without=(*of_whole, "Provides-Extra", "Keywords"))
    metadata["Name"], metadata["Summary"] = name, summary
    return metadata


def _repository(whole: Message) -> str:
    urls = dict(url.split(", ", 1) for url in whole.get_all("Project-URL", []))
    return urls["Repository"]


def _write(
    folder: Path, metadata: Message, code: Mapping[str, bytes], about: Mapping[str, bytes]
) -> Path:
    stem = f"{metadata['Name'].replace('-', '_')}-{metadata['Version']}"
    path = folder / f"{stem}-py3-none-any.whl"
    with WheelFile(path, "w") as archive:
        for name, data in code.items():
            archive.writestr(name, data)
        for name, data in {**about, "METADATA": metadata.as_string().encode()}.items():
            archive.writestr(f"{stem}.dist-info/{name}", data)
    return path
