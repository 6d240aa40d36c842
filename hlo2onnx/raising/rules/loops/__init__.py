"""The rules for loops, in the order in which they are tried."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.loops import (
    carry_recomputed,
    constant_states,
    constant_trips,
    decision_tree,
    early_exit,
    equal_states,
    gather_hoisting,
    hoist_threefry,
    horizontal_fusion,
    known_conditions,
    loop_fission,
    loop_peel,
    loop_to_scan,
    loop_unroll,
    loop_vectorize,
    pipeline_threefry,
    row_tables,
    search_tree,
    shifted_carry,
    sink_final_states,
    trip_limit,
    trip_table,
    unmask_state,
    where_to_branch,
    while_fission,
)
from hlo2onnx.raising.rules.nn import rnn
from hlo2onnx.raising.rules.shapes import scatter_to_pad, slices_to_split

__all__ = ["LOOP_RULES"]

LOOP_RULES: tuple[Rule, ...] = (
    known_conditions.KnownConditions(),
    constant_states.ConstantState(),
    constant_states.EqualBranches(),
    equal_states.EqualStates(),
    equal_states.EqualResults(),
    early_exit.EarlyExit(),
    trip_limit.TripLimit(),
    constant_trips.ConstantTrips(),
    decision_tree.DecisionTree(),
    loop_vectorize.LoopVectorize(),
    shifted_carry.ShiftedCarry(),
    loop_vectorize.SinkStackedOutputs(),
    sink_final_states.SinkFinalStates(),
    loop_fission.LoopFission(),
    gather_hoisting.GatherHoisting(),
    search_tree.SearchTree(),
    rnn.Lstm(),
    rnn.Gru(),
    rnn.Rnn(),
    loop_unroll.LoopUnroll(),
    scatter_to_pad.ScatterToPad(),
    carry_recomputed.CarryInnerLoops(),
    trip_table.TripTable(),
    hoist_threefry.HoistThreefry(),
    trip_table.FirstTripsTable(),
    unmask_state.UnmaskState(),
    while_fission.WhileFission(),
    row_tables.RowTables(),
    pipeline_threefry.PipelineThreefry(),
    loop_to_scan.LoopToScan(),
    slices_to_split.SlicesToSplit(),
    horizontal_fusion.HorizontalFusion(),
    carry_recomputed.CarryRecomputed(),
    loop_peel.LoopPeel(),
    where_to_branch.WhereToBranch(),
)
