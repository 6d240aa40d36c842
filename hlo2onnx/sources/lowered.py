"""Programs that come from JAX in this process: `jax.stages.Lowered` and jitted functions."""

from __future__ import annotations

from typing import Any

import jax

from hlo2onnx.errors import LoadError
from hlo2onnx.sources.signature import Leaf, Signature, Trees, signature_of
from hlo2onnx.sources.source import Source, find_function


def from_lowered(lowered: Any) -> Source:
    """Loads a `jax.stages.Lowered`.

    Raises:
        LoadError: The lowering is not StableHLO.
    """
    module = lowered.compiler_ir("stablehlo")
    if module is None:
        raise LoadError("this Lowered holds no StableHLO module")
    function = find_function(module.operation, "main", "the lowered function")
    signature = signature_of(function)
    return Source(
        module,
        "main",
        _with_trees(signature, lowered),
        module.operation.attributes["sym_name"].value,
    )


def _with_trees(signature: Signature, lowered: Any) -> Signature:
    avals = [leaf for leaf in jax.tree_util.tree_leaves(lowered.in_avals)]
    kept = sorted(lowered._lowering.compile_args["kept_var_idx"])
    # Dimension variables and the platform index lead the arguments of polymorphic modules.
    extra = len(signature.inputs) - len(kept)
    if extra < 0:
        raise LoadError("the lowered module has fewer arguments than its signature")
    port_of = {leaf: extra + index for index, leaf in enumerate(kept)}
    in_leaves = tuple(Leaf(aval, port_of.get(index)) for index, aval in enumerate(avals))
    out_avals = jax.tree_util.tree_leaves(lowered.out_info)
    out_leaves = tuple(Leaf(aval, index) for index, aval in enumerate(out_avals))
    trees = Trees(lowered.in_tree, in_leaves, lowered.out_tree, out_leaves)
    return Signature(signature.inputs, signature.outputs, trees)
