"""Reading programs that nobody vouches for.

MLIR's bytecode reader crashes the process on damaged input, hangs on it, or corrupts the heap;
its text parser overflows the stack on deep nesting. Input that is not known to be harmless is read
by a child process, which hands back bytecode that MLIR itself has just written; this process never
sees the original.
"""

from __future__ import annotations

import io
import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from typing import Any

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.context import parse_module
from hlo2onnx.mlir.text_allowlist import is_harmless

SECONDS = 60
"""How long reading a small input may take; bigger ones get a second more for every 4 MB."""


STACK_BYTES = 2 << 20
"""The child's stack: a quarter of what a thread usually has."""

MEMORY_BYTES, MEMORY_FACTOR = 4 << 30, 32
"""How much memory the child may take, and how much more for each byte of its input."""


def read_untrusted(content: str | bytes, what: str) -> Any:
    """Parses text or bytecode that may be damaged into an `ir.Module`.

    Args:
        content: As for `hlo2onnx.mlir.context.parse_module`.
        what: How to name the source in an error ("model.mlir", "the given text").

    Raises:
        LoadError: It does not parse, does not verify, or brings MLIR down.
    """
    if isinstance(content, str) and is_harmless(content):
        return parse_module(content, what)
    return parse_module(_rewritten_by_child(content, what), what)


def _rewritten_by_child(content: str | bytes, what: str) -> bytes:
    """What the child makes of the content: clean StableHLO bytecode."""
    kind = "text" if isinstance(content, str) else "bytecode"
    data = content.encode() if isinstance(content, str) else content
    command = [sys.executable, "-P", "-c", _CHILD, kind, what, json.dumps(_path())]
    limit = SECONDS + len(data) / 2**22
    try:
        child = subprocess.run(command, input=data, capture_output=True, timeout=limit, check=False)
    except subprocess.TimeoutExpired:
        raise LoadError(f"{what} is damaged: MLIR does not finish reading it") from None
    except OSError as error:
        raise LoadError(f"cannot start Python to read {what}: {error}") from error
    if child.returncode < 0:
        raise LoadError(f"{what} is damaged: MLIR crashes on it ({_cause_of_death(child)})")
    if child.returncode > 0:
        raise LoadError(f"{what} cannot be read: {_last_line(child) or 'MLIR crashes on it'}")
    header, _, bytecode = child.stdout.partition(b"\n")
    refusal = json.loads(header)
    if refusal is not None:
        raise LoadError(refusal)
    return bytecode


def _path() -> list[str]:
    return [entry for entry in sys.path if isinstance(entry, str)]


_CHILD = """
import json, sys
sys.path[:] = json.loads(sys.argv.pop())
from hlo2onnx.mlir.parse_in_subprocess import main
main()
"""
"""The child finds the same packages as this process. It starts with Python's own path, so that a
types.py of the user's does not stand before the module of that name, as it would in PYTHONPATH."""


def _cause_of_death(child: subprocess.CompletedProcess[bytes]) -> str:
    last = _last_line(child)
    if last.startswith("LLVM ERROR: "):
        return last.removeprefix("LLVM ERROR: ")
    return signal.strsignal(-child.returncode) or f"signal {-child.returncode}"


def _last_line(child: subprocess.CompletedProcess[bytes]) -> str:
    lines = child.stderr.decode(errors="replace").strip().splitlines()
    return lines[-1] if lines else ""


# -- in the child -----------------------------------------------------------------------------


def main() -> None:
    """Reads a module from stdin; writes null and its bytecode, or why it cannot, to stdout."""
    kind, what = sys.argv[1:]
    data = sys.stdin.buffer.read()
    _limit_resources(len(data))
    # What overflows no small stack here overflows no larger one in the parent.
    threading.stack_size(STACK_BYTES)
    with ThreadPoolExecutor(1) as thread:
        thread.submit(_answer, kind, what, data).result()


def _answer(kind: str, what: str, data: bytes) -> None:
    bytecode, refusal = b"", None
    try:
        bytecode = rewrite(data.decode() if kind == "text" else data, what)
    except LoadError as error:
        refusal = str(error)
    sys.stdout.buffer.write(json.dumps(refusal).encode() + b"\n" + bytecode)


def rewrite(content: str | bytes, what: str) -> bytes:
    """Parses a module and writes it anew. May bring the process down.

    Raises:
        LoadError: It does not parse or verify, or the bindings could not take its names.
    """
    module = parse_module(content, what)
    _check_names(module, what)
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _limit_resources(size: int) -> None:
    """A crash is expected here: it must not litter the user's folder, nor use up the memory."""
    try:
        import resource
    except ImportError:  # Windows, which has no limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = MEMORY_BYTES + MEMORY_FACTOR * size
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _check_names(module: Any, what: str) -> None:
    """Refuses names that are not UTF-8: the bindings kill the process when they meet one.

    Raises:
        LoadError: There is such a name.
    """
    text = module.operation.get_asm(
        enable_debug_info=True, large_elements_limit=16, large_resource_limit=16
    )
    for name in _NAME.finditer(text):
        try:
            _ESCAPED.sub(_byte, name.group()).encode("latin-1").decode()
        except UnicodeDecodeError:
            raise LoadError(f"{what} is damaged: the name {name.group()} is not UTF-8") from None


_NAME = re.compile(r'(?<=[@(])"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*"(?=\(| =)')
"""Symbols, locations, and quoted names of ops and attributes in MLIR's own printing, which
escapes whatever is not ASCII. Strings that are values may hold any bytes."""

_ESCAPED = re.compile(r"\\(?:([0-9A-F]{2})|.)")


def _byte(escape: re.Match[str]) -> str:
    return chr(int(escape.group(1), 16)) if escape.group(1) else "\\"
