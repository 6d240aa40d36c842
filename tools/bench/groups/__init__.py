"""Groups of small programs that are timed beside XLA, each with a ratio to reach."""
