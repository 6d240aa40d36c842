"""Threefry-2x32, the generator of JAX's default keys.

Twenty rounds mix a pair of 32-bit counters: add the second to the first, rotate the second, XOR
the first into it. After every fourth round two of three words of the key are added. The third word
is the XOR of the key's two words and a constant (Salmon et al., "Parallel random numbers: as easy
as 1, 2, 3", 2011).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.analysis.dependence import Draw
from hlo2onnx.analysis.integer_evaluation import evaluate
from hlo2onnx.ir.broadcasting import broadcast_shapes
from hlo2onnx.ir.values import Shape, rank_of, shape_of
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.mlir.types import element_type, is_tensor

UINT32 = oir.DataType.UINT32

_GROUPS, _ROUNDS = 5, 4
_ROTATIONS = np.array(
    [[13, 15, 26, 6] if group % 2 == 0 else [17, 29, 16, 24] for group in range(_GROUPS)],
    np.uint32,
)
_PARITY = 0x1BD11BDA


def threefry2x32(
    em: Emitter, keys: Sequence[oir.Value], counts: Sequence[oir.Value]
) -> list[oir.Value]:
    """Two words of random bits for each pair of counters, all UINT32.

    Each four rounds with the same body are a step of a Scan. A rotation is a sum, a product with a
    power of two and a shift: of the operators on bits, runtimes vectorise sums and products only.

    Args:
        keys: The two words of the key; of rank 0, or of the counters' rank to broadcast.
        counts: The counters, in two words.
    """
    dims = broadcast_shapes(*map(shape_of, (*keys, *counts)))
    start = [_start(em, key, count, dims) for key, count in zip(keys, counts, strict=True)]
    powers, shifts = 1 << _ROTATIONS, 32 - _ROTATIONS
    tables = [em.const(column) for column in (*powers.T, *shifts.T)]
    rows = [em.value(f"{em.scope}/rotation", UINT32, []) for _ in tables]
    added = _added(em, keys)
    terms = [em.value(f"{em.scope}/key", UINT32, shape_of(words)[1:]) for words in added]
    state = [em.value(f"{em.scope}/word", UINT32, dims) for _ in start]
    with em.subgraph([*state, *rows, *terms], f"{em.scope}/rounds") as body:
        first, second = state
        for power, shift in zip(rows[:_ROUNDS], rows[_ROUNDS:], strict=True):
            first = em.Add(first, second)
            rotated = em.Add(em.Mul(second, power), em.BitShift(second, shift, direction="RIGHT"))
            second = em.BitwiseXor(rotated, first)
        body.outputs.extend([em.Add(first, terms[0]), em.Add(second, terms[1])])
    words = em.outputs(
        "Scan",
        *start,
        *tables,
        *added,
        body=body,
        num_scan_inputs=len(tables) + len(added),
        n_outputs=2,
        types=[(UINT32, dims)] * 2,
    )
    em.draws.append(Draw(tuple(keys), tuple(counts), words))
    return list(words)


def _start(em: Emitter, key: oir.Value, count: oir.Value, dims: Shape) -> oir.Value:
    """The counter plus its word of the key. The high word of small counters is 0."""
    known = em.facts.int_range(count)
    is_zero = known is not None and known.within(0, 0)
    return em.expand(key if is_zero else em.Add(count, key), dims)


def _added(em: Emitter, keys: Sequence[oir.Value]) -> list[oir.Value]:
    """The stacked addends of the two words after each four rounds."""
    parity = em.scalar(_PARITY, UINT32)
    words = [*keys, em.BitwiseXor(em.BitwiseXor(*keys), parity)]
    rows = [em.unsqueeze(word, [0]) for word in words]
    first, second = (
        em.concat([rows[(group + offset) % 3] for group in range(_GROUPS)], axis=0)
        for offset in (1, 2)
    )
    number = np.arange(1, _GROUPS + 1, dtype=np.uint32)
    ones = [1] * (rank_of(second) - 1)
    return [first, em.Add(second, em.const(number.reshape(_GROUPS, *ones)))]


# -- finding it in a program ---------------------------------------------------------------------

_LANES = 16


def is_threefry2x32(function: ir.Operation, functions: Mapping[str, ir.Operation]) -> bool:
    """Whether a function takes (extents..., key, key, counter, counter) and gives their random
    bits.

    JAX lowers its primitive to a function with a body that differs between versions. So the body
    runs on some random numbers: `evaluate` knows no branches, and a function of 128 bits that gives
    the right 64 bits for all of them is Threefry.
    """
    if not function.regions[0].blocks:
        return False
    types = [argument.type for argument in function.regions[0].blocks[0].arguments]
    extents, words = types[:-4], types[-4:]
    if len(words) != 4 or not all(map(_is_words, words)):
        return False
    numbers = np.random.default_rng(0).integers(1 << 32, size=(4, _LANES), dtype=np.uint32)
    results = evaluate(function, functions, [*[None] * len(extents), *numbers])
    if results is None or len(results) != 2:
        return False
    return all(map(np.array_equal, results, _reference(*numbers)))


def _is_words(mlir_type: ir.Type) -> bool:
    return is_tensor(mlir_type) and element_type(mlir_type) == "ui32"


def _reference(*words: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    keys = [*words[:2], words[0] ^ words[1] ^ np.uint32(_PARITY)]
    first, second = words[2] + keys[0], words[3] + keys[1]
    for group, rotations in enumerate(_ROTATIONS):
        for rotation in rotations:
            first = first + second
            second = (second << rotation | second >> (32 - rotation)) ^ first
        first = first + keys[(group + 1) % 3]
        second = second + keys[(group + 2) % 3] + np.uint32(group + 1)
    return first, second
