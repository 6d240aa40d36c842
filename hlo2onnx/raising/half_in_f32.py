"""Computes values of half types in f32.

With `half="xla"` each operator's result is rounded once, by two Casts, unless it is exact. With
`half="fast"` it is not, so that the rules find the same patterns as in a program of f32. Then
roundings stay

* where the program stores a value: in inputs, outputs and constants of the model,
* in front of discontinuous operators, such as comparisons, conversions to integers and ArgMax, so
  that equal numbers stay equal,
* where the program asks for exactly this rounding: reduce_precision.

Moves of stored values, such as Gather from a table, stay in the half type, unless nodes compute
with all elements.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable

import onnx_ir as oir

from hlo2onnx.ir.notes import (
    HALF_TYPES,
    half_type,
    is_exact,
    is_kept,
    note_half_constant,
    note_half_type,
    note_left_out,
    note_origin,
    note_rewrite,
    origin_of,
    succeed,
)
from hlo2onnx.ir.traversal import all_values, replace_input, subgraphs
from hlo2onnx.ir.values import INTEGERS, const_number, dtype_of, is_constant, size_of
from hlo2onnx.ir.weight_storage import LARGE_ELEMENTS
from hlo2onnx.report import Report
from hlo2onnx.targets import Target
from hlo2onnx.targets.builder import TargetBuilder
from hlo2onnx.targets.legalize.changes import label_of, note_casts
from hlo2onnx.targets.target import node_key

F32 = oir.DataType.FLOAT

REWRITE = "computed in f32"
"""The note on nodes that compute a half type in f32."""

_COMPARISONS = frozenset({"Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"})
_JUMPS = _COMPARISONS | {"ArgMax", "ArgMin", "Ceil", "Floor", "Hardmax", "Mod", "Round", "TopK"}
"""Discontinuous operators. Comparisons with 0 need no rounding."""

_MOVES = frozenset(
    {"Flatten", "Gather", "GatherElements", "GatherND", "Identity", "Reshape", "ReverseSequence",
     "Slice", "Split", "Squeeze", "Transpose", "Unsqueeze"}
)  # fmt: skip
"""Operators that only move elements of their first operand."""

_REARRANGES = frozenset({"Reshape", "Squeeze", "Transpose", "Unsqueeze"})
"""Those that keep all elements."""

_WRITES = frozenset({"Concat", "ScatterElements", "ScatterND", "TensorScatter"})
"""Operators that put elements into a copy of their first operand, or append them."""

_TYPED = frozenset({"dtype", "output_dtype", "to", "value"})
"""Attributes that say the element type of a result."""


def types_in_f32(target: Target, opset: int, half: str) -> frozenset[oir.DataType]:
    """The half types that are computed in f32.

    The target has no kernels for them, or, with `half="fast"`, slower ones. f16 kernels that round
    less often than each operator are for `half="fast"` only.
    """
    flags = target.flags

    def is_supported(dtype: oir.DataType) -> bool:
        return all(target.supports(op_type, dtype, opset) for op_type in ("Add", "MatMul"))

    if half == "fast":
        return frozenset(x for x in HALF_TYPES if flags.slow_half or not is_supported(x))
    rounds = {oir.DataType.BFLOAT16: True, oir.DataType.FLOAT16: flags.rounds_half}
    return frozenset(x for x in HALF_TYPES if not (rounds[x] and is_supported(x)))


def compute_in_f32(model: oir.Model, target: Target, half: str, report: Report) -> None:
    """Computes half types in f32, in place, if the target lacks their kernels or is slower with
    them.

    Args:
        half: "xla" keeps all roundings. "fast" leaves out those between operators, and the report
            says how many.
    """
    graph = model.graph
    opset = graph.opset_imports[""]
    types = types_in_f32(target, opset, half)
    if not types or not any(value.dtype in types for value in all_values(graph)):
        return
    builder = TargetBuilder(graph, opset, target)
    builder.adopt(graph)
    widening = _Widening(builder, types, rounds=half == "xla")
    widening.visit(graph)
    for place, value in enumerate(graph.outputs):
        dtype = half_type(value)
        if dtype is not None:
            widening.store_output(graph, place, value, dtype)
    for dtype, count in sorted(widening.left_out.items()):
        report.note(
            f'half="fast": {count} results of {dtype.short_name()} are computed in f32 and not'
            " rounded: they differ from XLA's by these roundings"
        )


class _Widening:
    """Gives nodes f32 operands and results."""

    def __init__(
        self, builder: TargetBuilder, types: frozenset[oir.DataType], rounds: bool
    ) -> None:
        self._b = builder
        self._types = types
        self._rounds = rounds
        self._not_yet_rounded: set[oir.Value | None] = set()
        self._label = ""
        self._wide: dict[oir.Value, oir.Value] = {}
        self.left_out: Counter[oir.DataType] = Counter()

    def visit(self, graph: oir.Graph) -> None:
        """Widens the nodes of a graph, in order, and of the graphs in it."""
        for node in list(graph):
            if inner := subgraphs(node):
                self._control_flow(node, inner)
                continue
            self._label = self._named(node)
            if node.op_type == "Cast" and not node.domain:
                self._cast(node)
            elif self._stays(node):
                self._narrow_operands(node)
            else:
                self._widen(node)

    def store_output(
        self, graph: oir.Graph, place: int, value: oir.Value, dtype: oir.DataType
    ) -> None:
        """Rounds an output of the main graph to its half type."""
        self._label = f"output {dtype.short_name()}"
        with self._b.at_end(graph):
            stored = self._casted(value, dtype)
        value.name, stored.name = stored.name, value.name
        graph.outputs[place] = stored

    # -- nodes ------------------------------------------------------------------------------------

    def _named(self, node: oir.Node) -> str:
        """The operator and its element type, a half type if it has one in the program."""
        values = [x for x in (*node.outputs, *node.inputs) if x is not None]
        types = (x.dtype if x.dtype in self._types else half_type(x) for x in values)
        dtype = next((each for each in types if each is not None), None)
        return label_of(node) if dtype is None else f"{node.op_type} {dtype.short_name()}"

    def _control_flow(self, node: oir.Node, inner: Iterable[oir.Graph]) -> None:
        """Widens what goes into loops and branches, and what comes out."""
        self._label = node.op_type
        self._widen_operands(node)
        for graph in inner:
            for value in graph.inputs:
                self._retype(value)
            self.visit(graph)
            self._label = node.op_type
            for place, value in enumerate(graph.outputs):
                if value.dtype in self._types:
                    with self._b.at_end(graph):
                        graph.outputs[place] = self._casted(value, F32)
        for value in node.outputs:
            self._retype(value)

    def _cast(self, node: oir.Node) -> None:
        x, result = node.inputs[0], node.outputs[0]
        assert x is not None
        final = dtype_of(result)
        if self._rounds:
            return
        if is_kept(result):
            if final == F32:
                self._round_operands(node)
        elif final in self._types:
            if x.dtype in self._types:
                replace_input(node, 0, self._widened(x))
            node.attributes["to"] = oir.AttrInt64("to", int(F32))
            self._retype(result)
            if (maker := x.producer()) is not None and not is_exact(maker):
                note_left_out(maker)
        elif half_type(x) is not None and (final in INTEGERS or final == oir.DataType.BOOL):
            self._round_operands(node)

    def _stays(self, node: oir.Node) -> bool:
        """Whether a node keeps its types: its attributes name them, or it moves stored values."""
        if node.domain or node.op_type in ("CastLike", "Shape", "Size"):
            return True
        if not _TYPED.isdisjoint(node.attributes):
            return True
        if node.op_type not in _MOVES | _WRITES | {"Expand"} or "reduction" in node.attributes:
            return False
        stored, result = node.inputs[0], node.outputs[0]
        if stored is None or not self._is_stored(stored):
            return False
        if node.op_type in ("Concat", "Expand"):
            moves = _MOVES | {"Concat", "Expand"}
            return result.is_graph_output() or not _readers_behind(result, moves)
        if node.op_type in _REARRANGES:
            readers = _readers_behind(result, _REARRANGES)
            if not readers <= _MOVES | _WRITES | {"Expand"}:
                return False
        if is_constant(stored) and node.op_type != "Gather":
            return False
        return self._b.supports(node_key(node), dtype_of(stored))

    def _is_stored(self, x: oir.Value) -> bool:
        """Whether a value is of a half type in the model, and not the rounding of another one."""
        node = x.producer()
        return x.dtype in self._types and (node is None or node.op_type != "Cast")

    def _narrow_operands(self, node: oir.Node) -> None:
        """Rounds operands that a node needs in their half type."""
        if node.op_type in ("Shape", "Size"):
            return
        for place, x in enumerate(node.inputs):
            dtype = None if x is None else half_type(x)
            if x is not None and dtype is not None:
                with self._b.before(node):
                    replace_input(node, place, self._casted(x, dtype))

    def _widen(self, node: oir.Node) -> None:
        self._widen_operands(node)
        if node.op_type in _JUMPS and not self._rounds:
            self._round_operands(node)
        for value in list(node.outputs):
            if (known := origin_of(value)) is not None:
                note_origin(value, known[0], [self._widened(x) for x in known[1]])
            self._retype(value)

    def _widen_operands(self, node: oir.Node) -> None:
        for place, x in enumerate(node.inputs):
            if x is not None and x.dtype in self._types:
                replace_input(node, place, self._widened(x))

    def _round_operands(self, node: oir.Node) -> None:
        """Rounds the operands of a node, as the program does; the results are f32."""
        if node.op_type in _COMPARISONS and _jumps_at_zero(node):
            return
        for place, x in enumerate(node.inputs):
            dtype = None if x is None else half_type(x)
            if x is not None and dtype is not None:
                with self._b.before(node):
                    rounded = self._casted(self._casted(x, dtype), F32)
                replace_input(node, place, rounded)

    def _casted(self, x: oir.Value, dtype: oir.DataType, label: str = "") -> oir.Value:
        made = self._b.cast(x, dtype)
        note_casts([made.producer()], label or self._label)
        return made

    # -- values -----------------------------------------------------------------------------------

    def _retype(self, value: oir.Value) -> None:
        dtype = dtype_of(value)
        if dtype in self._types:
            value.dtype = F32
            note_half_type(value, dtype)
            node = value.producer()
            if node is not None:
                note_rewrite([node], REWRITE, [])
            if node is None or self._is_exact(node, dtype):
                return
            if self._rounds and _is_moved_once(value):
                self._not_yet_rounded.add(value)
            elif self._rounds:
                self._round(value, node, dtype)
            else:
                note_left_out(node)
                self.left_out[dtype] += 1

    def _is_exact(self, node: oir.Node, dtype: oir.DataType) -> bool:
        """Whether the result of a node needs no rounding, as its operands are rounded."""
        if is_exact(node):
            return not any(x in self._not_yet_rounded for x in node.inputs)
        return _scales_exactly(node, dtype)

    def _round(self, value: oir.Value, node: oir.Node, dtype: oir.DataType) -> None:
        """Rounds a value for all its readers, which read f32."""
        readers, graph = list(value.uses()), node.graph
        with self._b.after(node):
            narrow = self._casted(value, dtype)
            rounded = self._casted(narrow, F32)
        for reader, place in readers:
            replace_input(reader, place, rounded)
        if value.is_graph_output() and isinstance(graph, oir.Graph):
            place = graph.outputs.index(value)
            value.name, rounded.name = rounded.name, value.name
            graph.outputs[place] = rounded
        succeed(value, narrow)
        succeed(value, rounded)

    def _widened(self, x: oir.Value) -> oir.Value:
        """A value in f32: itself, a constant, or a Cast that all its readers share."""
        if x.dtype not in self._types:
            return x
        if x not in self._wide:
            self._wide[x] = self._made_wide(x)
        return self._wide[x]

    def _made_wide(self, x: oir.Value) -> oir.Value:
        node, label = x.producer(), ""
        if is_constant(x):
            if not self._rounds or (size_of(x) or 0) <= LARGE_ELEMENTS:
                note_half_constant(self._b.main_graph, x, is_approximate=not self._rounds)
                return self._b.derived(lambda array: array.astype("float32"), x, is_moved=True)
            # In f32 it takes twice the memory.
            node, label = None, f"weight {dtype_of(x).short_name()}"
        with self._b.at_start() if node is None else self._b.after(node):
            return self._casted(x, F32, label)


def _readers_behind(x: oir.Value, moves: frozenset[str]) -> set[str]:
    """The operators that read a value, or what moves make of it, other than these moves."""
    pending = list(x.consumers())
    seen = set(pending)
    while pending:
        node = pending.pop()
        if node.op_type in moves:
            readers = {reader for output in node.outputs for reader in output.consumers()} - seen
            seen |= readers
            pending += readers
    return {node.op_type for node in seen} - moves


def _is_moved_once(x: oir.Value) -> bool:
    """Whether one node reads a value, and moves it: then its result is rounded instead.

    An op of the program may be several nodes, such as MatMul and Transpose, which rules merge.
    """
    readers = x.consumers()
    return (
        len(x.uses()) == 1
        and not x.is_graph_output()
        and readers[0].op_type in _REARRANGES
        and readers[0].inputs[0] is x
    )


def _jumps_at_zero(node: oir.Node) -> bool:
    """Whether a comparison is with zero, or of a value with itself.

    Rounding does not matter then, unless the number is too small for the half type.
    """
    one, other = node.inputs
    return one is other or 0 in (_number(one), _number(other))


def _scales_exactly(node: oir.Node, dtype: oir.DataType) -> bool:
    """Whether a node multiplies by a power of two, or divides by it, and no digit is lost.

    bf16 has the exponents of f32: only denormal numbers lose digits, which XLA takes for zeros.
    """
    if dtype != oir.DataType.BFLOAT16 or node.op_type not in ("Mul", "Div"):
        return False
    factors = node.inputs if node.op_type == "Mul" else node.inputs[1:]
    return any(
        number is not None and abs(math.frexp(number)[0]) == 0.5 for number in map(_number, factors)
    )


def _number(value: oir.Value | None) -> float | int | None:
    """The number of a constant, or of one that is repeated."""
    node = None if value is None else value.producer()
    while node is not None and node.op_type in ("Expand", "Reshape", "Unsqueeze"):
        value = node.inputs[0]
        node = None if value is None else value.producer()
    return const_number(value)
