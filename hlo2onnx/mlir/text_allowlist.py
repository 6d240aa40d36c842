"""Decides which StableHLO text MLIR's parser may read in this process.

The parser recurses: nested brackets, signs in affine expressions, and aliases of aliases can
overflow the stack. A number can make it allocate any memory, and numbers of a million digits take
quadratic time. There is no list of all such places. So this module lists what exporters of
StableHLO write. A child process (`hlo2onnx.mlir.parse_in_subprocess`) reads all other text. It
takes about a second.
"""

from __future__ import annotations

import re

import numpy as np

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
        if name in depths or not _is_balanced(content):
            return False
        used = _USED.findall(content)
        if not all(other in depths for other in used):
            return False
        depths[name] = _opened(content) + 1 + max((depths[other] for other in used), default=0)
        sizes[name] = len(content) + sum(sizes[other] for other in used)
    return max(depths.values(), default=0) <= CHAIN and max(sizes.values(), default=0) <= EXPANDED


_DEFINED = re.compile(r"[#!][\w$]+\s*=")
_DEFINITION = re.compile(
    r"""^([#!][\w$]+)[ ]=[ ]([^\n]*[\w"\])}]|[^\n]*(?<!-)>)[ ]*$  # on one line,
    (?=\s*+(?:[\#!"A-Za-z]|\{-\#|\Z))                             # which the next does not continue
    """,
    re.MULTILINE | re.VERBOSE | re.ASCII,
)
_USED = re.compile(r"[#!][A-Za-z_][\w$]*+(?![\w$.<])")


def _is_balanced(content: str) -> bool:
    counts = [content.count(bracket) for bracket in "([{<)]}>"]
    counts[7] -= content.count("->")
    return counts[:4] == counts[4:]


def _opened(content: str) -> int:
    return sum(map(content.count, "([{<"))
