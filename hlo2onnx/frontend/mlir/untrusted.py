"""Reads programs that may be damaged: other text than JAX writes goes to a child process."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.errors import LoadError
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.values import module_bytecode

SECONDS = 60
"""Time limit for small inputs. Each 4 MB add a second."""


STACK_BYTES = 2 << 20
"""The child's stack, a quarter of the usual size."""

MEMORY_BYTES, MEMORY_FACTOR = 4 << 30, 32
"""Memory limit of the child, and its increase for each byte of input."""


def read_untrusted(content: str | bytes, what: str) -> ir.Module:
    """Parses text or bytecode that may be damaged into an `ir.Module`.

    Args:
        content: As for `hlo2onnx.frontend.mlir.context.parse_module`.
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
from hlo2onnx.frontend.mlir.untrusted import main
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
    return module_bytecode(module.operation)


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


DEPTH = 200
"""Limit of nesting for text without a child process. MLIR can parse some thousand levels."""

CHAIN = 1000
"""Limit of the nesting of aliases. JAX writes the call stack of each op as nested aliases."""

EXPANDED = 1 << 20
"""Limit of the characters of an alias after the expansion of the aliases in it."""


def is_harmless(text: str) -> bool:
    """Whether text cannot crash MLIR: it has known tokens only, and is not deeply nested."""
    bare = _without_strings(text)
    if bare is None or "vhlo." in text or _ESCAPE.search(text):
        return False
    return _TOKENS.fullmatch(bare) is not None and _is_shallow(bare) and _has_flat_aliases(bare)


_ESCAPE = re.compile(r"\\[89A-Fa-f][0-9A-Fa-f]")
"""An escape in a string that could spell bytes that are not UTF-8."""

_DIALECTS = "stablehlo|chlo|func|sdy|mhlo|shape|tensor|arith|builtin|quant"


# -- strings and comments -----------------------------------------------------------------------


def _without_strings(text: str) -> str | None:
    """The text with empty strings and no comments.

    None if MLIR could see other strings or comments, or if a string names an op of an unknown
    dialect.
    """
    pieces = text.split('"')
    strings = pieces[1::2]
    if len(pieces) % 2 == 0 or any(s.endswith("\\") or "\n" in s for s in strings):
        return None
    bare = pieces[::2]
    if not all(map(_is_known_op, strings, bare, bare[1:])):
        return None
    if "//" in text:
        for index, piece in enumerate(bare):
            if "//" in piece:
                # In the last piece the comment may end with the text.
                bare[index] = _COMMENT.sub("", piece if index < len(strings) else f"{piece}\n")
        if any("//" in piece for piece in bare):
            return None
    return '""'.join(bare)


_COMMENT = re.compile(r"//[^\n\r>]*(?=\r?\n)")
"""A comment. Within `#dialect<...>`, MLIR reads comments as text, and a `>` in them ends it."""


def _is_known_op(string: str, before: str, after: str) -> bool:
    """Whether a string does not name an op, or an op of a known dialect."""
    if not after.lstrip().startswith("("):
        return True
    return _KNOWN_OP.fullmatch(string) is not None or _IN_LOCATION.search(before) is not None


_KNOWN_OP = re.compile(rf"(?:{_DIALECTS})\.[\w.]+")
_IN_LOCATION = re.compile(r"(?:[@(\[,]|\bat)\s*\Z")


# -- tokens -------------------------------------------------------------------------------------

_TOKENS = re.compile(
    rf"""(?:
      [\s,:()}}\[\]?]++
    | [%@^][\w$.-]++(?:\#\d{{1,5}}+(?!\d))?
    | x?(?:\d++x)*+                                    # words that open a bracket
      (?:tensor|complex|tuple|dense|dense_resource|array|fused|mesh|axis_ref|u?i\d{{1,2}}|f\d+\w*)\s*<
    | (?:{_DIALECTS})\.[\w.]++                           # ops and attributes
    | [A-Za-z_](?:[\w$]*+(?!\s*<|[.$])                   # keywords
                |[\w$.]*+(?=\s*[=,}}]))                  # names of attributes
    | \d\w{{0,200}}+(?!\w)(?:\.\d{{0,200}}+(?!\d)(?:[eE](?=[\d+-]))?)?  # numbers
      (?:(?<=[eE])[+-]?\d{{1,6}}+(?!\d))?(?!\s*<)
    | [#!](?:{_DIALECTS})\b(?:\.[\w.]++)?
    | [#!][A-Za-z_][\w$]*+(?!\s*<|[.$-])                 # aliases
    | @?""
    | \{{-\# | \#-\}}                                    # around resources
    | [{{<]
    | >(?!\s*=) | =(?!\s*=)                              # no comparison
    | -(?:>|(?=\d))                                      # no operator
    | \*x                                                # tensor<*xf32>
    )*+""",
    re.VERBOSE | re.ASCII,
)


# -- nesting ------------------------------------------------------------------------------------


def _is_shallow(bare: str) -> bool:
    brackets = bare.replace("->", "").encode().translate(None, _NOT_BRACKETS)
    steps = np.isin(np.frombuffer(brackets, np.uint8), _OPENING) * 2 - 1
    return int(np.cumsum(steps).max(initial=0)) <= DEPTH


_OPENING = np.frombuffer(b"([{<", np.uint8)
_NOT_BRACKETS = bytes(sorted(set(range(256)) - set(b"([{<)]}>")))


def _has_flat_aliases(bare: str) -> bool:
    """Whether each alias has its own line, before its uses in others, and none is deep or long."""
    definitions = _DEFINITION.findall(bare)
    if len(definitions) != len(_DEFINED.findall(bare)):
        return False
    depths: dict[str, int] = {}
    sizes: dict[str, int] = {}
    for name, content in definitions:
        opened = _opened(content)
        if name in depths or opened is None:
            return False
        used = _USED.findall(content)
        if not depths.keys() >= set(used):
            return False
        depths[name] = opened + 1 + max([depths[other] for other in used], default=0)
        sizes[name] = len(content) + sum([sizes[other] for other in used])
    return max(depths.values(), default=0) <= CHAIN and max(sizes.values(), default=0) <= EXPANDED


_DEFINED = re.compile(r"[#!][\w$]+\s*=")
_DEFINITION = re.compile(
    r"""^([#!][\w$]+)[ ]=[ ]([^\n]*[\w"\])}]|[^\n]*(?<!-)>)[ ]*$  # on one line,
    (?=\s*+(?:[\#!"A-Za-z]|\{-\#|\Z))                             # which the next does not continue
    """,
    re.MULTILINE | re.VERBOSE | re.ASCII,
)
_USED = re.compile(r"[#!][A-Za-z_][\w$]*+(?![\w$.<])")


def _opened(content: str) -> int | None:
    """How many brackets a text opens; None if it closes others."""
    opened = [content.count(bracket) for bracket in "([{<"]
    closed = [content.count(bracket) for bracket in ")]}"]
    closed.append(content.count(">") - content.count("->"))
    return sum(opened) if opened == closed else None
