"""Models before and after a workaround."""

from __future__ import annotations

import dataclasses
from collections import Counter
from collections.abc import Callable

import numpy as np
import onnx_ir as oir
from rewriting import Build, model_of, run_model

from hlo2onnx.ir.replace import remove_unused, replace
from hlo2onnx.targets import load_target
from hlo2onnx.targets.builder import TargetBuilder

T = oir.DataType
RNG = np.random.default_rng(0)
FLOATS = RNG.uniform(1, 2, (3, 4)).astype(np.float32)
WITHOUT_FUSIONS = dataclasses.replace(load_target("ort-cpu"), harmful_fusions=frozenset())
Change = Callable[[TargetBuilder, oir.Node], oir.Value | None]


def changed(
    build: Build, op_type: str, change: Change, runs: bool = True, **inputs: np.ndarray
) -> Counter[str] | None:
    """The nodes after a change, which gives nearly the same numbers; None if it does nothing."""
    model = model_of(build, inputs)
    before = run_model(model, inputs) if runs else []
    builder = TargetBuilder(model.graph, 23, WITHOUT_FUSIONS)
    builder.adopt(model.graph)
    node = next(n for n in model.graph if n.op_type == op_type)
    with builder.before(node):
        made = change(builder, node)
    if made is None:
        assert any(n is node for n in model.graph)
        return None
    replace(node, [made])
    remove_unused(model.graph)
    after = run_model(model, inputs) if runs else []
    for new, old in zip(after, before, strict=True):
        assert (new.dtype, new.shape) == (old.dtype, old.shape)
        np.testing.assert_allclose(new, old, rtol=1e-5)
    return Counter(n.op_type for n in model.graph)
