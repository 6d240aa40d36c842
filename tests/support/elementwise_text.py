"""StableHLO text of programs that apply one op to whole tensors."""

from __future__ import annotations

from collections.abc import Sequence


def elementwise(
    op: str,
    elements: Sequence[str],
    result: str,
    shape: str | Sequence[str] = "",
    attributes: str = "",
) -> str:
    """`result = op(one argument per element type)`, in generic form.

    Args:
        op: Name without the dialect.
        elements: Element types of the operands.
        result: Element type of the result.
        shape: Extents ("2x3", "" for rank 0) of all operands, or a list with one for each.
        attributes: `{name = value, ...}` of the generic form.
    """
    shapes = [shape] * len(elements) if isinstance(shape, str) else list(shape)
    types = [tensor(dims, element) for dims, element in zip(shapes, elements, strict=True)]
    arguments = ", ".join(f"%arg{i}: {given}" for i, given in enumerate(types))
    operands = ", ".join(f"%arg{i}" for i in range(len(types)))
    output = tensor(max(shapes, key=len), result)
    properties = f" <{attributes}>" if attributes else ""
    return f"""
module {{ func.func public @main({arguments}) -> {output} {{
  %0 = "stablehlo.{op}"({operands}){properties} : ({", ".join(types)}) -> {output}
  return %0 : {output}
}} }}
"""


def tensor(dims: str, element: str) -> str:
    """`tensor<dims x element>`"""
    return f"tensor<{dims}x{element}>" if dims else f"tensor<{element}>"
