"""Runs handlers and reports the mistakes of those that are not part of hlo2onnx.

hlo2onnx's own handlers are tested. A mistake in a handler of a plug-in or a user would become an
error of a rule, of the walker or of the runtime, which does not name the handler. Here it becomes a
refusal of the op that names the handler and says what to change.
"""

from __future__ import annotations

import traceback
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import onnx
import onnx_ir as oir

from hlo2onnx.errors import Hlo2OnnxError, InternalError, UnsupportedOp
from hlo2onnx.frontend.mlir.locations import Frame
from hlo2onnx.frontend.mlir.types import TensorType, parts_of
from hlo2onnx.ir.type_inference import RULES, MissingTypesError, infer
from hlo2onnx.ir.values import attributes_of
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.registry import Handler, Plugin
from hlo2onnx.options import ir_version

if TYPE_CHECKING:
    from hlo2onnx.lowering.emitter import Emitter

_WALKER = "hlo2onnx.lowering.walker"


def run_handler(handler: Handler, em: Emitter, op: Op, attributes: Mapping[str, Any]) -> Any:
    """The result of a handler, checked if the handler is a plug-in's.

    Raises:
        UnsupportedOp: The plug-in's handler failed, or returned something else than the values of
            the op's results. The cause is the exception that left the handler.
    """
    first = len(em.made)
    if handler.plugin is None:
        returned = handler.function(em, op, **attributes)
    else:
        outer, em.inner_nodes = em.inner_nodes, set()
        try:
            returned = _run(handler, handler.plugin, em, op, attributes)
        finally:
            em.inner_nodes = outer
    if em.inner_nodes is not None:
        em.inner_nodes.update(em.made[first:])
    return returned


def _run(
    handler: Handler, plugin: Plugin, em: Emitter, op: Op, attributes: Mapping[str, Any]
) -> list[oir.Value]:
    first = len(em.made)
    try:
        returned = handler.function(em, op, **attributes)
    except Exception as error:
        if not _is_mistake(error):
            raise
        why, advice = _explained(plugin, error, op)
        raise UnsupportedOp(f"{plugin.title} {why}", advice) from error
    made = em.made[first:]
    expected = [parts_of(result.type) for result in op.results]
    if handler.form == "parts" and op.touches_complex:
        expected = [parts[:1] for parts in expected]
    try:
        values = _checked(returned, expected, em, made)
        for node in made:
            if not node.domain and node not in (em.inner_nodes or ()):
                _check_node(node, em.opset)
    except UnsupportedOp as refusal:
        refusal.why = f"{plugin.title} {refusal.why}"
        refusal.next = plugin.advice or refusal.next
        raise
    return values


# -- exceptions ---------------------------------------------------------------------------------

_TRACEBACK = "its traceback is the cause of this error (--debug prints it)"


def _is_mistake(error: Exception) -> bool:
    """Whether an exception is a mistake of the handler that raised it.

    Refusals and signals of the lowering are not mistakes. A failure in StableHLO that hlo2onnx
    lowered from a JAX function is hlo2onnx's own mistake. If the program nests too deeply, the
    handlers of its regions are not at fault.
    """
    if isinstance(error, Hlo2OnnxError):
        is_other = not isinstance(error, InternalError)
    else:
        is_other = str(type(error).__module__).startswith("hlo2onnx.")
    if is_other:
        return False
    names = _walker_functions(error)
    if "through_jax" in names:
        return "op" not in names[names.index("through_jax") :]
    return not (isinstance(error, RecursionError) and "op" in names)


def _walker_functions(error: Exception) -> list[str]:
    """The walker's methods in the traceback of a handler's exception, outermost first."""
    frames = [frame for frame, _ in traceback.walk_tb(error.__traceback__)]
    return [frame.f_code.co_name for frame in frames if frame.f_globals["__name__"] == _WALKER]


def _explained(plugin: Plugin, error: Exception, op: Op) -> tuple[str, str]:
    """A description of an exception in a handler, with its place, and advice."""
    lines = [
        Frame(frame.f_code.co_filename, line).source
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == plugin.filename
    ]
    place = f" at {lines[-1]}" if lines else ""
    if isinstance(error, MissingTypesError):
        why = f"made a node {error.op_type} without types={place}, and there is no type rule for it"
        return why, (
            "pass types= to em.op, one (onnx_ir.DataType, shape) for each output of the node:"
            " types=[em.result_type(op).value_type] for the type of the op's result"
        )
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    text = next(iter(str(error).strip().splitlines()), "no message")
    advice = "correct it there"
    if "op" in _walker_functions(error):
        advice = (
            "the error is in a region or function that the handler translates: give the values"
            " there the types of the block's arguments"
        )
    return f"failed{place}: {kind}{text}", f"{advice}; {_TRACEBACK}"


# -- returned values ----------------------------------------------------------------------------

_CONTRACT = (
    "return one onnx_ir.Value per result of the op, or a list of them; a complex result has two"
    " values, real and imaginary; a token has none. em.const(array) makes a constant,"
    " em.operand(op) gives the value of an operand"
)
_PLACES = "return outputs of nodes that em made outside of em.subgraph(...), or em.const(array)"
_TYPES = (
    "em.result_type(op) has the type of a result; em.cast changes the element type, em.reshape and"
    " em.expand the shape"
)


