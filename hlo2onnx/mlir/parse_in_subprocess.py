"""Reads programs that may be damaged.

On damaged input, MLIR's bytecode reader crashes the process, hangs, or corrupts the heap. Its text
parser overflows the stack on deep nesting. A child process reads all input that is not known to be
harmless, and writes it anew as bytecode. This process reads only that bytecode.
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

from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.context import parse_module
from hlo2onnx.mlir.text_allowlist import is_harmless

SECONDS = 60
"""Time limit for small inputs. Each 4 MB add a second."""


STACK_BYTES = 2 << 20
"""The child's stack, a quarter of the usual size."""

MEMORY_BYTES, MEMORY_FACTOR = 4 << 30, 32
"""Memory limit of the child, and its increase for each byte of input."""


def read_untrusted(content: str | bytes, what: str) -> ir.Module:
    """Parses text or bytecode that may be damaged into an `ir.Module`.

    Args:
        content: As for `hlo2onnx.mlir.context.parse_module`.
        what: How to name the source in an error ("model.mlir", "the given text").

    Raises:
        LoadError: It does not parse, does not verify, or crashes MLIR.
    """
    if isinstance(content, str) and is_harmless(content):
        return parse_module(content, what)
    return parse_module(_rewritten_by_child(content, what), what)


def _rewritten_by_child(content: str | bytes, what: str) -> bytes:
    """The content as StableHLO bytecode that the child has written."""
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
"""The child finds the same packages as this process. It starts with Python's own path. In
PYTHONPATH, a types.py of the user would hide Python's module of that name."""


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
    """Reads a module from stdin. Writes null and its bytecode, or the error, to stdout."""
    kind, what = sys.argv[1:]
    data = sys.stdin.buffer.read()
    _limit_resources(len(data))
    # Input that fits this small stack also fits the larger stack of the parent.
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
    """Parses a module and writes it anew. May crash the process.

    Raises:
        LoadError: It does not parse or verify, or the bindings cannot read its names.
    """
    module = parse_module(content, what)
    _check_names(module, what)
    stream = io.BytesIO()
    module.operation.write_bytecode(stream)
    return stream.getvalue()


def _limit_resources(size: int) -> None:
    """Limits memory, and core dumps in the user's folder."""
    try:
        import resource
    except ImportError:  # Windows, which has no limits
        return
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    _, most = resource.getrlimit(resource.RLIMIT_DATA)
    wanted = MEMORY_BYTES + MEMORY_FACTOR * size
    limit = wanted if most == resource.RLIM_INFINITY else min(wanted, most)
    resource.setrlimit(resource.RLIMIT_DATA, (limit, most))


def _check_names(module: ir.Module, what: str) -> None:
    """Checks that all names are UTF-8. On others, the bindings kill the process.

    Raises:
        LoadError: A name is not.
    """
    text = module.operation.get_asm(
        enable_debug_info=True, large_elements_limit=16, large_resource_limit=16
    )
    for name in _NAME.finditer(str(text)):
        try:
            _ESCAPED.sub(_byte, name.group()).encode("latin-1").decode()
        except UnicodeDecodeError:
            raise LoadError(f"{what} is damaged: the name {name.group()} is not UTF-8") from None


_NAME = re.compile(r'(?<=[@(])"(?:[^"\\]|\\.)*"|"(?:[^"\\]|\\.)*"(?=\(| =)')
"""Symbols, locations, and quoted names of ops and attributes in text that MLIR has printed. MLIR
escapes characters that are not ASCII. Strings that are values may hold any bytes."""

_ESCAPED = re.compile(r"\\(?:([0-9A-F]{2})|.)")


def _byte(escape: re.Match[str]) -> str:
    return chr(int(escape.group(1), 16)) if escape.group(1) else "\\"
