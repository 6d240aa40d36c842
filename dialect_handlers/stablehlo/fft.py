"""fft."""

from __future__ import annotations

from collections.abc import Sequence

import onnx_ir as oir

from hlo2onnx.ir.values import rank_of, shape_of
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles


@handles("stablehlo.fft", form="complex")
def fft(em: Emitter, op: Op, *, fft_type: str, fft_length: Sequence[int]) -> list[Parts]:
    """fft(x) -> a DFT for each transformed axis, the last ones of x.

    RFFT starts with a DFT of reals along the last axis; IRFFT ends with its inverse.
    """
    parts = em.parts(op.operands[0])
    known = zip(op.result_shape(), shape_of(parts[0]), strict=True)
    dims = [own if dim is None else dim for dim, own in known]
    if 0 in dims:
        empty = em.expand(em.scalar_like(0, parts[0]), dims)
        return [(empty,) if fft_type == "IRFFT" else (empty, empty)]
    last = len(dims) - 1
    axes = range(len(dims) - len(fft_length), len(dims))
    joined = _joined(em, parts)
    if fft_type == "RFFT":
        joined = em.dft(joined, last, onesided=True)
    if fft_type in ("RFFT", "IRFFT"):
        axes = axes[:-1]
    for axis in reversed(axes):
        joined = em.dft(joined, axis, inverse=fft_type in ("IFFT", "IRFFT"))
    if fft_type == "IRFFT":
        real = em.dft(joined, last, fft_length[-1], inverse=True, onesided=True)
        return [(em.squeeze(real, [rank_of(real) - 1]),)]
    return [_split(em, joined)]


def _joined(em: Emitter, parts: Parts) -> oir.Value:
    """Real and imaginary parts along a new last axis."""
    axis = rank_of(parts[0])
    return em.concat([em.unsqueeze(part, [axis]) for part in parts], axis)


def _split(em: Emitter, x: oir.Value) -> Parts:
    axis = rank_of(x) - 1
    return tuple(em.Gather(x, em.i64(index), axis=axis) for index in (0, 1))
