"""`load`: programs from saved models."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path

import jax
import onnx_ir as oir

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.load import prepared
from hlo2onnx.frontend.signature import Port, PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.tensors import Tensor
from hlo2onnx.options import Bind, CallbackPolicy, DenormalPolicy, Dynamic, Options, names
from hlo2onnx.program import OnnxProgram
from hlo2onnx.report import Report
from hlo2onnx.runtime.calling import describe
from hlo2onnx.runtime.loading import described
from hlo2onnx.runtime.metadata import source_hash
from hlo2onnx.runtime.paths import check_list, path_of, reading_model
from hlo2onnx.runtime.sessions import Providers


def load(
    path: str | os.PathLike[str],
    *,
    source: object = None,
    args: Sequence[PyTree] = (),
    kwargs: Mapping[str, PyTree] | None = None,
    function: str | None = None,
    dynamic: Dynamic | None = None,
    constraints: str | Iterable[str] = (),
    bind: Bind = (),
    specialize: Mapping[str, int] | None = None,
    callbacks: CallbackPolicy = "drop-checks",
    types: Iterable[type] = (),
    providers: Providers | None = None,
    libraries: Sequence[str] = (),
    denormals: DenormalPolicy = "keep",
) -> OnnxProgram:
    """Loads a model that hlo2onnx has saved.

    The program takes and returns the pytrees of its JAX function. Without its source it cannot be
    verified or explained. `hlo2onnx.runtime.load` needs neither JAX nor onnx.

    Args:
        path: Path of the model.
        source: The program that was translated, as `translate` takes it: a function with `args` and
            `kwargs`, a `jax.stages.Lowered`, or a path of StableHLO.
        args, kwargs: Example arguments of a function.
        function, dynamic, constraints, bind, specialize, callbacks: Options of the translation that
            change the source. Give the same ones.
        types: Classes of pytree nodes, to build results of. Without the source, nodes of other
            classes come back as named tuples, dicts, lists, and objects with the same attributes.
        providers: Execution providers of ONNX Runtime. Default: the CPU.
        libraries: Paths of shared libraries with custom operators.
        denormals: "keep" or "flush": see `hlo2onnx.options.Options.denormals`.

    Raises:
        LoadError: There is no model at the path, it has no signature, or the source is not a
            readable program.
        UsageError: The source is another program than that of the model, this build of ONNX
            Runtime does not have a provider, or an argument is wrong.
    """
    check_list("args", args, "arguments")
    _check_names(kwargs or {})
    model = _model(path_of(path, "model.onnx"))
    graph = model.graph
    description = described(model.metadata_props, _axes(graph.inputs), _axes(graph.outputs))
    origin = description.origin
    options = Options(
        function=function,
        dynamic=dynamic,
        constraints=names("constraints", constraints, "text"),
        bind=bind,
        specialize=specialize,
        callbacks=callbacks,
        denormals=denormals,
    )
    report = Report(origin.get("source", ""), origin.get("target", ""), model.opset_imports[""])
    report.nodes.update(node.op_type for node in graph.all_nodes())
    loaded = None
    if source is not None:
        loaded = _source(source, args, kwargs or {}, options, description)
    options = replace(options, bind=())
    return OnnxProgram(model, loaded, report, libraries, options, description, providers, types)


def _check_names(kwargs: object) -> None:
    if not isinstance(kwargs, Mapping):
        raise UsageError(f"kwargs={kwargs!r} is not a mapping of names to arguments")
    for name in kwargs:
        if not isinstance(name, str):
            raise UsageError(f"kwargs= has a key that is not a name: {name!r}")


def _axes(values: Sequence[oir.Value]) -> dict[str, int]:
    return {str(value.name): len(value.shape or ()) for value in values}


def _model(path: Path) -> oir.Model:
    """The model at a path. Weights in other files stay there, mapped to memory."""
    with reading_model(path):
        model = oir.load(path)
        for graph in model.graphs():
            for value in graph.initializers.values():
                tensor = value.const_value
                if isinstance(tensor, oir.ExternalTensor):
                    value.const_value = oir.Tensor(
                        tensor.numpy(), tensor.dtype, shape=tensor.shape, name=tensor.name
                    )
    return model


def _source(
    source: object,
    args: Sequence[PyTree],
    kwargs: Mapping[str, PyTree],
    options: Options,
    description: Description,
) -> Source:
    """The source of a model, with the names and layouts of the model.

    Raises:
        UsageError: It is another program.
    """
    if isinstance(source, OnnxProgram):
        loaded = source._source
    else:
        loaded = prepared(source, args, kwargs, options)
    if source_hash(loaded) != description.origin.get("sha256"):
        versions, made_by = "", description.origin.get("jax")
        if made_by != jax.__version__:
            versions = (
                f", or JAX {jax.__version__} lowers it in another way than JAX {made_by}, which"
                " made the model"
            )
        raise UsageError(f"source= is not the program that the model was made from{versions}")
    signature = replace(
        loaded.signature,
        inputs=_as_in_model(loaded.signature.inputs, description.inputs),
        outputs=_as_in_model(loaded.signature.outputs, description.outputs),
    )
    found = describe(signature)
    if _types(found) != _types(description):
        raise UsageError(
            "the source has other inputs or outputs than the model: give the options of the"
            " translation, such as bind="
        )
    return replace(loaded, signature=signature)


def _as_in_model(ports: Sequence[Port], tensors: Sequence[Tensor]) -> tuple[Port, ...]:
    """The ports with the names and layouts of a model."""
    found = [
        replace(port, name=tensor.name, channels_second=tensor.channels_second)
        for port, tensor in zip(ports, tensors, strict=False)
    ]
    return (*found, *ports[len(found) :])


def _types(description: Description) -> list[tuple[str, tuple[int | str, ...]]]:
    return [(port.dtype, port.shape) for port in (*description.inputs, *description.outputs)]
