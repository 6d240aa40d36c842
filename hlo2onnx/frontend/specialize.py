"""Fixes the sizes of a program's dynamic dimensions."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace

import jax
import jax.export
import numpy as np

from hlo2onnx.errors import OtherResultsError, UsageError
from hlo2onnx.frontend.mlir.callbacks import has_callbacks
from hlo2onnx.frontend.mlir.constants import densify
from hlo2onnx.frontend.mlir.context import clone_module, parse_module
from hlo2onnx.frontend.mlir.devices import devices_of
from hlo2onnx.frontend.mlir.functions import function_type, make_main, specialize
from hlo2onnx.frontend.mlir.passes import refined
from hlo2onnx.frontend.mlir.types import element_type, numpy_type
from hlo2onnx.frontend.signature import Port, PyTree, Signature
from hlo2onnx.frontend.source import Source, find_function
from hlo2onnx.ir.dims import evaluate, fixed, free_symbols
from hlo2onnx.ir.values import Dim

_LARGEST = (1 << 31) - 1
"""StableHLO programs compute with extents in i32."""


def symbols_of(signature: Signature) -> list[str]:
    """The names of the symbols in a program's input shapes."""
    return free_symbols(dim for port in signature.inputs for dim in port.shape)


def specialized(source: Source, sizes: Mapping[str, int]) -> Source:
    """The program with static shapes only.

    Args:
        sizes: Value of each symbol, by name. A dimension without a name has the symbol
            `<input>_dim<axis>`.

    Raises:
        UsageError: A symbol is missing or unknown, a size is not valid, or the program does not
            admit these sizes.
    """
    _check_sizes(symbols_of(source.signature), sizes)
    alone = _lowered_alone(source, sizes)
    if alone is not None:
        return alone
    module = clone_module(source.module)
    densify(module)
    make_main(module, source.function)
    main = find_function(module, "main", source.description)
    types = main.regions[0].blocks[0].arguments.types
    dims = source.signature.dims
    specialize(
        main,
        {
            position: np.array(_size(dim, sizes), numpy_type(element_type(types[position])))
            for position, dim in dims.items()
        },
    )
    signature = _static_signature(source.signature, sizes)
    shapes: list[Sequence[int] | None] = [None] * (len(types) - len(dims))
    for port in [*signature.inputs, *(item.port for item in signature.bound)]:
        shapes[port.position] = fixed(port.shape)
    static = parse_module(refined(module, shapes), source.description)
    return replace(source, module=static, function="main", signature=signature, at_sizes=None)


def _static_signature(signature: Signature, sizes: Mapping[str, int]) -> Signature:
    """The signature of the program with static shapes."""
    dims = signature.dims
    return replace(
        signature,
        inputs=tuple(_static(_moved(port, dims), sizes) for port in signature.inputs),
        outputs=tuple(_static(port, sizes) for port in signature.outputs),
        dims={},
        bound=tuple(
            replace(item, port=_static(_moved(item.port, dims), sizes)) for item in signature.bound
        ),
    )


def _lowered_alone(source: Source, sizes: Mapping[str, int]) -> Source | None:
    """The function of a program for several devices, lowered again: MLIR infers no shapes within
    the parts of a program that run on each device.

    Returns:
        The program with static shapes; None if it is for one device, or if its function is not
        known or does not take the sizes.
    """
    if devices_of(source.module.operation, source.function) is None:
        return None
    found = _lowered_again(source, sizes)
    if found is None:
        return None
    signature = _static_signature(source.signature, sizes)
    return replace(
        source, module=found.module, function=found.function, signature=signature, at_sizes=None
    )


def _lowered_again(source: Source, sizes: Mapping[str, int]) -> Source | None:
    try:
        return source.at_sizes and source.at_sizes(sizes)
    except Exception:  # noqa: BLE001  (the user's function may raise anything)
        return None


def lowered_at(source: Source, static: Source, sizes: Mapping[str, int]) -> Source | None:
    """The function of a program, lowered again: Python code may depend on shapes.

    Args:
        static: The program with these sizes.

    Returns:
        The program with the signature of the static one. None if the function is not known, does
        not take these sizes, has callbacks, or leaves out arguments.

    Raises:
        OtherResultsError: The function has other results at these sizes.
    """
    found = _lowered_again(source, sizes)
    if found is None:
        return None
    module = clone_module(found.module)
    if has_callbacks(module):
        return None
    make_main(module, found.function)
    modules = (module, static.module.operation)
    types = [function_type(find_function(x, "main", source.description)) for x in modules]
    again, translated = (", ".join(map(str, x.results)) for x in types)
    if again != translated:
        at = ", ".join(f"{name} = {size}" for name, size in sizes.items())
        raise OtherResultsError(
            f"at {at} the function is another program: Python code depends on the shape. It returns"
            f" {again}, and the model returns {translated}"
        )
    if len(set(map(str, types))) > 1:
        return None
    return replace(static, module=module)


