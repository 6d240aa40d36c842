"""JAX's own test harnesses, translated and compared with XLA.

`sets` says which groups of harnesses there are, `case` runs one of them, `worker` is the process
that does so, `pool` hands cases to workers, `known` holds the known failures, `table` prints.
Only `case` and `exact` import JAX: the process that watches over the workers does not.
"""
