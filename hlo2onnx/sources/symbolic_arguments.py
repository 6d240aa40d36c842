"""Example arguments with dynamic dimensions."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping, Sequence

import jax
import jax.export
import jax.numpy as jnp

from hlo2onnx.errors import UsageError
from hlo2onnx.ir.dims import evaluate, parse
from hlo2onnx.options import Dynamic
from hlo2onnx.sources.signature import PyTree

_SPEC = re.compile(r"\s*(?:(?P<dtype>\w+)\s*\[(?P<inner>.*)\]|(?P<dims>.*))\s*", re.DOTALL)
_WORDS = re.compile(r"\w+")
_NO_NAMES = frozenset({"None", "True", "False"})
_MAX_EXTENT = (1 << 63) - 1


def symbolic_arguments(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic | None,
) -> tuple[tuple[PyTree, ...], dict[str, PyTree]]:
    """Replaces dynamic arguments by `jax.ShapeDtypeStruct`s of symbolic shapes.

    Args:
        function: The function. `dynamic` names its parameters.
        args, kwargs: Example arguments. A text such as "b, 128" (f32) or "int32[b, s]" is an
            argument of that shape.
        dynamic: "b, ..." for an argument names its first dimension `b`. The other dimensions are
            those of the example. For a pytree, it holds for all leaves.

    Raises:
        UsageError: A text is no shape, does not fit the example, or belongs to no argument.
    """
    scope = jax.export.SymbolicScope()
    if dynamic is not None and not isinstance(dynamic, str | Mapping):
        raise UsageError(f'dynamic={dynamic!r} is neither a string such as "b, ..." nor a mapping')
    try:
        args = tuple(_from_text(item, scope) if isinstance(item, str) else item for item in args)
        kwargs = {
            name: _from_text(item, scope) if isinstance(item, str) else item
            for name, item in kwargs.items()
        }
        if dynamic is None:
            return args, kwargs
        specs = _by_argument(function, args, kwargs, dynamic)
        positional = tuple(
            _with_spec(item, specs.get(index), scope) for index, item in enumerate(args)
        )
        named = {name: _with_spec(item, specs.get(name), scope) for name, item in kwargs.items()}
    except (ValueError, TypeError) as error:
        raise UsageError(f"these dynamic dimensions do not fit: {error}") from error
    return positional, named


def with_sizes(arguments: PyTree, sizes: Mapping[str, int]) -> PyTree:
    """Arguments with numbers instead of symbolic dimensions."""

    def static(leaf: object) -> object:
        if not isinstance(leaf, jax.ShapeDtypeStruct):
            return leaf
        shape = [x if isinstance(x, int) else evaluate(parse(str(x)), sizes) for x in leaf.shape]
        return leaf.update(shape=tuple(shape))

    return jax.tree.map(static, arguments)


def _from_text(text: str, scope: jax.export.SymbolicScope) -> jax.ShapeDtypeStruct:
    match = _SPEC.fullmatch(text)
    assert match is not None
    dims = match["inner"] if match["dtype"] else match["dims"]
    dtype = jnp.dtype(match["dtype"] or "float32")
    shape = jax.export.symbolic_shape(dims, scope=scope)
    for dim in shape:
        if isinstance(dim, int) and not 0 <= dim <= _MAX_EXTENT:
            raise ValueError(f"{dim} in {text!r} is no extent; name a dimension that is to be free")
    if _NO_NAMES & set(_WORDS.findall(dims)):
        raise ValueError(f"a dimension in {text!r} has a name that is none; give it another")
    return jax.ShapeDtypeStruct(shape, dtype)


def _with_spec(argument: PyTree, spec: str | None, scope: jax.export.SymbolicScope) -> PyTree:
    if spec is None:
        return argument
    specs = jax.export.symbolic_args_specs(argument, spec, scope=scope)
    for old, new in zip(jax.tree.leaves(argument), jax.tree.leaves(specs), strict=True):
        if len(jnp.shape(old)) != len(new.shape):
            raise ValueError(f"{spec!r} has another rank than the shape {jnp.shape(old)}")
    return specs


def _by_argument(
    function: Callable[..., object],
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    dynamic: Dynamic,
) -> dict[str | int, str]:
    """The dimensions by position and, for keywords, by name."""
    if isinstance(dynamic, str):
        return dict.fromkeys([*range(len(args)), *kwargs], dynamic)
    try:
        names = list(inspect.signature(function).parameters)
    except (TypeError, ValueError):  # of C functions
        names = []
    places = {name: index for index, name in enumerate(names[: len(args)])}
    specs: dict[str | int, str] = {}
    for key, spec in dynamic.items():
        place = places.get(str(key), key)
        if place not in kwargs and not (isinstance(place, int) and 0 <= place < len(args)):
            raise UsageError(f"dynamic= names {key!r}, which is not among the arguments")
        specs[place] = spec
    return specs
