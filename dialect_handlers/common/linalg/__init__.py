"""Linear algebra written in JAX, for `Emitter.through_jax`; nothing here knows of ONNX.

Matrices are the last two axes, any leading axes are a batch. The functions are pure and their
graphs do not grow with the size of the matrices: what is sequential is a loop over columns within
a loop over blocks of them, and what is outside the inner loop is matrix products.
"""
