"""What a runtime can execute: a table of (operator, element type, opset) that others ask.

A target is data. `ort_cpu.json` was measured by `tools.probe`; `hlo2onnx.targets.table`
reads this table and others of the same form. The target `onnx` is read off the ONNX schemas and
allows whatever the standard allows, so nothing needs to be legalized for it.

Operator keys
    "Add"               the operator; the element type is that of its main parameter, which is the
                        first input unless `MAIN_PARAMETER` says otherwise
    "ScatterND[add]"    the operator with attributes that change what is supported, see
                        `KEY_ATTRIBUTES`; `op_key` and `node_key` write it
    "Gather.indices"    a further parameter with an element type of its own, the others being usual
Keys in `PAIR_PARAMETERS` have a matrix over two parameters, too: see `Target.supports_pair`.

What a table says a runtime executes, it executes rightly as far as the prober knows. Kernels that
run and give wrong numbers are listed apart: see `Target.is_wrong`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cache
from typing import Any, Final

import onnx
import onnx_ir as ir

from hlo2onnx.ir.values import attributes_of

MIN_OPSET: Final = 18
"""The oldest opset of the default domain that tables speak about."""

OUTPUT: Final = -1
"""In place of an input's position: the first output."""

MAIN_PARAMETER: Final[Mapping[str, int]] = {
    "BlackmanWindow": OUTPUT,
    "Constant": OUTPUT,
    "ConstantOfShape": OUTPUT,
    "EyeLike": OUTPUT,
    "HammingWindow": OUTPUT,
    "HannWindow": OUTPUT,
    "MelWeightMatrix": OUTPUT,
    "OneHot": 2,
    "RandomNormal": OUTPUT,
    "RandomNormalLike": OUTPUT,
    "RandomUniform": OUTPUT,
    "RandomUniformLike": OUTPUT,
    "Where": 1,
}
"""The parameter whose element type `Target.supports` is asked about, where it is not input 0."""

PAIR_PARAMETERS: Final[Mapping[str, tuple[int, int]]] = {
    "Attention.attn_mask": (0, 3),
    "BatchNormalization.scale": (0, 1),
    "BitCast": (0, OUTPUT),
    "Cast": (0, OUTPUT),
    "CastLike": (0, OUTPUT),
    "ConvInteger.w": (0, 1),
    "DequantizeLinear": (0, 1),
    "MatMulInteger.B": (0, 1),
    "OneHot": (0, 2),
    "Pow": (0, 1),
    "QLinearConv.w": (0, 3),
    "QLinearMatMul.b": (0, 3),
    "QuantizeLinear": (0, OUTPUT),
    "RMSNormalization.scale": (0, 1),
}
"""The two parameters of `Target.supports_pair`: source and result of a cast or quantization,
quantized and scale for DequantizeLinear, indices and values for OneHot, base and exponent for Pow,
first input and the named one for the others."""

_PAIRS_OF: Final[Mapping[str, list[tuple[str, tuple[int, int]]]]] = {
    op_type: [(k, at) for k, at in PAIR_PARAMETERS.items() if k.partition(".")[0] == op_type]
    for op_type in {key.partition(".")[0] for key in PAIR_PARAMETERS}
}

KEY_ATTRIBUTES: Final[Mapping[str, Mapping[str, str | int]]] = {
    "ArgMax": {"select_last_index": 0},
    "ArgMin": {"select_last_index": 0},
    "BatchNormalization": {"training_mode": 0},
    "BitShift": {"direction": "LEFT"},
    "DFT": {"inverse": 0, "onesided": 0},
    "DepthToSpace": {"mode": "DCR"},
    "GRU": {"layout": 0, "linear_before_reset": 0},
    "Gelu": {"approximate": "none"},
    "GridSample": {"mode": "linear"},
    "LSTM": {"layout": 0},
    "Mod": {"fmod": 0},
    "Pad": {"mode": "constant"},
    "RNN": {"layout": 0},
    "Resize": {"mode": "nearest", "antialias": 0},
    "RoiAlign": {"mode": "avg"},
    "ScatterElements": {"reduction": "none"},
    "ScatterND": {"reduction": "none"},
    "TensorScatter": {"mode": "linear"},
}
"""Attributes that are part of the key, with the value that leaves the key plain. The prober tries
every combination that the standard allows; one that is not in the table is not supported."""

Support = dict[ir.DataType, frozenset[int]]
"""Element type -> opsets in which it works."""
PairSupport = dict[ir.DataType, Support]
"""First element type -> second element type -> opsets in which the pair works."""

_NOWHERE: Final[frozenset[int]] = frozenset()


def op_key(op_type: str, attributes: Mapping[str, object]) -> str:
    """Give the key of an operator with these attributes, such as `Resize[linear,antialias=1]`.

    Attributes that are not in `KEY_ATTRIBUTES`, and those at their default, leave no trace.
    A string attribute shows as its value, an integer as `name=value`.
    """
    parts = []
    for name, default in KEY_ATTRIBUTES.get(op_type, {}).items():
        value = attributes.get(name, default)
        if value != default:
            parts.append(value if isinstance(value, str) else f"{name}={value}")
    return f"{op_type}[{','.join(parts)}]" if parts else op_type


