"""Storage of weights: their bytes, and narrower types than those in which the model computes."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Mapping

import numpy as np
import onnx_ir as oir

from hlo2onnx.ir.builder import GraphBuilder
from hlo2onnx.ir.functions import each_graph
from hlo2onnx.ir.notes import HALF_TYPES, half_constants
from hlo2onnx.ir.values import size_of
from hlo2onnx.ir.weights import NAME, SMALL_ELEMENTS, Weight, content_of, weight_of

STORAGE_TYPES = {"bfloat16": oir.DataType.BFLOAT16, "float16": oir.DataType.FLOAT16}
"""The types that f32 weights may be stored in, by name."""

LARGE_ELEMENTS = 4096
"""Widened constants of up to this many elements stay f32: a Cast costs more than their bytes."""


def store_weights(builder: GraphBuilder, dtype: oir.DataType) -> int:
    """Stores weights of f32 in a narrower type, followed by a Cast; returns how many lose digits.

    Each is rounded once, to nearest, ties to even.
    """
    graph = builder.main_graph
    changed = 0
    for value in list(graph.initializers.values()):
        tensor = value.const_value
        if value.dtype != oir.DataType.FLOAT or tensor is None or tensor.size <= SMALL_ELEMENTS:
            continue
        narrow = _narrowed(builder, value, dtype)
        changed += not _is_exact(tensor.numpy(), content_of(narrow))
        _read_instead(builder, value, narrow)
    return changed


def has_large_f32(graph: oir.Graph) -> bool:
    """Whether `store_half_weights` may have anything to do."""
    return any(map(_is_large_f32, graph.initializers.values()))


def _is_large_f32(value: oir.Value) -> bool:
    tensor = value.const_value
    return value.dtype == oir.DataType.FLOAT and tensor is not None and tensor.size > LARGE_ELEMENTS


def store_half_weights(builder: GraphBuilder) -> Counter[oir.DataType]:
    """Stores large f32 constants that hold only numbers of a half type in that type again, followed
    by a Cast: the weights of a half type that are computed with in f32.

    Returns:
        The count of Casts by type.
    """
    graph, count = builder.main_graph, Counter[oir.DataType]()
    parameters = {
        id(weight): value for value in graph.initializers.values() if (weight := weight_of(value))
    }
    for value in list(graph.initializers.values()):
        tensor = value.const_value
        if tensor is None or not _is_large_f32(value):
            continue
        weight = weight_of(value)
        if weight is None:
            dtype = _type_of_numbers(tensor.numpy(), half_constants(graph))
        else:
            dtype = _type_of_parameter(weight)
        if dtype is not None:
            source = parameters.get(id(weight.operands[0])) if weight is not None else None
            if source is None or (source.dtype, source.shape) != (dtype, value.shape):
                source = _narrowed(builder, value, dtype)
            _read_instead(builder, value, source)
            count[dtype] += 1
    return count


def _type_of_parameter(weight: Weight) -> oir.DataType | None:
    """The half type of a parameter whose elements an f32 weight holds; None for others."""
    if weight.compute is None or not weight.is_only_moved():
        return None
    (parameter,) = weight.parameters()
    dtype = None if parameter.stored is None else oir.DataType.from_numpy(parameter.stored)
    return dtype if dtype in HALF_TYPES else None


def _type_of_numbers(array: np.ndarray, dtypes: Collection[oir.DataType]) -> oir.DataType | None:
    """One of these types that holds all numbers of a constant; None if none does."""
    for dtype in sorted(dtypes):
        if _is_exact(array, array.astype(dtype.numpy())):
            return dtype
    return None


def _narrowed(builder: GraphBuilder, value: oir.Value, dtype: oir.DataType) -> oir.Value:
    narrow = builder.derived(lambda array: array.astype(dtype.numpy()), value, is_moved=True)
    narrow.meta.setdefault(NAME, value.meta.get(NAME, value.name))
    return narrow


def _is_exact(wide: np.ndarray, narrow: np.ndarray) -> bool:
    return np.array_equal(narrow.astype(np.float32), wide, equal_nan=True)


def _read_instead(builder: GraphBuilder, value: oir.Value, narrow: oir.Value) -> None:
    """Replaces an f32 initializer by a Cast of a narrower one."""
    with builder.at_start():
        wide = builder.cast(narrow, oir.DataType.FLOAT)
    oir.convenience.replace_all_uses_with(value, wide, replace_graph_outputs=True)
    del builder.main_graph.initializers[str(value.name)]


_MOST_REASONS = 3
"""Limit of the additions that are reported, the largest first."""


class WeightLedger:
    """The constants of a model before the rewrite rules, to compare with those after them."""

    def __init__(self, model: oir.Model) -> None:
        self._before = {id(value.const_value) for value in _large(model)}
        self._bytes = sum(map(_bytes, _large(model)))
        self._kept = _large(model)  # so that no other constant gets its id

    def sizes(self, model: oir.Model) -> tuple[int, int, list[str]]:
        """Bytes before and after, and what was added where there are more."""
        values = _large(model)
        after = sum(map(_bytes, values))
        return self._bytes, after, self._reasons(values) if after > self._bytes else []

    def _reasons(self, values: list[oir.Value]) -> list[str]:
        grown: Counter[str] = Counter()
        copies = defaultdict(list)
        for value in values:
            weight = weight_of(value)
            if weight is not None:
                copies[weight.parameters()[0]].append(value)
            elif id(value.const_value) not in self._before:
                grown[f"{value.name} was computed from constants"] = _bytes(value)
        for parameter, its in copies.items():
            added = sum(map(_bytes, its)) - self._size(parameter)
            names = ", ".join(str(value.name) for value in its)
            times = f" is stored {len(its)} times" if len(its) > 1 else " is stored"
            grown[f"{parameter.names[0]}{times}: {names}"] = added
        return [
            f"{reason} (+{count:,} bytes)"
            for reason, count in grown.most_common(_MOST_REASONS)
            if count > 0
        ]

    def _size(self, parameter: Weight) -> int:
        return next((_bytes(x) for x in self._kept if weight_of(x) is parameter), 0)


def _large(model: oir.Model) -> list[oir.Value]:
    """The constants that are more than single numbers."""
    return [
        value
        for graph in each_graph(model)
        for value in graph.initializers.values()
        if value.const_value is not None and (size_of(value) or 0) > SMALL_ELEMENTS
    ]


def _bytes(value: oir.Value) -> int:
    return 0 if value.const_value is None else int(value.const_value.nbytes)


BLOCK_ROWS = 32
"""Rows of a matrix that share a scale."""


class IntegerBlocks:
    """Symmetric quantization of a matrix in blocks of rows, as ONNX Runtime's own tool does it. It
    changes nothing in a matrix that is `rounded`.

    Args:
        dtype: INT4 or INT8.
    """

    def __init__(self, dtype: oir.DataType) -> None:
        self._dtype = dtype
        self._middle = np.float32(1 << dtype.bitwidth - 1)

    def scales(self, array: np.ndarray) -> np.ndarray:
        """The scales, of shape (blocks, columns): the largest number of a block is the lowest
        integer.
        """
        blocks = _blocks(array)
        places = np.abs(blocks).argmax(1, keepdims=True)
        return np.asarray(np.take_along_axis(blocks, places, 1)[:, 0] / -self._middle)

    def __call__(self, array: np.ndarray) -> np.ndarray:
        """The integers, of the shape of the matrix."""
        scales = self.scales(array)
        inverse = np.divide(1, scales, out=np.zeros_like(scales), where=scales != 0)
        steps = np.floor(_blocks(array) * inverse[:, None] + (self._middle + np.float32(0.5)))
        numbers = np.clip(steps, 0, 2 * self._middle - 1) - self._middle
        return np.asarray(numbers.astype(np.int32).astype(self._dtype.numpy()).reshape(array.shape))

    def zeros(self, array: np.ndarray) -> np.ndarray:
        """Zero points, of the shape of the scales."""
        return np.zeros(_blocks(array)[:, 0].shape, self._dtype.numpy())

    def rounded(self, array: np.ndarray) -> np.ndarray:
        """What the integers and scales stand for."""
        numbers = _blocks(self(array).astype(np.float32))
        return np.asarray((numbers * self.scales(array)[:, None]).reshape(array.shape))


def _blocks(array: np.ndarray) -> np.ndarray:
    return array.reshape(-1, BLOCK_ROWS, array.shape[1])


def rounded_weights(graph: oir.Graph, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """The parameters that a model holds as integers, as the numbers that these stand for.

    Args:
        arrays: All parameters, by name.
    """
    made: dict[str, np.ndarray] = {}
    for value in graph.initializers.values():
        weight = weight_of(value)
        while weight is not None and not isinstance(weight.compute, IntegerBlocks):
            weight = _source(weight)
        moved = None if weight is None else _source(weight)
        if weight is None or moved is None or not isinstance(weight.compute, IntegerBlocks):
            continue
        for name in moved.parameters()[0].names:
            array = arrays[name]
            places = _moved(moved, np.arange(array.size).reshape(array.shape)).reshape(-1)
            numbers = weight.compute.rounded(_moved(moved, array))
            made.setdefault(name, array.copy()).flat[places] = numbers
    return made


def _source(weight: Weight) -> Weight | None:
    """The weight that another one is computed from."""
    source = weight.operands[0] if weight.operands else None
    return source if isinstance(source, Weight) else None


def _moved(weight: Weight, array: np.ndarray) -> np.ndarray:
    """The elements that a weight takes from its parameter."""
    source = _source(weight)
    if source is None or weight.compute is None:
        return array
    others = (x for x in weight.operands[1:] if isinstance(x, np.ndarray))
    return weight.compute(_moved(source, array), *others)


def takes_elements(weight: Weight) -> bool:
    """Whether a weight has elements of an f32 parameter, all or some, and no other numbers."""
    source = _source(weight)
    if weight.compute is None or source is None:
        return weight.stored == np.float32
    return (weight.is_moved or weight.note.startswith("row ")) and takes_elements(source)
