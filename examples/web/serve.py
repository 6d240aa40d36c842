"""Three JAX programs on a web page: translates them for onnxruntime-web, and serves the page.

python examples/web/serve.py
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

HERE = Path(__file__).resolve().parent
PACKAGE = "onnxruntime-web@1.30.0"
"""The version whose kernels the targets know."""
TARGETS = {"wasm": "ort-web", "webgpu": "ort-webgpu"}
"""The target of each execution provider."""


def main(argv: Sequence[str] | None = None) -> int:
    """Make the models and serve the page. Return the exit code."""
    options = arguments(argv)
    runtime = runtime_folder(options.onnxruntime_web)
    if runtime is None:
        where = options.onnxruntime_web or HERE
        print(
            f"{where} does not have onnxruntime-web. Install it, then try again:\n"
            f"    npm install --no-save --prefix {where} {PACKAGE}",
            file=sys.stderr,
        )
        return 2
    options.models.mkdir(parents=True, exist_ok=True)
    make_models(options.models, options.training_steps)
    folders = {"ort": runtime, "models": options.models}
    server = ThreadingHTTPServer((options.host, options.port), partial(Handler, folders))
    print(f"http://{options.host}:{server.server_port}/", flush=True)
    try:
        server.serve_forever()
    except KeyboardInterrupt:
        print()
    return 0


def arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    """The options of the command."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--host", default="127.0.0.1", help="address to listen on")
    parser.add_argument("--port", type=int, default=8000, help="0 for any free one")
    parser.add_argument(
        "--onnxruntime-web", type=Path, metavar="FOLDER",
        help="folder whose node_modules has the npm package; default: that of this file",
    )  # fmt: skip
    parser.add_argument(
        "--models", type=Path, metavar="FOLDER", default=HERE / "models",
        help="where to write the models, and to keep the trained weights",
    )  # fmt: skip
    parser.add_argument(
        "--training-steps", type=int, metavar="N", help="of the autoencoder, if it is not trained"
    )
    return parser.parse_args(argv)


def runtime_folder(given: Path | None) -> Path | None:
    """The folder of the files for browsers, if they are there."""
    folder = (given or HERE) / "node_modules" / "onnxruntime-web" / "dist"
    return folder if (folder / "ort.wasm.bundle.min.mjs").exists() else None


# -- models ---------------------------------------------------------------------------------------


def make_models(folder: Path, training_steps: int | None) -> None:
    """Translate the programs, and write what the page must know about them to models.json."""
    sys.path.insert(0, str(HERE.parent))
    import faces
    import fluid
    import jax
    import life

    decoder = trained_decoder(folder / "faces.npz", training_steps or faces.STEPS)
    programs = {
        "life": (jax.jit(life.step, donate_argnums=0).lower(*life.arguments()), {}),
        "fluid": (jax.jit(fluid.step, donate_argnums=0).lower(*fluid.arguments()), {}),
        "faces": (jax.jit(faces.paint).lower(*faces.arguments(decoder)), {"decoder": decoder}),
    }
    models = {
        provider: {
            name: translated(lowered, weights, target, folder / f"{name}.{provider}.onnx")
            for name, (lowered, weights) in programs.items()
        }
        for provider, target in TARGETS.items()
    }
    (folder / "models.json").write_text(json.dumps(models, indent=1), encoding="utf-8")


def translated(lowered: Any, weights: Any, target: str, path: Path) -> dict[str, Any]:
    """Translate a program, save the model, and return what the page must know about it."""
    import hlo2onnx

    program = hlo2onnx.translate(lowered, bind=weights, target=target)
    program.save(path)
    metadata = {item.key: item.value for item in program.model_proto.metadata_props}
    return {
        "url": f"models/{path.name}",
        "states": json.loads(metadata.get("hlo2onnx.states", "{}")),
        "bytes": path.stat().st_size,
        "nodes": sum(program.report.nodes.values()),
    }


def trained_decoder(path: Path, steps: int) -> Any:
    """The weights of the autoencoder's decoder, from a file, or trained and written to it."""
    import faces
    import jax.numpy as jnp
    import numpy as np

    if not path.exists():
        print(f"training the autoencoder for {steps} steps, once: {path} will keep it", flush=True)
        layers = faces.train(steps)
        arrays = {f"{name}_{i}": x for i, layer in enumerate(layers) for name, x in layer.items()}
        np.savez(path, **arrays)
    with np.load(path) as file:
        count = len(file.files) // 2
        return [
            {name: jnp.asarray(file[f"{name}_{i}"]) for name in ("kernel", "bias")}
            for i in range(count)
        ]


# -- the server -----------------------------------------------------------------------------------


class Handler(SimpleHTTPRequestHandler):
    """Files of this folder, of the models and of onnxruntime-web."""

    extensions_map = {  # noqa: RUF012
        **SimpleHTTPRequestHandler.extensions_map,
        ".mjs": "text/javascript", ".js": "text/javascript", ".wasm": "application/wasm",
        ".onnx": "application/octet-stream", ".py": "text/plain; charset=utf-8",
    }  # fmt: skip

    def __init__(self, folders: dict[str, Path], *args: Any) -> None:
        self._folders = folders
        super().__init__(*args, directory=str(HERE))

    def translate_path(self, path: str) -> str:
        """The file of an address. The base class keeps it inside of the folder."""
        first, _, rest = urlsplit(path).path.lstrip("/").partition("/")
        self.directory = str(self._folders.get(first, HERE))
        return super().translate_path(f"/{rest}" if first in self._folders else path)

    def end_headers(self) -> None:
        """Isolate the page, which threads of WebAssembly need."""
        self.send_header("Cross-Origin-Opener-Policy", "same-origin")
        self.send_header("Cross-Origin-Embedder-Policy", "require-corp")
        self.send_header("Cache-Control", "no-cache")
        super().end_headers()

    def log_message(self, *args: Any) -> None:
        """Say nothing of requests."""


if __name__ == "__main__":
    raise SystemExit(main())
