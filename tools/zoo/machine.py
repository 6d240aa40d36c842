"""How fast this machine is, beside the one on which the costs of estimates were measured."""

from __future__ import annotations

import statistics

import jax

import hlo2onnx
from tools.bench.timing import medians
from tools.examples import load_all
from tools.zoo.worker import ort_call


def slowness() -> float:
    """The time of a call beside the report's estimate: the median of the small examples that have
    one."""
    ratios = []
    for example in load_all():
        with example.types():
            function, args = example.build(**example.small)
            program = hlo2onnx.translate(jax.jit(function).lower(*args))
            if estimate := program.report.call_seconds:
                ratios += [time / estimate for time in medians([ort_call(program, args)], blocks=3)]
    return statistics.median(ratios)
