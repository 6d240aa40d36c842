"""Checks of the values that a plug-in's handler returned."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import numpy as np
import onnx_ir as oir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.types import TensorType, parts_of

if TYPE_CHECKING:
    from hlo2onnx.lowering.emitter import Emitter
    from hlo2onnx.lowering.op import Op

CONTRACT = "return one onnx_ir.Value per result of the op, or a list of them"


def returned_values(
    returned: object, em: Emitter, op: Op, made: Sequence[oir.Node], halves: bool
) -> list[oir.Value]:
    """The values that a handler returned, in one list.

    Args:
        returned: One value; or a sequence of values, or of tuples with the parts of each result.
        made: The nodes that the handler made.
        halves: Whether the handler was called for the real or the imaginary parts alone.

    Raises:
        UnsupportedOp: They do not fit the op's results.
    """
    groups = [tuple(_flat(item)) for item in _items(returned)]
    values = [value for group in groups for value in group]
    wanted = _expected_parts(op, halves)
    if len(values) != sum(map(len, wanted)) or not _same_groups(returned, groups, wanted):
        what = "nothing" if not values else f"{len(values)} value{'s' if len(values) > 1 else ''}"
        shown = f" ({_listed(groups)})" if values else ""
        raise UnsupportedOp(
            f"returned {what}{shown} instead of {_texts(wanted)}",
            f"{CONTRACT}; a complex result has two values, real and imaginary; a token has none",
        )
    for value in values:
        _check_typed(value)
        _check_placed(value, em, made)
    for value, expected in zip(values, expected_types(op, halves), strict=True):
        advice = _misfit(value, expected, whole=em.translator.context.in_scalar_region)
        if advice:
            raise UnsupportedOp(f"returned {_listed(groups)} instead of {_texts(wanted)}", advice)
    return values


def expected_types(op: Op, halves: bool = False) -> list[TensorType]:
    """The types of the values that a handler of the op has to return."""
    return [part for parts in _expected_parts(op, halves) for part in parts]


def _expected_parts(op: Op, halves: bool) -> list[tuple[TensorType, ...]]:
    types = [parts_of(result.type) for result in op.results]
    return [parts[:1] for parts in types] if halves else types


def _items(returned: object) -> list[object]:
    return list(returned) if isinstance(returned, list | tuple | Iterator) else [returned]


def _same_groups(
    returned: object, groups: Sequence[Sequence[object]], wanted: Sequence[Sequence[object]]
) -> bool:
    """Whether tuples with the parts of each result, if a handler returned them, have the right
    lengths."""
    if not isinstance(returned, list) or not any(isinstance(item, tuple) for item in returned):
        return True
    return [*filter(None, map(len, groups))] == [*filter(None, map(len, wanted))]


def _flat(returned: object) -> Iterator[oir.Value]:
    if isinstance(returned, oir.Value):
        yield returned
    elif isinstance(returned, list | tuple | Iterator):
        for item in returned:
            yield from _flat(item)
    else:
        raise UnsupportedOp(f"returned {_kind(returned)}, not onnx_ir.Values", _advice(returned))


def _kind(item: object) -> str:
    if item is None:
        return "None"
    kind = type(item)
    name = (
        kind.__qualname__
        if kind.__module__ == "builtins"
        else f"{kind.__module__}.{kind.__qualname__}"
    )
    return f"{'an' if name[0] in 'aeiou' else 'a'} {name}"


def _advice(item: object) -> str:
    if item is None:
        return f"{CONTRACT}; is there a return statement?"
    if isinstance(item, np.ndarray | np.generic | int | float):
        return f"{CONTRACT}; em.const(array) makes a constant"
    if isinstance(item, oir.Node):
        return f"{CONTRACT}; node.outputs has the values of a node"
    if str(type(item).__module__).startswith("jaxlib."):
        return f"{CONTRACT}; em.operand(op) and em.parts(value) give the ONNX values of MLIR values"
    return CONTRACT


def _check_typed(value: oir.Value) -> None:
    lacks = [name for name in ("dtype", "shape") if getattr(value, name) is None]
    if lacks:
        raise UnsupportedOp(
            f"returned the value {value.name}, which has no {' and no '.join(lacks)}",
            "make nodes with em.op or em.<Operator>, which give their outputs types",
        )


def _check_placed(value: oir.Value, em: Emitter, made: Sequence[oir.Node]) -> None:
    """Refuses a value that is not visible in the graph at the op."""
    node = value.producer()
    if node is not None:
        is_inside = node in made and node.graph not in (em.graph, em.main_graph)
        if node.graph is None or is_inside:
            where = "a subgraph that it made" if is_inside else "no graph"
            raise UnsupportedOp(
                f"returned the value {value.name}, whose node is in {where}",
                "return outputs of nodes that em made outside of em.subgraph(...)",
            )
        return
    known = value.is_graph_input() or value.is_initializer()
    if not known and not any(value in parts for parts in em.environment.values()):
        raise UnsupportedOp(
            f"returned the value {value.name}, which no node of the graph computes",
            "make values with em.op, em.<Operator> or em.const, not with onnx_ir alone",
        )


def _misfit(value: oir.Value, expected: TensorType, whole: bool) -> str:
    """Advice about a value of another element type or shape; "" if it fits. The shape is free in a
    scalar region that is applied to `whole` tensors."""
    assert value.shape is not None
    if value.dtype != expected.dtype:
        return (
            f"em.cast(value, onnx_ir.DataType.{expected.dtype.name}) changes the element type;"
            " em.result_type(op) has the type of a result"
        )
    if not whole and not expected.admits(tuple(value.shape)):
        return "em.reshape and em.expand change the shape; em.result_type(op) has a result's shape"
    return ""


def _listed(groups: Sequence[Sequence[oir.Value]]) -> str:
    return _joined([list(map(_type_text, group)) for group in groups])


def _type_text(value: oir.Value) -> str:
    if value.dtype is None or value.shape is None:
        return "a value without a type"
    return f"tensor<{''.join(f'{dim}x' for dim in value.shape)}{value.dtype.short_name()}>"


def _texts(wanted: Sequence[Sequence[TensorType]]) -> str:
    return _joined([list(map(str, parts)) for parts in wanted])


def _joined(groups: Sequence[Sequence[str]]) -> str:
    texts = [f"({', '.join(g)})" if len(g) > 1 else g[0] for g in groups if g]
    return ", ".join(texts) or "nothing"
