"""The MLIR pass pipelines we run. Each is one constant, tested on both ends of the JAX range.

Nesting matters: a pass run on the wrong kind of op can abort the process.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

EXPAND_CHLO = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
"""CHLO ops without an ONNX counterpart, as StableHLO arithmetic."""

EXPAND_COMPLEX = "builtin.module(func.func(stablehlo-complex-math-expander))"
"""exponential, log, log_plus_one and sqrt of complex numbers, in terms of their parts."""

NORMALIZE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
    "stablehlo-canonicalize-dynamism))"
)
"""dot, broadcast, create_token, ... as the ops that replaced them, and ops that are dynamic in name
only, because what would make them so is constant, as the others."""

QUANTIZED_OPS = "builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq))"
"""Ops that compute with quantized types as ops on floats between conversions."""

FROM_VHLO = (
    f"builtin.module(vhlo-to-version{{target={stablehlo.get_current_version()}}},"
    "vhlo-legalize-to-stablehlo)"
)
"""VHLO of any version this jaxlib knows as StableHLO; leaves other dialects alone."""


@cache
def _register() -> None:
    stablehlo.register_stablehlo_passes()


def run_pipeline(operation: Any, pipeline: str) -> None:
    """Runs a pipeline on a module operation in place."""
    _register()
    with operation.context:
        PassManager.parse(pipeline, operation.context).run(operation)
