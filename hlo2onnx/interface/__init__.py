"""The calling convention of a model: tensors, extents and pytrees. It imports numpy alone."""
