"""Random StableHLO programs, run in XLA and, translated, in ONNX Runtime.

Every value of a program says how closely it must agree (`program.Quality`): a step that rounds
takes exact operands only and only data movement reads its result, so that a difference is never an
error that grew on its way, and points at the step that made it.
"""
