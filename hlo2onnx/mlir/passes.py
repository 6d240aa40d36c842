"""The MLIR pass pipelines. Each is one constant, tested with the oldest and the newest JAX.

Nesting matters: a pass on the wrong kind of op can abort the process.
"""

from __future__ import annotations

from functools import cache

from jaxlib.mlir import ir
from jaxlib.mlir.dialects import stablehlo
from jaxlib.mlir.passmanager import PassManager

EXPAND_CHLO = "builtin.module(func.func(chlo-legalize-to-stablehlo))"
"""Expands CHLO ops without an ONNX counterpart into StableHLO."""

EXPAND_COMPLEX = "builtin.module(func.func(stablehlo-complex-math-expander))"
"""Expands exponential, log, log_plus_one and sqrt of complex numbers into their parts."""

NORMALIZE = (
    "builtin.module(func.func(stablehlo-legalize-deprecated-ops{fail-on-unused=false},"
    "stablehlo-canonicalize-dynamism))"
)
"""Replaces deprecated ops (dot, broadcast, create_token, ...), and by static ops those dynamic ops
whose sizes are constants."""

QUANTIZED_OPS = "builtin.module(func.func(stablehlo-legalize-quantized-op-to-qdq))"
"""Replaces ops on quantized types by ops on floats between conversions."""

FROM_VHLO = (
    f"builtin.module(vhlo-to-version{{target={stablehlo.get_current_version()}}},"
    "vhlo-legalize-to-stablehlo)"
)
"""Upgrades VHLO of any version that this jaxlib knows to StableHLO. Keeps other dialects."""


@cache
def _register() -> None:
    stablehlo.register_stablehlo_passes()


def run_pipeline(operation: ir.Operation, pipeline: str) -> None:
    """Runs a pipeline on a module operation in place."""
    _register()
    with operation.context:
        PassManager.parse(pipeline, operation.context).run(operation)
