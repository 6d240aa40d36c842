"""iota in every element type, short and long."""

from __future__ import annotations

import pytest
from against_xla import Run, against_xla
from mlir_text import tensor

ELEMENTS = [
    "i8", "ui8", "i16", "ui16", "i32", "ui32", "i64", "ui64", "f16", "bf16", "f32", "f64",
    "f8E4M3FN", "f8E4M3FNUZ", "f8E5M2", "f8E5M2FNUZ", "complex<f32>", "complex<f64>",
]  # fmt: skip


def counted(dims: list[int], axis: int, element: str) -> Run:
    result = tensor(dims, element)
    return against_xla(f"""
    module {{ func.func public @main() -> {result} {{
      %0 = stablehlo.iota dim = {axis} : {result}
      return %0 : {result}
    }} }}
    """).bit_exact()


@pytest.mark.costly
@pytest.mark.parametrize("element", ELEMENTS)
@pytest.mark.parametrize("dims", [[5], [300], [140_000]], ids=str)
def test_element_types(dims: list[int], element: str) -> None:
    """Counts that fit every type, wrap in 8 bits or overflow f8, wrap in 16 bits or overflow
    f16; the last are made by Range except in bytes."""
    counted(dims, 0, element)


def test_a_long_count_is_not_stored() -> None:
    run = counted([140_000], 0, "f32")
    run.graph_is("Range", "Cast")
    stored = [
        value.const_value.size
        for value in run.program.model.graph.initializers.values()
        if value.const_value is not None
    ]
    assert max(stored) == 1


def test_a_count_is_stored_along_its_axis_only() -> None:
    counted([2, 0, 3], 1, "i32")
    run = counted([100, 30, 200], 1, "i32").graph_is("Expand")
    constants = run.program.model.graph.initializers.values()
    assert max(value.const_value.size for value in constants) == 30
