"""Storage of weights in a narrower type than the program's."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.weight_names import NAME
from hlo2onnx.ir.weights import SMALL_ELEMENTS, content_of

STORAGE_TYPES = {"bfloat16": oir.DataType.BFLOAT16, "float16": oir.DataType.FLOAT16}
"""The types that f32 weights may be stored in, by name."""


def store_weights(builder: GraphBuilder, dtype: oir.DataType) -> int:
    """Stores weights of f32 in a narrower type, followed by a Cast; returns how many lose digits.

    Each is rounded once, to nearest, ties to even.
    """
    graph = builder.main_graph
    changed = 0
    for value in list(graph.initializers.values()):
        tensor = value.const_value
        if value.dtype != oir.DataType.FLOAT or tensor is None or tensor.size <= SMALL_ELEMENTS:
            continue
        narrow = builder.derived(lambda array: array.astype(dtype.numpy()), value, is_moved=True)
        narrow.meta.setdefault(NAME, value.meta.get(NAME, value.name))
        rounded = content_of(narrow)
        changed += not np.array_equal(rounded.astype(np.float32), tensor.numpy(), equal_nan=True)
        with builder.at_start():
            wide = builder.cast(narrow, oir.DataType.FLOAT)
        oir.convenience.replace_all_uses_with(value, wide, replace_graph_outputs=True)
        del graph.initializers[str(value.name)]
    return changed
