"""The rules that take loops apart or make their bodies smaller, in the order of trying."""

from __future__ import annotations

from hlo2onnx.raising.engine import Rule
from hlo2onnx.raising.rules import (
    bodies,
    cells,
    chains,
    columns,
    earlier,
    ghosts,
    packing,
    scan_operator,
    scans,
    tables,
    twins,
    unroll,
)

__all__ = ["LOOP_RULES"]

LOOP_RULES: tuple[Rule, ...] = (
    scans.BatchScanned(),
    earlier.EarlierRow(),
    scans.PostponeStacked(),
    chains.SeparateChain(),
    tables.ComputedTable(),
    cells.Lstm(),
    cells.Gru(),
    cells.Rnn(),
    columns.ColumnsFirst(),
    unroll.UnrollLoop(),
    ghosts.GhostCells(),
    packing.PackRows(),
    scan_operator.LoopToScan(),
    bodies.SlicesToSplit(),
    twins.JoinTwins(),
)
