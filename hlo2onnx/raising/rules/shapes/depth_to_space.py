"""Blocks of pixels that become channels and back -> DepthToSpace and SpaceToDepth."""

from __future__ import annotations

from dataclasses import dataclass

import onnx_ir as oir

from hlo2onnx.ir.dims import canonical
from hlo2onnx.ir.values import Shape, dtype_of, shape_of
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need, needed
from hlo2onnx.raising.match.views import RESHAPES, first, maker_of, source_of

TO_LAST = (0, 2, 3, 1)
"""The permutation that moves channels from second to last."""


@dataclass(frozen=True)
class _Form:
    """The order in which an operator puts blocks together: axes of the view that is transposed.

    Attributes:
        perm: The order of axes that the view is brought into.
        mode: Of DepthToSpace; None for SpaceToDepth.
        block: The axis of a block's rows. A block has as many columns if the shapes fit.
        kept: The axes of channels, height and width.
        is_last: Whether channels are last before, and after.
    """

    perm: tuple[int, ...]
    mode: str | None
    block: int
    kept: tuple[int, int, int]
    is_last: tuple[bool, bool] = (False, False)

    def shapes(self, view: Shape) -> tuple[int, Shape, Shape]:
        """The size of square blocks, 0 if it is not known, and the shapes before and after, both
        with channels second."""
        channels, height, width = self.kept
        size = view[self.block]
        if not isinstance(size, int):
            return 0, (), ()
        deep = (view[0], view[channels] * size * size, view[height], view[width])
        wide = (view[0], view[channels], view[height] * size, view[width] * size)
        before, after = (deep, wide) if self.mode is not None else (wide, deep)
        return size, tuple(map(canonical, before)), tuple(map(canonical, after))


_FORMS = (
    _Form((0, 3, 4, 1, 5, 2), "DCR", 1, (3, 4, 5)),
    _Form((0, 1, 4, 2, 5, 3), "CRD", 2, (1, 4, 5)),
    _Form((0, 3, 5, 1, 2, 4), None, 3, (1, 2, 4)),
    _Form((0, 4, 1, 5, 2, 3), "DCR", 1, (3, 4, 5), (False, True)),
    _Form((0, 4, 2, 5, 3, 1), "CRD", 2, (1, 4, 5), (False, True)),
    _Form((0, 2, 4, 3, 5, 1), None, 3, (1, 2, 4), (False, True)),
    _Form((0, 1, 3, 2, 4, 5), "DCR", 3, (5, 1, 2), (True, True)),
    _Form((0, 1, 4, 2, 5, 3), "CRD", 4, (3, 1, 2), (True, True)),
    _Form((0, 1, 3, 2, 4, 5), None, 2, (5, 1, 3), (True, True)),
)


class DepthToSpaceOperator(Rule):
    """Reshape(Transpose(Reshape(x))) -> DepthToSpace(x) or SpaceToDepth(x), or a Transpose of it

    Legal where square blocks of pixels become channels, or channels become blocks, in an order
    that the operator has. Channels are second, or a Transpose has moved them to the end.
    """

    name = "depth-to-space"
    anchors = RESHAPES
    sources = frozenset({"Transpose"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        transpose = needed(maker_of(first(node), "Transpose"), "nothing is transposed", node)
        view = first(transpose)
        x = needed(source_of(view, *RESHAPES), "no Reshape splits the axes", node)
        perm = tuple(transpose.attributes["perm"].as_ints())
        shapes = (shape_of(x), shape_of(node.outputs[0]))
        for form in _FORMS:
            size, *both = form.shapes(shape_of(view)) if form.perm == perm else (0, (), ())
            if size > 1 and shapes == tuple(map(_laid_out, both, form.is_last)):
                return _operator(b, form, size, x, both[1])
        raise Refusal("it does not rearrange square blocks", node)


def _laid_out(shape: Shape, is_last: bool) -> Shape:
    return tuple(shape[axis] for axis in TO_LAST) if is_last else shape


def _operator(b: Rewriter, form: _Form, size: int, x: oir.Value, dims: Shape) -> oir.Value:
    op_type = "SpaceToDepth" if form.mode is None else "DepthToSpace"
    key = "DepthToSpace[CRD]" if form.mode == "CRD" else op_type
    need(b.supports(key, dtype_of(x)), f"no {op_type} for its type", x)
    before, after = form.is_last
    if before:
        moved = needed(maker_of(x, "Transpose"), "no Transpose moves its channels to the end", x)
        need(tuple(moved.attributes["perm"].as_ints()) == TO_LAST, "other axes were moved", moved)
        x = first(moved)
    made = b.op(op_type, x, blocksize=size, mode=form.mode, types=[(dtype_of(x), dims)])
    return b.transpose(made, TO_LAST) if after else made  # type: ignore[arg-type]
