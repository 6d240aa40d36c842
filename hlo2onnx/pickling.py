"""The parts of a program as bytes, for copies and other processes."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import replace
from typing import Any, TypeVar

import onnx
import onnx_ir as oir
from jax.tree_util import PyTreeDef

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.mlir.context import parse_module
from hlo2onnx.frontend.mlir.values import module_bytecode
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.runtime.files import MODEL_BYTES
from hlo2onnx.runtime.saving import weight_bytes
from hlo2onnx.runtime.serializing import to_proto

T = TypeVar("T")


def model_bytes(model: oir.Model) -> bytes:
    """The model as bytes.

    Raises:
        UsageError: It is too large for a protobuf.
    """
    if weight_bytes(model) > MODEL_BYTES:
        raise UsageError("a model of more than 2 GB cannot be pickled: save and load it instead")
    content: bytes = to_proto(model).SerializeToString()
    return content


def model_from(content: bytes) -> oir.Model:
    """The reverse of `model_bytes`."""
    model: oir.Model = oir.from_proto(onnx.load_model_from_string(content))
    return model


def source_bytes(source: Source) -> bytes | None:
    """A source as bytes; None if it holds objects that cannot be pickled, such as lambdas."""
    module = module_bytecode(source.module.operation)
    fields = vars(source) | {"module": None, "weights": None, "at_sizes": None}
    # the signature has the arrays
    try:
        return pickle.dumps((module, fields))
    except (pickle.PicklingError, TypeError, AttributeError):
        return None


def source_from(content: bytes) -> Source:
    """The reverse of `source_bytes`."""
    module, fields = pickle.loads(content)
    return replace(Source(**fields), module=parse_module(module, fields["description"]))


def picklable_options(options: Options) -> Options:
    """The options, without translations of custom calls if they cannot be pickled."""
    try:
        pickle.dumps(options)
    except (pickle.PicklingError, TypeError, AttributeError):
        return replace(options, custom_calls={})
    return options


def node_types(tree: PyTreeDef) -> Iterator[type]:
    """The classes of the nodes of a pytree."""
    data: Any = tree.node_data()
    if data is not None:
        yield data[0]
    for child in tree.children():
        yield from node_types(child)
