"""while, case and if: Loop and If, whose subgraphs see outer values as StableHLO's regions do."""
