"""Arrays whose elements have zeros around and between them."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.values import const_ints, const_of, static_shape
from hlo2onnx.raising.engine import need, needed
from hlo2onnx.raising.match.axis_layouts import splits
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, ranges_of, source_of

Dims = tuple[int, ...]


@dataclass(frozen=True)
class Spread:
    """An array of these extents whose elements have gaps of zeros between them.

    Attributes:
        starts: The position of the first element along each axis.
        steps: The distance of the elements along each axis.
        zero: The zero, a constant of one element.
    """

    x: oir.Value
    dims: Dims
    starts: Dims
    steps: Dims
    zero: oir.Value


def spread_of(value: oir.Value) -> Spread:
    """The array before the gaps, as the handler of `pad` makes them: axes (n, 1) are padded to (m,
    step), joined to one axis, and sliced.

    Raises:
        Refusal: It has no such gaps.
    """
    cut = maker_of(value, "Slice")
    whole = value if cut is None else first(cut)
    cuts = needed({} if cut is None else ranges_of(cut), "its ranges are not known", value)
    need(all(rows.step == 1 for rows in cuts.values()), "its step is not 1", value)
    tiles = source_of(whole, *RESHAPES) or whole
    pad = needed(maker_of(tiles, "Pad"), "nothing is padded", value)
    x, low, _, zero = needed(zero_padding(pad), "it is not padded with zeros", pad)
    sizes, before = static_shape(x) or (), static_shape(tiles) or ()
    after = needed(static_shape(whole), "its shape is dynamic", value)
    dims, starts, steps = [], [], []
    for axis, group in enumerate(splits(after, before)):
        need(len(group) == 1 or (len(group) == 2 and sizes[group[1]] == 1), "it has no gaps", value)
        step = before[group[1]] if len(group) == 2 else 1
        within = low[group[1]] if len(group) == 2 else 0
        dims.append(sizes[group[0]])
        starts.append(low[group[0]] * step + within - cuts.get(axis, range(1)).start)
        steps.append(step)
    return Spread(x, tuple(dims), tuple(starts), tuple(steps), zero)


def zero_padding(pad: oir.Node) -> tuple[oir.Value, Dims, Dims, oir.Value] | None:
    """The operand of a Pad with zeros, the edges before and after, and the zero."""
    pads, mode = const_ints(pad.inputs[1]), pad.attributes.get_string("mode", "constant")
    if pads is None or min(pads, default=0) < 0 or mode != "constant" or len(pad.inputs) != 3:
        return None
    x, _, zero = pad.inputs
    known, half = const_of(zero), len(pads) // 2
    if x is None or zero is None or known is None or known.size != 1 or known.any():
        return None
    return (x, pads[:half], pads[half:], zero) if static_shape(x) is not None else None
