"""What runs on the site: the reports of three examples, and the page of examples/web."""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import hlo2onnx
from hlo2onnx.runtime.adapters.installed import CACHE
from tools import EXAMPLES, ROOT
from tools.probe.environments import npm_folder

REPORTS = {
    "vit": "a vision transformer",
    "kalman": "a Kalman filter, a scan over matrices",
    "train_step": "a training step with Adam",
}
WEB = ROOT / "examples" / "web"
MODELS = WEB / "models"
RUNTIME = (
    "ort.wasm.bundle.min.mjs",
    "ort-wasm-simd-threaded.wasm",
    "ort.webgpu.bundle.min.mjs",
    "ort-wasm-simd-threaded.asyncify.wasm",
)
"""What the page loads of onnxruntime-web."""


def report_list() -> str:
    """Links to the reports, in Markdown."""
    return "\n".join(f"* [`{name}.mlir`](reports/{name}.html): {x}" for name, x in REPORTS.items())


@cache  # `mkdocs serve` builds again and again
def reports() -> dict[str, str]:
    """The pages by their names on the site."""
    pages = {}
    for name in REPORTS:
        program = hlo2onnx.translate(EXAMPLES / f"{name}.mlir")
        with tempfile.TemporaryDirectory() as folder:
            page = Path(folder) / "report.html"
            program.save_report(page, verification=program.verify(), profile=program.profile())
            pages[f"reports/{name}.html"] = page.read_text(encoding="utf-8")
    return pages


def demo_frame() -> str:
    """The page with programs within another page, in Markdown."""
    return (
        "[In a window of its own](web/index.html)\n\n"
        '<iframe class="demo" src="../web/index.html" title="JAX programs"></iframe>'
    )


def demo() -> Iterator[tuple[str, Path]]:
    """The files of the page, their names on the site first. As `examples/web/serve.py`, it keeps
    the trained weights. HLO2ONNX_TRAINING_STEPS limits the training, for tests of the site.

    Raises:
        InstallError: npm cannot install onnxruntime-web.
    """
    sys.path.append(str(WEB))
    serve = importlib.import_module("serve")
    package, _, version = serve.PACKAGE.partition("@")
    runtime = npm_folder(package, version, CACHE) / "node_modules" / package / "dist"
    MODELS.mkdir(exist_ok=True)
    serve.make_models(MODELS, int(os.environ.get("HLO2ONNX_TRAINING_STEPS", 0)) or None)
    pages = [x for x in WEB.iterdir() if x.suffix in (".html", ".css", ".js", ".py")]
    models = [x for x in MODELS.iterdir() if x.suffix in (".onnx", ".json")]
    yield from ((f"web/{path.name}", path) for path in pages if path.name != "serve.py")
    yield from ((f"web/models/{path.name}", path) for path in models)
    yield from ((f"web/ort/{name}", runtime / name) for name in RUNTIME)
