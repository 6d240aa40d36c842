"""Rewrites a program to f64, to measure XLA's own rounding errors."""

from __future__ import annotations

import re

import numpy as np

from hlo2onnx.frontend.mlir.types import numpy_type

_CONSTANT = re.compile(
    r'dense<(?P<body>"0x[0-9A-Fa-f]*"|[^">]*)> : tensor<(?P<dims>[0-9x]*)'
    r"(?P<open>(?:complex<)?)(?P<element>f32|f16|bf16)(?P<close>>{1,2})"
)
_LAPACK = re.compile(r"(?<=@lapack_)[sc](?=\w+_ffi)")
_WIDE_LAPACK = {"s": "d", "c": "z"}
"""The letter for the element type in the name of a LAPACK function."""
_BITS = re.compile(r"0x[0-9A-Fa-f]+")
_FROM_BITS = re.compile(
    r"%(?P<name>\w+) = stablehlo\.bitcast_convert (?P<bits>%[\w#]+) : "
    r"\((?P<integers>tensor<[0-9x]*u?i\d+>)\) -> tensor<(?P<dims>[0-9x]*)(?P<element>f32|f16|bf16)>"
)
_NARROW = "narrow "
"""Marks types that do not change."""
_TYPE = re.compile(r"(?<=[x<])(?:f32|f16|bf16|f[468]E\w+)(?=>)")

NARROW_LIMITS = {"float16": 0.05, "bfloat16": 0.2, "float32": 1e-2, "complex64": 1e-2}
"""Limit of the distance of XLA's results from an f64 evaluation, relative to their norm. Beyond it,
the evaluation is another function, for example with other random numbers in f64. Other types have
no wider evaluation."""


def widened(text: str) -> str:
    """StableHLO text with all floats in f64, and complex<f32> in complex<f64>.

    Constants written as bits are rewritten. Floats made of bits, such as random numbers, keep their
    count of bits. A program that reads the bits of its floats becomes another program, or invalid.
    """
    text = _LAPACK.sub(lambda letter: _WIDE_LAPACK[letter[0]], text)
    text = _FROM_BITS.sub(_from_bits, _CONSTANT.sub(_constant, text))
    return _TYPE.sub("f64", text).replace(_NARROW, "")


def _from_bits(match: re.Match[str]) -> str:
    made, dims = f"%bits_{match['name']}", match["dims"]
    narrow = f"tensor<{dims}{_NARROW}{match['element']}>"
    return (
        f"{made} = stablehlo.bitcast_convert {match['bits']} : ({match['integers']}) -> {narrow}\n"
        f"%{match['name']} = stablehlo.convert {made} : ({narrow}) -> tensor<{dims}f64>"
    )


def widen(array: np.ndarray) -> np.ndarray:
    """An argument of the program as an argument of its widened form."""
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    if array.dtype.kind in "biu" or "int" in array.dtype.name:
        return array
    return array.astype(np.float64)


def is_evaluation_of(found: np.ndarray, want: np.ndarray, is_half: bool = False) -> bool:
    """Whether an array is credible as the f64 evaluation of a result.

    Args:
        is_half: Whether the program computes the result in a half type, whatever its own type is.
    """
    wide = np.dtype(np.complex128 if want.dtype.kind == "c" else np.float64)
    if want.dtype.name not in NARROW_LIMITS or found.dtype != wide or found.shape != want.shape:
        return False
    both = np.isfinite(found) & np.isfinite(want.astype(wide))
    truth = np.where(both, found, 0)
    error = np.linalg.norm(np.where(both, want.astype(wide), 0) - truth)
    limit = NARROW_LIMITS["bfloat16" if is_half else want.dtype.name]
    return bool(error <= limit * np.linalg.norm(truth))


def _constant(match: re.Match[str]) -> str:
    dtype = numpy_type(match["element"])
    body = match["body"]
    if body.startswith('"'):
        narrow = np.frombuffer(bytes.fromhex(body[3:-1]), dtype)
        body = f'"0x{narrow.astype(np.float64).tobytes().hex().upper()}"'
    else:
        body = _BITS.sub(lambda bits: _wide_bits(bits[0], dtype), body)
    return f"dense<{body}> : tensor<{match['dims']}{match['open']}f64{match['close']}"


def _wide_bits(digits: str, dtype: np.dtype[np.generic]) -> str:
    narrow = np.array(int(digits, 16), f"u{dtype.itemsize}").view(dtype)
    return f"0x{int(narrow.astype(np.float64).view(np.uint64)):016X}"
