"""All access to jaxlib's MLIR bindings lives in this package."""