def check_names(names: Sequence[str], sizes: Iterable[str]) -> None:
    """Checks that a program with these free dimensions has those to which sizes are given.

    Raises:
        UsageError: It has no such dimension.
    """
    if unknown := [str(name) for name in sizes if name not in names]:
        has = f"it has {', '.join(names)}" if names else "its dimensions are all fixed"
        raise UsageError(f"the program has no dimension {', '.join(unknown)}; {has}")


def _check_sizes(names: Sequence[str], sizes: Mapping[str, int]) -> None:
    if not isinstance(sizes, Mapping):
        raise UsageError(f'specialize={sizes!r} is not a mapping of names to sizes, as {{"b": 8}}')
    check_names(names, sizes)
    for name, size in sizes.items():
        is_size = isinstance(size, int | np.integer) and not isinstance(size, bool)
        if not is_size or not 0 <= size < 1 << 63:
            raise UsageError(
                f"{size!r} is not a size of the dimension {name}: pass a whole number of at least 0"
            )
    if missing := [name for name in names if name not in sizes]:
        raise UsageError(
            f"specialize= needs a size for each dimension; it lacks {', '.join(missing)}"
        )


def _moved(port: Port, dims: Mapping[int, Dim]) -> Port:
    """The port after the removal of the arguments that are extents."""
    return replace(port, position=port.position - sum(other < port.position for other in dims))


def _static(port: Port, sizes: Mapping[str, int]) -> Port:
    known = {name: sizes.get(name, 0) for name in free_symbols(port.shape)}
    return replace(port, shape=tuple(_size(dim, known) for dim in port.shape))


def _size(dim: Dim, sizes: Mapping[str, int]) -> int:
    size = evaluate(dim, sizes)
    if size is None or not 0 <= size <= _LARGEST:
        raise UsageError(
            f"with these sizes, the dimension {dim} would be {size}, not 0 to {_LARGEST}"
        )
    return size


_NAME = re.compile(r"[^\W\d]\w*")
_FUNCTIONS = frozenset({"floordiv", "max", "min", "mod"})


def scope_of(constraints: Sequence[str]) -> jax.export.SymbolicScope:
    """A scope for dimensions with these constraints.

    Raises:
        UsageError: A text is not a constraint.
    """
    for text in constraints:
        try:
            jax.export.SymbolicScope((text,))
        except ValueError as error:
            raise UsageError(
                f"constraints= has {text!r}, which is not a constraint: {error}\n"
                '  next   compare two dimensions or numbers by <=, >= or ==, as in "s <= 64"'
                ' (not s < 65), "t >= s" and "mod(s, 8) == 0"'
            ) from error
    return jax.export.SymbolicScope(constraints)


def check_constraints(constraints: Sequence[str], arguments: PyTree, texts: Iterable[str]) -> None:
    """Checks that each name in the constraints is that of a dimension.

    Args:
        arguments: The arguments with free dimensions.
        texts: The texts that name dimensions, also those that "t == 2*s" has replaced.

    Raises:
        UsageError: A name is not.
    """
    dims = {dim for leaf in jax.tree.leaves(arguments) for dim in getattr(leaf, "shape", ())}
    known = sorted({name for dim in dims for name in _NAME.findall(str(dim))} - _FUNCTIONS)
    replaced = {name for text in texts for name in _NAME.findall(text)}
    for text in constraints:
        unknown = set(_NAME.findall(text)) - _FUNCTIONS - replaced
        if unknown:
            has = f"the free dimensions are {', '.join(known)}" if known else "none is free"
            raise UsageError(
                f"constraints= has {text!r}, but no dimension is named"
                f" {', '.join(sorted(unknown))}: {has}\n"
                '  next   name it in dynamic= or in an argument, as in dynamic={"x": "s, ..."};'
                " dimensions of jax.ShapeDtypeStructs have the constraints of their SymbolicScope"
            )
