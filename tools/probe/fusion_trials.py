"""Small graphs that ONNX Runtime fuses when it loads them, with numbers that are hard to get right.

`TRIALS` holds at least one for each of the fusions that the CPU provider makes of float graphs, by
the name that `disabled_optimizers` of an InferenceSession knows it by. docs/runtime_fusions.md says
why the others have none.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from ml_dtypes import int4
from onnx import TensorProto

Array = np.ndarray[Any, np.dtype[Any]]


@dataclass(frozen=True)
class Trial:
    """A graph and its inputs.

    Attributes:
        fusion: The name of the fusion.
        nodes: The nodes, in ONNX's text form; the last output of the last one is the result.
        element: Element type of the result.
    """

    fusion: str
    nodes: str
    inputs: Mapping[str, Array]
    constants: Mapping[str, Array] = field(default_factory=dict)
    opset: int = 18
    element: int = TensorProto.FLOAT


_RNG = np.random.default_rng(0)


def _f(*numbers: Any, shape: tuple[int, ...] | None = None) -> Array:
    array = np.array(numbers if len(numbers) != 1 else numbers[0], np.float32)
    return array if shape is None else array.reshape(shape)


def _noise(*shape: int, mean: float = 0.0, spread: float = 1.0) -> Array:
    return (mean + spread * _RNG.normal(size=shape)).astype(np.float32)


def _positive(*shape: int) -> Array:
    return (1 + _RNG.random(shape)).astype(np.float32)


_X, _W = _positive(1, 4, 8, 8), _positive(4, 4, 3, 3)
_A, _B = _positive(4, 8), _positive(8, 4)
_LARGE, _ONE, _ZERO = _f(1, 2, 3e38, 1e38), np.ones(4, np.float32), np.zeros(4, np.float32)
_SIDE = (4, 1, 1)
_PADS = np.array([0, 0, 1, 1, 0, 0, 1, 1])
_NORMAL = {"s": _LARGE, "b": _ZERO, "m": _ZERO, "v": _ONE}
_SWEEP = _f(-200, -20, -5, -1, -0.0, 0, 1, 5, 88, 1e10, 1e20, 1e38, shape=(1, 12))

_SCALED = (
    Trial("ConvMulFusion", "c=Conv(x,w) y=Mul(c,s)",
          {"x": _X * _f(1e-20)}, {"w": _W, "s": _LARGE.reshape(_SIDE)}),
    Trial("ConvMulFusion", "c=Conv(x,w,b) y=Mul(c,s)",
          {"x": 255 + np.round(_noise(1, 1, 8, 8, spread=3))},
          {"w": np.ones((4, 1, 3, 3), np.float32), "b": _f([-2295.0] * 4),
           "s": _f(0.1, 0.3, 0.7, 0.9, shape=_SIDE)}),
    Trial("ConvAddFusion", "c=Conv(x,w,b) y=Add(c,s)",
          {"x": _X * _f(3.7e36)},
          {"w": -_W, "b": _ONE * _f(3e38), "s": _f([3e38] * 4, shape=_SIDE)}),
    Trial("ConvBNFusion", "c=Conv(x,w) y=BatchNormalization<epsilon=0.0>(c,s,b,m,v)",
          {"x": _X * _f(1e-20)}, {"w": _W, **_NORMAL}),
    Trial("MatMul_BatchNormalization_Fusion",
          "c=MatMul(x,w) y=BatchNormalization<epsilon=0.0>(c,s,b,m,v)",
          {"x": _A * _f(1e-20)}, {"w": _B, **_NORMAL}),
    Trial("MatMulScaleFusion",
          "a=Mul(x,s) y=MatMul(a,w)", {"x": _A * _f(1e30), "w": _B * _f(1e20)}, {"s": _f(1e-20)}),
    Trial("MatMulScaleFusion", "a=Mul(x,s) y=MatMul(a,w)",
          {"x": _A.astype(np.float64), "w": _B.astype(np.float64)}, {"s": np.array(0.1)},
          element=TensorProto.DOUBLE),
    Trial("DivMulFusion", "r=Div(o,x) y=Mul(r,w)",
          {"x": np.array([5]), "w": np.array([7])}, {"o": np.array(1)}, element=TensorProto.INT64),
    Trial("DivMulFusion", "r=Div(o,x) y=Mul(r,w)",
          {"x": _f(3, 0, 1e-30, 1e30), "w": _f(7, 1, 1e-30, 1e30)}, {"o": _f(1)}),
)  # fmt: skip

_PADDED = (
    Trial("Pad_Fusion", "p=Pad(x,pads,v) y=MaxPool<kernel_shape=[3,3]>(p)",
          {"x": -_X}, {"pads": _PADS, "v": _f(0)}),
    Trial("Pad_Fusion", "p=Pad(x,pads,v) y=Conv(p,w)",
          {"x": _X}, {"pads": _PADS, "v": _f(0), "w": _W}),
    Trial("Pad_Fusion", "p=Pad(x,pads,v) y=AveragePool<kernel_shape=[3,3]>(p)",
          {"x": _X}, {"pads": _PADS, "v": _f(0)}),
)  # fmt: skip

_PRODUCTS = (
    Trial("MatMulAddFusion", "c=MatMul(x,w) y=Add(c,b)",
          {"x": _A}, {"w": _B, "b": _LARGE}),
    Trial("MatmulTransposeFusion",
          "t=Transpose<perm=[1,0]>(w) y=MatMul(x,t)", {"x": _A, "w": _A + 1}),
    Trial("MatmulTransposeFusion", "t=Transpose<perm=[1,0]>(w) y=MatMul(x,t)",
          {"x": _A.astype(np.float64), "w": _A.astype(np.float64)}, element=TensorProto.DOUBLE),
    Trial("GemmTransposeFusion", "t=Transpose<perm=[1,0]>(w) y=Gemm(x,t)", {"x": _A, "w": _A + 1}),
    Trial("GemmSumFusion", "c=Gemm(x,w) y=Sum(c,b)",
          {"x": _A, "w": _B}, {"b": _LARGE}),
    Trial("GemmActivationFusion", "c=Gemm(x,w) y=Sigmoid(c)", {"x": -_A / 4, "w": _B}),
    Trial("ConvActivationFusion",
          "c=Conv(x,w) y=Relu(c)", {"x": _noise(1, 4, 8), "w": _noise(4, 4, 3)}),
    Trial("NchwcTransformer", "c=Conv(x,w) r=Relu(c) y=BatchNormalization(r,s,b,m,v)",
          {"x": _X}, {"w": _W, **_NORMAL, "s": _ONE}),
)  # fmt: skip

_CUBE = (
    "p=Pow(x,three) q=Mul(k,p) r=Add(x,q) s=Mul(c,r) t=Tanh(s) u=Add(o,t) h=Mul(x,half) y=Mul(h,u)"
)
_LAYER = (
    "m=ReduceMean<axes=[-1]>(x) d=Sub(x,m) p=Pow(d,two) v=ReduceMean<axes=[-1]>(p) a=Add(v,e)"
    " r=Sqrt(a) q=Div(d,r) s=Mul(q,g) y=Add(s,b)"
)
_LAYER_CONSTANTS = {
    "two": _f(2),
    "e": _f(1e-5),
    "g": np.ones(64, np.float32),
    "b": np.zeros(64, np.float32),
}
_FUNCTIONS = (
    Trial("GeluFusion", "d=Div(x,r) e=Erf(d) a=Add(e,o) m=Mul(x,a) y=Mul(m,h)", {"x": _SWEEP},
          {"r": _f(np.sqrt(2)), "o": _f(1), "h": _f(0.5)}),
    Trial("BiasGeluFusion", "a=Add(x,b) y=Gelu(a)",
          {"x": _SWEEP}, {"b": np.full(12, 0.1, np.float32)}, opset=20),
    Trial("FastGeluFusion", _CUBE, {"x": _SWEEP},
          {"three": _f(3), "k": _f(0.044715), "c": _f(np.sqrt(2 / np.pi)), "o": _f(1),
           "half": _f(0.5)}),
    Trial("QuickGeluFusion", "p=Mul(x,a) s=Sigmoid(p) y=Mul(x,s)", {"x": _SWEEP}, {"a": _f(1.702)}),
    Trial("LayerNormFusion", _LAYER,
          {"x": _noise(2, 4, 64, mean=10)}, _LAYER_CONSTANTS, opset=17),
    Trial("SimplifiedLayerNormFusion",
          "p=Pow(x,two) v=ReduceMean<axes=[-1]>(p) a=Add(v,e) r=Sqrt(a) q=Div(x,r) y=Mul(q,g)",
          {"x": _noise(2, 4, 64)}, _LAYER_CONSTANTS, opset=17),
    Trial("SkipLayerNormFusion", "t=Add(x,k) y=LayerNormalization(t,g,b)",
          {"x": _noise(1, 8, 4096, mean=100), "k": _noise(1, 8, 4096)},
          {"g": np.ones(4096, np.float32), "b": np.zeros(4096, np.float32)}),
    Trial("BiasSoftmaxFusion", "t=Add(x,b) y=Softmax(t)",
          {"x": _noise(2, 4, 8)}, {"b": _f(0, 0, -np.inf, 0, 30, -1e30, 0, 1, shape=(1, 1, 8))}),
    Trial("FuseReluClip", "r=Relu(x) y=Clip(r,l,h)",
          {"x": _f(np.nan, -5, 0.5, 9, -0.0)}, {"l": _f(-3), "h": _f(-1)}),
)  # fmt: skip

_MOVES = (
    Trial("NotWhereFusion", "n=Not(c) y=Where(n,x,w)",
          {"c": np.array([True, False]), "x": _f(1, np.nan), "w": _f(np.nan, 2)}),
    Trial("TransposeOptimizer",
          "t=Transpose<perm=[0,2,3,1]>(x) a=Mul(t,s) y=Transpose<perm=[0,3,1,2]>(a)",
          {"x": _X}, {"s": _f(0, -0.0, 1e38, 1e-38)}),
    Trial("NoopElimination", "e=Exp(x) m=Mul(x,e) a=Add(z,m) y=Neg(a)",
          {"x": _f(-0.0, 1).reshape(1, 2)}, {"z": _f(0)}),
    Trial("ConstantFolding",
          "a=Exp(c) d=Div(a,c) y=Add(x,d)", {"x": _f(0, 0)}, {"c": _f(1e-30, 80)}),
    Trial("ConstantSharing", "a=Mul(x,p) b=Mul(x,n) c=Div(o,a) d=Div(o,b) y=Concat<axis=0>(c,d)",
          {"x": _f(1, 2)}, {"p": _f(0), "n": _f(-0.0), "o": _f(1)}),
    Trial("CastElimination",
          "s=Cast<to=1>(x) a=Cast<to=10>(s) y=Cast<to=1>(a)", {"x": _f(0.1, 1e6)}),
    Trial("EliminateDropout", "y=Dropout(x)", {"x": _f(-0.0, np.nan)}),
    Trial("GatherSliceToSplitFusion",
          "a=Gather<axis=1>(x,i) b=Gather<axis=1>(x,j) y=Concat<axis=0>(a,b)",
          {"x": _noise(3, 2)}, {"i": np.array(0), "j": np.array(1)}),
)  # fmt: skip

_BYTES = _RNG.integers(0, 256, size=(4, 8)).astype(np.uint8)
_QUANTIZED = {
    "sx": _f(0.02), "sw": _f(0.01), "sy": _f(0.5), "zx": np.uint8(10), "zy": np.uint8(128),
    "zw": np.int8(0), "w": _RNG.integers(-127, 128, size=(8, 4)).astype(np.int8),
}  # fmt: skip
_OF_QUANTIZED = (
    Trial("QDQSelectorActionTransformer",
          "b=DequantizeLinear(w,sw,zw) y=MatMul(x,b)", {"x": _noise(4, 8)}, _QUANTIZED),
    Trial("QDQSelectorActionTransformer",
          "b=DequantizeLinear<axis=0,block_size=16>(w,s) y=MatMul(x,b)", {"x": _noise(4, 32)},
          {"s": np.full((2, 4), 0.1, np.float32), "w": _RNG.integers(-8, 8, (32, 4)).astype(int4)},
          opset=21),
    Trial("DoubleQDQPairsRemover", "a=QuantizeLinear(x,s,z) b=DequantizeLinear(a,s,z)"
          " c=QuantizeLinear(b,t,u) y=DequantizeLinear(c,t,u)",
          {"x": np.linspace(-1, 5, 50).astype(np.float32)},
          {"s": _f(0.02), "t": _f(0.013), "z": np.uint8(3), "u": np.uint8(77)}),
    Trial("WeightBiasQuantization",
          "a=DequantizeLinear(x,sx,zx) b=DequantizeLinear(w,sw,zw) c=Conv(a,b,bias)"
          " q=QuantizeLinear(c,sy,zy) y=DequantizeLinear(q,sy,zy)",
          {"x": _RNG.integers(0, 256, size=(1, 4, 8, 8)).astype(np.uint8)},
          {**_QUANTIZED, "w": _RNG.integers(-127, 128, size=(4, 4, 3, 3)).astype(np.int8),
           "bias": _f(1, 2, 1e6, 3e7)}),
    Trial("ReluQuantRewrite", "b=Relu(x) c=QuantizeLinear(b,s,z) y=DequantizeLinear(c,s,z)",
          {"x": np.linspace(-1, 9, 50).astype(np.float32)}, {"s": _f(0.02), "z": np.uint8(0)}),
    Trial("DynamicQuantizeMatMulFusion",
          "q,s,z=DynamicQuantizeLinear(x) m=MatMulInteger(q,w,z,zw) c=Cast<to=1>(m)"
          " t=Mul(s,sw) y=Mul(c,t)", {"x": _noise(4, 8)}, _QUANTIZED),
    Trial("MatMulIntegerToFloatFusion",
          "m=MatMulInteger(x,w,zx,zw) c=Cast<to=1>(m) t=Mul(s,sw) y=Mul(c,t)",
          {"x": _BYTES, "s": _f(0.02)}, _QUANTIZED),
)  # fmt: skip

TRIALS: tuple[Trial, ...] = (
    *_SCALED, *_PADDED, *_PRODUCTS, *_FUNCTIONS, *_MOVES, *_OF_QUANTIZED,
)  # fmt: skip
