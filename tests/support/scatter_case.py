"""StableHLO text of scatters, and values for them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from against_xla import Run, against_xla
from edge_values import edge_values
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

REGIONS = {
    "set": "stablehlo.return %b : {s}",
    "keep": "stablehlo.return %a : {s}",
    **{
        name: f"%c = stablehlo.{name} %a, %b : {{s}} stablehlo.return %c : {{s}}"
        for name in ("add", "multiply", "minimum", "maximum", "and", "or", "xor", "subtract")
    },
    "doubling": """
        %d = stablehlo.add %a, %a : {s}
        %c = stablehlo.add %d, %b : {s}
        stablehlo.return %c : {s}""",
    "one": "%c = stablehlo.constant dense<1> : {s} stablehlo.return %c : {s}",
}
"""Bodies over the arguments %a (old) and %b (new) of type {s}."""


@dataclass(frozen=True)
class Case:
    """One scatter; `batching` pairs operand axes with axes of the scatter indices."""

    operand: tuple[int, ...]
    indices: tuple[int, ...]
    updates: tuple[int, ...]
    scattered: tuple[int, ...]
    vector: int
    window: tuple[int, ...] = ()
    inserted: tuple[int, ...] = ()
    batching: tuple[tuple[int, int], ...] = ()
    unique: bool = False

    def text(
        self, region: str = "set", element: str = "f32", index: str = "i32", known: str = ""
    ) -> str:
        """The module; `known` indices are constants."""
        numbers = {
            "update_window_dims": self.window,
            "inserted_window_dims": self.inserted,
            "input_batching_dims": [axis for axis, _ in self.batching],
            "scatter_indices_batching_dims": [axis for _, axis in self.batching],
            "scatter_dims_to_operand_dims": self.scattered,
        }
        fields = [f"{name} = {list(axes)}" for name, axes in numbers.items() if len(axes)]
        x, i, u = (
            tensor(dims, kind)
            for dims, kind in zip(
                (self.operand, self.indices, self.updates), (element, index, element), strict=True
            )
        )
        scalar = f"tensor<{element}>"
        arguments = f"%arg0: {x}, %arg1: {u}" + ("" if known else f", %arg2: {i}")
        constant = f"%i = stablehlo.constant dense<{known}> : {i}" if known else ""
        return f"""
        module {{ func.func public @main({arguments}) -> {x} {{
          {constant}
          %0 = "stablehlo.scatter"(%arg0, {"%i" if known else "%arg2"}, %arg1) <{{
            scatter_dimension_numbers = #stablehlo.scatter<{
            ", ".join([*fields, f"index_vector_dim = {self.vector}"])
        }>,
            indices_are_sorted = false, unique_indices = {str(self.unique).lower()} }}> ({{
            ^bb0(%a: {scalar}, %b: {scalar}):
              {REGIONS[region].format(s=scalar)}
          }}) : ({x}, {i}, {u}) -> {x}
          return %0 : {x}
        }} }}
        """

    def run(
        self,
        indices: Any = None,
        region: str = "set",
        element: str = "f32",
        index: str = "i32",
        known: bool = False,
        seed: int = 0,
        **options: Any,
    ) -> Run:
        """The scatter of edge values, or of numbers with exact sums in every order."""
        x, updates = values(self.operand, element, seed), values(self.updates, element, seed + 7)
        if indices is None:
            rng = np.random.default_rng(seed)
            indices = rng.integers(-2, 1 + max(self.operand, default=0), self.indices)
            indices = indices if numpy_type(index).kind == "i" else np.abs(indices)
        array = np.array(indices, numpy_type(index)).reshape(self.indices)
        if known:
            text = self.text(region, element, index, str(array.tolist()))
            return against_xla(text, x, updates, **options).bit_exact()
        text = self.text(region, element, index)
        return against_xla(text, x, updates, array, **options).bit_exact()

    def with_unique(self) -> Case:
        return replace(self, unique=True)


def values(dims: Sequence[int], element: str, seed: int) -> np.ndarray:
    count = int(np.prod(dims))
    if element in ("f32", "f64"):
        rng = np.random.default_rng(seed)
        return rng.permutation(np.arange(1, count + 1)).reshape(dims).astype(numpy_type(element))
    return np.resize(np.roll(edge_values(element), seed), count).reshape(dims)


ROWS = Case((7, 3), (5, 1), (5, 3), (0,), 1, window=(1,), inserted=(0,))
COLUMNS = Case((3, 7), (5, 1), (3, 5), (1,), 1, window=(0,), inserted=(1,))
SCALAR = Case((7, 3), (1,), (3,), (0,), 0, window=(0,), inserted=(0,))
IMPLICIT = Case((7, 3), (2, 5), (2, 5, 3), (0,), 2, window=(2,), inserted=(0,))
KEPT = Case((7, 3), (5, 1), (5, 1, 3), (0,), 1, window=(1, 2))
PAIRS = Case((4, 5, 3), (6, 2), (6, 3), (0, 1), 1, window=(1,), inserted=(0, 1))
SWAPPED = Case((4, 5, 3), (6, 2), (6, 3), (1, 0), 1, window=(1,), inserted=(0, 1))
APART = Case((4, 3, 5), (6, 2), (6, 3), (0, 2), 1, window=(1,), inserted=(0, 2))
ELEMENTS = Case((6,), (9, 1), (9,), (0,), 1, inserted=(0,))
ALONG = Case((4, 5), (4, 2, 1), (4, 2), (1,), 2, inserted=(1,), batching=((0, 0),))
ALONG_FIRST = Case((5, 2, 4), (4, 3, 2), (4, 3, 2), (0,), 3, (), (0,), ((1, 2), (2, 0)))
BATCHED_ROWS = Case((4, 5, 3), (4, 2, 1), (4, 2, 3), (1,), 2, (2,), (1,), ((0, 0),))
BATCHED_ONE = Case((4, 5, 3), (4, 1), (4, 3), (1,), 1, (1,), (1,), ((0, 0),))
FRAMES = Case((9, 2), (4, 1), (4, 3, 2), (0,), 1, window=(1, 2))
FRAMES_LAST = Case((9, 2), (4, 1), (3, 2, 4), (0,), 1, window=(0, 1))
PATCHES = Case((6, 7, 2), (4, 2), (4, 3, 2, 2), (0, 1), 1, window=(1, 2, 3))
BATCHED_WINDOW = Case((4, 9), (4, 1), (4, 3), (1,), 1, window=(1,), batching=((0, 0),))
WINDOW = Case((6, 7), (2,), (3, 2), (0, 1), 0, window=(0, 1))
CORNER = Case((4, 5), (3, 1), (3, 2), (0,), 1, window=(1,), inserted=(0,))
WHOLE = Case((4, 5), (3, 1), (3, 4, 5), (1,), 1, window=(1, 2))
NOWHERE = Case((4, 5), (3, 0), (3, 2), (), 1, window=(1,), inserted=(0,))
RANK_0 = Case((), (0,), (), (), 0)
EMPTY_UPDATES = Case((4, 5), (0, 1), (0, 5), (0,), 1, window=(1,), inserted=(0,))
EMPTY_OPERAND = Case((4, 0), (3, 1), (3, 0), (0,), 1, window=(1,), inserted=(0,))

CASES = {name.lower(): case for name, case in list(globals().items()) if isinstance(case, Case)}


CASES |= {
    "swapped_rows": Case((6, 5, 3), (4, 2), (4, 3), (1, 0), 1, (1,), (0, 1)),
    "second_axis_whole": Case((6, 5), (4, 2), (4, 5), (0, 1), 1, (1,), (0,)),
    "whole_batches": Case((4, 5), (4, 1), (4, 5), (1,), 1, (1,), (), ((0, 0),)),
    "batches_behind": Case((5, 4), (4, 2, 1), (4, 2), (0,), 2, (), (0,), ((1, 0),)),
    "pairs_before_batches": Case((5, 6, 4), (4, 2, 2), (4, 2), (0, 1), 2, (), (0, 1), ((2, 0),)),
    "wide_in_columns": Case((6, 7), (3, 2), (3, 2, 1), (0, 1), 1, window=(1, 2)),
    "small_of_many": Case((3, 2), (9, 1), (9, 2), (0,), 1, window=(1,), inserted=(0,)),
}
