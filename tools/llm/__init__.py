"""Measures a Llama in JAX beside the models that PyTorch's route makes of the same weights."""
