"""convolution against XLA: windows, layouts, groups, element types, gradients, and the nodes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import jax
import numpy as np
import pytest
from against_xla import Run, against_xla
from jax import lax
from mlir_text import tensor

import hlo2onnx
from hlo2onnx.errors import TranslationError
from hlo2onnx.frontend.mlir.types import numpy_type
from hlo2onnx.runtime.sessions import OrtProgram


@dataclass(frozen=True)
class Case:
    """One convolution; layouts name axes as in MLIR, b f i o and the spatial 0 1 2 ..."""

    spatial: Sequence[int] = (6, 7)
    kernel: Sequence[int] = (3, 2)
    strides: Sequence[int] = ()
    pads: Sequence[tuple[int, int]] = ()
    lhs_dilation: Sequence[int] = ()
    rhs_dilation: Sequence[int] = ()
    reversal: Sequence[bool] = ()
    batch: int = 2
    features: int = 3
    outputs: int = 4
    feature_groups: int = 1
    batch_groups: int = 1
    layouts: tuple[str, str, str] | None = None
    elements: tuple[str, str, str] = ("f32", "f32", "f32")

    @property
    def rank(self) -> int:
        return len(self.spatial)

    @property
    def result(self) -> list[int]:
        """Spatial extents of the result."""
        rows = zip(
            self.spatial,
            self.kernel,
            self.strides or (1,) * self.rank,
            self.pads or ((0, 0),) * self.rank,
            self.lhs_dilation or (1,) * self.rank,
            self.rhs_dilation or (1,) * self.rank,
            strict=True,
        )
        extents = []
        for extent, size, stride, pad, lhs_dilation, rhs_dilation in rows:
            padded = max((extent - 1) * lhs_dilation + 1, 0) + sum(pad)
            room = padded - max((size - 1) * rhs_dilation + 1, 0)
            extents.append(room // stride + 1 if padded > 0 and room >= 0 else 0)
        return extents

    @property
    def shapes(self) -> list[list[int]]:
        """Of both operands and the result."""
        digits = "".join(map(str, range(self.rank)))
        layouts = self.layouts or ("bf" + digits, "oi" + digits, "bf" + digits)
        sizes = [
            {"b": self.batch, "f": self.features},
            {"o": self.outputs, "i": self.features // self.feature_groups},
            {"b": self.batch // self.batch_groups, "f": self.outputs},
        ]
        for size, spatial in zip(sizes, (self.spatial, self.kernel, self.result), strict=True):
            size.update(zip(digits, spatial, strict=True))
        return [
            [size[name] for name in layout] for layout, size in zip(layouts, sizes, strict=True)
        ]

    @property
    def text(self) -> str:
        digits = "".join(map(str, range(self.rank)))
        layouts = self.layouts or ("bf" + digits, "oi" + digits, "bf" + digits)
        lhs_layout, rhs_layout, layout = (f"[{', '.join(names)}]" for names in layouts)
        lhs, rhs, result = (
            tensor(dims, element) for dims, element in zip(self.shapes, self.elements, strict=True)
        )
        window = {
            "stride": list(self.strides),
            "pad": [list(pad) for pad in self.pads],
            "lhs_dilate": list(self.lhs_dilation),
            "rhs_dilate": list(self.rhs_dilation),
            "reverse": [str(item).lower() for item in self.reversal],
        }
        window_text = ", ".join(f"{name} = {item}" for name, item in window.items() if item)
        return f"""
