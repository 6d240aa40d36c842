"""Layouts of images at the boundary: channels last in the program, second in the model."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.signature import Port, Signature


def with_channels_second(
    signature: Signature, inputs: Iterable[str], outputs: Iterable[str]
) -> Signature:
    """Moves the channels of some inputs and outputs from the last axis to the second.

    Raises:
        UsageError: There is no port of a name, or it has no channels to move.
    """
    return replace(
        signature,
        inputs=_moved(signature.inputs, frozenset(inputs), "input"),
        outputs=_moved(signature.outputs, frozenset(outputs), "output"),
    )


def _moved(ports: Sequence[Port], names: frozenset[str], kind: str) -> tuple[Port, ...]:
    if unknown := names - {port.name for port in ports}:
        known = ", ".join(port.name for port in ports)
        raise UsageError(f"no {kind} named {', '.join(sorted(unknown))}; there is {known}")
    for port in ports:
        if port.name in names and (len(port.shape) < 3 or port.element.startswith("complex")):
            raise UsageError(f"{kind} {port.name} is not an image with channels last")
        if port.name in names and port.alias is not None:
            raise UsageError(f"{kind} {port.name} is a state: it must keep its layout")
    return tuple(replace(port, channels_second=port.name in names) for port in ports)


def channels_to_second(rank: int) -> list[int]:
    """The permutation from channels-last to channels-second."""
    return [0, rank - 1, *range(1, rank - 1)]


def channels_to_last(rank: int) -> list[int]:
    """The permutation from channels-second to channels-last."""
    return [0, *range(2, rank), 1]