def node_key(node: ir.Node) -> str:
    """Give the key of a node of the default domain."""
    if node.op_type not in KEY_ATTRIBUTES:
        return node.op_type
    return op_key(node.op_type, attributes_of(node))


def main_dtype(node: ir.Node) -> ir.DataType | None:
    """Give the element type that `Target.supports` is to be asked about; None when not known."""
    position = MAIN_PARAMETER.get(node.op_type, 0)
    values = node.outputs if position == OUTPUT or not node.inputs else node.inputs
    value = values[max(position, 0)] if values else None
    return None if value is None else value.dtype


def node_pairs(node: ir.Node) -> list[tuple[str, ir.DataType, ir.DataType]]:
    """Give the key and element types of each of the `PAIR_PARAMETERS` that the node has."""
    found = []
    for key, positions in _PAIRS_OF.get(node.op_type, ()):
        first, second = (_value_at(node, position) for position in positions)
        if first is not None and second is not None and first.dtype and second.dtype:
            found.append((key, first.dtype, second.dtype))
    return found


def _value_at(node: ir.Node, position: int) -> ir.Value | None:
    if position == OUTPUT:
        return node.outputs[0]
    return node.inputs[position] if position < len(node.inputs) else None


def schema_dtypes(schema: Any, type_str: str) -> frozenset[ir.DataType]:
    """Give the tensor element types that a parameter of a schema allows.

    `type_str` is the parameter's: a type variable or a type such as "tensor(int64)". Sequences,
    optionals and element types that onnx_ir does not know are left out.
    """
    names = next(
        (c.allowed_type_strs for c in schema.type_constraints if c.type_param_str == type_str),
        [type_str],
    )
    return frozenset(_TENSOR_TYPES[name] for name in names if name in _TENSOR_TYPES)


class Target:
    """A runtime, and which operators it runs on which element types in which opsets.

    Attributes:
        name: "ort-cpu", "onnx", or that of the file of another table.
        runtime_version: version of the runtime that was probed (of onnx for the schema target).
        min_opset: oldest opset of the default domain in the table.
        max_opset: newest opset that the runtime loads.
        max_ir_version: newest ONNX IR version that the runtime loads.
        naive_sums: whether float sums are running sums, which lose digits when they are long.
        harmful_fusions: names of the fusions that the runtime makes when it loads a model and that
            give other numbers for some constants, see docs/runtime_fusions.md.
        loses_nan: whether ReduceMax and ReduceMin give a number where there is a NaN.
        inlines_branches: whether it inlines branches whose conditions follow from constants when it
            loads a model, and its process ends where one of them is in another.
        skipped: operators that were not probed, with the reason. `supports` is False for them.
    """

    def __init__(
        self,
        name: str,
        *,
        runtime_version: str,
        opsets: tuple[int, int],
        max_ir_version: int,
        ops: Mapping[str, Support],
        pairs: Mapping[str, PairSupport],
        wrong: Mapping[str, Support] | None = None,
        skipped: Mapping[str, str] | None = None,
        naive_sums: bool = False,
        harmful_fusions: Iterable[str] = (),
        loses_nan: bool = False,
        inlines_branches: bool = False,
        variants: bool = True,
    ) -> None:
        """Take the parsed tables; `variants=False` answers `Op[...]` as `Op`."""
        self._given = {
            "runtime_version": runtime_version, "opsets": opsets, "max_ir_version": max_ir_version,
            "ops": ops, "pairs": pairs, "wrong": wrong or {}, "skipped": skipped or {},
            "naive_sums": naive_sums, "harmful_fusions": harmful_fusions, "loses_nan": loses_nan,
            "inlines_branches": inlines_branches, "variants": variants,
        }  # fmt: skip
        self.name = name
        self.runtime_version = runtime_version
        self.min_opset, self.max_opset = opsets
        self.max_ir_version = max_ir_version
        self.skipped: Mapping[str, str] = dict(skipped or {})
        self.naive_sums = naive_sums
        self.harmful_fusions = frozenset(harmful_fusions)
        self.loses_nan = loses_nan
        self.inlines_branches = inlines_branches
        self._ops = dict(ops)
        self._pairs = dict(pairs)
        self._wrong: Mapping[str, Support] = dict(wrong or {})
        self._variants = variants
        for key, firsts in self._pairs.items():
            self._ops.setdefault(key, _either(firsts, second="." in key))

    def parameters(self) -> dict[str, Any]:
        """Give what the target was made of, for another one that differs in some of it."""
        return dict(self._given)

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.runtime_version}, opset <= {self.max_opset})"

    def supports(self, op_key: str, dtype: ir.DataType, opset: int) -> bool:
        """Say whether the operator runs on this element type of its main parameter.

        Where there is only a matrix (Cast, CastLike, BitCast and the keys `Op.parameter` of
        `PAIR_PARAMETERS`): whether it runs with any element type of the other parameter.

        Raises:
            ValueError: ONNX has no operator of that name.
        """
        return opset in self._row(op_key).get(dtype, _NOWHERE)

    def supports_pair(
        self, op_key: str, first: ir.DataType, second: ir.DataType, opset: int
    ) -> bool:
        """Say whether an operator of `PAIR_PARAMETERS` runs on these two element types.

        Raises:
            ValueError: the operator has no such matrix.
        """
        firsts = self._pairs.get(op_key)
        if firsts is None:
            raise ValueError(f"{op_key!r} has no pair table; there is one for {[*PAIR_PARAMETERS]}")
        return opset in firsts.get(first, {}).get(second, _NOWHERE)

    def supports_cast(self, src: ir.DataType, dst: ir.DataType, opset: int) -> bool:
        """Say whether Cast runs from `src` to `dst`."""
        return self.supports_pair("Cast", src, dst, opset)

    def is_wrong(self, op_key: str, dtype: ir.DataType, opset: int) -> bool:
        """Say whether the operator runs on this element type but gives wrong numbers for some
        operands, for which reason it is not supported."""
        return opset in self._wrong.get(op_key, {}).get(dtype, _NOWHERE)

    def _row(self, op_key: str) -> Support:
        row = self._ops.get(op_key)
        if row is not None:
            return row
        op_type = op_key.partition("[")[0].partition(".")[0]
        if op_type not in schemas():
            raise ValueError(f"{op_key!r}: ONNX has no operator {op_type!r} in its default domain")
        found = {} if self._variants else self._ops.get(op_type, {})
        self._ops[op_key] = found
        return found


