"""What a GPU makes of the models: kernels, examples, times."""
