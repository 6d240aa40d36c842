"""Functions with the signatures of other converters, so that programs only change an import."""
