"""Linear algebra that JAX leaves to LAPACK, cuSOLVER and the like; one file per factorization.

The numbers are LAPACK's, for every platform's call of the same function.
"""
