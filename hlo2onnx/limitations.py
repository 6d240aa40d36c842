"""The limitations of the translation, for errors and for docs/op_coverage.md.

An op without a handler raises the error of the limitation that names it. A handler raises
`unsupported(name)` for a limitation that depends on the op's attributes or operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo2onnx.errors import UnsupportedOp

ALWAYS = "always"


@dataclass(frozen=True)
class Limitation:
    """Ops that a model cannot express.

    Attributes:
        ops: Names of the ops; custom calls with their target ("... @target").
        condition: When the limitation holds.
        reason: Why it holds.
        advice: What the user can do.
        scope: Part of the JAX names of the ops, if the limitation holds only for these.
    """

    ops: tuple[str, ...]
    condition: str
    reason: str
    advice: str = ""
    scope: str = ""


_HOST = (
    "stablehlo.infeed",
    "stablehlo.outfeed",
    "stablehlo.recv",
    "stablehlo.send",
)
CALLBACK_TARGETS = (
    "xla_buffer_python_cpu_callback",
    "xla_ffi_partitioned_python_cpu_callback",
    "xla_ffi_partitioned_python_gpu_callback",
    "xla_ffi_python_cpu_callback",
    "xla_ffi_python_gpu_callback",
    "xla_python_cpu_callback",
    "xla_python_gpu_callback",
)
"""The custom calls by which JAX calls Python."""
_KERNELS = tuple(
    f"stablehlo.custom_call @{target}"
    for target in ("__gpu$xla.gpu.triton", "mosaic_gpu", "tpu_custom_call", "triton_kernel_call")
)
_COLLECTIVES = (
    "stablehlo.all_gather",
    "stablehlo.all_reduce",
    "stablehlo.all_to_all",
    "stablehlo.collective_broadcast",
    "stablehlo.collective_permute",
    "stablehlo.collective_reduce",
    "stablehlo.reduce_scatter",
)
_IN_JAX = (
    "write the function in JAX instead of jax.pure_callback or io_callback (callbacks without"
    " results, such as jax.debug.print, are left out)"
)
_FOR_DEVICES = (
    "lower the function again for one mesh; in text, mhlo.num_replicas and mhlo.num_partitions of"
    " the module say how many devices there are"
)

LIMITATIONS: Mapping[str, Limitation] = {
    "host transfer": Limitation(
        _HOST,
        ALWAYS,
        "it exchanges data with the host or another device while the program runs",
        "make the received data an argument of the function, and the sent data a result",
    ),
    "io_callback": Limitation(
        tuple(f"stablehlo.custom_call @{target}" for target in CALLBACK_TARGETS),
        "an io_callback, such as a progress meter, if the program reads its results",
        "it calls a Python function of the process that lowered the program, as progress meters do",
        "turn progress meters off: progress_meter=diffrax.NoProgressMeter() in diffrax,"
        f" progress_meter=False in dynamiqs; {_IN_JAX}",
        scope="io_callback",
    ),
    "callback": Limitation(
        tuple(f"stablehlo.custom_call @{target}" for target in CALLBACK_TARGETS),
        "the program reads its results in a branch that may be taken (see `callbacks=`); other"
        " callbacks are left out",
        "it calls a Python function of the process that lowered the program",
        _IN_JAX,
    ),
    "kernel": Limitation(
        _KERNELS,
        ALWAYS,
        "it is machine code for an accelerator",
        "lower the function for the CPU, without Pallas kernels or with interpret=True for them",
    ),
    "custom partitioning": Limitation(
        ("stablehlo.custom_call @CustomSPMDPartitioning",),
        ALWAYS,
        "it calls custom_partitioning of JAX by an address in the process that lowered it",
        "lower the function with a mesh of one device: then JAX inlines it",
    ),
    "groups": Limitation(
        _COLLECTIVES,
        "its groups do not fit the devices of the program",
        "it exchanges data with devices that the program does not have",
        _FOR_DEVICES,
    ),
    "shards": Limitation(
        (
            "stablehlo.custom_call @SPMDFullToShardShape",
            "stablehlo.custom_call @SPMDShardToFullShape",
            "stablehlo.custom_call @xla.sdy.GlobalToLocalShape",
            "stablehlo.custom_call @xla.sdy.LocalToGlobalShape",
        ),
        "the shards do not fit the devices of the program",
        "each device works on its own shard, and the program does not say which",
        _FOR_DEVICES,
    ),
    "ragged exchange": Limitation(
        ("stablehlo.custom_call @ragged_all_to_all",),
        ALWAYS,
        "it exchanges pieces between devices whose sizes are known only when the program runs",
        "exchange pieces of one size by jax.lax.all_to_all",
    ),
    "exchange": Limitation(
        ("stablehlo.case", "stablehlo.if", "stablehlo.while"),
        "devices exchange data in it, and its condition differs between them",
        "devices exchange data in it, and some of them may be elsewhere: its condition differs",
        "make the condition the same on all devices, as by psum, or exchange the data outside",
    ),
    "results per device": Limitation(
        ("func.return",),
        "results differ between devices",
        "its results differ between devices, and a model returns one",
        "return the results of all devices: those of jax.shard_map and jax.pmap are joined",
    ),
    "bits of complex numbers": Limitation(
        ("stablehlo.bitcast_convert",),
        "from complex numbers to another type, or back",
        "XLA cannot convert the bits of a complex number to another type",
        "bitcast the real and the imaginary part",
    ),
    "order of complex numbers": Limitation(
        ("stablehlo.compare",),
        "complex numbers in a direction other than EQ and NE",
        "complex numbers have no order",
        "compare the real and imaginary parts, or the absolute values",
    ),
    "loop in a scalar region": Limitation(
        ("stablehlo.while",),
        "inside the computation of reduce, map, scatter, ...",
        "each element of a tensor would need its own loop",
        "use a computation without loops in reduce, map, scatter, ...",
    ),
    "mixed parts": Limitation(
        ("stablehlo.dot_general", "stablehlo.convolution"),
        "some operands or results are complex, others real",
        "some operands or results are complex, others real",
        "make all operands and the result complex",
    ),
    "integer sum of float products": Limitation(
        ("stablehlo.dot_general", "stablehlo.convolution"),
        "float operands and an integer result",
        "a sum of products of floats has an integer result",
        "keep a float result type (preferred_element_type) and convert it afterwards",
    ),
    "fixed size": Limitation(
        ("stablehlo.set_dimension_size",),
        "the size may differ from the static extent of the result",
        "the size may differ from the static extent of the result",
        "make the dimension of the result's type dynamic: ?",
    ),
    "collapsed nothing": Limitation(
        ("stablehlo.gather",),
        "a collapsed axis has slice size 0",
        "a collapsed axis has slice size 0",
        "use slice size 1 for collapsed axes",
    ),
    "state of a generator": Limitation(
        ("stablehlo.rng_bit_generator",),
        "the state is not ui64[2], nor ui64[3] for PHILOX",
        "the state is not ui64[2], nor ui64[3] for PHILOX, as XLA requires",
        "bitcast 32-bit words to ui64, as jax.lax.rng_bit_generator does",
    ),
}
"""By name."""


def unsupported(name: str, detail: str = "") -> UnsupportedOp:
    """The error of a limitation.

    Args:
        name: Its name in `LIMITATIONS`.
        detail: Why it holds for this op.
    """
    limitation = LIMITATIONS[name]
    why = f"{limitation.reason} ({detail})" if detail else limitation.reason
    return UnsupportedOp(why, limitation.advice)


def limitation_of(op: str, scope: str = "", *, always: bool = False) -> UnsupportedOp | None:
    """The error for an op without a handler, if a limitation names the op; else None.

    Args:
        op: Name of the op.
        scope: Its name in JAX, if it has one.
        always: Whether only limitations count that hold for every such op.
    """
    for name, limitation in LIMITATIONS.items():
        if always and limitation.condition != ALWAYS:
            continue
        if op in limitation.ops and limitation.scope in scope:
            return unsupported(name)
    return None
