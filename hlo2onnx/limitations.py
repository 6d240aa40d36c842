"""The limitations of the translation, for errors and for docs/op_coverage.md.

An op without a handler gets the error of the limitation that names it. A handler raises
`unsupported(name)` for a limitation that depends on the op's attributes or operands.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from hlo2onnx.errors import UnsupportedOp

ALWAYS = "always"


@dataclass(frozen=True)
class Limitation:
    """One thing that a model cannot express.

    Attributes:
        ops: Names of the ops; custom calls have their target ("... @target").
        condition: When it holds.
        reason: Why it holds.
        advice: What the user can do.
        scope: Part of the JAX names of the ops, if it holds only for these.
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
    " results, as of jax.debug.print, are left out)"
)
_ONE_DEVICE = "lower the function with a mesh of one device"

LIMITATIONS: Mapping[str, Limitation] = {
    "host transfer": Limitation(
        _HOST,
        ALWAYS,
        "it exchanges data with the host or another device while the program runs",
        "make the received data an argument of the function, and the sent data a result",
    ),
    "io_callback": Limitation(
        tuple(f"stablehlo.custom_call @{target}" for target in CALLBACK_TARGETS),
        "it is an io_callback, such as a progress meter, whose results are read",
        "it calls a Python function of the process that lowered the program, as progress meters do",
        "turn a progress meter off: progress_meter=diffrax.NoProgressMeter() of diffrax,"
        f" progress_meter=False of dynamiqs; {_IN_JAX}",
        scope="io_callback",
    ),
    "callback": Limitation(
        tuple(f"stablehlo.custom_call @{target}" for target in CALLBACK_TARGETS),
        "its results are read, in a branch that may be taken (see `callbacks=`); others are left"
        " out",
        "it calls a Python function of the process that lowered the program",
        _IN_JAX,
    ),
    "kernel": Limitation(
        _KERNELS,
        ALWAYS,
        "it is machine code for an accelerator",
        "lower the function for the CPU, with interpret=True for Pallas kernels, or without them",
    ),
    "groups": Limitation(
        _COLLECTIVES,
        "devices exchange data",
        "it exchanges data between devices, and a model runs on one",
        _ONE_DEVICE,
    ),
    "shards": Limitation(
        (
            "sdy.manual_computation",
            "stablehlo.custom_call @SPMDFullToShardShape",
            "stablehlo.custom_call @SPMDShardToFullShape",
            "stablehlo.custom_call @xla.sdy.GlobalToLocalShape",
            "stablehlo.custom_call @xla.sdy.LocalToGlobalShape",
        ),
        "a mesh axis is longer than 1",
        "each device works on a shard of its own",
        _ONE_DEVICE,
    ),
    "device number": Limitation(
        ("stablehlo.partition_id", "stablehlo.replica_id"),
        "the program is for several devices",
        "it asks which of several devices runs the program",
        _ONE_DEVICE,
    ),
    "bits of complex numbers": Limitation(
        ("stablehlo.bitcast_convert",),
        "complex numbers from or to anything else",
        "XLA defines no other type for the bits of a complex number",
        "bitcast the real and the imaginary part",
    ),
    "order of complex numbers": Limitation(
        ("stablehlo.compare",),
        "complex numbers, and another direction than EQ and NE",
        "complex numbers have no order",
        "compare the real and imaginary parts, or the absolute values",
    ),
    "loop in a scalar region": Limitation(
        ("stablehlo.while",),
        "within the computation of reduce, map, scatter, ...",
        "the elements of a tensor would loop each for itself",
        "use a computation without loops in reduce, map, scatter, ...",
    ),
    "mixed parts": Limitation(
        ("stablehlo.dot_general", "stablehlo.convolution"),
        "one operand or the result is complex, the others are not",
        "some of the operands and the result are complex and others real",
        "make all of them complex",
    ),
    "integer sum of float products": Limitation(
        ("stablehlo.dot_general", "stablehlo.convolution"),
        "float operands and an integer result",
        "a sum of products of floats has an integer result",
        "keep a float result type (preferred_element_type) and convert it afterwards",
    ),
    "fixed size": Limitation(
        ("stablehlo.set_dimension_size",),
        "a result of static shape, and another size than that",
        "the result has a static shape, and a size that may be another",
        "give the dimension of the result's type as ?",
    ),
    "collapsed nothing": Limitation(
        ("stablehlo.gather",),
        "a slice of extent 0 is collapsed to one element",
        "a slice of extent 0 is collapsed to one element",
        "give collapsed axes slice size 1",
    ),
    "state of a generator": Limitation(
        ("stablehlo.rng_bit_generator",),
        "a state that is not ui64[2], nor ui64[3] for PHILOX",
        "XLA takes ui64[2], and for PHILOX ui64[3], as the state of a generator",
        "bitcast words of 32 bits to ui64, as jax.lax.rng_bit_generator does",
    ),
}
"""By name."""


def unsupported(name: str, detail: str = "") -> UnsupportedOp:
    """The error of a limitation.

    Args:
        name: Its name in `LIMITATIONS`.
        detail: The reason why it holds for the op.
    """
    limitation = LIMITATIONS[name]
    why = f"{limitation.reason} ({detail})" if detail else limitation.reason
    return UnsupportedOp(why, limitation.advice)


def limitation_of(op: str, scope: str = "") -> UnsupportedOp | None:
    """The error of the limitation about an op that has no handler; None if there is none.

    Args:
        op: Its name.
        scope: Its name in JAX, if it has one.
    """
    for name, limitation in LIMITATIONS.items():
        if op in limitation.ops and limitation.scope in scope:
            return unsupported(name)
    return None
