"""Small inputs and attributes with which `tools.probe` runs each operator once.

An operator without a recipe gets ones of shape (1, 2, 4, 4) for each required input. Data are ones,
which every element type can hold and no operator chokes on; shapes, axes and indices are literal.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
import onnx_ir as ir
from onnx import helper

from hlo2onnx.targets.target import OUTPUT, op_key, parameter, schema_dtypes
from tools.probe.models import DTYPES, Case, GraphOfNodes, Ports


@dataclass(frozen=True)
class Ones:
    """An input: ones of a shape."""

    shape: tuple[int, ...]


@dataclass(frozen=True)
class TypeOf:
    """An attribute: the element type of a parameter (position, or OUTPUT), as ONNX numbers it."""

    position: int


@dataclass(frozen=True)
class TensorOf:
    """An attribute: a tensor holding 1, of the element type of a parameter."""

    position: int


Literal = int | float | Sequence[Any]
Input = Ones | Literal | None


@dataclass(frozen=True)
class Recipe:
    """How to call an operator: None among the inputs leaves an optional one out.

    `types` fixes the element types of further type variables, by variable, where the general rule
    of `bind_types` does not give what is usual.
    """

    inputs: tuple[Input, ...]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    types: Mapping[str, ir.DataType] = field(default_factory=dict)
    outputs: int = 0


def ones(*shape: int) -> Ones:
    return Ones(shape)


def recipe(*inputs: Input, **attributes: Any) -> Recipe:
    return Recipe(inputs, attributes)


_INDEX = {"T1": ir.DataType.INT64, "T2": ir.DataType.INT64}
_IMAGE, _WINDOW = ones(1, 2, 4, 4), recipe(ones(1, 2, 4, 4), kernel_shape=[2, 2])
_F32 = {"T1": ir.DataType.FLOAT}
_LIKE = Recipe((ones(2, 2),), {"dtype": TypeOf(OUTPUT)}, _F32)
_DRAWN = recipe(dtype=TypeOf(OUTPUT), shape=[2])
_SIGNAL_WINDOW = recipe(4, output_datatype=TypeOf(OUTPUT))
_LOSS = recipe(ones(2, 3), [0, 1])
_REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Min Prod Sum SumSquare"
_REDUCE = recipe(ones(2, 3), [1])
_SCAN = recipe(ones(2, 3), 0)
_CONV = recipe(_IMAGE, ones(2, 2, 3, 3), ones(2))
_PER_CHANNEL = recipe(ones(1, 2, 3), ones(2), ones(2))

RECIPES: dict[str, Recipe] = {
    "AffineGrid": recipe(ones(1, 2, 3), [1, 1, 2, 2]),
    "Attention": recipe(*[ones(1, 1, 2, 4)] * 3),
    "Attention.attn_mask": recipe(*[ones(1, 1, 2, 4)] * 3, ones(2, 2)),
    "AveragePool": _WINDOW,
    "BatchNormalization": recipe(ones(1, 2, 3), *[ones(2)] * 4),
    "BatchNormalization[training_mode=1]": Recipe((ones(1, 2, 3), *[ones(2)] * 4), outputs=3),
    "Bernoulli": recipe(ones(2, 3), dtype=TypeOf(OUTPUT)),
    "BitCast": recipe(ones(2, 4), to=TypeOf(OUTPUT)),
    "BitShift": recipe(ones(2, 3), ones(2, 3), direction="LEFT"),
    "BlackmanWindow": _SIGNAL_WINDOW,
    "Cast": recipe(ones(2, 4), to=TypeOf(OUTPUT)),
    "CenterCropPad": recipe(ones(4, 4), [2, 2]),
    "Clip": recipe(ones(2, 3), 1, 1),
    "Col2Im": recipe(ones(1, 4, 4), [3, 3], [2, 2]),
    "Compress": recipe(ones(2, 3), [1, 0], axis=0),
    "Concat": recipe(ones(2, 3), ones(2, 3), axis=0),
    "Constant": recipe(value=TensorOf(OUTPUT)),
    "ConstantOfShape": recipe([2, 3], value=TensorOf(OUTPUT)),
    "Conv": _CONV,
    "ConvInteger": recipe(_IMAGE, ones(2, 2, 3, 3)),
    "ConvTranspose": _CONV,
    "CumProd": _SCAN,
    "CumSum": _SCAN,
    "DFT": recipe(ones(1, 4, 1), 4),
    "DeformConv": recipe(ones(1, 1, 3, 3), ones(1, 1, 2, 2), ones(1, 8, 2, 2)),
    "DepthToSpace": recipe(ones(1, 4, 2, 2), blocksize=2),
    "DequantizeLinear": recipe(ones(2, 4), 1, 0),
    "Einsum": recipe(ones(2, 2), ones(2, 2), equation="ij,jk->ik"),
    "Expand": recipe(ones(1, 3), [2, 3]),
    "EyeLike": _LIKE,
    "GRU": recipe(ones(2, 1, 3), ones(1, 6, 3), ones(1, 6, 2), hidden_size=2),
    "Gather": recipe(ones(2, 3), [0, 1]),
    "GatherElements": recipe(ones(2, 3), [[0, 1, 0]]),
    "GatherND": recipe(ones(2, 3), [[0], [1]]),
    "Gemm": recipe(ones(2, 2), ones(2, 2), ones(2)),
    "GridSample": recipe(ones(1, 1, 3, 3), ones(1, 2, 2, 2)),
    "GroupNormalization": Recipe(_PER_CHANNEL.inputs, {"num_groups": 2}),
    "HammingWindow": _SIGNAL_WINDOW,
    "HannWindow": _SIGNAL_WINDOW,
    "InstanceNormalization": _PER_CHANNEL,
    "LRN": recipe(_IMAGE, size=3),
    "LSTM": recipe(ones(2, 1, 3), ones(1, 8, 3), ones(1, 8, 2), hidden_size=2),
    "LayerNormalization": recipe(ones(2, 3), ones(3), ones(3)),
    "LpPool": _WINDOW,
    "MaxPool": _WINDOW,
    "MaxRoiPool": recipe(ones(1, 1, 4, 4), [[0, 0, 0, 3, 3]], pooled_shape=[2, 2]),
    "MaxUnpool": recipe(
        ones(1, 1, 2, 2), [[[[0, 3], [8, 10]]]], kernel_shape=[2, 2], strides=[2, 2]
    ),
    "MelWeightMatrix": Recipe(
        (4, 16, 64, 1, 16), {"output_datatype": TypeOf(OUTPUT)}, {"T2": ir.DataType.FLOAT}
    ),
    "Multinomial": recipe(ones(1, 3), dtype=TypeOf(OUTPUT)),
    "NegativeLogLikelihoodLoss": _LOSS,
    "NonMaxSuppression": recipe(ones(1, 2, 4), ones(1, 1, 2), [2]),
    "OneHot": Recipe(([0, 1], 3, [0, 1]), types=_INDEX),
    "Pad": recipe(ones(4), [1, 1], 1),
    "Pad.axes": recipe(ones(4), [1, 1], 1, [0]),
    "QLinearConv": recipe(ones(1, 1, 3, 3), 1, 0, ones(1, 1, 2, 2), 1, 0, 1, 0),
    "QLinearMatMul": recipe(ones(2, 2), 1, 0, ones(2, 2), 1, 0, 1, 0),
    "QuantizeLinear": recipe(ones(2, 4), 1, 0),
    "RMSNormalization": recipe(ones(2, 3), ones(3)),
    "RNN": recipe(ones(2, 1, 3), ones(1, 2, 3), ones(1, 2, 2), hidden_size=2),
    "RandomNormal": _DRAWN,
    "RandomNormalLike": _LIKE,
    "RandomUniform": _DRAWN,
    "RandomUniformLike": _LIKE,
    "Range": recipe(0, 3, 1),
    **{f"Reduce{name}": _REDUCE for name in _REDUCTIONS.split()},
    "Reshape": recipe(ones(2, 3), [3, 2]),
    "Resize": recipe(ones(1, 1, 2, 2), None, None, [1, 1, 3, 3]),
    "Resize.roi": recipe(
        ones(1, 1, 2, 2),
        [0, 0, 0, 0, 1, 1, 1, 1],
        None,
        [1, 1, 3, 3],
        coordinate_transformation_mode="tf_crop_and_resize",
    ),
    "ReverseSequence": recipe(ones(2, 2), [1, 2]),
    "RoiAlign": recipe(ones(1, 1, 4, 4), [[0, 0, 3, 3]], [0]),
    "RotaryEmbedding": recipe(ones(1, 1, 2, 4), ones(1, 2, 2), ones(1, 2, 2)),
    "STFT": recipe(ones(1, 8, 1), 4, None, 4),
    "ScatterElements": recipe(ones(2, 3), [[0, 1, 0]], ones(1, 3)),
    "ScatterND": recipe(ones(3, 2), [[0], [2]], ones(2, 2)),
    "Slice": recipe(ones(4), [0], [2], [0], [1]),
    "SoftmaxCrossEntropyLoss": _LOSS,
    "SpaceToDepth": recipe(_IMAGE, blocksize=2),
    "Split": Recipe((ones(4), [2, 2]), outputs=2),
    "Squeeze": recipe(ones(1, 3), [0]),
    "TensorScatter": recipe(ones(1, 1, 4, 2), ones(1, 1, 1, 2), [0]),
    "TfIdfVectorizer": recipe(
        ones(6),
        mode="TF",
        ngram_counts=[0],
        ngram_indexes=[0, 1],
        pool_int64s=[1, 2],
        min_gram_length=1,
        max_gram_length=1,
        max_skip_count=0,
    ),
    "Tile": recipe(ones(2, 3), [1, 2]),
    "TopK": recipe(ones(3), [2]),
    "Unsqueeze": recipe(ones(2, 3), [0]),
    "Where": recipe(ones(1), ones(2, 3), ones(2, 3)),
}

_BATCH_FIRST = {"layout": 1}
_FROM_RESET = {"linear_before_reset": 1}
_SCATTERS = [{"reduction": name} for name in ("add", "mul", "max", "min")]

VARIANTS: dict[str, Sequence[Mapping[str, Any]]] = {
    "ArgMax": [{"select_last_index": 1}],
    "ArgMin": [{"select_last_index": 1}],
    "BatchNormalization": [{"training_mode": 1}],
    "BitShift": [{"direction": "RIGHT"}],
    "DFT": [{"inverse": 1}, {"onesided": 1}, {"inverse": 1, "onesided": 1}],
    "DepthToSpace": [{"mode": "CRD"}],
    "GRU": [_BATCH_FIRST, _FROM_RESET, _BATCH_FIRST | _FROM_RESET],
    "Gelu": [{"approximate": "tanh"}],
    "GridSample": [{"mode": m} for m in ("nearest", "cubic", "bilinear", "bicubic")],
    "LSTM": [_BATCH_FIRST],
    "Mod": [{"fmod": 1}],
    "Pad": [{"mode": mode} for mode in ("reflect", "edge", "wrap")],
    "RNN": [_BATCH_FIRST],
    "Resize": [
        {"mode": "linear"},
        {"mode": "cubic"},
        {"mode": "linear", "antialias": 1},
        {"mode": "cubic", "antialias": 1},
    ],
    "RoiAlign": [{"mode": "max"}],
    "ScatterElements": _SCATTERS,
    "ScatterND": _SCATTERS,
    "TensorScatter": [{"mode": "circular"}],
}
"""Attributes probed besides the recipe's, each combination under its own `op_key`."""

