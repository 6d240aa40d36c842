"""next_after."""

from __future__ import annotations

import numpy as np

from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("chlo.next_after")
def next_after(em: Emitter, op: Op) -> list[Parts]:
    """next_after(x, y) -> integer arithmetic on the bits of x; a constant for two constants.

    `jax.random.truncated_normal` has two constants, and then needs no BitCast.
    """
    x, y = (em.facts.constant(operand) for operand in em.operands(op))
    if x is None or y is None or x.size != 1 or y.size != 1 or x.dtype.kind != "f":
        return em.expansion(op)
    number = np.nextafter(x.reshape(()), y.reshape(()))
    return [(em.expand(em.const(number), em.result_dims(op)),)]
