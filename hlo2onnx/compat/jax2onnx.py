"""`to_onnx` with the signature of jax2onnx' function, for programs and libraries that call it."""

from __future__ import annotations

import functools
import logging
import os
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal

import jax
import jax.export
import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.custom_calls import libraries_of
from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.load import prepared
from hlo2onnx.frontend.ports import channels_to_second, with_channels_second, with_names
from hlo2onnx.frontend.signature import (
    Signature,
    key_name,
    key_paths,
)
from hlo2onnx.frontend.source import Source
from hlo2onnx.ir.dims import parse
from hlo2onnx.ir.traversal import all_nodes
from hlo2onnx.options import Options
from hlo2onnx.pipeline import run_stages
from hlo2onnx.program import OnnxProgram

__all__ = ["ArgumentError", "to_onnx"]

_LOG = logging.getLogger(__name__)

_MODES = ("proto", "ir", "file")
_EXPORTS = ("standard", "web")
_NORMALIZATIONS = {
    "auto": (),
    "prefer_native": (),
    "force_decomposed": ("group-normalization", "layer-normalization", "rms-normalization"),
}
"""The rules that a normalization_mode switches off."""
_NUMBERS = (bool, int, float, complex)
_DOUBLES = {np.dtype(np.float32): np.float64, np.dtype(np.complex64): np.complex128}


class ArgumentError(UsageError, ValueError, TypeError):
    """An argument has a wrong type or value. jax2onnx raises ValueError or TypeError for it."""


def to_onnx(
    fn: Callable[..., Any],
    inputs: Sequence[Any],
    input_params: Mapping[str, Any] | None = None,
    model_name: str = "jax_model",
    opset: int | None = None,
    *,
    enable_double_precision: bool = False,
    return_mode: Literal["proto", "ir", "file"] = "proto",
    output_path: str | os.PathLike[str] | None = None,
    inputs_as_nchw: Sequence[int] | None = None,
    outputs_as_nchw: Sequence[int] | None = None,
    input_names: Sequence[str] | None = None,
    output_names: Sequence[str] | None = None,
    export_mode: Literal["standard", "web"] = "standard",
    normalization_mode: Literal["auto", "prefer_native", "force_decomposed"] = "auto",
    **others: Any,
) -> onnx.ModelProto | oir.Model | str:
    """Translates a function to ONNX, with the arguments of jax2onnx' function of this name.

    Notes of the translation go to the logger `hlo2onnx.compat.jax2onnx`.

    Args:
        fn: A JAX function, or a module of equinox or flax.nnx.
        inputs: One for each positional argument: a shape, whose texts such as "B" are free
            dimensions, a `jax.ShapeDtypeStruct` with integers, texts or symbolic dimensions, or an
            array. Shapes are of f32 (f64 in double precision). Arguments that the function does
            not read are inputs of the model too.
        input_params: Keyword arguments. Arrays and numbers are inputs of the model, named by their
            keys. Texts and None are part of it; so are Python's numbers if the function needs
            their values for control flow.
        model_name: Name of the graph.
        opset: ONNX opset. Default: 21, or a newer one if the model has operators or types that it
            lacks.
        enable_double_precision: Whether f32 inputs become f64 and 64-bit types are on. JAX's own
            setting (`jax_enable_x64`) is ignored and not changed.
        return_mode: "proto" for an `onnx.ModelProto`, "ir" for an `onnx_ir.Model`, "file" for a
            file at `output_path`.
        output_path: Path of the file.
        inputs_as_nchw, outputs_as_nchw: Indices of inputs and outputs whose channels the model has
            second, and the function last.
        input_names: Names of the inputs. Default: in_0, in_1, ...
        output_names: Names of the outputs. Default: result, or result/0, result/1, ...
        export_mode: "web" writes one file, whatever its size.
        normalization_mode: "force_decomposed" makes no LayerNormalization, RMSNormalization and
            GroupNormalization; the others do so where they compute the same.
        others: Arguments of jax2onnx that hlo2onnx does not support.

    Returns:
        What `return_mode` says; for "file" the path as a text.

    Raises:
        ArgumentError: An argument has a wrong type or value; a UsageError, ValueError, TypeError.
        LoadError: JAX cannot lower the function.
        TranslationError: ONNX cannot express some ops. The error lists all of them.
        UsageError: The opset is not supported.
    """
    _check_choices(others, return_mode, export_mode, normalization_mode)
    if return_mode == "file" and output_path is None:
        raise ArgumentError('return_mode="file" needs output_path=')
    if not callable(fn):
        raise ArgumentError(f"fn={fn!r} is not a function")
    options = Options(opset=opset, without=frozenset(_NORMALIZATIONS[normalization_mode]))
    with jax.enable_x64(enable_double_precision):
        specs = _input_specs(inputs, enable_double_precision)
        parameters = _parameter_specs(input_params, enable_double_precision)
        source, names = _loaded(fn, specs, parameters, _input_names(input_names, len(specs)))
        source = _with_ports(source, names, output_names, inputs_as_nchw, outputs_as_nchw)
        model, report = run_stages(source, options)
    for note in report.notes:
        _LOG.warning(note)
    _add_unread(model.graph, source.signature, names, frozenset(inputs_as_nchw or ()))
    model.graph.name = str(model_name)
    if return_mode == "ir":
        return model
    program = OnnxProgram(model, source, report, libraries_of(model, {}), options)
    if return_mode == "proto":
        return program.model_proto
    program.save(Path(str(output_path)), external_data=False if export_mode == "web" else None)
    return str(output_path)


