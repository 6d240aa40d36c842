"""The form of nodes before legalization: the inputs and attributes of one opset.

Handlers, plug-ins and rules make nodes in the form of `FORM_OPSET`, or of the model's opset if that
is newer. Legalization writes the form of an older opset.
"""

from __future__ import annotations

from functools import cache
from typing import Any, Final

import onnx

FORM_OPSET: Final = 18
"""The oldest opset whose form nodes have before legalization."""


@cache
def schema_of(op_type: str, opset: int) -> Any:
    """The schema that the nodes of an operator of the default domain follow.

    Raises:
        onnx.defs.SchemaError: ONNX has no such operator.
    """
    return onnx.defs.get_schema(op_type, max(opset, FORM_OPSET), "")
