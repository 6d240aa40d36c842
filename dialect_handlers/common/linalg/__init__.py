"""Linear algebra in JAX, for `Emitter.through_jax`; it is independent of ONNX.

Matrices are the last two axes, any leading axes are a batch. The functions are pure, and their
graphs do not grow with the size of the matrices. Sequential parts are a loop over columns inside a
loop over blocks of columns. Work outside the inner loop consists of matrix products.
"""
