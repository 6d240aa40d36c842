"""Replaces the source of a module that is already imported."""

from __future__ import annotations

import functools
import gc
import sys
from collections import Counter, defaultdict
from collections.abc import Iterator
from pathlib import Path
from types import CodeType, FunctionType

from tools.mutation.importing import Finder
from tools.mutation.project import Project

_NEW_LOCALS = 0x2
"""The flag of code objects (`inspect.CO_NEWLOCALS`) that tells functions from classes' bodies."""


def change(project: Project, path: str, source: str, at_import: bool) -> None:
    """Makes this process run another source for a file.

    Functions get their new code in place. If the change is outside of functions, or in one that
    runs while its module is imported (`at_import`), all modules are imported again when needed.
    """
    if not at_import and _change_functions(path, source):
        return
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in project.packages:
            del sys.modules[loaded]
    sys.meta_path.insert(0, Finder(project.root, project.packages, {path: source}))


@functools.cache
def functions_of_files() -> dict[str, list[FunctionType]]:
    """All functions of this process, by file. The parent calls this once, after its imports."""
    found = defaultdict(list)
    for item in gc.get_objects():
        if isinstance(item, FunctionType):
            found[item.__code__.co_filename].append(item)
    return found


def _change_functions(path: str, source: str) -> bool:
    """Changes the code of functions in place; returns whether that is all the change."""
    old = compile(Path(path).read_text(encoding="utf-8"), path, "exec", dont_inherit=True)
    new = compile(source, path, "exec", dont_inherit=True)
    if _outside_functions(old) != _outside_functions(new):
        return False
    olds, news = list(_codes(old)), list(_codes(new))
    if [key for key, _ in olds] != [key for key, _ in news]:
        return False
    times = Counter(key for key, _ in olds)
    changed = {key: b for (key, a), (_, b) in zip(olds, news, strict=True) if a != b}
    if any(times[key] > 1 for key in changed):
        return False
    try:
        for function in functions_of_files()[path]:
            key = _key(function.__code__)
            if key in changed:
                function.__code__ = changed[key]
    except ValueError:  # it reads other variables of the function around it
        return False
    return True


def _key(code: CodeType) -> tuple[str, int]:
    return code.co_qualname, code.co_firstlineno


def _codes(code: CodeType) -> Iterator[tuple[tuple[str, int], CodeType]]:
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            yield _key(constant), constant
            yield from _codes(constant)


def _outside_functions(code: CodeType) -> list[object]:
    """What an import runs: the code and the constants of a module and of its classes."""
    if code.co_flags & _NEW_LOCALS:
        return []
    parts: list[object] = [code.co_code, code.co_names]
    for constant in code.co_consts:
        if isinstance(constant, CodeType):
            parts += _outside_functions(constant)
        else:
            parts.append(constant)
    return parts
