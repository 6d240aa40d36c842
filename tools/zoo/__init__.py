"""Programs of real packages: translated, compared with XLA and timed, each in its own process."""
