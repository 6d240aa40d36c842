"""Runs handlers of plug-ins and reports their mistakes as errors of the plug-in."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, Any

import onnx_ir as oir

from hlo2onnx.errors import Hlo2OnnxError, InternalError, UnsupportedOp
from hlo2onnx.frontend.mlir.locations import Frame
from hlo2onnx.ir.type_inference import MissingTypesError
from hlo2onnx.lowering.op import Op
from hlo2onnx.lowering.plugin_nodes import check_nodes
from hlo2onnx.lowering.plugin_results import expected_types, returned_values
from hlo2onnx.lowering.plugins import Plugin
from hlo2onnx.lowering.registry import Handler

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
    halves = handler.form == "parts" and op.touches_complex
    try:
        values = returned_values(returned, em, op, made, halves)
        check_nodes((node for node in made if node not in (em.inner_nodes or ())), em.opset)
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
    """A description of an exception in a handler, and advice."""
    place = _place_of_error(plugin, error)
    if isinstance(error, MissingTypesError):
        why = f"made a node {error.op_type} without types={place}, and there is no type rule for it"
        return why, _types_advice(op)
    kind = "" if isinstance(error, InternalError) else f"{type(error).__name__}: "
    why = f"failed{place}: {kind}{_first_line(error)}"
    if "op" in _walker_functions(error):
        return why, (
            "the error is in a region or function that the handler translates: give the values"
            f" there the types of the block's arguments; {_TRACEBACK}"
        )
    return why, f"correct it there; {_TRACEBACK}"


def _types_advice(op: Op) -> str:
    types = [part.value_type for part in expected_types(op)]
    shown = [f"(onnx_ir.DataType.{dtype.name}, {_tuple_text(shape)})" for dtype, shape in types]
    return (
        "pass types= to em.op, one (onnx_ir.DataType, shape) per output of the node. For the"
        f" results of this op that is types=[{', '.join(shown)}], which a handler writes as"
        " [em.result_type(op).value_type]"
    )


def _tuple_text(shape: Iterable[object]) -> str:
    return str(tuple(dim if isinstance(dim, int) else None for dim in shape))


def _place_of_error(plugin: Plugin, error: Exception) -> str:
    """The innermost line of the plug-in's file in the traceback: " at file:line"."""
    lines = [
        Frame(frame.f_code.co_filename, line)
        for frame, line in traceback.walk_tb(error.__traceback__)
        if frame.f_code.co_filename == plugin.filename
    ]
    return f" at {lines[-1].source}" if lines else ""


def _first_line(error: Exception) -> str:
    return next(iter(str(error).strip().splitlines()), "no message")
