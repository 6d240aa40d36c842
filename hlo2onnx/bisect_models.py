"""`bisect`: a program and a model that hlo2onnx has not made from it."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

import onnx
from jaxlib.mlir import ir

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.load import prepared
from hlo2onnx.frontend.mlir.context import clone_module
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.frontend.source import Source
from hlo2onnx.options import Options
from hlo2onnx.pipeline import lowered_module
from hlo2onnx.program import OnnxProgram
from hlo2onnx.runtime.calling import caller_of
from hlo2onnx.runtime.paths import reading_model
from hlo2onnx.runtime.serializing import to_proto
from hlo2onnx.verify.diagnosis import compared
from hlo2onnx.verify.divergence import Divergence
from hlo2onnx.verify.judge import Judge
from hlo2onnx.verify.points import Point, named_points, points_of, shared_points
from hlo2onnx.verify.runners import Candidate, OnnxRuntime
from hlo2onnx.verify.search import Compared
from hlo2onnx.verify.settings import Settings


def bisect(
    source: object,
    model: OnnxProgram | onnx.ModelProto | str | os.PathLike[str],
    /,
    *args: PyTree,
    names: Mapping[str, str] | None = None,
    seed: int = 0,
    **kwargs: PyTree,
) -> Divergence:
    """Finds the first op whose numbers in a model differ from those of another program.

    Args:
        source: The program, as `hlo2onnx.translate` takes it, or the result of a translation.
        model: A model, its path, or the result of another translation. It takes and returns the
            same tensors in the same order.
        args, kwargs: Arguments of the program, if it is a function. They are its inputs, too. For
            other programs, random inputs are made if there are none.
        names: The tensors of the model that hold values of the program: their names by the name of
            the value in the text of the program ("%12"), by the scope of its op, or by the source
            line of its op. Default for another translation: values whose ops have the same scope
            and name.
        seed: Seed of the random inputs.

    Returns:
        The first op that the model computes differently. Without names, and for large distances
        between them, it is the last of several ops.

    Raises:
        LoadError: The program or the model cannot be read.
        UsageError: A name is unknown, or the model has other inputs or outputs.
        VerificationError: XLA or ONNX Runtime cannot run a part.
    """
    if isinstance(source, OnnxProgram):
        loaded, options = source._source, source._options
    else:
        options, given = Options(), (args, kwargs) if callable(source) else ((), {})
        loaded = prepared(source, *given, options)
    # Users name values as in the text of their program.
    module = lowered_module(loaded, options) if names is None else clone_module(loaded.module)
    proto = _read(model)
    inputs = _inputs(loaded, proto)
    points = _points(loaded, module, model, proto, names)
    runner = OnnxRuntime(model.libraries if isinstance(model, OnnxProgram) else ())
    settings, signature = Settings(seed), loaded.signature
    arrays = settings.given(signature, args, kwargs, caller_of(signature).arrays)
    judge = Judge(loaded, arrays, settings)
    found = judge(Candidate(proto.SerializeToString(), inputs, runner))
    pair = Compared(loaded, module, proto, points, runner=runner)
    return compared(pair, judge.differing(found))


def _points(
    source: Source,
    module: ir.Operation,
    model: object,
    proto: onnx.ModelProto,
    names: Mapping[str, str] | None,
) -> list[Point]:
    """The points of comparison: those with names, or those that two translations share."""
    if names is not None:
        return named_points(module, source.function, proto, names)
    if not isinstance(model, OnnxProgram):
        return []
    other = lowered_module(model._source, model._options)
    there = model._source.function
    return shared_points(points_of(model.model), module, source.function, other, there)


def _read(model: OnnxProgram | onnx.ModelProto | str | os.PathLike[str]) -> onnx.ModelProto:
    if isinstance(model, OnnxProgram):
        return to_proto(model.model)
    if isinstance(model, onnx.ModelProto):
        return model
    with reading_model(model):
        return onnx.load(Path(model))


def _inputs(source: Source, model: onnx.ModelProto) -> list[str]:
    """The names of the model's inputs. It has as many as the program, and as many outputs."""
    stored = {tensor.name for tensor in model.graph.initializer}
    inputs = [value.name for value in model.graph.input if value.name not in stored]
    for what, have, want in (
        ("inputs", inputs, source.signature.inputs),
        ("outputs", model.graph.output, source.signature.outputs),
    ):
        if len(have) != len(want):
            raise UsageError(f"the model has {len(have)} {what}, and the program has {len(want)}")
    return inputs
