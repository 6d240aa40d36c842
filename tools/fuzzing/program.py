"""A program as a list of steps, and its text."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from fuzzing.elements import FLOATS, NOT_AT_BOUNDARY, NUMPY


class Quality(IntEnum):
    """How closely ONNX Runtime must agree with XLA on a value."""

    CLOSE = 1
    """Up to rounding."""
    EQUAL = 2
    """Equal as numbers; the sign of a zero is free."""
    BITS = 3
    """Equal bits, but for the payload of NaN."""


@dataclass(frozen=True)
class Type:
    """A tensor type."""

    element: str
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"tensor<{''.join(f'{dim}x' for dim in self.shape)}{self.element}>"


@dataclass(frozen=True)
class Grid:
    """Floats that are multiples of 2**-bits, of this magnitude at most."""

    bound: float
    bits: int


@dataclass(frozen=True)
class Value:
    """A value and what is known of it.

    Attributes:
        grid: Of floats (and parts of complex numbers); None where nothing is known.
        scale: Of a rounded sum: how large the sum of its terms' magnitudes can be.
        moderate: Finite elements are of magnitude 8 at most, and no denormals.
    """

    index: int
    type: Type
    quality: Quality = Quality.BITS
    grid: Grid | None = None
    scale: float = 0.0
    moderate: bool = False


@dataclass(frozen=True)
class Step:
    """An op: operands and results are indices of values; an input has no name.

    Attributes:
        attributes: Text between the angle brackets of the generic form.
        region: Text of its block.
        array: Elements of an input or a constant.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: str = ""
    region: str = ""
    array: np.ndarray | None = None


@dataclass(frozen=True)
class Program:
    """Steps in order, and the values that are results of the program."""

    steps: tuple[Step, ...]
    values: Mapping[int, Value]
    outputs: tuple[int, ...]

    @property
    def inputs(self) -> list[Step]:
        """The steps that are arguments."""
        return [step for step in self.steps if not step.name]

    @property
    def arrays(self) -> list[np.ndarray]:
        """The arguments."""
        return [step.array for step in self.inputs if step.array is not None]

    @cached_property
    def producers(self) -> dict[int, Step]:
        """The step of each value."""
        return {index: step for step in self.steps for index in step.results}

    def computed(self) -> list[int]:
        """Values that are results of a step and can be results of a program."""
        return [
            index
            for step in self.steps
            if step.name
            for index in step.results
            if self.values[index].type.element not in NOT_AT_BOUNDARY
        ]

    def blame(self, output: int) -> str:
        """Name and element types of the step that computes a value."""
        step = self.producers[output]
        elements = [self.values[index].type.element for index in step.operands[:1]]
        elements += [self.values[index].type.element for index in step.results[:1]]
        return f"{step.name} {'->'.join(dict.fromkeys(elements))}"

    def restricted(
        self, outputs: Sequence[int], cuts: Mapping[int, np.ndarray] | None = None
    ) -> Program:
        """What computes these outputs, with the values of `cuts` as inputs."""
        cuts = cuts or {}
        needed = set(outputs)
        kept: list[Step] = []
        for step in reversed(self.steps):
            wanted = needed.intersection(step.results)
            if not wanted:
                continue
            if step.name and wanted <= cuts.keys():
                kept += [Step("", (), (index,), array=cuts[index]) for index in sorted(wanted)]
            else:
                kept.append(step)
                needed.update(step.operands)
        kept.reverse()
        kept.sort(key=lambda step: bool(step.name))
        return Program(tuple(kept), self.values, tuple(outputs))

    def with_open_leaves(self) -> Program:
        """The program with constants (and iotas, whose numbers are known) as inputs."""
        leaves = {
            step.results[0]: step.array for step in self.steps if step.name and not step.operands
        }
        return self.restricted(
            self.outputs, {index: array for index, array in leaves.items() if array is not None}
        )

    def widened(self) -> Program:
        """The program with every float an f64."""
        steps = tuple(
            replace(
                step,
                attributes=_widened(step.attributes),
                region=_widened(step.region),
                array=None if step.array is None else _widened_array(step.array),
            )
            for step in self.steps
        )
        values = {
            index: replace(value, type=Type(_widened(value.type.element), value.type.shape))
            for index, value in self.values.items()
        }
        return Program(steps, values, self.outputs)

    def text(self) -> str:
        """The module."""
        arguments = ", ".join(
            f"%v{step.results[0]}: {self.values[step.results[0]].type}" for step in self.inputs
        )
        types = ", ".join(str(self.values[index].type) for index in self.outputs)
        lines = [self._line(step) for step in self.steps if step.name]
        results = ", ".join(map(self._name, self.outputs))
        return "\n".join(
            [
                f"func.func public @main({arguments}) -> ({types}) {{",
                *lines,
                f"  return {results} : {types}",
                "}\n",
            ]
        )

    def _line(self, step: Step) -> str:
        first = step.results[0]
        target = f"%v{first}" + (f":{len(step.results)}" if len(step.results) > 1 else "")
        results = ", ".join(str(self.values[index].type) for index in step.results)
        if step.name == "constant":
            assert step.array is not None
            return f"  {target} = stablehlo.constant {dense(step.array, results)}"
        operands = ", ".join(map(self._name, step.operands))
        types = ", ".join(str(self.values[index].type) for index in step.operands)
        properties = f" <{{{step.attributes}}}>" if step.attributes else ""
        region = f" ({{\n{step.region}\n  }})" if step.region else ""
        return (
            f'  {target} = "stablehlo.{step.name}"({operands}){properties}{region}'
            f" : ({types}) -> ({results})"
        )

    def _name(self, index: int) -> str:
        results = self.producers[index].results
        return f"%v{results[0]}" + (f"#{results.index(index)}" if len(results) > 1 else "")


def dense(array: np.ndarray, type_text: str) -> str:
    """A constant's elements and type."""
    if array.size == 0:
        return f"dense<> : {type_text}"
    if array.dtype.kind == "b":
        items = [str(bool(item)).lower() for item in array.reshape(-1)]
    elif array.dtype.kind in "iu":
        items = [str(item) for item in array.reshape(-1)]
    else:
        items = [_float(item) for item in array.reshape(-1)]
    return f"dense<{_nested(items, array.shape)}> : {type_text}"


def _float(item: np.generic) -> str:
    if item.dtype.kind == "c":
        return f"({_float(item.real)}, {_float(item.imag)})"
    return f"0x{item.tobytes()[::-1].hex().upper()}"


def _nested(items: Sequence[str], shape: Sequence[int]) -> str:
    if not shape:
        return items[0]
    size = len(items) // shape[0]
    rows = [_nested(items[i * size : (i + 1) * size], shape[1:]) for i in range(shape[0])]
    return f"[{', '.join(rows)}]"


def _widened(text: str) -> str:
    return re.sub(
        r"(?<![A-Za-z0-9])(?:f32|f16|bf16|f8E4M3FN|f8E5M2)(?![A-Za-z0-9])|"
        r"(?<=\dx)(?:f32|f16|bf16|f8E4M3FN|f8E5M2)(?=>)",
        "f64",
        text,
    )


def _widened_array(array: np.ndarray) -> np.ndarray:
    if array.dtype.kind == "c":
        return array.astype(np.complex128)
    names: Collection[str] = FLOATS
    is_float = any(array.dtype == NUMPY[name] for name in names)
    return array.astype(np.float64) if is_float else array
