"""Converts the arguments of a call to the feeds of a model, and its outputs to results."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from hlo2onnx.errors import LoadError, SignatureError, UsageError
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.extents import Extent, holds
from hlo2onnx.interface.pytrees import PyTree, builder, flattener
from hlo2onnx.interface.tensors import (
    FLOAT0,
    Tensor,
    check_type,
    dims_text,
    from_model,
    to_array,
    to_model,
)

KNOWN_SHAPES = 4096
"""Limit of the sets of shapes that are remembered as checked."""


class FlatTrees:
    """Arguments and results of a program without pytrees: arrays. Base class of those with.

    Args:
        description: The signature.
    """

    def __init__(self, description: Description) -> None:
        self._inputs = description.inputs
        self._outputs = description.outputs

    def flatten(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Sequence[PyTree]:
        """One leaf per input.

        Raises:
            SignatureError: The arguments have another structure.
        """
        if kwargs:
            raise SignatureError("a StableHLO program takes positional arguments only")
        if len(args) != len(self._inputs):
            shown = [f"{port.name}: {port}" for port in self._inputs]
            raise SignatureError(
                f"the program takes {len(shown)} arguments, not {len(args)}:"
                f" {', '.join(shown) or 'none'}"
            )
        return args

    def unflatten(self, leaves: Sequence[Any]) -> PyTree:
        """The array or a tuple of arrays."""
        return leaves[0] if len(leaves) == 1 else tuple(leaves)


class Caller:
    """The compiled signature of a program.

    It finds out once how each leaf must look. A call compares each leaf with that. Symbols are
    solved once for each set of shapes.

    Args:
        description: The signature.
        trees: Flattens arguments and builds results.
        narrows: Whether 64-bit arrays become 32-bit arrays now if an input needs that.
        to_host: Makes a leaf that is not a numpy array something that numpy can convert, for an
            input. It raises a SignatureError if the leaf has another type.
    """

    def __init__(
        self,
        description: Description,
        trees: FlatTrees,
        narrows: Callable[[], bool],
        to_host: Callable[[PyTree, Tensor], PyTree] = lambda leaf, _: leaf,
    ) -> None:
        self._narrows = narrows
        self._to_host = to_host
        self.description = description
        self.trees = trees
        self._inputs = description.inputs
        self._plan: list[tuple[np.dtype | None, tuple[int | str, ...] | None, int]] | None = None
        self._dynamic = [i for i, port in enumerate(self._inputs) if not port.is_static]
        self._known: set[tuple[tuple[int, ...], ...]] = set()
        self._fed = [item for item in enumerate(self._inputs) if not item[1].is_plain]
        self._read = [item for item in enumerate(description.outputs) if not item[1].is_plain]
        self._extents = {
            dim: Extent(dim, description.names)
            for port in self._inputs
            for dim in port.shape
            if isinstance(dim, str)
        }

    def arrays(
        self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree], *, keeps_states: bool = False
    ) -> list[Any]:
        """One array per input of the program.

        Args:
            args, kwargs: The arguments of a call.
            keeps_states: Whether arrays in the runtime's memory stay there. Otherwise they become
                numpy arrays.

        Raises:
            SignatureError: Structure, shape or type of an argument does not fit.
        """
        plan = self._plan
        if plan is None:
            plan = self._plan = self._planned()
        found = []
        for leaf, (dtype, shape, place) in zip(self.trees.flatten(args, kwargs), plan, strict=True):
            if (
                type(leaf) is np.ndarray
                and leaf.dtype is dtype
                and (shape is None or leaf.shape == shape)
            ):
                found.append(leaf)
            else:
                found.append(self._converted(leaf, place, keeps_states))
        if self._dynamic:
            shapes = tuple([found[place].shape for place in self._dynamic])
            if shapes not in self._known:
                self.extents(found)
                if len(self._known) >= KNOWN_SHAPES:
                    self._known.clear()
                self._known.add(shapes)
        return found

    def feeds(self, names: Sequence[str], arrays: Sequence[Any]) -> dict[str, Any]:
        """The model's inputs by these names."""
        found = dict(zip(names, arrays, strict=True))
        for place, tensor in self._fed:
            found[names[place]] = to_model(arrays[place], tensor.channels_second)
        return found

    def results(self, arrays: list[np.ndarray]) -> list[np.ndarray]:
        """The outputs of the model in the program's types and layouts."""
        for place, tensor in self._read:
            arrays[place] = from_model(arrays[place], tensor)
        return arrays

    def extents(self, arrays: Sequence[Any]) -> dict[str, int]:
        """The values of the symbols in the inputs' shapes.

        Raises:
            SignatureError: The extents contradict each other, or a constraint.
        """
        for place in self._dynamic:
            check_type(arrays[place], self._inputs[place])
        rows = [
            (self._inputs[place], self._extents[dim], have)
            for place in self._dynamic
            for dim, have in zip(self._inputs[place].shape, arrays[place].shape, strict=True)
            if isinstance(dim, str)
        ]
        values: dict[str, int] = {}
        count = -1
        while count < len(values):  # "t + s" gives t when another extent has given s
            count = len(values)
            for port, extent, have in rows:
                try:
                    solution = extent.solve(have, values)
                except ValueError as error:
                    raise SignatureError(f"{_must(port)}: {error}") from error
                if solution is not None:
                    values.update([solution])
        known = ", ".join(f"{name} = {value}" for name, value in sorted(values.items()))
        for port, extent, have in rows:
            wanted = extent.value(values)
            if wanted is not None and wanted != have:
                raise SignatureError(f"{_must(port)}: {have} is not {extent.text} where {known}")
        for text in self.description.constraints:
            if not holds(text, values):
                raise SignatureError(f"the program needs {text}, and has {known}")
        return values

    def _planned(self) -> list[tuple[np.dtype | None, tuple[int | str, ...] | None, int]]:
        return [
            (port.numpy, port.shape if port.is_static else None, place)
            for place, port in enumerate(self._inputs)
        ]

    def _converted(self, leaf: PyTree, place: int, keeps_states: bool) -> Any:
        tensor = self._inputs[place]
        if keeps_states and hasattr(leaf, "take_from_runtime"):  # a `StateArray`
            check_type(leaf, tensor)
            return leaf
        return to_array(self._to_host(leaf, tensor), tensor, narrows=self._narrows())


