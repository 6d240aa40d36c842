"""`translate`: the one function users need."""

from __future__ import annotations

import time
from pathlib import Path
from typing import Any

from hlo2onnx.options import Options
from hlo2onnx.program import OnnxProgram
from hlo2onnx.sources import load
from hlo2onnx.stages import run_stages


def translate(
    source: Any,
    *args: Any,
    opset: int | None = None,
    target: str = "ort-cpu",
    function: str | None = None,
    nan: str = "default",
    half: str = "xla",
    without: frozenset[str] | set[str] | list[str] | tuple[str, ...] = (),
    dump: str | Path | None = None,
    **kwargs: Any,
) -> OnnxProgram:
    """Translates a JAX function or StableHLO program to ONNX.

    Args:
        source: A `jax.stages.Lowered`, a `jax.export.Exported`, an MLIR `ir.Module`, a path (or
            str naming a file), StableHLO text, MLIR bytecode or portable-artifact bytes; or a
            jitted or plain function, followed by example arguments.
        args, kwargs: Example arguments, only with a function: arrays or `jax.ShapeDtypeStruct`s.
        opset: ONNX opset of the model; by default 23, or 26 where the program needs BitCast.
        target: Runtime whose kernels the model must fit: "ort-cpu", or "onnx" for the plain
            standard.
        function: Function of a module with several; by default `main`.
        nan: "default", "xla" or "runtime": see `hlo2onnx.options.Options.nan`.
        half: "xla" or "fast": see `hlo2onnx.options.Options.half`.
        without: Names of raising rules to leave out.
        dump: Folder that receives the program after each stage; by default $HLO2ONNX_DUMP.

    Returns:
        The program: the model, its report, and methods to run, verify and save it.

    Raises:
        LoadError: The source is not a readable program.
        TranslationError: Ops that ONNX or the target cannot express, all of them at once.
        UsageError: An option has no such value.
    """
    options = Options(
        opset=opset,
        target=target,
        function=function,
        nan=nan,
        half=half,
        without=frozenset(without),
        dump=None if dump is None else Path(dump),
    ).with_environment()
    start = time.perf_counter()
    loaded = load(source, args, kwargs, function)
    seconds = time.perf_counter() - start
    model, report = run_stages(loaded, options)
    report.seconds = {"load": seconds, **report.seconds}
    return OnnxProgram(model, loaded, report)
