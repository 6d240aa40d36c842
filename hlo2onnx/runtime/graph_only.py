"""Models without their weights: these are given to the runtime apart, or are inputs."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as oir

from hlo2onnx.ir.weights import weight_of
from hlo2onnx.runtime.serializing import SMALL_BYTES, initializer_like, view_of


def stored_apart(model: oir.Model) -> dict[str, oir.TensorProtocol]:
    """The weights of a model, and its other large constants, by name."""
    return {
        str(value.name): value.const_value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and (weight_of(value) is not None or value.const_value.nbytes >= SMALL_BYTES)
    }


def without_weights(model: oir.Model, data: Path) -> oir.Model:
    """The model with references to weights in a file that does not exist.

    Args:
        model: The model; it does not change.
        data: The path of that file, in the folder of the model.
    """
    apart = stored_apart(model)
    values = []
    for name, value in model.graph.initializers.items():
        if name not in apart:
            values.append(value)
            continue
        tensor = apart[name]
        reference = oir.ExternalTensor(
            data.name,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=tensor.shape,  # type: ignore[arg-type]
            name=name,
            base_dir=data.parent,
        )
        values.append(initializer_like(value, reference))
    return view_of(model, model.graph.inputs, values)


def with_weights_as_inputs(model: oir.Model) -> oir.Model:
    """The model with its weights as inputs, after its own; it does not change."""
    values = model.graph.initializers.values()
    weights = [value for value in values if weight_of(value) is not None]
    others = [value for value in values if weight_of(value) is None]
    return view_of(model, [*model.graph.inputs, *weights], others)
