"""Measures the time of a run by operator, JAX scope, source line and node.

It imports neither JAX nor onnx. `optimized_nodes` uses onnx where it is installed.
"""

from hlo2onnx.runtime.profiling.measure import profile
from hlo2onnx.runtime.profiling.results import NodeTime, Profile, Share, Spread

__all__ = ["NodeTime", "Profile", "Share", "Spread", "profile"]
