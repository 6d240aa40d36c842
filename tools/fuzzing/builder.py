"""Builds a program op by op: picks operands among the values there are, or makes new leaves."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace

import numpy as np

from tools.fuzzing.elements import (
    ALL,
    BOOL,
    COMPLEX,
    FLOATS,
    GRID_BITS,
    GRID_BOUND,
    INTEGERS,
    MANTISSA,
    NUMPY,
    PART,
    SMALL_FLOATS,
    random_array,
)
from tools.fuzzing.program import (
    Block,
    Grid,
    Made,
    Program,
    Quality,
    Step,
    Type,
    Value,
    comparing,
    ints,
)

MAX_SIZE = 150
MAX_INPUTS = 4


Steps = Mapping[Callable[["Builder"], None], int]
"""Steps that programs or blocks consist of, with weights."""


class Unsuitable(Exception):  # noqa: N818  (not an error: another op is tried)
    """The op drawn does not fit the values there are."""


class Builder:
    """A program in the making.

    Args:
        exact: Whether floats stay on grids where every op is exact, so that steps can follow each
            other without end; otherwise leaves hold special values, and what rounds ends a chain.

    Attributes:
        steps: Of the block in the making.
        values: All there are.
        visible: Those that the block in the making may read.
        known: What is known of integer values: their elements.
        depth: How many blocks are around the one in the making.
        deepest: How many there may be.
        isolated: Whether one of them is a function.
        trips: How often the block in the making runs, at most.
        body: The steps that blocks consist of, with weights.
    """

    def __init__(self, rng: random.Random, exact: bool) -> None:
        self.rng = rng
        self.exact = exact
        self.steps: list[Step] = []
        self.values: dict[int, Value] = {}
        self.visible: list[Value] = []
        self.known: dict[int, np.ndarray] = {}
        self.depth = 0
        self.deepest = 3
        self._main = self.steps
        self.isolated = False
        self.trips = 1
        self.body: Steps = {}

    def program(self) -> Program:
        """Everything built, with every value that a step computed a result."""
        steps = sorted(self.steps, key=lambda step: bool(step.name))
        program = Program(tuple(steps), dict(self.values), ())
        outputs = [
            index
            for index in program.computed()
            if program.producers[index].name not in ("constant", "iota")
        ]
        return program.restricted(outputs)

    def attempt(self, make: Callable[[Builder], None]) -> bool:
        """Makes a step, if it fits; otherwise takes back the leaves it drew."""
        lists: list[list[Step] | list[Value]] = [self.steps, self._main, self.visible]
        lengths = [len(items) for items in lists]
        count = len(self.values)
        try:
            make(self)
        except Unsuitable:
            for items, length in zip(lists, lengths, strict=True):
                del items[length:]
            for index in range(count, len(self.values)):
                del self.values[index]
                self.known.pop(index, None)
            return False
        return True

    # -- blocks ---------------------------------------------------------------------------------

    @contextmanager
    def block(self, arguments: Sequence[Value], isolated: bool = False) -> Iterator[list[Value]]:
        """What is made meanwhile is part of a block, with arguments like these values.

        Args:
            isolated: It is a function's, which reads nothing from around it.

        Yields:
            The arguments.
        """
        saved = self.steps, self.visible, self.depth, self.isolated
        made = [self.value(value) for value in arguments]
        self.steps, self.visible = [], [*(() if isolated else self.visible), *made]
        self.depth, self.isolated = self.depth + 1, self.isolated or isolated
        try:
            yield made
        finally:
            self.steps, self.visible, self.depth, self.isolated = saved

    @contextmanager
    def repeated(self, trips: int) -> Iterator[None]:
        """What is made meanwhile runs so many times as often."""
        self.trips *= trips
        try:
            yield
        finally:
            self.trips //= trips

    def ended(
        self, arguments: Sequence[Value], results: Sequence[Value], symbol: str = ""
    ) -> Block:
        """The block in the making, which returns these values."""
        return Block(
            tuple(value.index for value in arguments),
            tuple(self.steps),
            tuple(value.index for value in results),
            symbol,
        )

    def value(self, like: Value) -> Value:
        """A new value for which everything holds that holds for another one."""
        value = replace(like, index=len(self.values))
        self.values[value.index] = value
        return value

    # -- steps ----------------------------------------------------------------------------------

    def step(
        self,
        name: str,
        operands: Sequence[Value],
        results: Sequence[Made],
        attributes: str = "",
        region: str = "",
        scale: float = 0.0,
        moderate: bool = False,
        array: np.ndarray | None = None,
        blocks: Sequence[Block] = (),
    ) -> list[Value]:
        """Appends an op; returns its results."""
        made = [
            self.value(Value(-1, type_, quality, grid, scale, moderate))
            for type_, quality, grid in results
        ]
        read = tuple(operand.index for operand in operands)
        written = tuple(value.index for value in made)
        steps = self.steps if name else self._main
        steps.append(Step(name, read, written, attributes, region, array, tuple(blocks)))
        self.visible += made
        if array is not None and array.dtype.kind in "iu":
            self.known[written[0]] = array
        return made

    def result(
        self, element: str, shape: Sequence[int], grid: Grid | None, inexact: bool = False
    ) -> Made:
        """What a step's result is: exact if its grid fits the element type, or if it is no float.

        Args:
            inexact: The op rounds floats that are on no grid.

        Raises:
            Unsuitable: It would round, where floats are to stay exact.
        """
        type_ = Type(element, tuple(shape))
        if math.prod(shape) > MAX_SIZE:
            raise Unsuitable
        if element not in FLOATS and element not in COMPLEX:
            return type_, Quality.BITS, None
        if grid is not None and fits(grid, element):
            return type_, Quality.EQUAL, grid
        if not inexact:
            return type_, Quality.EQUAL, None
        # In a loop a difference would grow.
        if self.depth or (self.exact and self.rng.random() < 0.85):
            raise Unsuitable
        return type_, Quality.CLOSE, None

    # -- operands -------------------------------------------------------------------------------

    def shape(self, rank: int | None = None) -> tuple[int, ...]:
        """A random shape."""
        if rank is None:
            rank = self.rng.choice([0, 1, 1, 2, 2, 2, 3, 3, 4])
        extents = [1, 1, 2, 2, 3, 3, 4, 5, 8]
        if self.rng.random() < 0.06:
            extents.append(0)
        shape = tuple(self.rng.choice(extents) for _ in range(rank))
        return shape if math.prod(shape) <= MAX_SIZE // 2 else self.shape(rank)

    def element(self, elements: Sequence[str] = ALL) -> str:
        """A random element type; narrow floats and integers now and then where all will do."""
        if elements is ALL and self.rng.random() < 0.04:
            return self.rng.choice(SMALL_FLOATS)
        return self.rng.choice(elements)

    def _picked(
        self,
        fits_type: Callable[[Type], bool],
        new: Callable[[], Type],
        quality: Quality,
        moderate: bool,
        fresh: float,
    ) -> Value:
        """A value there is, with the later ones more likely; or a leaf of a new type."""
        found = [
            value
            for value in self.visible
            if fits_type(value.type)
            and value.quality >= quality
            and (not moderate or is_tame(value))
        ]
        if not found or self.rng.random() < fresh:
            return self.leaf(new(), "moderate" if moderate else None)
        weights = [1 + 3 * (value.index >= len(self.values) - 3) for value in found]
        return self.rng.choices(found, weights)[0]

    def operand(
        self,
        elements: Sequence[str] = ALL,
        ranks: Sequence[int] = range(9),
        quality: Quality = Quality.EQUAL,
        moderate: bool = False,
    ) -> Value:
        """A value of one of these element types and ranks, and at least this quality."""

        def fits_type(type_: Type) -> bool:
            return type_.element in elements and len(type_.shape) in ranks

        def new() -> Type:
            rank = None if len(ranks) == 9 else self.rng.choice(ranks)
            return Type(self.element(elements), self.shape(rank))

        return self._picked(fits_type, new, quality, moderate, fresh=0.25)

    def like(self, type_: Type, quality: Quality = Quality.EQUAL, moderate: bool = False) -> Value:
        """A value of this very type."""
        return self._picked(type_.__eq__, lambda: type_, quality, moderate, fresh=0.4)

    @property
    def inputs(self) -> int:
        """How many arguments the program has."""
        return sum(not step.name for step in self._main)

    def is_input(self, value: Value) -> bool:
        """Whether it is an argument of the program."""
        return any(value.index in step.results and not step.name for step in self._main)

    def is_result_of(self, name: str, value: Value) -> bool:
        """Whether such an op of the main block or of this one made it."""
        steps = (*self._main, *self.steps)
        return any(step.name == name and value.index in step.results for step in steps)

    def leaf(self, type_: Type, kind: str | None = None) -> Value:
        """A new input or constant, or an iota or a broadcast scalar."""
        if kind != "exponent":
            kind = "grid" if self.exact else kind or "special"
        choice = self.rng.random()
        grid = Grid(GRID_BOUND, GRID_BITS) if kind == "grid" and has_grid(type_.element) else None
        if choice < 0.1 and type_.shape and type_.element not in (*BOOL, *SMALL_FLOATS):
            axis = self.rng.randrange(len(type_.shape))
            return self.iota(type_, axis, Grid(8, 0) if has_grid(type_.element) else None)
        if choice < 0.2 and type_.shape:
            return self.spread(self.leaf(Type(type_.element, ()), kind), type_)
        shape = () if self.rng.random() < 0.3 else type_.shape
        array = random_array(self.rng, type_.element, shape, kind)
        return self.given(type_, array, grid, choice < 0.4, moderate=kind != "special")

    def given(
        self,
        type_: Type,
        array: np.ndarray,
        grid: Grid | None = None,
        constant: bool = False,
        moderate: bool = False,
    ) -> Value:
        """These elements, or one number everywhere: an input, where another one may be."""
        name = "constant" if constant or self.inputs >= MAX_INPUTS or self.isolated else ""
        array = np.broadcast_to(array.astype(NUMPY[type_.element]), type_.shape)
        return self.step(name, [], [(type_, Quality.BITS, grid)], moderate=moderate, array=array)[0]

    def scalar(self, element: str, number: complex, grid: Grid | None = None) -> Value:
        """A constant number."""
        return self.given(Type(element, ()), np.array(number), grid, constant=True, moderate=True)

    def compare(self, direction: str, x: Value, y: Value) -> Value:
        """The comparison of two values."""
        made = [(Type("i1", x.type.shape), Quality.BITS, None)]
        return self.step("compare", [x, y], made, comparing(direction, x.type.element))[0]

    def spread(self, x: Value, type_: Type, axes: Sequence[int] = ()) -> Value:
        """x along these axes of a larger tensor, again and again along the others."""
        text = f"broadcast_dimensions = {ints(axes)}"
        made = [(type_, x.quality, x.grid)]
        (value,) = self.step("broadcast_in_dim", [x], made, text, "", x.scale, x.moderate)
        if x.index in self.known and not axes:
            self.known[value.index] = np.broadcast_to(self.known[x.index], type_.shape)
        return value

    def iota(self, type_: Type, axis: int, grid: Grid | None = None) -> Value:
        """0, 1, 2, ... along an axis."""
        column = np.arange(type_.shape[axis]).reshape(
            [-1 if i == axis else 1 for i in range(len(type_.shape))]
        )
        array = np.broadcast_to(column, type_.shape).astype(NUMPY[type_.element])
        made = [(type_, Quality.BITS, grid)]
        text = f"iota_dimension = {axis} : i64"
        return self.step("iota", [], made, text, moderate=True, array=array)[0]


def has_grid(element: str) -> bool:
    return element in FLOATS or element in COMPLEX


def is_tame(value: Value) -> bool:
    """Whether sums over a value neither overflow nor, in XLA or elsewhere, cancel extremes."""
    if value.grid is not None:
        return value.grid.bound <= 64
    return value.moderate or value.type.element in (*INTEGERS, *BOOL)


def fits(grid: Grid, element: str) -> bool:
    """Whether an element type holds every number of a grid."""
    mantissa = MANTISSA[PART.get(element, element)]
    if element == "f8E4M3FN" and grid.bound > 256:
        return False
    return grid.bound * 2.0**grid.bits <= 2.0**mantissa and grid.bits <= 6 and grid.bound <= 2**15
