"""Policies of robots: models with named observations, memory, and the data of their robot."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable, Mapping
from typing import Any

import jax
import numpy as np
from jax.tree_util import tree_leaves, tree_structure

from hlo2onnx.api import translate as translate_function
from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.load import load
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.interface.description import Description
from hlo2onnx.interface.tensors import Tensor, to_array, to_model
from hlo2onnx.program import OnnxProgram
from hlo2onnx.runtime.policy import MEMORY, check_robot, parts_of, ports_in

__all__ = ["translate"]


def translate(
    policy: Callable[..., PyTree],
    observation: PyTree,
    memory: PyTree = None,
    *,
    metadata: Mapping[str, Any] | None = None,
    **options: Any,
) -> OnnxProgram:
    """Translates a policy to a model that `hlo2onnx.runtime.Policy` and the C++ runner run.

    The runners keep the memory. Its initial value is in the model. Inputs have the names of the
    policy's parameters and of the entries in them, such as "observation/joint_pos"; outputs are
    "action" and "next", the next memory, with what is in them.

    Args:
        policy: `policy(observation, memory) -> action, memory`, or `policy(observation) -> action`
            for one without memory: a function, or a module of equinox or flax.nnx.
        observation: An example: a pytree of arrays or of `jax.ShapeDtypeStruct`s. All shapes are
            static.
        memory: The initial memory: a pytree of arrays, such as the carry of an LSTM, the previous
            action, or a PRNG key.
        metadata: Values for the metadata of the model. Those that are not texts are written as
            JSON. docs/guides/robots.md lists the keys that are checked.
        options: Options of `hlo2onnx.translate`.

    Returns:
        The program.

    Raises:
        UsageError: The policy does not return its memory with the same structure, shapes and types;
            an option has a wrong value, or a value of the metadata has a wrong size.
        TranslationError: ONNX or the target cannot express some ops.
    """
    args = (observation,) if memory is None else (observation, memory)
    if options.get("output_names") is None:
        options["output_names"] = _output_names(policy, args)
    texts = {
        key: value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
        for key, value in (metadata or {}).items()
    }
    program = translate_function(policy, *args, metadata=texts, **options)
    description = Description.from_metadata(program.model.metadata_props)
    dynamic = [port.name for port in description.inputs if not port.is_static]
    if dynamic:
        raise UsageError(f"the shape of {dynamic[0]} has free dimensions: give specialize=")
    pairs = [] if memory is None else _pairs(description, memory)
    program.model.metadata_props[MEMORY] = json.dumps(pairs, ensure_ascii=False)
    check_robot(program.model.metadata_props, description)
    return program


def _output_names(policy: Callable[..., PyTree], args: tuple[PyTree, ...]) -> dict[str, str]:
    """New names of the outputs. Lowers the policy to know its results.

    Raises:
        UsageError: It does not return an action and its memory.
    """
    signature = load(policy, args).signature
    names = [port.name for port in signature.outputs]
    if len(args) == 1:
        return {name: name.replace("result", "action", 1) for name in names}
    assert signature.trees is not None
    results = signature.trees.out_tree.children()
    memory = tree_structure(args[1])
    if len(results) != 2 or results[1] != memory:
        found = results[1] if len(results) == 2 else signature.trees.out_tree
        raise UsageError(
            f"a policy with memory returns (action, memory), with the memory {memory}; this one"
            f" returns {found}"
        )
    actions = results[0].num_leaves
    found = {name: name.replace("result/0", "action", 1) for name in names[:actions]}
    return found | {name: name.replace("result/1", "next", 1) for name in names[actions:]}


def _pairs(description: Description, memory: PyTree) -> list[tuple[str, str, str]]:
    """Input, output and initial value of each part of the memory that the policy reads.

    The values are base64 of the bytes that the input takes, or "" for zeros.

    Raises:
        UsageError: A part comes back with another shape or type.
    """
    _, before, _, after = parts_of(description)
    pairs = []
    leaves = zip(ports_in(before), ports_in(after), tree_leaves(memory), strict=True)
    for place, output, leaf in leaves:
        if place is None:  # the policy does not read it
            continue
        old, new = description.inputs[place], description.outputs[output or 0]
        if (old.dtype, old.shape) != (new.dtype, new.shape):
            raise UsageError(f"the memory {old.name} is {old}, and the policy returns {new}")
        if old.channels_second != new.channels_second:
            raise UsageError(f"{old.name} and {new.name} need the same layout: name both as NCHW")
        pairs.append((old.name, new.name, _text(leaf, old)))
    return pairs


def _text(leaf: Any, port: Tensor) -> str:
    if jax.dtypes.issubdtype(getattr(leaf, "dtype", np.float32), jax.dtypes.prng_key):
        leaf = jax.random.key_data(leaf)
    content = to_model(to_array(leaf, port, narrows=True), port.channels_second).tobytes()
    return base64.b64encode(content).decode() if any(content) else ""
