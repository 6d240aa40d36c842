"""A program as a list of steps, and its text."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import IntEnum
from functools import cached_property

import numpy as np

from tools.fuzzing.elements import COMPLEX, FLOATS, NOT_AT_BOUNDARY, SIGNED


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

    @property
    def made(self) -> Made:
        """What a step's result is that is like this value."""
        return self.type, self.quality, self.grid


Made = tuple[Type, Quality, Grid | None]
"""What a step's result is."""


@dataclass(frozen=True)
class Step:
    """An op: operands and results are indices of values; an input has no name.

    Attributes:
        name: Without the dialect where that is stablehlo.
        attributes: Text between the angle brackets of the generic form.
        region: Text of its block, where that holds scalar arithmetic only.
        array: Elements of an input or a constant.
        blocks: Of control flow: blocks that read values from around them; of a call: the function.
    """

    name: str
    operands: tuple[int, ...]
    results: tuple[int, ...]
    attributes: str = ""
    region: str = ""
    array: np.ndarray | None = None
    blocks: tuple[Block, ...] = ()

    @property
    def reads(self) -> set[int]:
        """Its operands and what its blocks read from around them."""
        return {*self.operands}.union(*(block.reads for block in self.blocks))


@dataclass(frozen=True)
class Block:
    """Steps of a region or of a function, with values of their own.

    Attributes:
        symbol: Of a function.
    """

    arguments: tuple[int, ...]
    steps: tuple[Step, ...]
    results: tuple[int, ...]
    symbol: str = ""

    @property
    def used(self) -> set[int]:
        """The values that its steps read or that it returns."""
        return {*self.results}.union(*(step.reads for step in self.steps))

    @property
    def reads(self) -> set[int]:
        """The values from around it that it uses."""
        return self.used - {*self.arguments}.union(*(step.results for step in self.steps))


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
        """The step of each value, those in blocks included."""
        return {index: step for step in _all_steps(self.steps) for index in step.results}

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

    def restricted(self, outputs: Sequence[int]) -> Program:
        """What computes these outputs."""
        steps = _needed(self.steps, outputs)
        return Program(tuple(sorted(steps, key=_is_computed)), self.values, tuple(outputs))

    def with_open_leaves(self) -> Program:
        """The program with constants (and iotas, whose numbers are known) as inputs."""
        steps = [
            step if step.array is None else Step("", (), step.results, array=step.array)
            for step in self.steps
        ]
        return replace(self, steps=tuple(sorted(steps, key=_is_computed)))

    def text(self) -> str:
        """The module."""
        inputs = tuple(step.results[0] for step in self.inputs)
        body = tuple(step for step in self.steps if step.name)
        called = [block for step in _all_steps(body) for block in step.blocks if block.symbol]
        functions = {block.symbol: self._function("private", block) for block in called}
        main = self._function("public", Block(inputs, body, self.outputs, "main"))
        return "\n".join([main, *functions.values()])

    def _function(self, visibility: str, block: Block) -> str:
        types = ", ".join(self._types(block.results))
        return "\n".join(
            [
                f"func.func {visibility} @{block.symbol}({self._arguments(block)}) -> ({types}) {{",
                *(self._line(step, "  ") for step in block.steps),
                f"  return {self._names(block.results)} : {types}",
                "}\n",
            ]
        )

    def _line(self, step: Step, indent: str) -> str:
        results = self._types(step.results)
        count = f":{len(results)}" if len(results) > 1 else ""
        target = f"{indent}%v{step.results[0]}{count} ="
        if step.name == "constant":
            assert step.array is not None
            return f"{target} stablehlo.constant {dense(step.array, results[0])}"
        operands = self._names(step.operands)
        types = f"({', '.join(self._types(step.operands))}) -> ({', '.join(results)})"
        if step.name == "func.call":
            return f"{target} func.call @{step.blocks[0].symbol}({operands}) : {types}"
        name = step.name if "." in step.name else f"stablehlo.{step.name}"
        properties = f" <{{{step.attributes}}}>" if step.attributes else ""
        regions = [step.region] if step.region else [self._block(b, indent) for b in step.blocks]
        inner = ", ".join(f"{{\n{region}\n{indent}}}" for region in regions)
        return (
            f'{target} "{name}"({operands}){properties}{f" ({inner})" if inner else ""} : {types}'
        )

    def _block(self, block: Block, indent: str) -> str:
        head = [f"{indent}^bb0({self._arguments(block)}):"] if block.arguments else []
        lines = [self._line(step, f"{indent}  ") for step in block.steps]
        types = ", ".join(self._types(block.results))
        end = f"{indent}  stablehlo.return {self._names(block.results)} : {types}"
        return "\n".join([*head, *lines, end])

    def _arguments(self, block: Block) -> str:
        return ", ".join(f"%v{index}: {self.values[index].type}" for index in block.arguments)

    def _types(self, indices: Sequence[int]) -> list[str]:
        return [str(self.values[index].type) for index in indices]

    def _names(self, indices: Sequence[int]) -> str:
        return ", ".join(map(self._name, indices))

    def _name(self, index: int) -> str:
        producer = self.producers.get(index)
        if producer is None:  # the argument of a block
            return f"%v{index}"
        results = producer.results
        return f"%v{results[0]}" + (f"#{results.index(index)}" if len(results) > 1 else "")


