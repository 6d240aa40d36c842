"""Imports the packages under test, with another source for one file or with their code watched."""

from __future__ import annotations

import importlib
import pkgutil
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder, SourceFileLoader
from pathlib import Path
from types import CodeType, ModuleType


class Loader(SourceFileLoader):
    """Loads a module, from another source if there is one, and shows its code to a watcher."""

    finder: Finder

    def get_code(self, fullname: str) -> CodeType | None:
        """The module's code; a changed source is compiled without the cache of bytecode."""
        source = self.finder.sources.get(self.path)
        if source is None:
            code = super().get_code(fullname)
        else:
            code = compile(source, self.path, "exec", dont_inherit=True)
        if code is not None and self.finder.watch is not None:
            self.finder.watch(code)
        return code


class Finder(MetaPathFinder):
    """Finds the modules of the packages under test before others do.

    Args:
        root: The folder of the packages.
        packages: Their names.

    Attributes:
        sources: Other contents of files, by absolute path.
        watch: Called with the code of every module before it runs.
    """

    def __init__(
        self,
        root: Path,
        packages: frozenset[str],
        sources: Mapping[str, str] | None = None,
        watch: Callable[[CodeType], object] | None = None,
    ) -> None:
        self._path = [str(root)]
        self._packages = packages
        self.sources = dict(sources or {})
        self.watch = watch

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """See `importlib.abc.MetaPathFinder`."""
        if fullname.partition(".")[0] not in self._packages:
            return None
        spec = PathFinder.find_spec(fullname, path or self._path, target)
        if spec is None or spec.origin is None or not isinstance(spec.loader, SourceFileLoader):
            return spec
        spec.loader = Loader(fullname, spec.origin)
        spec.loader.finder = self
        return spec


def import_packages(
    root: Path, packages: frozenset[str], watch: Callable[[CodeType], object] | None = None
) -> None:
    """Imports every module of the packages, commands (`__main__`) aside; see `Finder`."""
    sys.meta_path.insert(0, Finder(root, packages, watch=watch))
    for package in sorted(packages):
        module = importlib.import_module(package)
        for info in pkgutil.walk_packages(module.__path__, package + "."):
            if not info.name.endswith("__main__"):
                importlib.import_module(info.name)
