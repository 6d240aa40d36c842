"""bitcast_convert."""

from __future__ import annotations

import numpy as np
import onnx_ir as oir

from dialect_handlers.common.float_bits import FORMATS, from_bits, to_bits
from dialect_handlers.common.integer_bits import in_range, mask, uniform, unsigned_type
from hlo2onnx.ir.values import FLOATS, dtype_of, rank_of
from hlo2onnx.limitations import unsupported
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import handles

T = oir.DataType


@handles("stablehlo.bitcast_convert")
def bitcast_convert(em: Emitter, op: Op) -> oir.Value:
    """bitcast_convert(x) -> the same bits as another type, the lowest first: a wide element becomes
    a trailing axis of narrow ones, or the other way round. A boolean is one bit, as StableHLO has
    it; XLA on the CPU keeps it in a byte, and refuses or returns another shape."""
    x, dtype = em.operand(op), em.result_type(op).dtype
    if dtype_of(x) == dtype:
        return x
    if dtype == T.BOOL:
        return em.cast(_split(em, _integer(em, x), 1), T.BOOL)
    if dtype_of(x) == T.BOOL:
        return _same_width(em, _join(em, x, 1, dtype.bitwidth), dtype)
    wide, narrow = dtype_of(x).bitwidth, dtype.bitwidth
    if wide == narrow:
        return _same_width(em, x, dtype)
    x = _integer(em, x)
    part = _split(em, x, narrow) if wide > narrow else _join(em, x, wide, narrow)
    return _same_width(em, part, dtype)


@handles("stablehlo.bitcast_convert", form="complex")
def bitcast_complex(em: Emitter, op: Op) -> list[Parts]:
    """bitcast_convert(x) of complex x -> x; XLA knows no other type for its bits."""
    if op.operands[0].type != op.results[0].type:
        raise unsupported("bits of complex numbers")
    return [em.parts(op.operands[0])]


def _same_width(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value:
    if dtype_of(x) == dtype:
        return x
    if dtype not in FLOATS:
        return to_bits(em, x, dtype) if dtype_of(x) in FLOATS else em.cast(x, dtype)
    if dtype_of(x) in FLOATS:
        return from_bits(em, _integer(em, x), dtype)
    known = _in_one_octave(em, x, dtype)
    return from_bits(em, x, dtype) if known is None else known


def _in_one_octave(em: Emitter, x: oir.Value, dtype: oir.DataType) -> oir.Value | None:
    """The float with the bits mantissa | code of 2^e, computed as 2^e + mantissa · 2^(e - digits),
    which is exact; None if x is not provably that. JAX makes its uniform numbers so."""
    node = x.producer()
    if node is None or node.op_type != "BitwiseOr" or dtype not in _IEEE:
        return None
    form = FORMATS[dtype]
    for mantissa, other in (node.inputs, node.inputs[::-1]):
        assert mantissa is not None and other is not None
        code = uniform(em, other)
        if code is None or not in_range(em, mantissa, 0, (1 << form.digits) - 1):
            continue
        exponent, rest = divmod(code, 1 << form.digits)
        infinite = (1 << dtype.bitwidth - 1 - form.digits) - 1
        if rest or not form.digits < exponent < infinite:  # 2^(e - digits) must be normal
            continue
        power = exponent - 1 + form.least
        steps = em.Mul(em.cast(mantissa, dtype), em.scalar(2.0 ** (power - form.digits), dtype))
        return em.Add(steps, em.scalar(2.0**power, dtype))
    return None


_IEEE = frozenset({T.DOUBLE, T.FLOAT, T.FLOAT16, T.BFLOAT16})


def _integer(em: Emitter, x: oir.Value) -> oir.Value:
    """The bits of x as an unsigned integer."""
    return _same_width(em, x, unsigned_type(dtype_of(x).bitwidth))


def _split(em: Emitter, x: oir.Value, width: int) -> oir.Value:
    """Each element as a trailing axis of unsigned integers of this width, in that type where there
    is one."""
    count = dtype_of(x).bitwidth // width
    amounts = em.const(np.arange(count) * width, dtype_of(x))
    shifted = em.BitShift(em.unsqueeze(x, [rank_of(x)]), amounts, direction="RIGHT")
    return mask(em, shifted, 1) if width == 1 else em.cast(shifted, unsigned_type(width))


def _join(em: Emitter, x: oir.Value, part: int, width: int) -> oir.Value:
    """The trailing axis of elements of `part` bits as one unsigned integer of `width` bits.

    A product with powers of two adds up the parts: runtimes multiply integer matrices in wrapping
    arithmetic, whereas ReduceSum may go through doubles.
    """
    carrier = unsigned_type(max(width, 32))
    weights = [[1 << at] for at in range(0, width, part)]
    x, dropped = em.cast(x, carrier), [rank_of(x) - 1]
    if dropped == [0]:
        x, dropped = em.unsqueeze(x, [0]), [0, 1]
    joined = em.MatMul(x, em.const(np.array(weights, np.uint64), carrier))
    return em.cast(em.squeeze(joined, dropped), unsigned_type(width))