SKIPPED: dict[str, str] = {
    "decodes image files": "ImageDecoder",
    "deprecated in ONNX": "Scatter Upsample",
    "runs graphs of its own, whose nodes are asked about one by one": "If Loop Scan",
    "works on sequences, optionals or strings, not on tensors of numbers": (
        "ConcatFromSequence Optional OptionalGetElement OptionalHasElement RegexFullMatch "
        "SequenceAt SequenceConstruct SequenceEmpty SequenceErase SequenceInsert SequenceLength "
        "SequenceMap SplitToSequence StringConcat StringNormalizer StringSplit"
    ),
}
"""Operators that are not probed, by reason."""

_VARIANT_OF = {
    op_key(op_type, attributes): (op_type, attributes)
    for op_type, variants in VARIANTS.items()
    for attributes in variants
}


def recipe_for(key: str, schema: Any) -> Recipe:
    """Give the recipe of an operator key: its own, its operator's, or ones for each input."""
    op_type, attributes = _VARIANT_OF.get(key, (key.partition(".")[0], {}))
    found = RECIPES.get(key) or RECIPES.get(op_type) or _general(schema)
    inputs = found.inputs
    if attributes.get("layout") == 1:
        inputs = (ones(1, 2, 3), *inputs[1:])
    if op_type == "DFT" and attributes.get("inverse"):
        inputs = (ones(1, 3 if attributes.get("onesided") else 4, 2), 4)
    if takes_axes_as_attribute(schema):
        inputs, attributes = inputs[:1], {**attributes, "axes": inputs[1]}
    return Recipe(inputs, {**found.attributes, **attributes}, found.types, found.outputs)


