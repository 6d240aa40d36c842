"""while, case and if as Loop and If. Subgraphs see outer values, like the regions of StableHLO."""