def _check_choices(others: Mapping[str, Any], mode: str, export: str, normalization: str) -> None:
    for name, value in others.items():
        if value is not None or name != "record_primitive_calls_file":
            raise ArgumentError(f"{name}={value!r}: hlo2onnx has no equivalent of this argument")
    for name, value, choices in (
        ("return_mode", mode, _MODES),
        ("export_mode", export, _EXPORTS),
        ("normalization_mode", normalization, tuple(_NORMALIZATIONS)),
    ):
        if value not in choices:
            raise ArgumentError(f"{name}={value!r} is not one of {', '.join(choices)}")


def _input_names(given: Sequence[str] | None, count: int) -> list[str]:
    if given is None:
        return [f"in_{index}" for index in range(count)]
    if isinstance(given, str) or not isinstance(given, Sequence) or len(given) != count:
        raise ArgumentError(f"input_names={given!r} are not {count} names, one for each input")
    return list(given)


def _loaded(
    fn: Callable[..., Any], specs: Sequence[Any], parameters: Mapping[str, Any], names: list[str]
) -> tuple[Source, list[str]]:
    """The lowered function, and a name for each leaf of its arguments.

    Python's values that the function branches on become part of it.
    """
    fixed = {name: value for name, value in parameters.items() if isinstance(value, str | None)}
    free = {name: value for name, value in parameters.items() if name not in fixed}
    try:
        source = _lowered(fn, specs, free, fixed)
    except jax.errors.JAXTypeError:
        numbers = {name: value for name, value in free.items() if isinstance(value, _NUMBERS)}
        if not numbers:
            raise
        free = {name: value for name, value in free.items() if name not in numbers}
        source = _lowered(fn, specs, free, fixed | numbers)
        for name, value in numbers.items():
            _LOG.warning("input_params: %s=%r is part of the model, and no input", name, value)
    paths = key_paths(*reversed(jax.tree.flatten(free)))
    names = [*names, *("/".join(map(key_name, path)) for path in paths)]
    if len(set(names)) < len(names):
        raise ArgumentError(f"the names of the inputs are not unique: {', '.join(names)}")
    return source, names


def _lowered(
    fn: Callable[..., Any], specs: Sequence[Any], free: Mapping[str, Any], fixed: Mapping[str, Any]
) -> Source:
    if fixed:
        fn = functools.partial(fn, **fixed)
    return prepared(fn, specs, free, Options())


def _with_ports(
    source: Source,
    names: Sequence[str],
    output_names: Sequence[str] | None,
    inputs_as_nchw: Sequence[int] | None,
    outputs_as_nchw: Sequence[int] | None,
) -> Source:
    """The program with these names, and channels second in inputs and outputs of these indices."""
    clash = set(names) & set(output_names or ())
    if clash:
        raise ArgumentError(f"output_names: {clash.pop()} is the name of an input too")
    try:
        signature = with_names(source.signature, names, output_names)
        assert signature.trees is not None
        leaves = [leaf.port for leaf in signature.trees.in_leaves]
        read = [leaves[index] for index in _checked("inputs_as_nchw", inputs_as_nchw, len(leaves))]
        moved = [signature.inputs[port].name for port in read if port is not None]
        places = _checked("outputs_as_nchw", outputs_as_nchw, len(signature.outputs))
        made = [signature.outputs[place].name for place in places]
        return replace(source, signature=with_channels_second(signature, moved, made))
    except UsageError as error:
        raise ArgumentError(str(error)) from error


def _checked(option: str, indices: Sequence[int] | None, count: int) -> Sequence[int]:
    for index in indices or ():
        if not isinstance(index, int) or not 0 <= index < count:
            raise ArgumentError(f"{option}: {index!r} is not the index of one of {count}")
    return indices or ()


