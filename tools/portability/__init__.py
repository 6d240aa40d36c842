"""Which models run in which runtimes, and whether their numbers are those of XLA."""