def takes_axes_as_attribute(schema: Any) -> bool:
    """Say whether it is a reduction of an opset before the one that made its axes an input."""
    return str(schema.name).startswith("Reduce") and "axes" in schema.attributes


def _general(schema: Any) -> Recipe:
    option = onnx.defs.OpSchema.FormalParameterOption
    inputs: list[Input] = []
    for given in schema.inputs:
        if given.option != option.Optional:
            inputs += [_IMAGE] * (2 if given.option == option.Variadic else 1)
    return Recipe(tuple(inputs))


def bind_types(schema: Any, found: Recipe, fixed: Mapping[int, ir.DataType]) -> dict[str, Any]:
    """Give each type variable an element type: `fixed` ones by position, the others the usual one.

    The usual one is what the recipe says, else int64 for index-like variables, else the type of the
    fixed parameters, else f32, else the first allowed.
    """
    bound = {parameter(schema, at).type_str: dtype for at, dtype in fixed.items()}
    lead = next(iter(fixed.values()))
    for constraint in schema.type_constraints:
        variable = constraint.type_param_str
        if variable in bound:
            continue
        allowed = schema_dtypes(schema, variable)
        is_index = len(allowed) <= 2 and ir.DataType.INT64 in allowed
        wanted = found.types.get(variable, ir.DataType.INT64 if is_index else lead)
        order = (wanted, *fixed.values(), ir.DataType.FLOAT, *DTYPES, *allowed)
        bound[variable] = next((d for d in order if d in allowed), lead)
    return bound


