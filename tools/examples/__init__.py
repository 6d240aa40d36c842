"""The programs of examples/ as modules; as a command, writes them as StableHLO."""

from __future__ import annotations

import importlib
import importlib.util
import sys
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

from tools import ROOT

FOLDER = ROOT / "examples"


class _Finder(MetaPathFinder):
    """Finds examples/NAME.py as the module NAME; examples import one another by these names."""

    def find_spec(
        self, fullname: str, path: object = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        file = FOLDER / f"{fullname}.py"
        return importlib.util.spec_from_file_location(fullname, file) if file.exists() else None


sys.meta_path.append(_Finder())
gallery = importlib.import_module("gallery")
Example = gallery.Example
load_all = gallery.load_all


def load(name: str) -> ModuleType:
    """Import examples/NAME.py.

    Raises:
        ModuleNotFoundError: There is no such example.
    """
    return importlib.import_module(name)
