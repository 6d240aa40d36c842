"""Transformations of a whole program, each tried once per round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxlib.mlir import ir

from hlo2onnx.mlir.attributes import keys_of, text_of
from hlo2onnx.mlir.passes import run_pipeline
from hlo2onnx.mlir.walk import is_used, operations_in, operations_of
from hlo2onnx.reduction.draft import Draft

_NOTES = ("mhlo.", "jax.", "sdy.", "tf.", "xla.")
"""Prefixes of attributes that do not belong to an op."""


def remove_dead(draft: Draft) -> None:
    """Removes what nothing reads."""
    draft.clean()


def return_dead(draft: Draft) -> None:
    """Makes results of `main` of the values in it that nothing reads, so that these stay."""
    values = [
        value
        for operation in operations_in(draft.block)
        for value in operation.results
        if not is_used(value)
    ]
    draft.return_values([*draft.results, *values])


def inline_calls(draft: Draft) -> None:
    """Replaces calls and composites by the bodies of their functions."""
    for operation in draft.ops:
        if operation.name == "stablehlo.composite":
            _call_decomposition(operation)
    run_pipeline(draft.module, "builtin.module(inline,symbol-dce)")


def simplify(draft: Draft) -> None:
    """Merges equal ops, and folds what MLIR folds."""
    run_pipeline(draft.module, "builtin.module(canonicalize,cse)")


def drop_attributes(draft: Draft) -> None:
    """Removes the attributes of frameworks: of the module, of arguments and of ops."""
    for operation in operations_of(draft.module):
        for name in keys_of(operation.attributes):
            if name.startswith(_NOTES) or name in ("arg_attrs", "res_attrs"):
                del operation.attributes[name]


def _call_decomposition(operation: ir.Operation) -> None:
    with operation.context, operation.location, ir.InsertionPoint(operation):
        made = ir.Operation.create(
            "func.call",
            [result.type for result in operation.results],
            list(operation.operands),
            {"callee": ir.FlatSymbolRefAttr.get(text_of(operation, "decomposition"))},
        )
    for old, new in zip(operation.results, made.results, strict=True):
        old.replace_all_uses_with(new)
    operation.erase()


INLINING = "calls inlined"
WHOLE: Mapping[str, Callable[[Draft], None]] = {
    INLINING: inline_calls,
    "attributes dropped": drop_attributes,
    "equal and constant ops folded": simplify,
}
"""By the name in the report."""
