"""Random StableHLO programs, run in XLA and, translated, in ONNX Runtime.

Every value of a program has a `program.Quality`: how closely it must agree. A step that rounds
takes only exact operands, and only data movement reads its result. So no error can grow from step
to step, and a difference points at the step that made it.
"""
