"""Models without their weights: the runtime gets these separately, or as inputs."""

from __future__ import annotations

from pathlib import Path

import onnx_ir as oir

from hlo2onnx.ir.weights import weight_of

SMALL_BYTES = 1024
"""Constants of fewer bytes that are no weights stay in the model."""


def stored_apart(model: oir.Model) -> dict[str, oir.TensorProtocol]:
    """The weights of a model, and its other large constants, by name."""
    return {
        str(value.name): value.const_value
        for value in model.graph.initializers.values()
        if value.const_value is not None
        and (weight_of(value) is not None or value.const_value.nbytes >= SMALL_BYTES)
    }


def references_apart(model: oir.Model, data: Path) -> dict[str, oir.TensorProtocol]:
    """References to weights in a file that does not exist, by name.

    Args:
        model: The model.
        data: The path of that file, in the folder of the model.
    """
    return {
        name: oir.ExternalTensor(
            data.name,
            0,
            tensor.nbytes,
            tensor.dtype,
            shape=tensor.shape,  # type: ignore[arg-type]
            name=name,
            base_dir=data.parent,
        )
        for name, tensor in stored_apart(model).items()
    }


def weight_names(model: oir.Model) -> list[str]:
    """The names of the weights of a model."""
    values = model.graph.initializers.items()
    return [name for name, value in values if weight_of(value) is not None]
