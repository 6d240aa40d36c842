"""Threefry-2x32, the generator of JAX's default keys: its calls, and how to recognise them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import element_type, is_tensor
from hlo2onnx.ir.dependence import Draw
from hlo2onnx.ir.threefry import THREEFRY, random_words
from hlo2onnx.ir.values import shape_of
from hlo2onnx.lowering.block_evaluator import evaluate
from hlo2onnx.lowering.emitter import Emitter


def threefry2x32(
    em: Emitter, keys: Sequence[oir.Value], counts: Sequence[oir.Value]
) -> list[oir.Value]:
    """Two words of random bits for each pair of counters, all UINT32.

    Args:
        keys: The two words of the key; of rank 0, or of the counters' rank to broadcast.
        counts: The counters, in two words of one shape. The high word of small counters is 0.
    """
    high, low = counts
    known = em.facts.int_range(high)
    if known is not None and known.within(0, 0) and shape_of(high) == shape_of(low):
        high = em.scalar(0, oir.DataType.UINT32)
    words = em.outputs(THREEFRY, *keys, high, low, n_outputs=2)
    em.draws.append(Draw(tuple(keys), tuple(counts), words))
    return words


# -- finding it in a program ---------------------------------------------------------------------

_LANES = 16


def calls_threefry2x32(em: Emitter, callee: str) -> bool:
    """Whether a call of this function is one of Threefry. Programs call few functions often, so
    each is evaluated once."""
    functions = em.context.functions
    function = functions.get(callee)
    if function is None:
        return False
    known = em.is_generator.get(function)
    if known is None:
        known = em.is_generator[function] = is_threefry2x32(function, functions)
    return known


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
    return all(map(np.array_equal, results, random_words(*numbers)))


def _is_words(mlir_type: ir.Type) -> bool:
    return is_tensor(mlir_type) and element_type(mlir_type) == "ui32"
