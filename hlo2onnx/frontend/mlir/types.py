"""MLIR types as the tensors that carry them in ONNX."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

import ml_dtypes
import numpy as np
import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp, VerificationError

Dim = int | None
"""A static extent, or None for `?` in the MLIR type."""

_INTEGERS = {"i1": oir.DataType.BOOL} | {
    f"{sign}i{bits}": oir.DataType[f"{sign.upper()}INT{bits}"]
    for sign in ("", "u")
    for bits in (2, 4, 8, 16, 32, 64)
}
_FLOATS = {
    "f16": oir.DataType.FLOAT16,
    "bf16": oir.DataType.BFLOAT16,
    "f32": oir.DataType.FLOAT,
    "f64": oir.DataType.DOUBLE,
    "f8E4M3FN": oir.DataType.FLOAT8E4M3FN,
    "f8E4M3FNUZ": oir.DataType.FLOAT8E4M3FNUZ,
    "f8E5M2": oir.DataType.FLOAT8E5M2,
    "f8E5M2FNUZ": oir.DataType.FLOAT8E5M2FNUZ,
    "f8E8M0FNU": oir.DataType.FLOAT8E8M0,
    "f4E2M1FN": oir.DataType.FLOAT4E2M1,
}
ELEMENT_TYPES: dict[str, oir.DataType] = {**_INTEGERS, **_FLOATS}
"""StableHLO element types that ONNX has, by their MLIR spelling. i1 is bool."""


STORED_FLOATS: dict[str, np.dtype] = {
    "f4E2M1FN": np.dtype(ml_dtypes.float4_e2m1fn),
    "f6E2M3FN": np.dtype(ml_dtypes.float6_e2m3fn),
    "f6E3M2FN": np.dtype(ml_dtypes.float6_e3m2fn),
    "f8E3M4": np.dtype(ml_dtypes.float8_e3m4),
    "f8E4M3": np.dtype(ml_dtypes.float8_e4m3),
    "f8E4M3B11FNUZ": np.dtype(ml_dtypes.float8_e4m3b11fnuz),
}
"""Float types whose bits a model holds as uint8, by their MLIR spelling. ONNX has no such type, or
the target has no kernel for it. See `hlo2onnx.frontend.mlir.stored_floats`."""

ELEMENT_TYPE = "hlo2onnx.element_type"
"""Metadata of inputs and outputs: the MLIR spelling of the float type whose bits uint8 holds."""


_SPELLINGS: dict[type, str] = {
    ir.BF16Type: "bf16",
    ir.F16Type: "f16",
    ir.F32Type: "f32",
    ir.F64Type: "f64",
}
"""The MLIR spelling of the types that most tensors of floats have."""

TYPE_OPSETS = {
    oir.DataType.FLOAT8E4M3FN: 19,
    oir.DataType.FLOAT8E4M3FNUZ: 19,
    oir.DataType.FLOAT8E5M2: 19,
    oir.DataType.FLOAT8E5M2FNUZ: 19,
    oir.DataType.INT4: 21,
    oir.DataType.UINT4: 21,
    oir.DataType.FLOAT4E2M1: 23,
    oir.DataType.FLOAT8E8M0: 24,
    oir.DataType.INT2: 25,
    oir.DataType.UINT2: 25,
}
"""First opset whose Cast takes an element type, for types that the oldest opset does not have."""


@dataclass(frozen=True)
class TensorType:
    """Element type and shape of one ONNX tensor."""

    dtype: oir.DataType
    shape: tuple[Dim, ...]

    @property
    def value_type(self) -> tuple[oir.DataType, tuple[int | oir.SymbolicDim, ...]]:
        """Element type and shape as an ONNX value has them."""
        return self.dtype, tuple(oir.SymbolicDim(None) if d is None else d for d in self.shape)

    def admits(self, shape: Sequence[int | oir.SymbolicDim]) -> bool:
        """Whether a value of this shape can be of the type: no static extent differs."""
        return len(shape) == len(self.shape) and all(
            want is None or not isinstance(have, int) or have == want
            for have, want in zip(shape, self.shape, strict=True)
        )

    def __str__(self) -> str:
        dims = "".join(f"{'?' if dim is None else dim}x" for dim in self.shape)
        return f"tensor<{dims}{self.dtype.short_name()}>"


def element_type(mlir_type: ir.Type) -> str:
    """The MLIR spelling of a tensor's element type ("f32", "ui8", "complex<f32>")."""
    element = ir.RankedTensorType(mlir_type).element_type
    known = _SPELLINGS.get(type(element))
    return str(element) if known is None else known  # MLIR takes long to print


