"""Resampled images: products with interpolation matrices and Gathers of repeated rows -> Resize.

`jax.image.resize` multiplies each axis by a matrix of weights (linear, cubic and others), or
gathers along it (nearest). XLA's dot_general leaves Transposes and Reshapes in between. The rules
read the whole chain and find the axis of its operand that each step resamples.

Time in ONNX Runtime 1.31, two threads, relative to products of matrices with channels second:

    [1,64,8,8] -> 16 x 16     linear 1.9   antialiased 2.5   cubic 2.9   nearest 0.24 (of Gathers)
    [1,32,32,32] -> 64 x 64   linear 2.3   antialiased 3.6   cubic 3.8   nearest 0.14
    [8,256,32,32] -> 64 x 64  linear 1.4   antialiased 2.8   cubic 2.3   nearest 0.32
    [1,64,64,64] -> 128 x 128 linear 1.2   antialiased 1.8               nearest 0.01
    [1,3,112,112] -> 224 x 224 linear 0.8  antialiased 1.1   cubic 1.4   nearest 0.14
    [1,3,224,224] -> 112 x 112 linear 0.2  antialiased 0.7   cubic 1.1   nearest 0.18

A cubic Resize without antialias takes 80 to 1,350 times as long; for enlarging, antialias gives the
same numbers. With channels last, a linear Resize takes 0.1 to 0.9 of the products. A Resize with
`axes` next to a Transpose fails to load: ONNX Runtime moves the Transpose, not the axes.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.evaluator import known_array
from hlo2onnx.ir.values import dtype_of, rank_of, shape_of, static_shape
from hlo2onnx.raising.engine import Refusal, Rewriter, Rule, need
from hlo2onnx.raising.match.axis_layouts import (
    MAX_CHAIN,
    Layout,
    is_move,
    laid_out,
    layout_of,
    moved,
    repeated,
)
from hlo2onnx.raising.match.views import RESHAPES, first, is_private, operands
from hlo2onnx.raising.rules.nn.resize_modes import (
    NEAREST,
    Mode,
    index_modes,
    is_resampling,
    layout_of_images,
    multiplications,
    products,
    resized,
    weight_modes,
)


@dataclass(frozen=True)
class Step:
    """One axis of a tensor resampled: by a matrix [before, after], or by the index of each element.

    Attributes:
        modes: The modes of Resize that do the same.
    """

    node: oir.Node
    x: oir.Value
    axis: int
    after: int
    weights: np.ndarray | None
    modes: tuple[Mode, ...]


class _Resample(Rule, ABC):
    """Replaces steps along different axes by one operator, or removes the moves between them."""

    def fits(self, op_type: str, sources: frozenset[str], dtype: oir.DataType) -> bool:
        """Another step or a move is before it."""
        return not sources.isdisjoint(RESHAPES | {op_type, "Transpose"})

    @abstractmethod
    def step_of(self, node: oir.Node) -> Step | None:
        """The axis that a node resamples, if any."""

    @abstractmethod
    def made(self, steps: dict[int, Step], x: oir.Value, moves: int, b: Rewriter) -> oir.Value:
        """x with these axes resampled; `moves` Transposes and Reshapes were between the steps.

        Raises:
            Refusal: The present steps are faster.
        """

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        need(self.step_of(node) is not None, "it does not resample an axis", node)
        chain = self._chain(node)
        for start in range(len(chain)):
            read = _read(chain[start:])
            if read is None:
                continue
            steps, layout, moves = read
            need(len(steps) > 1, "a single axis is resampled", node)
            y = self.made(steps, _operand(chain[start]), moves, b)
            return laid_out(y, layout, shape_of(node.outputs[0]), b)
        raise Refusal("the steps do not resample different axes of one tensor", node)

    def _chain(self, node: oir.Node) -> list[Step | oir.Node]:
        """The steps and moves that lead to a node, from the first step or move on."""
        chain: list[Step | oir.Node] = []
        here: oir.Node | None = node
        while here is not None and len(chain) < MAX_CHAIN:
            link = here if is_move(here) else self.step_of(here)
            if link is None or (chain and not is_private(here.outputs[0])):
                break
            chain.insert(0, link)
            here = _operand(link).producer()
        return chain


def _operand(link: Step | oir.Node) -> oir.Value:
    return link.x if isinstance(link, Step) else first(link)


def _read(chain: Sequence[Step | oir.Node]) -> tuple[dict[int, Step], Layout, int] | None:
    """The axes that a chain resamples, the layout of its result, and the number of moves; None if
    moves split axes or a step resamples several."""
    layout = layout_of(_operand(chain[0]))
    steps: dict[int, Step] = {}
    moves = 0
    for link in chain:
        if isinstance(link, Step):
            group = layout.groups[link.axis]
            if len(group) != 1 or group[0] in steps:
                return None
            steps[group[0]] = link
            layout = layout.resampled(group[0], link.after)
            continue
        moves += 1
        view = moved(layout, link)
        if view is None:
            return None
        layout = view
    return steps, layout, moves


class ResizeOperator(_Resample):
    """MatMul(h, Reshape(MatMul(x, w))) -> Reshape(Resize(x)), with weights h and w of a linear or
    cubic interpolation along two axes or more

    Legal if the weights equal those of ONNX's Resize within 1e-6, computed in f64, and its
    coordinates are exact in f32. If products of matrices are faster (see the table in the source),
    they stay or become MatMul(h, MatMul(x, w)) over the last axes of x. So do weights without a
    mode of Resize, such as Lanczos, if they sum to 1 for each element. Infinities and NaN affect
    single elements only; in a product they make whole rows NaN.
    """

    name = "resize"
    anchors = frozenset({"MatMul"})
    drops_nan = True

    def step_of(self, node: oir.Node) -> Step | None:
        """See `_Resample.step_of`."""
        if node.op_type != "MatMul" or node.domain or dtype_of(node.outputs[0]) != _F32:
            return None
        left, right = operands(node)
        for x, matrix, axis in ((left, right, -1), (right, left, -2)):
            dims = static_shape(matrix)
            if dims is None or len(dims) != 2 or min(dims) < 2 or rank_of(x) < 2:
                continue
            weights = known_array(matrix)
            if weights is None:
                continue
            weights = weights if axis == -1 else weights.T
            if not is_resampling(weights):
                return None
            modes = weight_modes(weights)
            return Step(node, x, rank_of(x) + axis, weights.shape[1], weights, modes)
        return None

    def made(self, steps: dict[int, Step], x: oir.Value, moves: int, b: Rewriter) -> oir.Value:
        """See `_Resample.made`."""
        mode = _common_mode(steps.values())
        if mode is not None and _is_fast(mode, steps, x, b):
            return resized(x, _sizes(steps), mode, b)
        axes = sorted(steps)
        need(len(axes) == 2, "there are more than two axes", x)
        at_end = axes == [rank_of(x) - 2, rank_of(x) - 1]
        need(moves > (0 if at_end else 1), "products of matrices are faster", x)
        return products(x, axes, _matrices(steps), b)


class NearestResize(_Resample):
    """Gather(Gather(x, rows), columns) -> Resize(x, mode="nearest"), then any moves in between

    Legal if the constant indices equal those of ONNX's Resize, and its coordinates are exact.
    """

    name = "nearest-resize"
    anchors = frozenset({"Gather"})

    def step_of(self, node: oir.Node) -> Step | None:
        """See `_Resample.step_of`."""
        if node.op_type != "Gather" or node.domain:
            return None
        x, indices = operands(node)
        axis = node.attributes.get_int("axis", 0) % rank_of(x)
        before, count = shape_of(x)[axis], static_shape(indices)
        if count is None or len(count) != 1 or count[0] < 2 or not isinstance(before, int):
            return None
        index = known_array(indices) if before > 1 else None
        if index is None:
            return None
        modes = index_modes(np.where(index < 0, index + before, index), before)
        return Step(node, x, axis, count[0], None, modes) if modes else None

    def made(self, steps: dict[int, Step], x: oir.Value, moves: int, b: Rewriter) -> oir.Value:
        """See `_Resample.made`."""
        mode = _common_mode(steps.values())
        need(mode is not None and b.supports(mode.key, dtype_of(x)), "the target has no Resize", x)
        assert mode is not None
        return resized(x, _sizes(steps), mode, b)


class RepeatToResize(Rule):
    """Reshape(Expand(Reshape(x))) -> Resize(x, mode="nearest") if each element is repeated along
    two axes, as by jnp.repeat, then any moves in between

    Legal for the axes of images, the last two of four or the two before the last, each repeated at
    least twice.
    """

    name = "repeat-to-resize"
    formerly = ("repeated-pixels",)
    anchors = RESHAPES
    sources = frozenset({"Expand"})

    def rewrite(self, node: oir.Node, b: Rewriter) -> oir.Value:
        maker = first(node).producer()
        need(maker is not None and maker.op_type == "Expand", "its operand is not repeated", node)
        chain = [node]
        while (here := first(chain[0]).producer()) is not None and len(chain) < MAX_CHAIN:
            if not (is_move(here) or here.op_type == "Expand"):
                break
            if not is_private(here.outputs[0]):
                break
            chain.insert(0, here)
        for start in range(len(chain)):
            x = first(chain[start])
            layout = repeated(x, chain[start:])
            if layout is None:
                continue
            sizes = {axis: n for axis, n in enumerate(layout.extents) if n != shape_of(x)[axis]}
            whole = {axis: n for axis, n in sizes.items() if isinstance(n, int)}
            need(len(sizes) == len(whole) == 2, "it does not repeat along two axes", node)
            need(
                rank_of(x) == 4 and layout_of_images(NEAREST, sorted(sizes), 4),
                "the axes are not those of images",
                node,
            )
            need(b.supports(NEAREST.key, dtype_of(x)), "the target has no such Resize", node)
            for axis, size in whole.items():
                before = shape_of(x)[axis]
                assert isinstance(before, int)
                index = np.arange(size) // (size // before)
                need(index_modes(index, before), "the coordinates are not exact", node)
            return laid_out(resized(x, whole, NEAREST, b), layout, shape_of(node.outputs[0]), b)
        raise Refusal("the repetition has another form", node)


_F32 = oir.DataType.FLOAT


def _common_mode(steps: Iterable[Step]) -> Mode | None:
    """The simplest mode that fits all axes."""
    first_step, *others = steps
    shared = (mode for mode in first_step.modes if all(mode in step.modes for step in others))
    return next(shared, None)


def _is_fast(mode: Mode, steps: dict[int, Step], x: oir.Value, b: Rewriter) -> bool:
    """Whether the target has this Resize, and products of matrices would not be much faster."""
    if not b.supports(mode.key, dtype_of(x)):
        return False
    if mode == NEAREST or (
        mode.is_plain_linear and layout_of_images(mode, sorted(steps), rank_of(x)) == "last"
    ):
        return True
    *_, rows, columns = _matrices(steps)
    is_plain = mode.mode != "cubic" and not mode.antialias
    least = b.costs.linear_resize_work if is_plain else b.costs.antialiased_resize_work
    return multiplications(rows.shape, columns.shape) >= least


def _sizes(steps: dict[int, Step]) -> dict[int, int]:
    return {axis: step.after for axis, step in steps.items()}


def _matrices(steps: dict[int, Step]) -> list[np.ndarray]:
    """The weights for each axis, in order."""
    matrices = (steps[axis].weights for axis in sorted(steps))
    return [matrix for matrix in matrices if matrix is not None]
