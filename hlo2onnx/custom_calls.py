"""The user's translations of `stablehlo.custom_call`s.

A custom call names code outside the program, such as a kernel of `jax.ffi` or a function of another
framework. Its translation is a JAX function with the same results, or an operator of the runtime:
of ONNX, of "com.microsoft", or of a library of custom operators.
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
    """An operator of a runtime that replaces a custom call.

    Attributes:
        domain: Domain of the operator; "" for ONNX itself.
        op_type: Name of the operator.
        attributes: Attributes of the node, or a function from the entries of the call's
            backend_config to the attributes. None: the entries themselves.
        version: Version of the domain, for the model's opset import.
        library: Path of a shared library with the operator, if the runtime does not have it.
            `OnnxProgram` loads it into its sessions; your own sessions must register it.
    """

    domain: str
    op_type: str
    attributes: Attributes | Callable[[Attributes], Attributes] | None = None
    version: int = 1
    library: str | None = None

    def node_attributes(self, configuration: Attributes) -> Attributes:
        """The attributes of the node for a call with this backend_config."""
        if self.attributes is None:
            return configuration
        return self.attributes(configuration) if callable(self.attributes) else self.attributes


Translation = Callable[..., object] | CustomOp
"""A JAX function, or an operator of a runtime."""

_registered: dict[str, Translation] = {}


def expand_custom_call(target: str, function: Callable[..., object]) -> None:
    """Registers a JAX function that computes the custom calls of a target.

    This holds for all translations of the process. Registering a target again replaces its
    translation. `translate(custom_calls={target: function})` is for one translation, and takes
    precedence.

    Args:
        target: The `call_target_name`.
        function: A pure function. It takes the operands of the call as arrays, and the entries of
            the call's backend_config as keywords (a text is the one entry "backend_config"). It
            returns a pytree with one array for each result, of its shape and type. It is traced
            with 64-bit types enabled.

    Raises:
        UsageError: The target is not a string, or the function cannot be called.
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
    """Registers an operator of a runtime for the custom calls of a target.

    This holds for all translations of the process. `translate(custom_calls={target:
    CustomOp(...)})` is for one translation. The inputs and outputs of the node are the operands and
    results of the call. `CustomOp` describes the other arguments.

    Raises:
        UsageError: A name is not a string.
    """
    operator = CustomOp(domain, op_type, attributes, version, library)
    check_translations({target: operator})
    _registered[target] = operator


def check_translations(given: Mapping[str, Translation]) -> None:
    """Checks that every target is a text and every translation a function or an operator.

    Raises:
        UsageError: One is not.
    """
    if not isinstance(given, Mapping):
        raise UsageError(f"custom_calls={given!r} is not a mapping of targets to translations")
    for target, translation in given.items():
        if not isinstance(target, str):
            raise UsageError(f"custom_calls: the target of a call is a string, not {target!r}")
        if isinstance(translation, CustomOp):
            texts = (translation.domain, translation.op_type)
            if not all(isinstance(text, str) for text in texts) or not translation.op_type:
                raise UsageError(f"custom_calls[{target!r}]: domain and op_type must be strings")
            if type(translation.version) is not int or translation.version < 1:
                version = translation.version
                raise UsageError(f"custom_calls[{target!r}]: version={version!r} is not a version")
        if not isinstance(translation, CustomOp) and not callable(translation):
            raise UsageError(
                f"custom_calls[{target!r}] is neither a JAX function nor a CustomOp:"
                f" {translation!r}"
            )


def known_translations(given: Mapping[str, Translation]) -> dict[str, Translation]:
    """Translations by target: the given ones, and otherwise those registered in the process."""
    return {**_registered, **given}


def libraries_of(model: oir.Model, given: Mapping[str, Translation]) -> tuple[str, ...]:
    """The shared libraries with custom operators that a model needs."""
    used = {(node.domain, node.op_type) for node in model.graph.all_nodes()}
    operators = (op for op in known_translations(given).values() if isinstance(op, CustomOp))
    paths = (op.library for op in operators if (op.domain, op.op_type) in used and op.library)
    return tuple(dict.fromkeys(paths))
