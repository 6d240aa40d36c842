"""Exact output types of the ONNX operators we emit.

One module for each family of operators registers its type rules.
"""

from hlo2onnx.ir.type_inference import elementwise, shapes, subgraphs
from hlo2onnx.ir.type_inference.registry import RULES, ValueType, infer

__all__ = ["RULES", "ValueType", "elementwise", "infer", "shapes", "subgraphs"]
