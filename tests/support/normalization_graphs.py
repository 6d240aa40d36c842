"""Parts of normalizations, built by hand."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder

RNG = np.random.default_rng(0)
X = RNG.normal(1, 2, (4, 2, 3)).astype(np.float32)
CUBE = RNG.normal(1, 2, (3, 3, 3)).astype(np.float32)
S = RNG.uniform(1, 2, 3).astype(np.float32)


def mean_of(b: GraphBuilder, x: oir.Value, axes: Any = (2,), keepdims: int = 1) -> oir.Value:
    """The mean of x, which is computed once."""
    wanted = b.i64(list(axes))
    for node in x.consumers():
        if (node.op_type, node.inputs[1:]) == ("ReduceMean", (wanted,)):
            return node.outputs[0]
    return b.ReduceMean(x, wanted, keepdims=keepdims)


def scale(b: GraphBuilder, *dims: int) -> oir.Value:
    return b.const(np.resize(S, dims or (3,)))