def _must(port: Tensor) -> str:
    return f"argument {port.name} must have shape {dims_text(port.shape)}"


class PlainTrees(FlatTrees):
    """The pytrees of a saved program, without JAX.

    The data of typed PRNG keys are arrays of uint32.

    Args:
        description: The signature.
        types: Classes of pytree nodes.
    """

    def __init__(self, description: Description, types: Mapping[str, type]) -> None:
        super().__init__(description)
        self._description = description
        try:
            (_, positional), (_, keywords) = description.arguments
            self._positional = [flattener(node) for node in positional]
            self._keywords = {name: flattener(node) for name, node in keywords}
        except (TypeError, ValueError) as error:
            raise LoadError("the signature of the model has no arguments") from error
        self._build = builder(description.results, types)
        self._float0 = [
            i for i, port in enumerate(description.outputs) if port.jax_type == "float0"
        ]

    def flatten(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> Sequence[PyTree]:
        """One leaf per input."""
        if len(args) != len(self._positional) or kwargs.keys() != self._keywords.keys():
            raise SignatureError(self._difference(args, kwargs))
        leaves: list[PyTree] = []
        for index, (part, value) in enumerate(zip(self._positional, args, strict=True)):
            part(value, leaves, f"args[{index}]")
        for name, part in self._keywords.items():
            part(kwargs[name], leaves, name)
        return leaves

    def unflatten(self, leaves: Sequence[Any]) -> PyTree:
        """The results of the JAX function."""
        if self._float0:
            leaves = list(leaves)
            for place in self._float0:
                leaves[place] = np.zeros(leaves[place].shape, FLOAT0)
        return self._build(leaves)

    def _difference(self, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]) -> str:
        names = list(self._keywords)
        wanted = f"{len(self._positional)} positional arguments"
        if names:
            wanted += f" and the keywords {', '.join(names)}"
        given = f"{len(args)} positional arguments"
        if kwargs:
            given += f" and the keywords {', '.join(kwargs)}"
        lines = [f"the program takes {wanted}, not {given}"]
        lines += bound_hints(self._description, args, kwargs)
        if self._description.statics:
            lines.append("  static arguments are part of the program and are left out")
        return "\n".join(lines)


def check_types(types: object) -> tuple[type, ...]:
    """Checks the option `types`.

    Raises:
        UsageError: It is not a list of classes.
    """
    if not isinstance(types, Iterable):
        raise UsageError(f"types={types!r} is not a list of classes")
    found = tuple(types)
    for item in found:
        if not isinstance(item, type):
            raise UsageError(f"types= holds {item!r}, which is not a class")
    return found


def trees_of(description: Description, types: Iterable[type], of: type[PlainTrees]) -> FlatTrees:
    """The pytrees of a saved program, if it has any.

    Args:
        types: Classes of pytree nodes.
        of: The class of trees.
    """
    if description.arguments is None:
        return FlatTrees(description)
    return of(description, known_types(types))


def known_types(types: Iterable[type]) -> dict[str, type]:
    """Classes of pytree nodes by their names in signatures."""
    return {f"{item.__module__}.{item.__qualname__}": item for item in types}


def bound_hints(
    description: Description, args: Sequence[PyTree], kwargs: Mapping[str, PyTree]
) -> list[str]:
    """Lines of an error that name arguments that the model has already."""
    names = [
        item.name
        for item in description.bound
        if item.name in kwargs or (item.position is not None and item.position < len(args))
    ]
    verb = "is" if len(names) == 1 else "are"
    return (
        [f"  bound       {', '.join(names)} {verb} part of the model: leave out"] if names else []
    )