def _checked(
    returned: object,
    expected: Sequence[Sequence[TensorType]],
    em: Emitter,
    made: Sequence[oir.Node],
) -> list[oir.Value]:
    """The values that a handler returned, in one list.

    Args:
        returned: One value; or a sequence of values, or of tuples with the parts of each result.
        expected: The types of the parts of each result.
        made: The nodes that the handler made.

    Raises:
        UnsupportedOp: They do not fit the op's results.
    """
    items = list(returned) if isinstance(returned, list | tuple | Iterator) else [returned]
    groups = [tuple(_flat(item)) for item in items]
    values = [value for group in groups for value in group]
    types = [part for parts in expected for part in parts]
    # Without tuples, the values of complex results may be in one flat list.
    is_grouped = isinstance(returned, list) and any(isinstance(item, tuple) for item in items)
    counts = [len(parts) for parts in expected if parts]
    if len(values) != len(types) or (is_grouped and [len(g) for g in groups if g] != counts):
        count = f"{len(values)} value{'s' * (len(values) > 1)} " if values else ""
        shown = f"({_listed(groups)})" if values else "nothing"
        raise UnsupportedOp(f"returned {count}{shown} instead of {_listed(expected)}", _CONTRACT)
    for value, wanted in zip(values, types, strict=True):
        if not _is_placed(value, em, made):
            raise UnsupportedOp(
                f"returned the value {value.name}, which the graph does not compute at this place",
                _PLACES,
            )
        # A scalar region is applied to whole tensors: their shape is free.
        fits_shape = em.translator.context.in_scalar_region or (
            value.shape is not None and wanted.admits(tuple(value.shape))
        )
        if value.dtype != wanted.dtype or not fits_shape:
            raise UnsupportedOp(
                f"returned {_listed(groups)} instead of {_listed(expected)}", _TYPES
            )
    return values


def _flat(returned: object) -> Iterator[oir.Value]:
    if isinstance(returned, oir.Value):
        yield returned
    elif isinstance(returned, list | tuple | Iterator):
        for item in returned:
            yield from _flat(item)
    else:
        module, name = type(returned).__module__, type(returned).__qualname__
        kind = "None" if returned is None else f"a {module}.{name}"
        raise UnsupportedOp(f"returned {kind}, not onnx_ir.Values", _CONTRACT)


def _is_placed(value: oir.Value, em: Emitter, made: Sequence[oir.Node]) -> bool:
    """Whether a value is visible in the graph at the op."""
    node = value.producer()
    if node is not None:
        is_inside = node in made and node.graph not in (em.graph, em.main_graph)
        return node.graph is not None and not is_inside
    known = value.is_graph_input() or value.is_initializer()
    return known or any(value in parts for parts in em.environment.values())


def _listed(groups: Sequence[Sequence[oir.Value | TensorType]]) -> str:
    texts = [[_type_text(item) for item in group] for group in groups if group]
    return ", ".join(f"({', '.join(x)})" if len(x) > 1 else x[0] for x in texts) or "nothing"


def _type_text(item: oir.Value | TensorType) -> str:
    if isinstance(item, TensorType):
        return str(item)
    if item.dtype is None or item.shape is None:
        return "a value without a type"
    return f"tensor<{''.join(f'{dim}x' for dim in item.shape)}{item.dtype.short_name()}>"


# -- nodes --------------------------------------------------------------------------------------


def _check_node(node: oir.Node, opset: int) -> None:
    """Checks a node of ONNX's own domain against the standard, and its types against its rule.

    Raises:
        UnsupportedOp: It is not valid in this opset.
    """
    context = onnx.checker.C.CheckerContext()
    context.ir_version, context.opset_imports = ir_version(opset), {"": opset}
    try:
        onnx.checker.check_node(_message(node), context)
    except onnx.checker.ValidationError as error:
        raise UnsupportedOp(
            f"made a node {node.op_type} that is not valid in opset {opset} of ONNX:"
            f" {str(error).partition(chr(10))[0]}",
            "give it the operands (None for an optional one) and attributes of"
            " https://onnx.ai/onnx/operators; pass domain= for an operator of another domain",
        ) from None
    _check_types(node)
    if node.op_type == "Transpose" and "perm" not in node.attributes:  # all rules read it
        assert node.outputs[0].shape is not None
        perm = range(len(node.outputs[0].shape))[::-1]
        node.attributes["perm"] = oir.AttrInt64s("perm", list(perm))


def _message(node: oir.Node) -> onnx.NodeProto:
    """A node alone: with empty bodies, since those read values from outside."""
    message = oir.serde.serialize_node(node)
    for attribute in message.attribute:
        if attribute.type == onnx.AttributeProto.GRAPH:
            attribute.g.CopyFrom(onnx.GraphProto(name="body"))
    return message


def _check_types(node: oir.Node) -> None:
    """Compares the types of a node's outputs, which `types=` can give, with the inferred ones."""
    if node.op_type not in RULES:
        return
    try:
        inferred = infer(node.op_type, node.inputs, attributes_of(node), len(node.outputs))
    except InternalError:  # made with types=, because the rule does not know them
        return
    for output, (dtype, shape) in zip(node.outputs, inferred, strict=False):
        if output.shape is None:
            raise UnsupportedOp(f"made a value {output.name} that has no shape", _TYPES)
        pairs = list(zip(output.shape, shape, strict=False))
        differs = any(isinstance(a, int) and isinstance(b, int) and a != b for a, b in pairs)
        if output.dtype != dtype or len(output.shape) != len(shape) or differs:
            raise UnsupportedOp(
                f"made a node {node.op_type} of the type {output.dtype}{output.shape}, but it"
                f" computes {dtype}{oir.Shape(shape)}",
                "give it other operands or attributes; without types= hlo2onnx infers its type",
            )