def _add_unread(
    graph: oir.Graph, signature: Signature, names: Sequence[str], channels_second: frozenset[int]
) -> None:
    """Adds the inputs that the function does not read, which jit has pruned."""
    assert signature.trees is not None
    values = [*graph.initializers.values(), *(y for node in all_nodes(graph) for y in node.outputs)]
    for value in values:
        if value.name in names:
            value.name = f"{value.name}/value"
    for index, (leaf, name) in enumerate(zip(signature.trees.in_leaves, names, strict=True)):
        if leaf.port is not None:
            continue
        dims = [dim if isinstance(dim, int) else parse(str(dim)) for dim in leaf.aval.shape]
        if index in channels_second:
            dims = [dims[axis] for axis in channels_to_second(len(dims))]
        dtype = np.dtype(leaf.aval.dtype)
        if dtype.kind == "c":
            dtype, dims = np.finfo(dtype).dtype, [*dims, 2]
        kind = oir.TensorType(oir.DataType.from_numpy(dtype))
        graph.inputs.insert(index, oir.Value(name=name, type=kind, shape=oir.Shape(dims)))


# -- arguments for `jax.jit(...).lower` ---


def _input_specs(inputs: Any, double: bool) -> list[jax.ShapeDtypeStruct]:
    """The shapes and types of the positional arguments.

    Args:
        inputs: Shapes, `jax.ShapeDtypeStruct`s or arrays.
        double: Whether shapes and f32 inputs become f64. The caller has set `jax_enable_x64`.

    Raises:
        ArgumentError: An item is none of these.
    """
    if isinstance(inputs, str) or not isinstance(inputs, Iterable):
        raise ArgumentError(f"inputs={inputs!r} is not a list of shapes, shape structs or arrays")
    items = list(inputs)
    shapes = [_shape(index, item) for index, item in enumerate(items)]
    scopes = (getattr(dim, "scope", None) for shape in shapes for dim in shape)
    scope = next((found for found in scopes if found is not None), jax.export.SymbolicScope())
    dtypes = [np.dtype(np.float32) if _is_shape(item) else item.dtype for item in items]
    return [
        jax.ShapeDtypeStruct(_dims(index, shape, scope), _dtype(dtype, double))
        for index, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True))
    ]


def _parameter_specs(parameters: Mapping[str, Any] | None, double: bool) -> dict[str, Any]:
    """The keyword arguments, arrays as their shapes and types.

    Raises:
        ArgumentError: They are not a mapping of strings to values.
    """
    if parameters is not None and not isinstance(parameters, Mapping):
        raise ArgumentError(f"input_params={parameters!r} is not a mapping of names to values")
    for name in parameters or {}:
        if not isinstance(name, str):
            raise ArgumentError(f"input_params: the key {name!r} is not a string")
    return {
        name: jax.tree.map(
            lambda leaf: (
                jax.ShapeDtypeStruct(leaf.shape, _dtype(leaf.dtype, double)) if _has(leaf) else leaf
            ),
            value,
        )
        for name, value in (parameters or {}).items()
    }


def _has(item: Any) -> bool:
    return hasattr(item, "shape") and hasattr(item, "dtype")


def _is_shape(item: Any) -> bool:
    return isinstance(item, tuple | list)


def _shape(index: int, item: Any) -> Sequence[Any]:
    if not _is_shape(item) and not _has(item):
        raise ArgumentError(
            f"inputs[{index}] is {item!r}: give a shape such as ('B', 3), a jax.ShapeDtypeStruct"
            " or an array"
        )
    return tuple(item if _is_shape(item) else item.shape)


def _dims(index: int, shape: Sequence[Any], scope: Any) -> tuple[Any, ...]:
    """The extents, texts among them as symbolic dimensions."""
    for dim in shape:
        is_number = isinstance(dim, int | np.integer) and dim >= 0
        if not is_number and not isinstance(dim, str) and not jax.export.is_symbolic_dim(dim):
            raise ArgumentError(
                f"inputs[{index}] has the dimension {dim!r}: give a number, or a name such as 'B'"
                " for a free one"
            )
    if all(isinstance(dim, int | np.integer) for dim in shape):
        return tuple(map(int, shape))
    try:
        return tuple(jax.export.symbolic_shape(",".join(map(str, shape)), scope=scope))
    except ValueError as error:
        raise ArgumentError(f"inputs[{index}] has the shape {tuple(shape)}: {error}") from error


def _dtype(dtype: Any, double: bool) -> Any:
    if jax.dtypes.issubdtype(dtype, jax.dtypes.extended):  # typed PRNG keys
        return dtype
    known = np.dtype(dtype)
    return jax.dtypes.canonicalize_dtype(_DOUBLES.get(known, known) if double else known)