def numpy_type(element: str) -> np.dtype:
    """The numpy type that holds an MLIR element type ("complex<f32>" -> complex64).

    Raises:
        VerificationError: There is none.
    """
    if element == "complex<f32>":
        return np.dtype(np.complex64)
    if element == "complex<f64>":
        return np.dtype(np.complex128)
    if element in STORED_FLOATS:
        return STORED_FLOATS[element]
    if element not in ELEMENT_TYPES:
        raise VerificationError(f"numpy has no type for {element}")
    return ELEMENT_TYPES[element].numpy()


def is_tensor(mlir_type: ir.Type) -> bool:
    """Whether the type is a ranked tensor."""
    return isinstance(mlir_type, ir.RankedTensorType)


def is_token(mlir_type: ir.Type) -> bool:
    """Whether the type is `!stablehlo.token`, which carries order and no data."""
    return str(mlir_type) == "!stablehlo.token"


_FUTURE = re.compile(r"!stablehlo\.future<(.*)>")


def _awaited(mlir_type: ir.Type) -> ir.Type | None:
    """The types that a `!stablehlo.future` carries, as a tuple type; None for another type."""
    match = _FUTURE.fullmatch(str(mlir_type))
    return match and ir.Type.parse(f"tuple<{match[1]}>", mlir_type.context)


def is_complex(mlir_type: ir.Type) -> bool:
    """Whether the type is a tensor of complex numbers."""
    return isinstance(mlir_type, ir.RankedTensorType) and isinstance(
        mlir_type.element_type, ir.ComplexType
    )


def shape_of(mlir_type: ir.Type) -> tuple[Dim, ...]:
    """The extents of a ranked tensor type; None for a dynamic one."""
    tensor = ir.RankedTensorType(mlir_type)
    if tensor.has_static_shape:
        return tuple(tensor.shape)
    return tuple(
        None if tensor.is_dynamic_dim(axis) else tensor.get_dim_size(axis)
        for axis in range(tensor.rank)
    )


def parts_of(mlir_type: ir.Type) -> tuple[TensorType, ...]:
    """The ONNX tensors that carry a StableHLO value of this type.

    One for a tensor, two (re, im) for a complex tensor, none for a token, and those of its
    elements, in order, for a tuple or a future.

    Raises:
        UnsupportedOp: ONNX has no such element type.
    """
    if is_tensor(mlir_type):
        tensor = ir.RankedTensorType(mlir_type)
        element = tensor.element_type
        shape = shape_of(tensor)
        if isinstance(element, ir.ComplexType):
            part = TensorType(_onnx_dtype(ir.ComplexType(element).element_type), shape)
            return (part, part)
        return (TensorType(_onnx_dtype(element), shape),)
    if is_token(mlir_type):
        return ()
    mlir_type = _awaited(mlir_type) or mlir_type
    if isinstance(mlir_type, ir.TupleType):
        members = (mlir_type.get_type(index) for index in range(mlir_type.num_types))
        return tuple(part for member in members for part in parts_of(member))
    raise UnsupportedOp(f"the type {mlir_type} has no ONNX counterpart")


def _onnx_dtype(element: ir.Type) -> oir.DataType:
    try:
        return ELEMENT_TYPES[str(element)]
    except KeyError:
        wider = ", such as bf16 or f32" if isinstance(element, ir.FloatType) else ""
        advice = f"compute with a type that ONNX has instead{wider}"
        raise UnsupportedOp(f"ONNX has no element type {element}", advice) from None
