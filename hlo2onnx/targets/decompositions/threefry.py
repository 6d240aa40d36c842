"""Threefry-2x32 as operators of ONNX: written out for few numbers, as a Scan for more.

A rotation is a product with a power of two, a shift, and their sum: of the operators on bits,
runtimes vectorise sums and products only. For few numbers nodes count: there, one BitShift gives
the word and its shifted copy, and one MatMul with (2^rotation, 1) adds them.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.dims import fixed
from hlo2onnx.ir.notes import note_rewrite
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.replace import replace
from hlo2onnx.ir.shapes import broadcast_shapes
from hlo2onnx.ir.threefry import GROUPS, PARITY, ROTATIONS, ROUNDS, THREEFRY
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.ir.values import Shape, const_number, const_of, present, rank_of, shape_of, size_of
from hlo2onnx.targets.builder import TargetBuilder

_WORD = oir.DataType.UINT32


def write_threefry(graph: oir.Graph, b: TargetBuilder) -> None:
    """Replaces every Threefry2x32 of a graph and its subgraphs, in place."""
    for node in list(all_nodes(graph)):
        if node.op_type != THREEFRY or node.domain:
            continue
        first = len(b.made)
        with b.before(node):
            words = _random_words(b, node)
        note_rewrite(b.made[first:], "threefry", [node])
        replace(node, words)


def _random_words(b: TargetBuilder, node: oir.Node) -> Sequence[oir.Value]:
    keys, counts = present(node.inputs)[:2], present(node.inputs)[2:]
    dims = broadcast_shapes(*map(shape_of, (*keys, *counts)))
    if dims and all(size_of(key) == 1 for key in keys):
        keys = [_element(b, key) for key in keys]
    size = size_of(node.outputs[0])
    if size == 0:
        return [b.Identity(b.expand(key, dims)) for key in keys]
    if size is not None and size <= b.costs.threefry_written_elements:
        return _written_out(b, keys, counts, dims, size)
    return _scan(b, keys, counts, dims)


def _element(b: TargetBuilder, x: oir.Value) -> oir.Value:
    """A vector of the one element of x, which may be one before a Reshape."""
    array = const_of(x)
    if array is not None:
        return b.const(array.reshape(1))
    maker = x.producer()
    source = maker.inputs[0] if maker is not None and maker.op_type in RESHAPES else None
    return source if source is not None and shape_of(source) == (1,) else b.reshape(x, [1])


def _start(b: TargetBuilder, key: oir.Value, count: oir.Value) -> oir.Value:
    """The counter plus its word of the key."""
    return key if const_number(count) == 0 else b.Add(count, key)


def _third(b: TargetBuilder, keys: Sequence[oir.Value]) -> oir.Value:
    """The third word of the key."""
    return b.BitwiseXor(b.BitwiseXor(*keys), b.scalar(PARITY, _WORD))


# -- written out -----------------------------------------------------------------------------------


def _written_out(
    b: TargetBuilder,
    keys: Sequence[oir.Value],
    counts: Sequence[oir.Value],
    dims: Shape,
    size: int,
) -> Sequence[oir.Value]:
    """Four or five nodes a round, on matrices of one row and on vectors."""
    flat = [_row(b, x, dims, size) for x in (*keys, *counts)]
    first, second = (_start(b, key, count) for key, count in zip(flat[:2], flat[2:], strict=True))
    addends = _addends(b, flat[:2])
    for rotations, terms in zip(ROTATIONS, addends, strict=True):
        for rotation in map(int, rotations):
            first = b.Add(first, second)
            second = b.BitwiseXor(_rotated(b, second, rotation, size), first)
        first, second = b.Add(first, terms[0]), b.Add(second, terms[1])
    return [b.reshape(x, dims) for x in (first, second)]


def _row(b: TargetBuilder, x: oir.Value, dims: Shape, size: int) -> oir.Value:
    """The elements of x after broadcasting, as a row or a vector; only one if x has only one."""
    if size_of(x) == 1:
        return _element(b, x)
    if shape_of(x) == (size,):
        return x
    array = const_of(x)
    if array is not None:
        return b.const(np.broadcast_to(array, fixed(dims)).reshape(size))
    return b.reshape(b.expand(x, dims), [size])


_MOST_BY_PRODUCT = 64
"""Most numbers whose rotations are products with a matrix, two nodes instead of three: 29 and 36 µs
for 8 numbers, 48 and 41 µs for 128."""


def _rotated(b: TargetBuilder, x: oir.Value, by: int, size: int) -> oir.Value:
    """The bits of a row or a vector rotated to the left."""
    if size <= _MOST_BY_PRODUCT and b.supports("MatMul", _WORD):
        copies = b.BitShift(x, b.const(np.array([[0], [32 - by]], np.uint32)), direction="RIGHT")
        return b.MatMul(b.const(np.array([[1 << by, 1]], np.uint32)), copies)
    shifted = b.BitShift(x, b.scalar(32 - by, _WORD), direction="RIGHT")
    return b.Add(b.Mul(x, b.scalar(1 << by, _WORD)), shifted)


def _addends(b: TargetBuilder, keys: Sequence[oir.Value]) -> list[tuple[oir.Value, oir.Value]]:
    """What is added to the two words after each group of rounds."""
    words = [*keys, _third(b, keys)]
    return [
        (words[n % 3], b.Add(words[(n + 1) % 3], b.scalar(n, _WORD))) for n in range(1, GROUPS + 1)
    ]


# -- as a Scan -------------------------------------------------------------------------------------


def _scan(
    b: TargetBuilder, keys: Sequence[oir.Value], counts: Sequence[oir.Value], dims: Shape
) -> Sequence[oir.Value]:
    """Each four rounds with the same body are a step."""
    start = [b.expand(_start(b, key, count), dims) for key, count in zip(keys, counts, strict=True)]
    powers, shifts = 1 << ROTATIONS, 32 - ROTATIONS
    tables = [b.const(column) for column in (*powers.T, *shifts.T)]
    rows = [b.value(f"{b.scope}/rotation", _WORD, []) for _ in tables]
    added = _stacked_addends(b, keys)
    terms = [b.value(f"{b.scope}/key", _WORD, shape_of(words)[1:]) for words in added]
    state = [b.value(f"{b.scope}/word", _WORD, dims) for _ in start]
    with b.subgraph([*state, *rows, *terms], f"{b.scope}/rounds") as body:
        first, second = state
        for power, shift in zip(rows[:ROUNDS], rows[ROUNDS:], strict=True):
            first = b.Add(first, second)
            rotated = b.Add(b.Mul(second, power), b.BitShift(second, shift, direction="RIGHT"))
            second = b.BitwiseXor(rotated, first)
        body.outputs.extend([b.Add(first, terms[0]), b.Add(second, terms[1])])
    return b.outputs(
        "Scan",
        *start,
        *tables,
        *added,
        body=body,
        num_scan_inputs=len(tables) + len(added),
        n_outputs=2,
        types=[(_WORD, dims)] * 2,
    )


def _stacked_addends(b: TargetBuilder, keys: Sequence[oir.Value]) -> list[oir.Value]:
    """The stacked addends of the two words after each four rounds."""
    rows = [*keys, _third(b, keys)]
    if shape_of(rows[-1]) != (1,):
        rows = [b.unsqueeze(word, [0]) for word in rows]
    first, second = (
        b.concat([rows[(group + offset) % 3] for group in range(GROUPS)], axis=0)
        for offset in (1, 2)
    )
    number = np.arange(1, GROUPS + 1, dtype=np.uint32)
    ones = [1] * (rank_of(second) - 1)
    return [first, b.Add(second, b.const(number.reshape(GROUPS, *ones)))]
