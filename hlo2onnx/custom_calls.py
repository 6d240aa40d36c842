"""Translations of `stablehlo.custom_call`s that users give.

A custom call names code outside the program: a kernel registered with `jax.ffi`, a function of
another framework. What it computes is said either in JAX, or by an operator that the runtime has:
ONNX's own, one of "com.microsoft", or one of a library of custom operators.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from hlo2onnx.errors import UsageError

if TYPE_CHECKING:
    import onnx_ir as oir

Attributes = Mapping[str, Any]


@dataclass(frozen=True)
class CustomOp:
    """An operator of a runtime that stands for a custom call.

    Attributes:
        domain: Its domain; "" for ONNX's own.
        op_type: Its name.
        attributes: Of the node; or a function that makes them of the entries of the call's
            backend_config. By default those entries themselves.
        version: Of the domain, for the model's opset import.
        library: Path of the shared library that brings the operator, if the runtime does not have
            it. `OnnxProgram` loads it into its sessions; other sessions have to themselves.
    """

    domain: str
    op_type: str
    attributes: Attributes | Callable[[Attributes], Attributes] | None = None
    version: int = 1
    library: str | None = None

    def node_attributes(self, configuration: Attributes) -> Attributes:
        """The node's attributes for a call with this configuration."""
        if self.attributes is None:
            return configuration
        return self.attributes(configuration) if callable(self.attributes) else self.attributes


Translation = Callable[..., Any] | CustomOp
"""A JAX function, or an operator of a runtime."""

_registered: dict[str, Translation] = {}


def expand_custom_call(target: str, function: Callable[..., Any]) -> None:
    """Says in JAX what custom calls of a target compute, for all translations of this process.

    Registering a target again replaces what it was. `translate(custom_calls={target: function})`
    does it for one translation only, and goes first.

    Args:
        target: The `call_target_name`.
        function: Pure; takes the call's operands as arrays, and the entries of its backend_config
            as keyword arguments (a text is the one entry "backend_config"); returns an array of
            each result's type, in any pytree. It is traced with 64-bit types enabled.

    Raises:
        UsageError: That is no function.
    """
    check_translations({target: function})
    _registered[target] = function


def custom_call(
    target: str,
    *,
    domain: str,
    op_type: str,
    attributes: Attributes | Callable[[Attributes], Attributes] | None = None,
    version: int = 1,
    library: str | None = None,
) -> None:
    """Makes custom calls of a target nodes of an operator, in all translations of this process.

    `translate(custom_calls={target: CustomOp(...)})` does it for one translation only. The node's
    inputs and outputs are the call's operands and results; see `CustomOp` for the rest.

    Raises:
        UsageError: A name is no text.
    """
    operator = CustomOp(domain, op_type, attributes, version, library)
    check_translations({target: operator})
    _registered[target] = operator


def check_translations(given: Mapping[str, Translation]) -> None:
    """Raises UsageError unless every target is a text, and every translation a function or an
    operator."""
    for target, translation in given.items():
        if not isinstance(target, str):
            raise UsageError(f"custom_calls: the target of a call is a text, not {target!r}")
        if isinstance(translation, CustomOp):
            texts = (translation.domain, translation.op_type)
            if not all(isinstance(text, str) for text in texts) or not translation.op_type:
                raise UsageError(f"custom_calls[{target!r}]: domain and op_type are texts")
        if not isinstance(translation, CustomOp) and not callable(translation):
            raise UsageError(
                f"custom_calls[{target!r}] is neither a JAX function nor a CustomOp:"
                f" {translation!r}"
            )


def known_translations(given: Mapping[str, Translation]) -> dict[str, Translation]:
    """What a translation knows by target: what it was given, then what the process has."""
    return {**_registered, **given}


def libraries_of(model: oir.Model, given: Mapping[str, Translation]) -> tuple[str, ...]:
    """The shared libraries with custom operators that a model needs."""
    used = {(node.domain, node.op_type) for node in model.graph.all_nodes()}
    operators = (op for op in known_translations(given).values() if isinstance(op, CustomOp))
    paths = (op.library for op in operators if (op.domain, op.op_type) in used and op.library)
    return tuple(dict.fromkeys(paths))
