"""What a runtime executes: a table of (operator, element type, opset).

A target is data. `tools.probe` measured the tables in `tables`; `hlo2onnx.targets.table` reads
them and other tables of this form. The target `onnx` comes from the ONNX schemas: it allows
whatever the standard allows, so that nothing needs to be legalized for it.

Operator keys
    "Add"               the operator; the element type is that of its main parameter, which is the
                        first input unless `MAIN_PARAMETER` says otherwise
    "ScatterND[add]"    the operator with attributes that change what is supported, see
                        `KEY_ATTRIBUTES`; `op_key` and `node_key` write it
    "Gather.indices"    a further parameter with an element type of its own, where the others have
                        usual types
Keys in `PAIR_PARAMETERS` also have a matrix over two parameters: see `Target.supports_pair`.

As far as the prober knows, the supported kernels give the right numbers. Kernels that give wrong
numbers are listed separately: see `Target.is_wrong` and `Target.is_limited`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Final

import onnx
import onnx_ir as ir

from hlo2onnx.ir.values import attributes_of
from hlo2onnx.targets.costs import Costs, Flags

MIN_OPSET: Final = 17
"""The oldest opset of the default domain in tables."""

DEFAULT_OPSET: Final = 21
"""The opset of models for a target that does not say another one. ONNX Runtime 1.18 loads it; 23
has three more operators that models use, see `NEWER_OPSET`."""

NEWER_OPSET: Final = 23
"""The newest opset that a model has by default: for RMSNormalization, RotaryEmbedding and
Attention. ONNX Runtime 1.23 loads it."""

KNOWN: Final = ("measured", "asked", "read")
"""How the rows of a table are known: kernels gave right numbers, the runtime says that it has them,
or its documentation does."""

OUTPUT: Final = -1
"""The first output, in place of an input's position."""

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
"""The parameter whose element type `Target.supports` takes, where it is not input 0."""

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
quantized input and scale of DequantizeLinear, indices and values of OneHot, base and exponent of
Pow, the first and the named input of the others."""

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
"""Attributes that are part of the key, with the default value, which the key omits. The prober
tries every combination that the standard allows; one that is not in the table is not supported."""

VARIANT_SINCE: Final[Mapping[str, int]] = {
    "Pad[wrap]": 19,
    "Resize[cubic,antialias=1]": 18,
    "Resize[linear,antialias=1]": 18,
    "ScatterElements[max]": 18,
    "ScatterElements[min]": 18,
    "ScatterND[max]": 18,
    "ScatterND[min]": 18,
}
"""The first opset in which the standard has these attributes, where the operator is older."""

Support = dict[ir.DataType, frozenset[int]]
"""Element type -> opsets in which it works."""
PairSupport = dict[ir.DataType, Support]
"""First element type -> second element type -> opsets in which the pair works."""

_NOWHERE: Final[frozenset[int]] = frozenset()


def op_key(op_type: str, attributes: Mapping[str, object]) -> str:
    """Return the key of an operator with these attributes, such as `Resize[linear,antialias=1]`.

    The key omits attributes that are not in `KEY_ATTRIBUTES` and those with the default value.
    It holds a string attribute as its value, an integer as `name=value`.
    """
    parts = []
    for name, default in KEY_ATTRIBUTES.get(op_type, {}).items():
        value = attributes.get(name, default)
        if value != default:
            parts.append(value if isinstance(value, str) else f"{name}={value}")
    return f"{op_type}[{','.join(parts)}]" if parts else op_type


def node_key(node: ir.Node) -> str:
    """Return the key of a node of the default domain."""
    if node.op_type not in KEY_ATTRIBUTES:
        return node.op_type
    return op_key(node.op_type, attributes_of(node))


def main_dtype(node: ir.Node) -> ir.DataType | None:
    """Return the element type of the main parameter; None if it is not known."""
    position = MAIN_PARAMETER.get(node.op_type, 0)
    values = node.outputs if position == OUTPUT or not node.inputs else node.inputs
    value = values[max(position, 0)] if values else None
    return None if value is None else value.dtype


def node_pairs(node: ir.Node) -> list[tuple[str, ir.DataType, ir.DataType]]:
    """Return the key and element types of each of the `PAIR_PARAMETERS` that the node has."""
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


@dataclass(eq=False, repr=False)
class Target:
    """A runtime, and which operators it runs on which element types in which opsets.

    Attributes:
        name: "ort-cpu", "onnx", or that of the file of another table.
        about: What is special about it, in a line.
        runtime: Package or name of the runtime.
        known: How its rows are known: one of `KNOWN`.
        runtime_version: Version of the runtime that was probed (of onnx for the schema target).
        min_opset: Oldest opset of the default domain in the table.
        max_opset: Newest opset that the runtime loads.
        default_opset: Opset of models if the user gives none and no operator needs a newer one.
        max_ir_version: Newest ONNX IR version that the runtime loads.
        ops: Rows by operator key.
        pairs: Rows by the keys of `PAIR_PARAMETERS`.
        wrong: Rows of kernels that give wrong numbers.
        limited: Those of them that are right for easier operands: see `is_limited`.
        limited_pairs: The same, by the keys of `PAIR_PARAMETERS`.
        skipped: Operators that were not probed, with the reason. `supports` is False for them.
        harmful_fusions: Names of the fusions that the runtime makes when it loads a model and that
            give other numbers for some constants, see docs/runtime_fusions.md.
        contrib: Operators of "com.microsoft" that it has, and that pay -> their element types.
        flags: Other properties of the runtime.
        costs: Sizes at which one way to compute becomes faster than another.
        fallback: The target on which the runtime itself runs nodes without a kernel.
        variants: Whether `Op[...]` has rows of its own; otherwise those of `Op` hold.
    """

    name: str
    runtime_version: str = "unknown"
    about: str = ""
    runtime: str = ""
    known: str = "measured"
    min_opset: int = MIN_OPSET
    max_opset: int = MIN_OPSET
    default_opset: int = DEFAULT_OPSET
    max_ir_version: int = 0
    ops: Mapping[str, Support] = field(default_factory=dict)
    pairs: Mapping[str, PairSupport] = field(default_factory=dict)
    wrong: Mapping[str, Support] = field(default_factory=dict)
    limited: Mapping[str, Support] = field(default_factory=dict)
    limited_pairs: Mapping[str, PairSupport] = field(default_factory=dict)
    skipped: Mapping[str, str] = field(default_factory=dict)
    harmful_fusions: frozenset[str] = frozenset()
    contrib: Mapping[str, frozenset[ir.DataType]] = field(default_factory=dict)
    flags: Flags = field(default_factory=Flags)
    costs: Costs = field(default_factory=Costs)
    fallback: Target | None = None
    variants: bool = True

    def __post_init__(self) -> None:
        """Adds the rows that follow from pairs."""
        either = {key: _either(firsts, "." in key) for key, firsts in self.pairs.items()}
        self._ops = {**either, **self.ops}

    def __repr__(self) -> str:
        return f"Target({self.name!r}, {self.runtime_version}, opset <= {self.max_opset})"

    @property
    def newer_opset(self) -> int:
        """The newest opset that its models have by default."""
        return max(self.default_opset, min(NEWER_OPSET, self.max_opset))

    def supports(self, op_key: str, dtype: ir.DataType, opset: int) -> bool:
        """Return whether the operator runs on this element type of its main parameter.

        For keys that have only a matrix (Cast, CastLike, BitCast and the keys `Op.parameter` of
        `PAIR_PARAMETERS`): whether it runs with some element type of the other parameter.

        Raises:
            ValueError: ONNX has no operator of that name.
        """
        return opset in self._row(op_key).get(dtype, _NOWHERE)

    def supports_pair(
        self, op_key: str, first: ir.DataType, second: ir.DataType, opset: int
    ) -> bool:
        """Return whether an operator of `PAIR_PARAMETERS` runs on these two element types.

        Raises:
            ValueError: the operator has no such matrix.
        """
        firsts = self.pairs.get(op_key)
        if firsts is None:
            raise ValueError(f"{op_key!r} has no pair table; there is one for {[*PAIR_PARAMETERS]}")
        return opset in firsts.get(first, {}).get(second, _NOWHERE)

    def supports_cast(self, src: ir.DataType, dst: ir.DataType, opset: int) -> bool:
        """Return whether Cast runs from `src` to `dst`."""
        return self.supports_pair("Cast", src, dst, opset)

    def is_wrong(self, op_key: str, dtype: ir.DataType, opset: int) -> bool:
        """Return whether the operator runs on this element type but gives wrong numbers for some
        operands. It is not supported then."""
        return opset in self.wrong.get(op_key, {}).get(dtype, _NOWHERE)

    def is_limited(self, op_key: str, dtype: ir.DataType, opset: int) -> bool:
        """Return whether the operator gives wrong numbers for some operands, and right ones for
        integers that f32 holds with all results, for keys without ties, and for floats that are
        neither NaN nor infinite nor denormal."""
        return opset in self.limited.get(op_key, {}).get(dtype, _NOWHERE)

    def is_limited_pair(
        self, op_key: str, first: ir.DataType, second: ir.DataType, opset: int
    ) -> bool:
        """Return the same for an operator of `PAIR_PARAMETERS` on these two element types."""
        firsts = self.limited_pairs.get(op_key, {})
        return opset in firsts.get(first, {}).get(second, _NOWHERE)

    def has_contrib(self, key: str, dtype: ir.DataType) -> bool:
        """Return whether an operator of "com.microsoft" pays on this element type."""
        return dtype in self.contrib.get(key, ())

    def has(self, fault: str) -> bool:
        """Return whether a flag of this name is set, or the fusion of this name is harmful."""
        return fault in self.harmful_fusions or getattr(self.flags, fault, False)

    def _row(self, op_key: str) -> Support:
        row = self._ops.get(op_key)
        if row is not None:
            return row
        op_type = op_key.partition("[")[0].partition(".")[0]
        if op_type not in schemas():
            raise ValueError(f"{op_key!r}: ONNX has no operator {op_type!r} in its default domain")
        found = {} if self.variants else self._ops.get(op_type, {})
        self._ops[op_key] = found
        return found


def parse_ranges(ranges: str, newest: int) -> Iterable[int]:
    """Yield the opsets of "18-20,23-" up to the newest. A range without an end goes up to it."""
    for part in ranges.split(","):
        first, dash, last = part.partition("-")
        end = int(last or (newest if dash else first))
        yield from range(int(first), min(end, newest) + 1)


def _either(firsts: PairSupport, second: bool) -> Support:
    """Return the first (or second) element types of the pairs, whatever the other one is."""
    either: Support = {}
    for first, seconds in firsts.items():
        for other, opsets in seconds.items():
            dtype = other if second else first
            either[dtype] = either.get(dtype, _NOWHERE) | opsets
    return either


@cache
def schemas() -> dict[str, dict[int, Any]]:
    """Return the schemas of the default domain: operator -> since_version -> schema."""
    schemas: dict[str, dict[int, Any]] = {}
    for schema in onnx.defs.get_all_schemas_with_history():
        if not schema.domain:
            schemas.setdefault(schema.name, {})[schema.since_version] = schema
    return schemas


def schema_target(name: str) -> Target:
    """Return the target that allows what the ONNX standard allows."""
    newest: int = onnx.defs.onnx_opset_version()
    ops: dict[str, Support] = {}
    pairs: dict[str, PairSupport] = {}
    for versions in schemas().values():
        for opset in range(MIN_OPSET, newest + 1):
            since = max((v for v in versions if v <= opset), default=None)
            if since is None or versions[since].deprecated:
                continue
            _add_schema(ops, pairs, versions[since], opset)
    for key, since in VARIANT_SINCE.items():
        row = ops[key.partition("[")[0]]
        ops[key] = {dtype: frozenset(n for n in row[dtype] if n >= since) for dtype in row}
    return Target(
        name,
        runtime="onnx",
        runtime_version=onnx.__version__,
        known="read",
        about="the standard alone: every operator and type that it allows",
        max_opset=newest,
        max_ir_version=onnx.IR_VERSION,
        ops=ops,
        pairs=pairs,
        flags=Flags(rounds_half=True, fuses_attention=True),
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
    """Return the formal parameter of a schema at an input's position, or `OUTPUT`."""
    return schema.outputs[0] if position == OUTPUT else schema.inputs[position]


def _allow(row: Support, dtypes: Iterable[ir.DataType], opset: int) -> None:
    for dtype in dtypes:
        row[dtype] = row.get(dtype, _NOWHERE) | {opset}


def _tensor_types() -> dict[str, ir.DataType]:
    """Map ONNX type strings to element types: "tensor(float)" -> FLOAT."""
    return {f"tensor({dtype.name.lower()})": dtype for dtype in ir.DataType if dtype.value}


_TENSOR_TYPES: Final = _tensor_types()