module {{ func.func public @main(%arg0: {lhs}, %arg1: {rhs}) -> {result} {{
  %0 = stablehlo.convolution(%arg0, %arg1)
    dim_numbers = {lhs_layout}x{rhs_layout}->{layout}, window = {{{window_text}}}
    {{batch_group_count = {self.batch_groups} : i64,
      feature_group_count = {self.feature_groups} : i64}}
    : ({lhs}, {rhs}) -> {result}
  return %0 : {result}
}} }}
""".replace("'", "")

    def run(self, wide: bool = True) -> Run:
        """Against XLA: integers over their whole range if `wide`."""
        lhs, rhs, _ = self.shapes
        inputs = [
            numbers(dims, element, seed, wide)
            for seed, (dims, element) in enumerate(zip((lhs, rhs), self.elements, strict=False))
        ]
        return against_xla(self.text, *inputs)


def numbers(dims: Sequence[int], element: str, seed: int, wide: bool = True) -> np.ndarray:
    dtype = numpy_type(element)
    rng = np.random.default_rng(seed)
    if dtype.kind == "b":
        return rng.integers(0, 4, dims) == 0
    if dtype.kind in "iu" and wide:
        return rng.integers(np.iinfo(dtype).min, np.iinfo(dtype).max, dims, dtype, endpoint=True)
    if dtype.kind == "c":
        return (rng.standard_normal(dims) + 1j * rng.standard_normal(dims)).astype(dtype)
    if not wide:
        return rng.integers(-4, 5, dims).astype(dtype)
    return rng.standard_normal(dims).astype(dtype)


NHWC = ("b01f", "01io", "b01f")

WINDOWS = {
    "plain": Case(),
    "NHWC": Case(layouts=NHWC),
    "unusual layouts": Case(layouts=("0f1b", "i1o0", "1fb0")),
    "pads": Case(pads=((1, 0), (2, 3))),
    "strides": Case(strides=(2, 3)),
    "stride past the kernel": Case(strides=(4, 4), kernel=(1, 1)),
    "negative pads": Case(pads=((-1, 1), (0, -2))),
    "negative pads that leave padding": Case(pads=((-7, 9), (0, 0))),
    "rhs dilation": Case(rhs_dilation=(2, 3), pads=((1, 1), (0, 2))),
    "lhs dilation": Case(lhs_dilation=(2, 3), pads=((2, 1), (1, 1))),
    "lhs dilation of one axis": Case(lhs_dilation=(1, 2), pads=((1, 1), (1, 1))),
    "lhs dilation, valid": Case(lhs_dilation=(2, 2)),
    "lhs dilation, much padding": Case(lhs_dilation=(2, 2), pads=((5, 1), (1, 6))),
    "lhs dilation, output padding": Case(lhs_dilation=(3, 3), pads=((2, 4), (1, 2))),
    "lhs dilation, negative pads": Case(lhs_dilation=(2, 2), pads=((-2, 1), (1, -3))),
    "lhs dilation that leaves padding": Case(lhs_dilation=(2, 2), pads=((-12, 15), (0, 0))),
    "lhs dilation and strides": Case(lhs_dilation=(2, 3), strides=(3, 2), pads=((2, 2), (1, 1))),
    "everything": Case(
        lhs_dilation=(2, 3), rhs_dilation=(3, 2), strides=(1, 2), pads=((3, -1), (2, 4)),
        reversal=(True, False), features=6, outputs=4, feature_groups=2, layouts=NHWC,
    ),
    "reversal": Case(reversal=(True, True)),
    "reversal of one axis": Case(reversal=(False, True), layouts=NHWC),
    "reversal, lhs dilation": Case(reversal=(True, False), lhs_dilation=(2, 2)),
    "feature groups": Case(features=6, feature_groups=2),
    "depthwise": Case(features=4, outputs=8, feature_groups=4, layouts=NHWC),
    "feature groups, lhs dilation": Case(features=6, feature_groups=2, lhs_dilation=(2, 2)),
    "batch groups": Case(batch=6, outputs=6, batch_groups=3),
    "batch groups, layouts": Case(batch=4, batch_groups=2, layouts=("f01b", "i01o", "01bf")),
    "batch groups, lhs dilation": Case(batch=4, batch_groups=2, lhs_dilation=(2, 1)),
    "kernel like an image": Case(
        spatial=(22, 20), kernel=(20, 18), pads=((0, 0), (1, 0)), layouts=("f01b", "i01o", "01bf"),
    ),
    "long kernel": Case(spatial=(60,), kernel=(30,), batch=1, features=1, outputs=1),
    "1-D": Case(spatial=(9,), kernel=(3,), pads=((1, 1),), strides=(2,), rhs_dilation=(2,)),
    "3-D": Case(spatial=(4, 5, 3), kernel=(2, 3, 2), pads=((1, 0),) * 3, strides=(1, 2, 1)),
    "3-D, lhs dilation": Case(spatial=(2, 3, 2), kernel=(2, 3, 2), lhs_dilation=(2, 2, 1)),
    "4-D": Case(spatial=(2, 3, 2, 3), kernel=(2, 1, 2, 2), features=2, outputs=2),
    "no spatial axes": Case(spatial=(), kernel=()),
    "no spatial axes, groups": Case(spatial=(), kernel=(), features=6, feature_groups=2),
    "no spatial axes, batch groups": Case(spatial=(), kernel=(), batch=4, batch_groups=2),
    "empty batch": Case(batch=0),
    "no features": Case(features=0),
    "no outputs": Case(outputs=0),
    "empty image": Case(spatial=(0, 5), pads=((2, 2), (0, 0))),
    "empty result": Case(spatial=(2, 5)),
}  # fmt: skip


@pytest.mark.costly
@pytest.mark.parametrize("case", WINDOWS.values(), ids=WINDOWS.keys())
def test_windows(case: Case) -> None:
    case.run().close()
    replace(case, elements=("i32",) * 3).run().bit_exact()


INTEGERS = [
    *((element,) * 3 for element in ("i8", "i16", "i64", "ui8", "ui16", "ui32", "ui64", "i1")),
    ("i8", "i8", "i32"),
    ("i1", "i1", "i32"),
    ("i32", "i32", "i8"),
]
FLOATS = [
    *((element,) * 3 for element in ("f64", "f16", "bf16", "complex<f32>", "complex<f64>")),
    ("bf16", "bf16", "f32"),
    ("f32", "f32", "bf16"),
    ("f64", "f64", "f32"),
    ("f8E4M3FN", "f8E4M3FN", "f32"),
    ("i8", "i8", "f32"),
]
TYPED = ["NHWC", "everything", "batch groups", "no spatial axes", "empty image"]


@pytest.mark.costly
@pytest.mark.parametrize("elements", INTEGERS, ids="_".join)
@pytest.mark.parametrize("name", TYPED)
def test_integers(name: str, elements: tuple[str, str, str]) -> None:
    replace(WINDOWS[name], elements=elements).run().bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("elements", FLOATS, ids="_".join)
@pytest.mark.parametrize("name", TYPED)
def test_floats(name: str, elements: tuple[str, str, str]) -> None:
    replace(WINDOWS[name], elements=elements).run().close()


@pytest.mark.parametrize("element", ["f32", "f64"])
def test_nan_and_infinities(element: str) -> None:
    x = np.arange(36.0).reshape(1, 1, 6, 6).astype(numpy_type(element))
    x[0, 0, 1, 1], x[0, 0, 4, 4], x[0, 0, 4, 5] = np.nan, np.inf, -np.inf
    case = Case((6, 6), (2, 2), batch=1, features=1, outputs=2, elements=(element,) * 3)
    against_xla(case.text, x, numbers((2, 1, 2, 2), element, 1)).close()


def test_refusals() -> None:
    text = Case(elements=("f32", "f32", "i32")).text
    with pytest.raises(TranslationError, match="integer result"):
        against_xla(text)


def test_dynamic_batch() -> None:
    """A batch size known at run time only changes no node."""
    for case in (WINDOWS["NHWC"], WINDOWS["lhs dilation, output padding"]):
        lhs, _, result = ("x".join(map(str, dims)) for dims in case.shapes)
        run = case.run().close()
        text = case.text.replace(f"<{lhs}x", f"<?{lhs[1:]}x").replace(result, f"?{result[1:]}")
        program = hlo2onnx.translate(text)
        assert program.report.nodes == run.nodes
        content = program.model_proto.SerializeToString()
        outputs = OrtProgram(content)(dict(zip(program.input_names, run.inputs, strict=True)))
        np.testing.assert_array_equal(outputs[0], run.actual[0][0])


def test_a_dynamic_spatial_axis() -> None:
    """One whose extent is known at run time only changes no node."""
    text = WINDOWS["plain"].text.replace("2x3x6x7x", "2x3x6x?x").replace("2x4x4x6", "2x4x4x?")
    assert "?" in text
    run = WINDOWS["plain"].run().close()
    program = hlo2onnx.translate(text)
    assert program.report.nodes == run.nodes
    assert program.verify(*run.inputs).ok


# -- what JAX makes of its own convolutions and their gradients -------------------------------


def of_jax(function, *dims: Sequence[int], dtype: str = "float32") -> Run:  # type: ignore[no-untyped-def]
    """A jitted function of random arrays."""
    with jax.enable_x64(dtype == "float64"):
        arguments = [np.random.default_rng(len(d)).standard_normal(d).astype(dtype) for d in dims]
        text = jax.jit(function).lower(*arguments).as_text()
    return against_xla(text, *arguments).close()


GRADIENTS = {
    "plain": {},
    "valid": {"padding": "VALID"},
    "strides": {"window_strides": (2, 2)},
    "dilation": {"rhs_dilation": (2, 2)},
    "strides and dilation": {"window_strides": (2, 1), "rhs_dilation": (1, 2)},
    "transposed": {"lhs_dilation": (2, 2), "padding": ((1, 1), (1, 2))},
    "groups": {"feature_group_count": 2},
    "depthwise, strides": {"feature_group_count": 4, "window_strides": (2, 2)},
}


@pytest.mark.costly
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("layout", [("NCHW", "OIHW", "NCHW"), ("NHWC", "HWIO", "NHWC")])
@pytest.mark.parametrize("name", GRADIENTS)
def test_gradients(name: str, layout: tuple[str, str, str], dtype: str) -> None:
    """Forward, input gradient and weight gradient in one program."""
    attributes = {"window_strides": (1, 1), "padding": "SAME", **GRADIENTS[name]}
    groups = attributes.get("feature_group_count", 1)
    sizes = {"N": 2, "H": 7, "W": 6, "C": 4}
    kernel_sizes = {"O": 8, "I": 4 // groups, "H": 3, "W": 3}

    def loss(x: jax.Array, w: jax.Array) -> jax.Array:
        y = lax.conv_general_dilated(x, w, dimension_numbers=layout, **attributes)
        return (y * y).sum()

    def forward_and_gradients(x: jax.Array, w: jax.Array) -> tuple[jax.Array, ...]:
        return loss(x, w), *jax.grad(loss, (0, 1))(x, w)

    x, w = [sizes[name] for name in layout[0]], [kernel_sizes[name] for name in layout[1]]
    of_jax(forward_and_gradients, x, w, dtype=dtype)


@pytest.mark.parametrize("padding", ["SAME", "VALID"])
@pytest.mark.parametrize(("size", "stride"), [(2, 2), (3, 2), (4, 2), (5, 3), (1, 2)])
def test_conv_transpose(size: int, stride: int, padding: str) -> None:
    """The usual upsampling is one ConvTranspose, without Pad or Slice of an activation."""
    kernel = np.random.default_rng(0).standard_normal((size, size, 3, 4)).astype(np.float32)
    run = of_jax(lambda x: lax.conv_transpose(x, kernel, (stride, stride), padding), (2, 5, 6, 3))
    run.graph_is("Transpose", "ConvTranspose", "Transpose")


# -- the shape of the graph -------------------------------------------------------------------


@pytest.mark.costly
@pytest.mark.parametrize(
    ("case", "nodes"),
    [
        (Case(), ["Conv"]),
        (Case(pads=((1, 1), (0, 1)), strides=(2, 2), rhs_dilation=(2, 1)), ["Conv"]),
        (Case(features=6, feature_groups=2), ["Conv"]),
        (Case(layouts=NHWC), ["Transpose", "Transpose", "Conv", "Transpose"]),
        (Case(pads=((-1, 0), (0, 1))), ["Slice", "Conv"]),
        (Case(reversal=(True, False)), ["Slice", "Conv"]),
        (Case(batch=4, batch_groups=2), ["Reshape", "Transpose", "Reshape", "Conv"]),
        (Case(lhs_dilation=(2, 2)), ["Slice", "Transpose", "ConvTranspose"]),
        (Case(lhs_dilation=(2, 2), reversal=(True, True)), ["Transpose", "ConvTranspose"]),
        (Case(spatial=(), kernel=()), ["Transpose", "MatMul"]),
    ],
)
def test_graph(case: Case, nodes: list[str]) -> None:
    case.run().graph_is(*nodes)


def test_weights_are_laid_out_once_and_for_all() -> None:
    kernel = np.arange(108, dtype=np.float32).reshape(3, 3, 3, 4)
    layout = ("NHWC", "HWIO", "NHWC")
    run = of_jax(
        lambda x: lax.conv_general_dilated(x, kernel, (1, 1), "SAME", dimension_numbers=layout),
        (2, 5, 6, 3),
    )
    run.graph_is("Transpose", "Conv", "Transpose")