def parse_ranges(ranges: str) -> Iterable[int]:
    """Give the opsets of "18-20,23"."""
    for part in ranges.split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)


def _either(firsts: PairSupport, second: bool) -> Support:
    """Give what one member of the pairs can be when the other is anything."""
    either: Support = {}
    for first, seconds in firsts.items():
        for other, opsets in seconds.items():
            dtype = other if second else first
            either[dtype] = either.get(dtype, _NOWHERE) | opsets
    return either


@cache
def schemas() -> dict[str, dict[int, Any]]:
    """Give the schemas of the default domain: operator -> since_version -> schema."""
    schemas: dict[str, dict[int, Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            schemas.setdefault(schema.name, {})[schema.since_version] = schema
    return schemas


def schema_target(name: str) -> Target:
    """Build the target that allows what the ONNX standard allows."""
    newest: int = onnx.defs.onnx_opset_version()
    ops: dict[str, Support] = {}
    pairs: dict[str, PairSupport] = {}
    for versions in schemas().values():
        for opset in range(MIN_OPSET, newest + 1):
            since = max((v for v in versions if v <= opset), default=None)
            if since is None or versions[since].deprecated:
                continue
            _add_schema(ops, pairs, versions[since], opset)
    return Target(
        name,
        runtime_version=onnx.__version__,
        opsets=(MIN_OPSET, newest),
        max_ir_version=onnx.IR_VERSION,
        ops=ops,
        pairs=pairs,
        variants=False,
    )


def _add_schema(
    ops: dict[str, Support], pairs: dict[str, PairSupport], schema: Any, opset: int
) -> None:
    position = MAIN_PARAMETER.get(schema.name, 0 if schema.inputs else OUTPUT)
    rows = {schema.name: parameter(schema, position)}
    rows |= {f"{schema.name}.{given.name}": given for given in schema.inputs}
    for key, given in rows.items():
        _allow(ops.setdefault(key, {}), schema_dtypes(schema, given.type_str), opset)
    for key in PAIR_PARAMETERS.keys() & rows.keys():
        first, second = (parameter(schema, at) for at in PAIR_PARAMETERS[key])
        for dtype in schema_dtypes(schema, first.type_str):
            row = pairs.setdefault(key, {}).setdefault(dtype, {})
            _allow(row, schema_dtypes(schema, second.type_str), opset)


def parameter(schema: Any, position: int) -> Any:
    """Give the formal parameter of a schema at an input's position, or `OUTPUT`."""
    return schema.outputs[0] if position == OUTPUT else schema.inputs[position]


def _allow(row: Support, dtypes: Iterable[ir.DataType], opset: int) -> None:
    for dtype in dtypes:
        row[dtype] = row.get(dtype, _NOWHERE) | {opset}


def _tensor_types() -> dict[str, ir.DataType]:
    """Map ONNX type strings to element types: "tensor(float)" -> FLOAT."""
    return {f"tensor({dtype.name.lower()})": dtype for dtype in ir.DataType if dtype.value}


_TENSOR_TYPES: Final = _tensor_types()
