"""Programs of libraries, as StableHLO files for tests/producers/."""
