"""JAX's own test harnesses, translated and compared with XLA.

`sets` lists the groups of harnesses, `case` runs one harness, `worker` is the process that runs
cases, `pool` hands cases to workers, `known` holds the known failures. Only `case` imports
JAX; the process that starts the workers does not.
"""
