"""The rules for loops, in the order in which they are tried."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.loops import (
    carry_recomputed,
    constant_states,
    constant_trips,
    early_exit,
    hoist_threefry,
    known_conditions,
    loop_fission,
    loop_peel,
    loop_to_scan,
    loop_unroll,
    loop_vectorize,
    pipeline_threefry,
    search_tree,
    trip_limit,
    where_to_branch,
)
from hlo2onnx.raising.rules.nn import rnn
from hlo2onnx.raising.rules.shapes import scatter_to_pad, slices_to_split

__all__ = ["LOOP_RULES"]

LOOP_RULES: tuple[Rule, ...] = (
    known_conditions.KnownConditions(),
    constant_states.ConstantState(),
    constant_states.EqualBranches(),
    early_exit.EarlyExit(),
    trip_limit.TripLimit(),
    constant_trips.ConstantTrips(),
    loop_vectorize.LoopVectorize(),
    loop_vectorize.SinkStackedOutputs(),
    loop_fission.LoopFission(),
    search_tree.SearchTree(),
    rnn.Lstm(),
    rnn.Gru(),
    rnn.Rnn(),
    loop_unroll.LoopUnroll(),
    early_exit.SkipIdleTrips(),
    scatter_to_pad.ScatterToPad(),
    hoist_threefry.HoistThreefry(),
    pipeline_threefry.PipelineThreefry(),
    loop_to_scan.LoopToScan(),
    slices_to_split.SlicesToSplit(),
    carry_recomputed.CarryRecomputed(),
    loop_peel.LoopPeel(),
    where_to_branch.WhereToBranch(),
)
