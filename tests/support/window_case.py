"""StableHLO text of reduce_window, and values for it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from against_xla import Run, against_xla
from mlir_text import tensor

from hlo2onnx.frontend.mlir.types import numpy_type

FLOATS = ["f32", "f64", "f16", "bf16"]

INIT = {
    "add": "0",
    "multiply": "1",
    "maximum": "lowest",
    "minimum": "highest",
    "and": "highest",
    "or": "lowest",
    "xor": "0",
}
"""Neutral init values; `lowest` and `highest` depend on the element type."""


@dataclass
class Case:
    """A reduce_window over one operand."""

    shape: Sequence[int]
    window: Sequence[int]
    stride: Sequence[int] | None = None
    gap: Sequence[int] | None = None
    step: Sequence[int] | None = None
    padding: Sequence[Sequence[int]] | None = None
    element: str = "f32"
    region: str = "add"
    init: str | None = None
    results: list[int] = field(init=False)

    def __post_init__(self) -> None:
        self.results = [
            _count(*axis)
            for axis in zip(
                self.shape,
                self.window,
                self.stride or [1] * len(self.shape),
                self.gap or [1] * len(self.shape),
                self.step or [1] * len(self.shape),
                self.padding or [(0, 0)] * len(self.shape),
                strict=True,
            )
        ]

    @property
    def attributes(self) -> str:
        sizes = {
            "window_dimensions": self.window,
            "window_strides": self.stride,
            "base_dilations": self.gap,
            "window_dilations": self.step,
        }
        items = [
            f"{name} = array<i64{': ' if value else ''}{', '.join(map(str, value))}>"
            for name, value in sizes.items()
            if value is not None
        ]
        if self.padding is not None:
            rows = [list(row) for row in self.padding]
            items.append(f"padding = dense<{rows}> : tensor<{len(rows)}x2xi64>")
        return ", ".join(items)

    @property
    def text(self) -> str:
        return program(self)

    def run(self, *inputs: Any, **options: Any) -> Run:
        return against_xla(self.text, *inputs, **options)


def program(*cases: Case) -> str:
    """A module that applies each of these ops to its one argument."""
    x = tensor(cases[0].shape, cases[0].element)
    types = ", ".join(tensor(case.results, case.element) for case in cases)
    ops = "".join(_op(case, f"%{number}") for number, case in enumerate(cases))
    results = ", ".join(f"%{number}" for number in range(len(cases)))
    return f"""
module {{ func.func public @main(%arg0: {x}) -> ({types}) {{{ops}
  return {results} : {types}
}} }}
"""


def _op(case: Case, name: str) -> str:
    x, y = tensor(case.shape, case.element), tensor(case.results, case.element)
    e = tensor((), case.element)
    region = REGIONS.get(case.region, f"%r = stablehlo.{case.region} %a, %b : @")
    init = spelt(case.init or INIT[case.region], case.element)
    return f"""
  %init{name[1:]} = stablehlo.constant dense<{init}> : {e}
  {name} = "stablehlo.reduce_window"(%arg0, %init{name[1:]}) ({{
  ^bb0(%a: {e}, %b: {e}):
    {region.replace("@", e)}
    stablehlo.return %r : {e}
  }}) {{ {case.attributes} }} : ({x}, {e}) -> {y}"""


REGIONS = {
    "lhs": "%r = stablehlo.add %a, %a : @",
    "subtract": "%r = stablehlo.subtract %a, %b : @",
    "logaddexp": """
    %m = stablehlo.maximum %a, %b : @
    %d = stablehlo.subtract %a, %b : @
    %same = stablehlo.compare NE, %d, %d, FLOAT : (@, @) -> tensor<i1>
    %sum = stablehlo.add %a, %b : @
    %abs = stablehlo.abs %d : @
    %neg = stablehlo.negate %abs : @
    %exp = stablehlo.exponential %neg : @
    %log = stablehlo.log_plus_one %exp : @
    %far = stablehlo.add %m, %log : @
    %r = stablehlo.select %same, %sum, %far : tensor<i1>, @""",
}
"""Regions without a name; @ is the scalar type."""


def _count(
    extent: int, window: int, stride: int, gap: int, step: int, padding: Sequence[int]
) -> int:
    padded = sum(padding) + ((extent - 1) * gap + 1 if extent else 0)
    span = (window - 1) * step + 1
    return (padded - span) // stride + 1 if padded >= span and padded else 0


def spelt(init: str, element: str) -> str:
    """An init value as MLIR writes it."""
    dtype = numpy_type(element)
    if element == "i1":
        return {"0": "false", "lowest": "false", "highest": "true", "1": "true"}[init]
    if init in ("lowest", "highest"):
        if dtype.kind in "iu":
            return str(getattr(np.iinfo(dtype), "min" if init == "lowest" else "max"))
        number = np.array(-np.inf if init == "lowest" else np.inf).astype(dtype)
        return "0x" + number.tobytes()[::-1].hex().upper()
    return init if dtype.kind in "iu" or "." in init else f"{init}.0"


def values(case: Case, seed: int = 0) -> np.ndarray:
    """Small numbers, with exact sums and products in every type."""
    rng = np.random.default_rng(seed)
    dtype = numpy_type(case.element)
    if case.element == "i1":
        return rng.integers(0, 2, case.shape).astype(bool)
    low = 0 if case.element.startswith("ui") else -2
    return rng.integers(low, 3, case.shape).astype(dtype)


def like(case: Case, **changes: Any) -> Case:
    """The case with other attributes."""
    fields = {
        name: getattr(case, name)
        for name in ("shape", "window", "stride", "gap", "step", "padding", "region", "init")
    }
    return Case(**{**fields, **changes})
