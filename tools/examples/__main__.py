"""Writes every example as StableHLO text to ``examples/mlir/``.

With these files one can try hlo2onnx's command without any model library. They hold small variants
of the models (``Example.small``). The text depends on the versions in the first line of each file.
"""

from __future__ import annotations

import platform
import re
import sys
from importlib.metadata import version
from pathlib import Path

import jax
from jax.extend import source_info_util

from tools import ROOT, command_line
from tools.examples import FOLDER as EXAMPLES
from tools.examples import Example, load_all

FOLDER = EXAMPLES / "mlir"

FILE_LOCATION = re.compile(r'loc\("(?P<file>[^"]*)":(?=\d)')


def header() -> str:
    """Return the first line of every file: the versions on which its text depends."""
    versions = [f"{package} {version(package)}" for package in ("jax", "flax", "equinox")]
    major, minor, _ = platform.python_version_tuple()
    return f"// {', '.join(versions)}, python {major}.{minor}\n"


def relative(file: str) -> str:
    """Return a source file's name relative to this repository or to where it is imported from."""
    # The longest root comes first, as a virtual environment may be inside of the repository.
    # The examples' own folder is no root: their names start with "examples/".
    imports = {Path(entry) for entry in sys.path if entry} - {EXAMPLES}
    for root in sorted({ROOT, *imports}, key=lambda path: len(str(path)), reverse=True):
        if Path(file).is_relative_to(root):
            return Path(file).relative_to(root).as_posix()
    raise RuntimeError(f"{file} is outside of the repository and of every import path")


def export(example: Example) -> str:
    """Lower the small variant of an example to text in which all file names are relative."""
    # Functions like jax.nn.relu are traced once and then keep the location of their first use,
    # which must not be in another example.
    jax.clear_caches()
    with example.types():
        function, args = example.build(**example.small)
        text = jax.jit(function).lower(*args).as_text(debug_info=True)
    text = FILE_LOCATION.sub(lambda match: f'loc("{relative(match["file"])}":', text)
    for prefix in (str(ROOT), sys.prefix, str(Path.home())):
        if f"{prefix}/" in text:
            raise RuntimeError(f"{example.name}: {prefix} remains in the text")
    return header() + text


def main() -> None:
    command_line("examples", __doc__).parse_args()
    # Otherwise every location would name this file and the module that runs it.
    for file in (__file__, "<frozen runpy>"):
        source_info_util.register_exclusion(file)
    texts = {FOLDER / f"{example.name}.mlir": export(example) for example in load_all()}
    for path in set(FOLDER.glob("*.mlir")) - set(texts):
        path.unlink()
    for path, text in texts.items():
        path.write_text(text, encoding="utf-8")
        print(f"{path.relative_to(ROOT)}: {len(text.encode()) / 1000:.0f} kB")


if __name__ == "__main__":
    main()
