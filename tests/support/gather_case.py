"""StableHLO text of gathers, and values for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from against_xla import Run, against_xla
from edge_values import edge_values
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

MODULE = """
module {{ func.func public @main(%arg0: {operand}{argument}) -> {result} {{
  {constant}
  %0 = "stablehlo.gather"(%arg0, {name}) <{{
    dimension_numbers = #stablehlo.gather<{numbers}>,
    indices_are_sorted = false, slice_sizes = array<i64{sizes}>}}> :
    ({operand}, {starts}) -> {result}
  return %0 : {result}
}} }}
"""


@dataclass(frozen=True)
class Case:
    """One gather; `batching` pairs operand axes with axes of the start indices."""

    operand: tuple[int, ...]
    starts: tuple[int, ...]
    result: tuple[int, ...]
    sizes: tuple[int, ...]
    start_map: tuple[int, ...]
    vector: int
    offset: tuple[int, ...] = ()
    collapsed: tuple[int, ...] = ()
    batching: tuple[tuple[int, int], ...] = ()

    def text(self, element: str = "f32", index: str = "i32", known: str = "") -> str:
        """The module; `known` starts are constants."""
        numbers = {
            "offset_dims": self.offset,
            "collapsed_slice_dims": self.collapsed,
            "operand_batching_dims": [axis for axis, _ in self.batching],
            "start_indices_batching_dims": [axis for _, axis in self.batching],
            "start_index_map": self.start_map,
        }
        fields = [f"{name} = {list(axes)}" for name, axes in numbers.items() if len(axes)]
        starts = tensor(self.starts, index)
        return MODULE.format(
            operand=tensor(self.operand, element),
            starts=starts,
            name="%i" if known else "%arg1",
            argument="" if known else f", %arg1: {starts}",
            constant=f"%i = stablehlo.constant dense<{known}> : {starts}" if known else "",
            result=tensor(self.result, element),
            numbers=", ".join([*fields, f"index_vector_dim = {self.vector}"]),
            sizes=": " + ", ".join(map(str, self.sizes)) if self.sizes else "",
        )

    def run(
        self,
        starts: Any = None,
        element: str = "f32",
        index: str = "i32",
        known: bool = False,
        **options: Any,
    ) -> Run:
        """The gather of distinct elements, with starts inside and outside of the operand."""
        x = filled(self.operand, element)
        if starts is None:
            rng = np.random.default_rng(0)
            starts = rng.integers(-3, 2 + max(self.operand, default=0), self.starts)
            starts = starts if numpy_type(index).kind == "i" else np.abs(starts)
        starts = np.asarray(starts, numpy_type(index))
        if known:
            text = self.text(element, index, str(starts.tolist()))
            return against_xla(text, x, **options).bit_exact()
        return against_xla(self.text(element, index), x, starts, **options).bit_exact()


def filled(dims: Sequence[int], element: str) -> np.ndarray:
    """Distinct elements, as far as the type allows, including extremes and NaN."""
    count = int(np.prod(dims))
    if element == "f32":
        return np.arange(count, dtype=np.float32).reshape(dims)
    return np.resize(edge_values(element), count).reshape(dims)
