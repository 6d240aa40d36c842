"""Removes the branches of a program that count as not taken."""

from __future__ import annotations

from dataclasses import replace

from hlo2onnx.errors import LoadError
from hlo2onnx.mlir.callbacks import Callbacks, has_callbacks
from hlo2onnx.mlir.context import clone_module
from hlo2onnx.mlir.untaken_branches import drop_branches, notes_of
from hlo2onnx.sources.source import Source


def without_untaken_branches(source: Source, policy: str) -> Source:
    """The program without the branches that count as not taken, with a note on each.

    Translation and verification both use it. XLA crashes on Python callbacks of another process, or
    of another executable of this process.

    Args:
        source: The program. Its module does not change.
        policy: See `hlo2onnx.options.Options.callbacks`.

    Raises:
        LoadError: The program nests regions or calls too deeply.
    """
    if policy == "refuse" or not has_callbacks(source.module.operation):
        return source
    module = clone_module(source.module)
    try:
        untaken = Callbacks(module, policy).untaken
    except RecursionError:
        raise LoadError("the program nests regions or calls too deeply to be translated") from None
    if not untaken:
        return source
    notes = notes_of(module, untaken)
    drop_branches(untaken)
    return replace(source, module=module, notes=(*source.notes, *notes))
