"""Which values of an input matter to a program, such as limits of indices and thresholds."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import ml_dtypes
import numpy as np
from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.types import element_type, is_complex, is_tensor, numpy_type
from hlo2onnx.frontend.signature import Port
from hlo2onnx.verify.element_kinds import is_integer
from hlo2onnx.verify.guards import indices_of
from hlo2onnx.verify.input_flow import Flow, Formula, InputFlow


@dataclass
class Role:
    """The values of an input that matter.

    Attributes:
        indices: The range of valid indices, if elements are indices.
        values: Finite values to try.
        takes_nonfinite: Whether the program tests elements for NaN or infinity, or converts them to
            integers.
        is_limited: Whether the condition of a loop depends on the input. Extreme values might make
            the loop endless.
        is_definite: Whether it may be a matrix that must be positive definite.
        least: The least element of which the program can take a root or logarithm; None if it
            takes none.
    """

    indices: tuple[int, int] | None = None
    values: list[float] = field(default_factory=list)
    takes_nonfinite: bool = False
    is_limited: bool = False
    is_definite: bool = False
    least: float | None = None


class _Wanted(NamedTuple):
    """Values that an operand should take.

    Attributes:
        numbers: The values.
        are_thresholds: Whether the values beside them matter, too.
        is_range: Whether they are the first and the last valid index.
        is_nonfinite: Whether NaN and infinity matter.
        is_root: Whether the op is a root or a logarithm.
    """

    operand: int
    numbers: Sequence[float] = ()
    are_thresholds: bool = False
    is_range: bool = False
    is_nonfinite: bool = False
    is_root: bool = False


MOST = 48
"""Limit of the values of an input."""
LARGEST = 1000
"""Limit of values for inputs that a condition of a loop depends on."""


def roles_of(flow: InputFlow, ports: Sequence[Port]) -> list[Role]:
    """The role of each input."""
    roles = [Role(is_limited=bool(flow.of_conditions >> i & 1)) for i in range(len(ports))]
    dtypes = [numpy_type(port.element) for port in ports]
    found: list[list[list[float]]] = [[] for _ in ports]
    for operation, flows in flow.operands.items():
        if operation.name in ROOTS:
            for index, role in enumerate(roles):
                if flows[0].terms >> index & 1:
                    role.least = max(role.least or 0.0, 0.0)
        for wanted in _wanted(operation, flows):
            for formula in sorted(flows[wanted.operand].formulas):
                dtype = dtypes[formula.port]
                if dtype.kind in "bc":
                    continue
                role = roles[formula.port]
                role.takes_nonfinite |= wanted.is_nonfinite
                if wanted.is_root and formula.scale > 0:
                    role.least = max(role.least or 0.0, -formula.offset / formula.scale)
                numbers = [_solved(formula, number, dtype, wanted) for number in wanted.numbers]
                if wanted.is_range and is_integer(dtype):
                    _narrow(role, formula, wanted.numbers)
                found[formula.port] += numbers
    if any(_is_cholesky(operation) for operation in flow.operands):
        for role, port in zip(roles, ports, strict=True):
            role.is_definite = len(port.shape) > 1 and port.shape[-1] == port.shape[-2] != 1
    for role, lists, dtype in zip(roles, found, dtypes, strict=True):
        role.values = _chosen(lists, dtype, role.is_limited)
    return roles


def _narrow(role: Role, formula: Formula, limits: Sequence[float]) -> None:
    ends = sorted(int((limit - formula.offset) / formula.scale) for limit in limits[:2])
    if role.indices is not None:
        low, high = max(ends[0], role.indices[0]), min(ends[1], role.indices[1])
        if low > high:
            return
        ends = [low, high]
    role.indices = (ends[0], ends[1])


def _solved(formula: Formula, number: float, dtype: np.dtype, wanted: _Wanted) -> list[float]:
    """The elements of the input for which an operand has a value, and those beside it."""
    try:
        exact = (number - formula.offset) / formula.scale
        if is_integer(dtype):
            least = number if formula.scale == 1 and not formula.offset else math.floor(exact)
            return [least, least + 1, least - 1] if wanted.are_thresholds else [least]
    except (OverflowError, ValueError):
        return []
    if not wanted.are_thresholds:
        return [exact]
    is_exact = formula.offset == 0 and math.frexp(formula.scale)[0] in (0.5, -0.5)
    if not is_exact or dtype.kind == "V":
        # The program may round differently where it computes with f32. Keep a distance.
        step = 0.01 * (1 + abs(exact))
        return [exact + step, exact - step]
    with np.errstate(all="ignore"):
        middle = np.array(exact).astype(dtype)
        up, down = (np.nextafter(middle, np.array(end, dtype)) for end in (np.inf, -np.inf))
    return [exact, float(up), float(down), exact + 1, exact - 1]


def _chosen(lists: Sequence[Sequence[float]], dtype: np.dtype, is_limited: bool) -> list[float]:
    """The distinct values that the type has, the first of each list first."""
    longest = max(map(len, lists), default=0)
    rounds = [item[index] for index in range(longest) for item in lists if index < len(item)]
    low, high = _range(dtype)
    if is_limited:
        low, high = max(low, -LARGEST), min(high, LARGEST)
    return list(dict.fromkeys(number for number in rounds if low <= number <= high))[:MOST]


def _range(dtype: np.dtype) -> tuple[float, float]:
    if dtype.kind in "bc":
        return 0, 0
    if is_integer(dtype):
        info = ml_dtypes.iinfo(dtype)
        return int(info.min), int(info.max)
    most = float(ml_dtypes.finfo(dtype).max)
    return -most, most


def _is_cholesky(operation: ir.Operation) -> bool:
    if operation.name != "stablehlo.custom_call":
        return operation.name == "stablehlo.cholesky"
    return "potrf" in str(operation.attributes["call_target_name"])


# -- operations -----------------------------------------------------------------------------------


def _wanted(operation: ir.Operation, flows: Sequence[Flow]) -> Iterator[_Wanted]:
    """The values that the operands of an op should take."""
    for indices in indices_of(operation):
        for limit in dict.fromkeys(indices.limits):
            yield _Wanted(indices.operand, (0, limit), is_range=True)
            yield _Wanted(indices.operand, (-1, limit + 1, -limit - 1, *_EXTREMES))
    name = operation.name.removeprefix("stablehlo.")
    if name in ("case", "if") and len(operation.regions) > 1:
        yield _Wanted(0, (*range(len(operation.regions)), -1, len(operation.regions)))
    if not operation.operands or not _is_number(operation.operands[0].type):
        return
    dtype = numpy_type(element_type(operation.operands[0].type))
    is_whole = is_integer(dtype)
    if name in ("divide", "remainder") and is_whole:
        # The first values meet: the smallest integer divided by -1.
        yield _Wanted(1, (-1, 0, 1))
        yield _Wanted(0, (int(ml_dtypes.iinfo(dtype).min), *_EXTREMES))
    elif name in ("compare", "maximum", "minimum", "clamp"):
        yield from _thresholds(operation, flows)
    elif name in _OF_INTEGERS and is_whole:
        yield _Wanted(0, (*_EXTREMES, 0, -1))
    elif name.startswith("shift_"):
        bits = ml_dtypes.iinfo(dtype).bits
        yield _Wanted(0, (*_EXTREMES, -1))
        yield _Wanted(1, (bits, bits - 1, 0, bits + 1, -1))
    elif name == "convert" and dtype.kind != "b" and not is_whole:
        yield from _conversion(operation)
    elif name == "is_finite":
        yield _Wanted(0, is_nonfinite=True)
    elif name in _AT_ZERO and not is_whole:
        yield _Wanted(0, (0.0, -1.0, 1.0), is_root=operation.name in ROOTS)
    elif name in _ROUNDINGS:
        yield _Wanted(0, (0.5, 1.5, -0.5, 2.5))


_EXTREMES = tuple(
    number
    for bits in (32, 64, 16, 8)
    for number in (-(1 << bits - 1), (1 << bits - 1) - 1, (1 << bits) - 1)
)
"""The smallest and largest numbers of the integer types. Those that a type lacks are dropped."""
_OF_INTEGERS = frozenset({"abs", "negate", "popcnt", "count_leading_zeros", "not", "sign"})
ROOTS = frozenset(f"stablehlo.{name}" for name in ("log", "sqrt", "rsqrt"))
_AT_ZERO = frozenset({"log", "log_plus_one", "sqrt", "rsqrt", "sign", "power", "cbrt"})
_ROUNDINGS = frozenset({"round_nearest_even", "round_nearest_afz", "floor", "ceil"})


def _thresholds(operation: ir.Operation, flows: Sequence[Flow]) -> Iterator[_Wanted]:
    if operation.name == "stablehlo.compare" and operation.operands[0] == operation.operands[1]:
        yield _Wanted(0, is_nonfinite=True)
        return
    for place in range(len(flows)):
        numbers = [
            number
            for other, flow in enumerate(flows)
            for number in flow.numbers
            if other != place and math.isfinite(number)
        ]
        if flows[place].formulas and numbers:
            yield _Wanted(place, numbers, are_thresholds=True)


def _conversion(operation: ir.Operation) -> Iterator[_Wanted]:
    to = numpy_type(element_type(operation.results[0].type))
    if is_integer(to):
        info = ml_dtypes.iinfo(to)
        over = (2.0 * int(info.max), 2.0 * int(info.min) - 2, 1.5, -1.5, float(info.max))
        yield _Wanted(0, over, is_nonfinite=True)


def _is_number(mlir_type: ir.Type) -> bool:
    return is_tensor(mlir_type) and not is_complex(mlir_type)
