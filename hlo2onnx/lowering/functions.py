"""Private functions and composites that stay functions of the model.

A separate emitter translates such a function once. The function shares only operands and results
with its callers, no facts and no constants.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import onnx_ir as oir
from jaxlib.mlir import ir

from hlo2onnx.errors import UnsupportedOp
from hlo2onnx.frontend.mlir.attributes import to_python
from hlo2onnx.frontend.mlir.locations import argument_name
from hlo2onnx.frontend.mlir.types import parts_of
from hlo2onnx.ir.names import Names
from hlo2onnx.ir.values import static_shape
from hlo2onnx.lowering.context import Parts
from hlo2onnx.lowering.emitter import Emitter

DOMAIN = "hlo2onnx"
"""The domain of the functions of a model."""

_JAXS_OWN = re.compile(r"(closed_call|None|checkpoint|core_call)(_\d+)?")
"""Names of functions that JAX's lowering makes of loop bodies and transformations."""

_LARGE_ELEMENTS = 4096
"""Functions with longer constants are not compared with others."""


Translate = Callable[[Emitter, str, Sequence[Parts]], list[Parts]]
"""Translates the function of a symbol, applied to arguments, with a separate emitter."""


class KeptFunctions:
    """The functions of one model, each made when it is first called."""

    def __init__(self) -> None:
        self._names = Names()
        self._graphs: dict[str, oir.Graph] = {}
        self._by_text: dict[tuple[str, str], oir.Graph] = {}
        self._open: set[str] = set()

    def as_functions(self) -> list[oir.Function]:
        """The functions that the model declares; callees come before callers."""
        unique = {id(graph): graph for graph in self._graphs.values()}
        return [
            oir.Function(DOMAIN, str(graph.name), graph=graph, attributes=[])
            for graph in unique.values()
        ]

    def call(
        self,
        em: Emitter,
        symbol: str,
        arguments: Sequence[Parts],
        name: str,
        translate: Translate,
    ) -> list[Parts] | None:
        """The results of a call; None if the function is to be translated in place.

        That holds for functions that JAX created on its own, and for calls within a scalar region,
        with operands of a dynamic shape, or on a buffer that becomes a stack of rows.

        Raises:
            UnsupportedOp: It calls itself.
        """
        context = em.context
        function = context.functions.get(symbol)
        inputs = [part for parts in arguments for part in parts]
        if (
            function is None
            or not may_be_kept(symbol)
            or context.in_scalar_region
            or context.in_expansion
            or any(parts in em.rows for parts in arguments)
            or any(static_shape(x) is None for x in inputs)
            or not inputs
        ):
            return None
        results = [parts_of(t) for t in to_python(function.attributes["function_type"]).results]
        types = [part.value_type for parts in results for part in parts]
        if not types or any(not isinstance(dim, int) for _, shape in types for dim in shape):
            return None
        graph = self._graph(em, symbol, name, translate)
        made = iter(em.foreign(DOMAIN, 1, str(graph.name), inputs, {}, types))
        return [tuple(next(made) for _ in parts) for parts in results]

    def _graph(self, em: Emitter, symbol: str, name: str, translate: Translate) -> oir.Graph:
        if symbol in self._open:
            raise UnsupportedOp(f"@{symbol} calls itself; ONNX has no recursion")
        if symbol not in self._graphs:
            text = _text(em.context.functions[symbol], symbol)
            key = (re.sub(r"_\d+$", "", name), text)
            known = self._by_text.get(key) if text else None
            if known is None:
                self._open.add(symbol)
                known = self._translated(em, symbol, name, translate)
                self._open.remove(symbol)
            self._graphs[symbol] = known
            self._by_text[key] = known
        return self._graphs[symbol]

    def _translated(
        self, outer: Emitter, symbol: str, name: str, translate: Translate
    ) -> oir.Graph:
        """The body of a function as a graph with a unique name."""
        function = outer.context.functions[symbol]
        unique = self._names.unique(re.sub(r"\W", "_", name))
        graph = oir.Graph([], [], nodes=[], name=unique, opset_imports={"": outer.opset})
        em = Emitter(graph, outer.opset, outer.options, outer.target, outer.report, outer.constants)
        arguments = [_inputs(em, argument) for argument in function.regions[0].blocks[0].arguments]
        results = translate(em, symbol, arguments)
        taken = set(graph.inputs)
        for index, part in enumerate(part for parts in results for part in parts):
            em.scope, em.metadata = f"result{index}", {}
            output = em.Identity(part) if part in taken or part.producer() is None else part
            taken.add(output)
            graph.outputs.append(output)
        return graph


def may_be_kept(symbol: str) -> bool:
    """Whether a function can be one of the model, because JAX did not create it on its own."""
    return _JAXS_OWN.fullmatch(symbol) is None


def _inputs(em: Emitter, argument: ir.BlockArgument[ir.Type]) -> Parts:
    name = argument_name(argument.location) or f"arg{argument.arg_number}"
    values = tuple(em.value(name, *part.value_type) for part in parts_of(argument.type))
    em.main_graph.inputs.extend(values)
    return values


def _text(function: ir.Operation, symbol: str) -> str:
    """The function without its name; "" where constants are too long to be compared."""
    text = str(function.get_asm(enable_debug_info=False, large_elements_limit=_LARGE_ELEMENTS))
    return "" if "__elided__" in text else text.replace(f"@{symbol}(", "@(", 1)
