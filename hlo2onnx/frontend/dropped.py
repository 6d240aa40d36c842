"""Notes on what a program has dropped, and on signs of training mode."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from jaxlib.mlir import ir

from hlo2onnx.frontend.mlir.functions import functions_of
from hlo2onnx.frontend.mlir.values import operations_in
from hlo2onnx.frontend.port_names import leaf_name
from hlo2onnx.frontend.signature import Signature, key_paths
from hlo2onnx.frontend.source import Source, find_function

SHOWN = 5
"""A note lists at most this many names."""

STATISTICS = frozenset({"batch_stats", "moving_mean", "moving_variance", "running_mean"})
"""Parts of the names of batch statistics."""

DROPOUT = (
    "the program draws bernoulli samples, as dropout does in training: if it is for inference,"
    " translate it with deterministic=True, train=False or inference=True"
)


def with_notes(loaded: Source, bound: Source, parameters: Sequence[str]) -> Source:
    """The program with notes on arguments that it does not read, and on training mode.

    Args:
        loaded: The program before arguments were bound.
        bound: The program.
        parameters: Names of the function's positional parameters, if known.
    """
    unread = _pruned(loaded.signature, parameters)
    notes = list(bound.notes)
    weights = [
        item.port.name for item in bound.signature.bound if _is_unread(bound, item.port.position)
    ]
    if unread:
        notes.append(f"the program does not read these arguments: {_listed(unread)}")
    if weights:
        notes.append(f"the program does not read these parameters: {_listed(weights)}")
    if any(
        name.lstrip("_").startswith("bernoulli") for name in functions_of(bound.module.operation)
    ):
        notes.append(DROPOUT)
    if updated := _updated_statistics(bound):
        notes.append(
            f"the program updates batch statistics, as in training: {_listed(updated)}; if it is"
            " for inference, translate it with train=False or use_running_average=True"
        )
    return replace(bound, notes=tuple(dict.fromkeys(notes)))


def _pruned(signature: Signature, parameters: Sequence[str]) -> list[str]:
    """The arguments that jit has pruned, each as a whole if nothing of it is read."""
    trees = signature.trees
    if trees is None:
        return []
    paths = key_paths(trees.in_tree, trees.in_leaves)
    read = {
        path[:2] for path, leaf in zip(paths, trees.in_leaves, strict=True) if leaf.port is not None
    }
    named = parameters if not trees.statics.positional else ()
    names = [
        leaf_name(path if path[:2] in read else path[:2], named)
        for path, leaf in zip(paths, trees.in_leaves, strict=True)
        if leaf.port is None
    ]
    return list(dict.fromkeys(names))


def _is_unread(source: Source, position: int) -> bool:
    argument = _function(source).regions[0].blocks[0].arguments[position]
    return not any(True for _ in argument.uses)


def _updated_statistics(source: Source) -> list[str]:
    """Results that are batch statistics, and not those that the program was given."""
    signature = source.signature
    names = [port for port in signature.outputs if STATISTICS & set(port.name.split("/"))]
    if not names:
        return []
    results = operations_in(_function(source).regions[0].blocks[0])[-1].operands
    return [port.name for port in names if not isinstance(results[port.position].owner, ir.Block)]


def _function(source: Source) -> ir.Operation:
    return find_function(source.module.operation, source.function, source.description)


def _listed(names: Iterable[str]) -> str:
    found = list(names)
    more = f" and {len(found) - SHOWN} more" if len(found) > SHOWN else ""
    return ", ".join(found[:SHOWN]) + more