def build_case(
    key: str,
    schema: Any,
    fixed: Mapping[int, ir.DataType],
    opset: int,
    ir_version: int,
    ports: Ports,
) -> Case:
    """Give a model of one node. Its data are inputs: runtimes compute with constants by other code
    than their kernels. Types that the runtime does not take as inputs are initializers.

    Args:
        key: operator key, such as "ScatterND[add]" or "Gather.indices".
        schema: the operator's schema in that opset.
        fixed: element types of parameters, by position.
        opset: opset of the default domain.
        ir_version: ONNX IR version to state.
    """
    found = recipe_for(key, schema)
    bound = bind_types(schema, found, fixed)

    def dtype_of(position: int) -> ir.DataType:
        type_str = parameter(schema, position).type_str
        return bound[type_str] if type_str in bound else next(iter(schema_dtypes(schema, type_str)))

    graph = GraphOfNodes(ports)
    names = []
    for position, given in enumerate(found.inputs):
        names.append("" if given is None else f"x{position}")
        if given is not None:
            dtype = dtype_of(min(position, len(schema.inputs) - 1))
            tensor = _tensor(given, dtype, names[-1])
            graph.take(tensor, is_data=isinstance(given, Ones))
    attributes = {name: _attribute(v, dtype_of) for name, v in found.attributes.items()}
    results = [f"y{i}" for i in range(found.outputs or max(schema.min_output, 1))]
    types = [_output_type(schema, i, bound) for i in range(len(results))]
    graph.node(helper.make_node(schema.name, names, results, **attributes), types)
    return graph.case(opset, ir_version)


def _output_type(
    schema: Any, position: int, bound: Mapping[str, ir.DataType]
) -> ir.DataType | None:
    type_str = schema.outputs[min(position, len(schema.outputs) - 1)].type_str
    known = schema_dtypes(schema, type_str)
    return bound.get(type_str) or (next(iter(known)) if len(known) == 1 else None)


def _tensor(given: Ones | Literal, dtype: ir.DataType, name: str) -> ir.Tensor:
    data = np.ones(given.shape) if isinstance(given, Ones) else np.array(given)
    return ir.Tensor(data.astype(dtype.numpy()), dtype=dtype, name=name)


def _attribute(value: Any, dtype_of: Callable[[int], ir.DataType]) -> Any:
    if isinstance(value, TypeOf):
        return dtype_of(value.position).value
    if isinstance(value, TensorOf):
        return ir.to_proto(_tensor([1], dtype_of(value.position), "value"))
    return value
