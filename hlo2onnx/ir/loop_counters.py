"""Counters of loops: the states to which every trip adds a constant, and what ends their loops."""

from __future__ import annotations

import onnx_ir as oir

from hlo2onnx.ir.facts import Facts
from hlo2onnx.ir.op_families import RESHAPES
from hlo2onnx.ir.traversal import subgraphs
from hlo2onnx.ir.values import const_number, const_of, origin, present, shape_of


def limit_of_next(going: oir.Value | None, state: oir.Value | None, facts: Facts) -> int | None:
    """The largest state with which a Loop goes on: one below n where it is less than n."""
    pending, limits = [] if going is None else [going], []
    while pending:
        compare = pending.pop().producer()
        if compare is None:
            continue
        inputs = [x for x in compare.inputs if x is not None]
        if compare.op_type in ("And", "Identity"):
            pending += inputs
        elif compare.op_type in RESHAPES:  # of one element
            pending.append(inputs[0])
        elif compare.op_type in ("Less", "Greater"):
            low, high = inputs if compare.op_type == "Less" else inputs[::-1]
            known = facts.int_range(high) if state is not None and _is_same(low, state) else None
            limits += [] if known is None else [known.high - 1]
    return min(limits, default=None)


def _is_same(x: oir.Value, y: oir.Value) -> bool:
    """Whether two values are the same, or sums of the same operands."""
    first, second = x.producer(), y.producer()
    if x is y or first is None or second is None:
        return x is y
    is_sum = first.op_type == second.op_type == "Add"
    return is_sum and all(a is b for a, b in zip(first.inputs, second.inputs, strict=True))


def unsaturated(x: oir.Value, after: oir.Value) -> tuple[oir.Value, int | None]:
    """The sum that a state becomes, and the number that it becomes instead where it is not less
    than that: Where(x < 99, x + 1, 99)."""
    choice = origin(after).producer()
    if choice is None or choice.op_type != "Where":
        return after, None
    condition, sum_, top = present(choice.inputs)
    compare, most = condition.producer(), const_number(top)
    if most is None or compare is None or compare.op_type not in ("Less", "Greater"):
        return after, None
    low, high = compare.inputs if compare.op_type == "Less" else compare.inputs[::-1]
    is_limited = low is x and const_number(high) == most
    return (sum_, int(most)) if is_limited else (after, None)


def step_of(x: oir.Value, after: oir.Value) -> int | None:
    """The constant that is added to a state; None for other states."""
    node = origin(after).producer()
    if node is not None and node.op_type in ("Loop", "Scan"):
        return _step_of_trips(x, origin(after), node)
    if node is None or node.op_type not in ("Add", "Sub"):
        return None
    first, second = node.inputs
    if node.op_type == "Add" and second is x:
        first, second = second, first
    array = None if second is None else const_of(second)
    if first is not x or array is None or array.size != 1:
        return None
    step = int(array.reshape(()))
    return step if node.op_type == "Add" else -step


def _step_of_trips(x: oir.Value, after: oir.Value, node: oir.Node) -> int | None:
    """The constant that all trips of an inner loop add to a state of the outer one."""
    (body,) = subgraphs(node)
    index, trips = after.index(), exact_trips(node)
    states = [*states_of(node, body).items()]
    if index is None or index >= len(states) or trips is None:
        return None
    start = node.inputs[index + 2 * (node.op_type == "Loop")]
    step = None if start is None or origin(start) is not x else step_of(*states[index])
    return None if step is None else step * trips


def exact_trips(node: oir.Node) -> int | None:
    """The number of trips of a Loop or Scan that nothing ends early, if it is known."""
    if node.op_type == "Scan":
        return length_of_scan(node) or None
    (body,) = subgraphs(node)
    count, going = node.inputs[:2]
    number = None if count is None else const_number(count)
    if number is None or not _is_true(going) or number < 0:
        return None
    again = origin(body.outputs[0])
    return int(number) if again is body.inputs[1] or _is_true(again) else None


def _is_true(condition: oir.Value | None) -> bool:
    """Whether a condition of a loop is missing, or a constant that is true."""
    array = None if condition is None else const_of(condition)
    return condition is None or (array is not None and bool(array.all()))


def length_of_scan(scan: oir.Node) -> int:
    """The number of trips of a Scan; 0 if it is not known."""
    count = scan.attributes["num_scan_inputs"].as_int()
    axes = scan.attributes.get("scan_input_axes")
    rows = scan.inputs[len(scan.inputs) - count]
    extent = None if rows is None else shape_of(rows)[0 if axes is None else axes.as_ints()[0]]
    return extent if isinstance(extent, int) else 0


def states_of(node: oir.Node, body: oir.Graph) -> dict[oir.Value, oir.Value]:
    """The states of a Loop or Scan in its body, and those after the trip, in order."""
    if node.op_type == "Loop":
        inputs, outputs = body.inputs[2:], body.outputs[1:]
    else:
        count = len(node.inputs) - node.attributes["num_scan_inputs"].as_int()
        inputs, outputs = body.inputs[:count], body.outputs
    return dict(zip(inputs, outputs, strict=False))