def _is_computed(step: Step) -> bool:
    return bool(step.name)


def _all_steps(steps: Iterable[Step]) -> Iterator[Step]:
    for step in steps:
        yield step
        for block in step.blocks:
            yield from _all_steps(block.steps)


def narrowed(step: Step, wanted: Collection[int]) -> Step:
    """The step with only what its wanted results need: fewer states of a loop, fewer results of a
    branch; the steps of its blocks that nothing needs go."""
    if step.name == "while":
        return _narrowed_loop(step, wanted)
    kept = [place for place, index in enumerate(step.results) if index in wanted]
    if step.name not in ("case", "if"):
        kept = list(range(len(step.results)))
    blocks = tuple(
        replace(block, steps=_needed(block.steps, picked), results=picked)
        for block in step.blocks
        for picked in [tuple(block.results[place] for place in kept)]
    )
    return replace(step, results=tuple(step.results[place] for place in kept), blocks=blocks)


def _narrowed_loop(step: Step, wanted: Collection[int]) -> Step:
    condition, body = step.blocks
    condition = replace(condition, steps=_needed(condition.steps, condition.results))
    kept = {place for place, index in enumerate(step.results) if index in wanted}
    kept |= {place for place, index in enumerate(condition.arguments) if index in condition.used}
    while True:
        results = tuple(body.results[place] for place in sorted(kept))
        inner = replace(body, steps=_needed(body.steps, results), results=results)
        more = {place for place, index in enumerate(body.arguments) if index in inner.used}
        if more <= kept:
            break
        kept |= more
    places = sorted(kept)

    def pick(items: Sequence[int]) -> tuple[int, ...]:
        return tuple(items[place] for place in places)

    blocks = (
        replace(condition, arguments=pick(condition.arguments)),
        replace(inner, arguments=pick(body.arguments)),
    )
    return replace(step, operands=pick(step.operands), results=pick(step.results), blocks=blocks)


def _needed(steps: Sequence[Step], results: Collection[int]) -> tuple[Step, ...]:
    """The steps that these values need."""
    needed, kept = set(results), []
    for step in reversed(steps):
        wanted = needed.intersection(step.results)
        if wanted:
            kept.append(narrowed(step, wanted))
            needed |= kept[-1].reads
    return tuple(reversed(kept))


def together(*values: Value) -> tuple[Quality, Grid | None, bool]:
    """Quality, grid and tameness of a choice among values."""
    grids = [value.grid for value in values if value.grid is not None]
    grid = None
    if len(grids) == len(values):
        grid = Grid(max(g.bound for g in grids), max(g.bits for g in grids))
    quality = min(value.quality for value in values)
    return quality, grid, all(value.moderate for value in values)


def ints(numbers: Sequence[int]) -> str:
    """A dense array attribute."""
    return f"array<i64: {', '.join(map(str, numbers))}>" if numbers else "array<i64>"


def comparing(direction: str, element: str) -> str:
    """The attributes of a comparison of numbers of a type."""
    kind = "SIGNED" if element in SIGNED else "UNSIGNED"
    kind = "FLOAT" if element in FLOATS + COMPLEX else kind
    return (
        f"comparison_direction = #stablehlo<comparison_direction {direction}>,"
        f" compare_type = #stablehlo<comparison_type {kind}>"
    )


def dense(array: np.ndarray, type_text: str) -> str:
    """A constant's elements and type."""
    if array.size == 0:
        return f"dense<> : {type_text}"
    items = array
    if array.dtype.kind not in "biu":
        items = np.array([_float(item) for item in array.flat], object).reshape(array.shape)
    text = str(items.tolist()).replace("'", "")
    return f"dense<{text.lower() if array.dtype.kind == 'b' else text}> : {type_text}"


def _float(item: np.generic) -> str:
    if item.dtype.kind == "c":
        return f"({_float(item.real)}, {_float(item.imag)})"
    return f"0x{item.tobytes()[::-1].hex().upper()}"
