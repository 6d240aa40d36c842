"""Programs of real packages, each translated, compared with XLA and timed in a process of its own."""
