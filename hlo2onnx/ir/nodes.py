"""Creation and placement of nodes and constants, the base of GraphBuilder."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from functools import partial
from typing import Any

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.constants import attribute_of, key_of, label_of
from hlo2onnx.ir.dims import Shapes
from hlo2onnx.ir.names import Names
from hlo2onnx.ir.notes import note_quotient
from hlo2onnx.ir.op_families import qualified
from hlo2onnx.ir.positions import Elsewhere, Position, beside, graph_of
from hlo2onnx.ir.type_inference import ValueType, check_types, infer
from hlo2onnx.ir.values import WEIGHT, Dim, attributes_of, dtype_of, shape_of
from hlo2onnx.ir.weights import NAME, Weight, content_of, is_opaque, operand_of, weight_of

_INT = frozenset({int})
_NUMBERS = (int, np.integer)

_FEW = 16
"""Lists of up to this many integers are looked up without making an array."""

GUARDS = "hlo2onnx.guards"
"""Where the main graph keeps what was asked about weights."""


class NodeBuilder:
    """Appends nodes to a graph (or inserts them before a node) and types every output.

    `builder.Add(a, b)` makes an ONNX Add node; keyword arguments are ONNX attributes; an operand
    that is None is an omitted optional input. `outputs` makes nodes with several outputs.

    Args:
        graph: The main graph; constants become its initializers wherever they are used.
        opset: Version of the default ONNX domain that the graph will declare.

    Attributes:
        names: Names taken in the model.
        made: The nodes made so far, in order. A reader empties it first.
        scope: Name of the next node; made unique.
        metadata: Metadata of the next node.
    """

    def __init__(self, graph: oir.Graph, opset: int) -> None:
        self.main_graph = graph
        self.graph = graph
        self.names = Names()
        self.made: list[oir.Node] = []
        self.opset = opset
        self.scope = ""
        self.metadata: Mapping[str, str] = {}
        self._insert_before: oir.Node | None = None
        self._insert_after: oir.Node | None = None
        self._starting = False
        self._last_at_start: oir.Node | None = None
        self._constants: dict[tuple[Any, ...], oir.Value] = {}
        self._integers: dict[tuple[int, ...] | int, oir.Value] = {}
        self._shapes = Shapes()

    def adopt(self, graph: oir.Graph) -> None:
        """Learns the names and constants of a graph that another builder made."""
        for value in graph.initializers.values():
            if isinstance(value.const_value, oir.Tensor) and weight_of(value) is None:
                self._constants.setdefault(key_of(value.const_value.numpy()), value)
        self.names = Names.of(graph)

    def forget(self) -> None:
        """Ends the builder. What it knows refers to it, and would keep all removed nodes until
        Python collects cyclic garbage."""
        vars(self).clear()

    def __getattr__(self, op_type: str) -> Callable[..., oir.Value]:
        if not op_type[0].isupper():
            raise AttributeError(f"{type(self).__name__!r} object has no attribute {op_type!r}")
        return partial(self.op, op_type)

    # -- nodes ------------------------------------------------------------------------------

    def op(
        self,
        op_type: str,
        *inputs: oir.Value | None,
        types: Sequence[ValueType] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> oir.Value:
        """Makes one node and returns its only output.

        Args:
            op_type: Operator name.
            inputs: Operands; None for an omitted optional one.
            types: Element type and shape of the output, in a list. Needed where there is no type
                rule: for an operator of another domain, or where the shape is known at run time
                only.
            domain: "" for ONNX's own. The model imports version 1 of another one, unless it is
                imported already.
            attributes: ONNX attributes by name; None leaves one out.

        Raises:
            MissingTypesError: The operator has no type rule, and `types` is not given.
            InternalError: Types or shapes of the operands do not fit the operator; or `types` is
                not a type for each output.
        """
        return self._made(op_type, inputs, attributes, 1, types, domain)[0]

    def outputs(
        self,
        op_type: str,
        *inputs: oir.Value | None,
        n_outputs: int,
        types: Sequence[ValueType] | None = None,
        domain: str = "",
        **attributes: Any,
    ) -> list[oir.Value]:
        """Makes one node and returns its outputs. See `op` for the arguments."""
        return self._made(op_type, inputs, attributes, n_outputs, types, domain)

    def _made(
        self,
        op_type: str,
        inputs: Sequence[oir.Value | None],
        attributes: Mapping[str, Any],
        n_outputs: int,
        types: Sequence[ValueType] | None,
        domain: str,
    ) -> list[oir.Value]:
        if attributes:
            attributes = {name: item for name, item in attributes.items() if item is not None}
        if domain:
            op_type = qualified(domain, op_type)
            self.main_graph.opset_imports.setdefault(domain, 1)
        if types is None:
            types = infer(op_type, inputs, attributes, n_outputs)
        else:
            check_types(op_type, types, n_outputs)
        return self.node(op_type, inputs, attributes, types, domain)

    def like(
        self,
        node: oir.Node,
        inputs: Sequence[oir.Value | None],
        types: Sequence[ValueType] | None = None,
        **changed: Any,
    ) -> oir.Value:
        """Makes a node with another's operator and attributes, and returns its one output.

        Args:
            changed: Attributes that differ.
        """
        attributes = attributes_of(node) | changed
        result = self.op(node.op_type, *inputs, types=types, **attributes)
        note_quotient(node, result)
        return result

    def copy_of(
        self,
        node: oir.Node,
        inputs: Sequence[oir.Value | None] | None = None,
        types: Sequence[ValueType] | None = None,
        **changed: Any,
    ) -> list[oir.Value]:
        """Copies a node, and returns all of its outputs.

        Args:
            inputs: Default: those of the node.
            types: Of the outputs. Default: those of the node.
            changed: Attributes that differ.
        """
        inputs = node.inputs if inputs is None else inputs
        types = types or [(dtype_of(x), shape_of(x)) for x in node.outputs]
        attributes = attributes_of(node) | changed
        made = self.node(node.op_type, inputs, attributes, types, node.domain)
        note_quotient(node, made[0])
        return made

    def node(
        self,
        op_type: str,
        inputs: Sequence[oir.Value | None],
        attributes: Mapping[str, Any],
        types: Sequence[ValueType],
        domain: str = "",
    ) -> list[oir.Value]:
        """Makes one node with outputs of these types, whatever its attributes are called."""
        name = self.names.unique_node(self.scope or op_type, len(types))
        outputs = [
            oir.Value(
                name=name if index == 0 else f"{name}:{index}",
                type=oir.TensorType(dtype),
                shape=self._shapes.shape(shape),
            )
            for index, (dtype, shape) in enumerate(types)
        ]
        node = oir.Node(
            domain,
            op_type,
            inputs,
            outputs=outputs,
            name=name,
            metadata_props=dict(self.metadata),
        )
        for key, item in attributes.items():
            node.attributes.data[key] = attribute_of(key, item)
        self._place(node)
        self.made.append(node)
        return outputs

    def _place(self, node: oir.Node) -> None:
        if self._starting:
            last = self._last_at_start
            if last is not None and last.graph is self.main_graph:
                self.graph.insert_after(last, node)
            elif len(self.main_graph):
                self.graph.insert_before(self.main_graph[0], node)
            else:
                self.graph.append(node)
            self._last_at_start = node
        elif self._insert_after is not None:
            self.graph.insert_after(self._insert_after, node)
            self._insert_after = node
        elif self._insert_before is not None:
            self.graph.insert_before(self._insert_before, node)
        else:
            self.graph.append(node)

    def before(self, node: oir.Node) -> AbstractContextManager[None]:
        """Within the block nodes go right before `node`, under its name and metadata."""
        return Elsewhere(self._go, beside(node, before=node))

    def go_before(self, node: oir.Node) -> None:
        """From here to the end of the block around it nodes go right before `node`, under its name
        and metadata: quicker than a block for each of many nodes."""
        self.graph, self._insert_before, self._insert_after = graph_of(node), node, None
        self._starting, self.scope, self.metadata = False, node.name or "", node.metadata_props

    def after(self, node: oir.Node) -> AbstractContextManager[None]:
        """Within the block nodes go right after `node`, under its name and metadata."""
        return Elsewhere(self._go, beside(node, after=node))

    def at_end(self, graph: oir.Graph) -> AbstractContextManager[None]:
        """Within the block nodes go to the end of an existing graph."""
        return self._elsewhere(graph, self.scope, self.metadata)

    def at_start(self) -> AbstractContextManager[None]:
        """Within the block nodes go to the start of the main graph, after those of earlier such
        blocks."""
        return self._elsewhere(self.main_graph, "", {}, starting=True)

    def _elsewhere(
        self,
        graph: oir.Graph,
        scope: str,
        metadata: Mapping[str, str],
        starting: bool = False,
    ) -> AbstractContextManager[None]:
        return Elsewhere(self._go, (graph, None, None, starting, scope, metadata))

    def _go(self, position: Position) -> Position:
        """Makes the next nodes at a position; returns the one before."""
        before, after, starting = self._insert_before, self._insert_after, self._starting
        saved = (self.graph, before, after, starting, self.scope, self.metadata)
        self.graph, self._insert_before, self._insert_after = position[:3]
        self._starting, self.scope, self.metadata = position[3:]
        return saved

    @contextmanager
    def subgraph(self, inputs: Sequence[oir.Value], name: str) -> Iterator[oir.Graph]:
        """Within the block nodes go into a new subgraph (a Loop or Scan body, an If branch).

        The caller appends the results to `graph.outputs` before it leaves the block.
        """
        graph = oir.Graph(inputs, [], nodes=[], name=self.names.unique(name))
        with self._elsewhere(graph, self.scope, self.metadata):
            yield graph

    def value(self, name: str, dtype: oir.DataType, shape: Sequence[Dim]) -> oir.Value:
        """A value without a producer: a graph or subgraph input."""
        return oir.Value(
            name=self.names.unique(name), type=oir.TensorType(dtype), shape=oir.Shape(shape)
        )

    # -- constants --------------------------------------------------------------------------

    def const(self, array: Any, dtype: oir.DataType | None = None, name: str = "") -> oir.Value:
        """An initializer with this content; the same content is stored once.

        Args:
            array: Anything numpy takes; not copied when it already is an array.
            dtype: ONNX element type where numpy's own is not meant.
            name: The name that it will have in the model.
        """
        array = np.asarray(array)
        if dtype is not None:
            array = array.astype(dtype.numpy(), copy=False)
        key = key_of(array)
        known = self._constants.get(key)
        if known is None or known.name not in self.main_graph.initializers:  # it may be removed
            known = self._constants[key] = self._initializer(array)
            if name:
                known.meta[NAME] = name
        return known

    def parameter(self, array: np.ndarray, name: str) -> oir.Value:
        """An initializer for a parameter of the program. Only the same array is stored once, never
        equal arrays.

        Args:
            array: Its value; not copied.
            name: Its path.
        """
        address = array.__array_interface__["data"][0]
        key = (WEIGHT, array.dtype.name, array.shape, array.strides, address)
        known = self._constants.get(key) if array.size else None
        if known is None:
            known = self._constants[key] = self._initializer(array)
            guards = self.main_graph.meta.setdefault(GUARDS, [])
            known.meta[WEIGHT] = Weight(
                is_opaque=is_opaque(array), stored=array.dtype, guards=guards
            )
        known.meta[WEIGHT].names.append(name)
        return known

    def derived(
        self,
        compute: Callable[..., np.ndarray],
        *operands: oir.Value,
        is_moved: bool = False,
        note: str = "folded",
    ) -> oir.Value:
        """A constant computed from constants, which may be weights.

        Args:
            compute: A function of their contents. It may be called again with the contents of
                other weights, and raises an exception (`need` in a rule) where they do not
                allow it.
            operands: The constants; if the result is a weight, it is named after the first weight.
            is_moved: Whether the elements are those of the first operand, in another order or
                shape.
            note: What was done to the weight, for its name.
        """
        array = np.asarray(compute(*map(content_of, operands)))
        weights = [weight for weight in map(weight_of, operands) if weight is not None]
        if not weights:
            return self.const(array)
        known = self._initializer(array)
        known.meta[WEIGHT] = Weight(
            operands=tuple(map(operand_of, operands)),
            compute=compute,
            is_moved=is_moved,
            note=note,
            is_opaque=any(weight.is_opaque for weight in weights),
            guards=weights[0].guards,
        )
        return known

    def _initializer(self, array: np.ndarray) -> oir.Value:
        name = self.names.unique(f"const_{label_of(array)}")
        tensor = oir.Tensor(array, shape=self._shapes.shape(array.shape), name=name)
        made = oir.Value(
            name=name,
            type=oir.TensorType(tensor.dtype),
            shape=tensor.shape,
            const_value=tensor,
        )
        self.main_graph.register_initializer(made)
        return made

    def i64(self, items: Sequence[int] | int) -> oir.Value:
        """An int64 constant: rank 1 for a sequence, rank 0 for an int."""
        if isinstance(items, _NUMBERS):
            key: tuple[int, ...] | int = int(items)
        elif len(items) <= _FEW and _INT.issuperset(map(type, items)):
            key = tuple(items)
        else:
            return self.const(np.asarray(items, np.int64))
        known = self._integers.get(key)  # most constants are shapes and axes that occur often
        if known is None or known.name not in self.main_graph.initializers:  # it may be removed
            known = self._integers[key] = self.const(np.asarray(items, np.int64))
        return known

    def scalar(self, item: Any, dtype: oir.DataType) -> oir.Value:
        """A rank-0 constant of the given type."""
        return self.const(np.asarray(item, dtype.numpy()))

    def scalar_like(self, item: Any, like: oir.Value) -> oir.Value:
        """A rank-0 constant of the element type of `like`."""
        return self.scalar(item, dtype_of(like))
