"""The rules for loops, in the order in which they are tried."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules.loops import (
    early_exit,
    loop_to_scan,
    loop_unroll,
    partition,
    search_tree,
    trip_limit,
)
from hlo2onnx.raising.rules.nn import rnn
from hlo2onnx.raising.rules.shapes import pad_modes, slices_to_split

__all__ = ["LOOP_RULES"]

LOOP_RULES: tuple[Rule, ...] = (
    early_exit.EarlyExit(),
    trip_limit.TripLimit(),
    partition.Partition(),
    search_tree.SearchTree(),
    rnn.Lstm(),
    rnn.Gru(),
    rnn.Rnn(),
    loop_unroll.LoopUnroll(),
    pad_modes.PadModes(),
    loop_to_scan.LoopToScan(),
    slices_to_split.SlicesToSplit(),
)
