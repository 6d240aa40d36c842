"""Transformations of a whole program, each tried once per round."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.attributes import keys_of, text_of
from hlo2onnx.frontend.mlir.functions import CALLEES, functions_of
from hlo2onnx.frontend.mlir.passes import run_pipeline
from hlo2onnx.frontend.mlir.untaken_branches import replace_by_block
from hlo2onnx.frontend.mlir.values import is_used, operations_in, operations_of
from hlo2onnx.reduction.draft import UNUSED_FUNCTIONS, Draft

DEPTH = 16
"""Calls in functions that are called are inlined up to this depth."""

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
    functions = functions_of(draft.module)
    for _ in range(DEPTH):
        calls = [each for each in operations_of(draft.main) if each.name in CALLEES]
        for call in calls:
            _inline(call, functions[text_of(call, CALLEES[call.name])])
    run_pipeline(draft.module, UNUSED_FUNCTIONS)


def simplify(draft: Draft) -> None:
    """Merges equal ops, and folds what MLIR folds."""
    run_pipeline(draft.module, "builtin.module(canonicalize,cse)")


def drop_attributes(draft: Draft) -> None:
    """Removes the attributes of frameworks: of the module, of arguments and of ops."""
    for operation in operations_of(draft.module):
        for name in keys_of(operation.attributes):
            if name.startswith(_NOTES) or name in ("arg_attrs", "res_attrs"):
                del operation.attributes[name]


def _inline(call: ir.Operation, callee: ir.Operation) -> None:
    with call.context, ir.InsertionPoint(callee):
        copy = callee.clone().operation
    block = copy.regions[0].blocks[0]
    for argument, value in zip(block.arguments, call.operands, strict=True):
        argument.replace_all_uses_with(value)
    replace_by_block(call, block)
    copy.erase()


INLINING = "calls inlined"
WHOLE: Mapping[str, Callable[[Draft], None]] = {
    INLINING: inline_calls,
    "attributes dropped": drop_attributes,
    "equal and constant ops folded": simplify,
}
"""By the name in the report."""
