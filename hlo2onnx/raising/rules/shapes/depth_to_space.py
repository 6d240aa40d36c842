"""Blocks of pixels that become channels and back -> DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import canonical
from hlo2onnx.ir.values import Shape, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.views import RESHAPES, first, source_of

TO_LAST = (0, 2, 3, 1)
"""What brings channels from second to last."""


@dataclass(frozen=True)
class _Form:
    """How an operator orders blocks: the axes of the view that is transposed.

    Attributes:
        perm: The order of axes that the view is brought into.
        mode: Of DepthToSpace; None for SpaceToDepth.
        block: The rows of a block, which has as many columns where the shapes fit.
        kept: Channels, height and width beside them.
        is_last: Whether channels are last.
    """

    perm: tuple[int, ...]
    mode: str | None
    block: int
    kept: tuple[int, int, int]
    is_last: bool = False

    def shapes(self, view: Shape) -> tuple[int, Shape, Shape]:
        """The size of the blocks, 0 if it is not known, and the shapes of what is taken apart and
        of what is put together, of square blocks."""
        channels, height, width = self.kept
        size = view[self.block]
        if not isinstance(size, int):
            return 0, (), ()
        deep = (view[0], view[channels] * size * size, view[height], view[width])
        wide = (view[0], view[channels], view[height] * size, view[width] * size)
        shapes = [tuple(map(canonical, shape)) for shape in (deep, wide)]
        if self.is_last:
            shapes = [tuple(shape[axis] for axis in TO_LAST) for shape in shapes]
        before, after = shapes if self.mode is not None else shapes[::-1]
        return size, before, after


_FORMS = (
    _Form((0, 3, 4, 1, 5, 2), "DCR", 1, (3, 4, 5)),
    _Form((0, 1, 4, 2, 5, 3), "CRD", 2, (1, 4, 5)),
    _Form((0, 3, 5, 1, 2, 4), None, 3, (1, 2, 4)),
    _Form((0, 1, 3, 2, 4, 5), "DCR", 3, (5, 1, 2), is_last=True),
    _Form((0, 1, 4, 2, 5, 3), "CRD", 4, (3, 1, 2), is_last=True),
    _Form((0, 1, 3, 2, 4, 5), None, 2, (5, 1, 3), is_last=True),
)


class DepthToSpaceOperator(Rule):
    """Reshape(Transpose(Reshape(x))) -> DepthToSpace(x) or SpaceToDepth(x)

    Legal where square blocks of pixels become channels, or channels blocks, in an order that the
    operator has, with channels second; or last, where what is taken apart has been brought there.
    """

    name = "depth-to-space"
    anchors = RESHAPES

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        view = source_of(first(node), "Transpose")
        x = None if view is None else source_of(view, *RESHAPES)
        need(x is not None, "nothing is taken apart and transposed", node)
        assert view is not None and x is not None
        transpose = first(node).producer()
        assert transpose is not None
        perm = tuple(transpose.attributes["perm"].as_ints())
        shapes = (shape_of(x), shape_of(node.outputs[0]))
        for form in _FORMS:
            size, *wanted = form.shapes(shape_of(view)) if form.perm == perm else (0, (), ())
            if size > 1 and shapes == tuple(wanted):
                return _operator(b, form, size, x, shapes[1])
        raise Refusal("it makes no blocks, or of something else", node)


def _operator(b: Rewriter, form: _Form, size: int, x: oir.Value, dims: Shape) -> oir.Value:
    op_type = "SpaceToDepth" if form.mode is None else "DepthToSpace"
    key = "DepthToSpace[CRD]" if form.mode == "CRD" else op_type
    need(b.supports(key, dtype_of(x)), f"no {op_type} for its type", x)
    if not form.is_last:
        return b.op(op_type, x, blocksize=size, mode=form.mode, types=[(dtype_of(x), dims)])
    moved = x.producer()
    is_moved = moved is not None and moved.op_type == "Transpose"
    need(is_moved, "its channels have always been last", x)
    assert moved is not None
    need(tuple(moved.attributes["perm"].as_ints()) == TO_LAST, "other axes were moved", moved)
    batch, height, width, channels = dims
    types = [(dtype_of(x), (batch, channels, height, width))]
    second = b.op(op_type, first(moved), blocksize=size, mode=form.mode, types=types)
    return b.transpose(second, TO_LAST)
