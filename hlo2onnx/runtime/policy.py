"""Runs the policy of a robot step by step. Its memory stays inside."""

from __future__ import annotations

import base64
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from hlo2onnx.errors import LoadError, UsageError
from hlo2onnx.interface.description import CONFIG, Description
from hlo2onnx.interface.pytrees import Json, PyTree, builder, flattener
from hlo2onnx.interface.tensors import Tensor, from_model, to_array, to_model
from hlo2onnx.runtime.loading import Program
from hlo2onnx.runtime.sessions import to_ort

if TYPE_CHECKING:
    import onnxruntime as ort

MEMORY = "hlo2onnx.memory"
"""Metadata of a policy: a list of [input, output, initial value], as JSON. The value is base64 of
the bytes of the input, or "" for zeros."""

PER_JOINT = ("default_joint_pos", "joint_stiffness", "joint_damping")
"""Metadata with a number for each joint, named as in mjlab."""


class Policy:
    """A saved policy: `hlo2onnx.policy.translate(...).save(path)`.

    Its arrays are made once. A step copies the observation into them and runs the model. The memory
    is that of the step before. One thread at a time may use a policy.

    Args:
        path: Path of the model.
        joints: Names of the robot's joints, in its order. Default: they are not compared.
        options: Options of `hlo2onnx.runtime.Program`. `threads` is 1 by default.

    Attributes:
        metadata: What the user has put into the metadata of the model. JSON is parsed.
        joint_order: Positions of the policy's joints (`metadata["joint_names"]`) among `joints`.

    Raises:
        LoadError: The model is no policy, its metadata are wrong, or it has a joint that the robot
            does not have.
        VerificationError: ONNX Runtime is not installed, or it does not load the model.
    """

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        joints: Sequence[str] | None = None,
        **options: Any,
    ) -> None:
        program = Program(path, **{"threads": 1, **options})
        self._runtime, description = program._runtime, program._caller.description
        texts = self._runtime.session.get_modelmeta().custom_metadata_map
        if MEMORY not in texts:
            raise LoadError(f"{path} is not a policy: write it with hlo2onnx.policy.translate")
        try:
            self.metadata = check_robot(texts, description)
            self.joint_order = _order(self.metadata.get("joint_names"), joints)
            names = {port.name: place for place, port in enumerate(description.inputs)}
            kept = [
                (names[name], next_, base64.b64decode(text))
                for name, next_, text in json.loads(texts[MEMORY])
            ]
        except (UsageError, KeyError, ValueError) as error:
            raise LoadError(f"{path}: {error}") from error
        observation, _, action, _ = parts_of(description)
        self._flatten = flattener(observation)
        inputs, outputs = description.inputs, description.outputs
        first = [_buffer(port) for port in inputs]
        self._inputs = [
            (from_model(first[place], inputs[place]), inputs[place])
            for place in ports_in(observation)
            if place is not None
        ]
        self._initial = [(first[place], content) for place, _, content in kept]
        second = [*first]
        for place, _, _ in kept:
            second[place] = _buffer(inputs[place])
        places = {next_: place for place, next_, _ in kept}
        self._turns = []
        for old, new in ((first, second), (second, first)):
            to = [new[places[x.name]] if x.name in places else _buffer(x) for x in outputs]
            results = builder(action, {})([*map(from_model, to, outputs)])
            self._turns.append((self._bound(old, to), results, to))
        self.reset()

    def reset(self) -> None:
        """Sets the memory to its initial value."""
        self._turn = 0
        for array, content in self._initial:
            array.reshape(-1).view(np.uint8)[:] = np.frombuffer(content, np.uint8) if content else 0

    def step(self, observation: PyTree) -> PyTree:
        """Runs the policy once.

        Args:
            observation: The observation, as the JAX function takes it. Python scalars, and 64-bit
                arrays for 32-bit inputs, are converted.

        Returns:
            The action, as the JAX function returns it, of numpy arrays. The next step but one
            overwrites them.

        Raises:
            SignatureError: A name, shape or type of the observation is wrong. The memory stays.
            VerificationError: ONNX Runtime fails.
        """
        leaves: list[Any] = []
        self._flatten(observation, leaves, "observation")
        for leaf, (array, port) in zip(leaves, self._inputs, strict=True):
            fits = type(leaf) is np.ndarray and leaf.dtype is array.dtype
            if not fits or leaf.shape != array.shape:
                leaf = to_array(leaf, port, narrows=True)
            array[...] = leaf
        binding, action, _ = self._turns[self._turn]
        self._runtime.run_bound(binding)
        self._turn = 1 - self._turn
        return action

    def _bound(self, given: Sequence[np.ndarray], taken: Sequence[np.ndarray]) -> ort.IOBinding:
        """A binding of these arrays to the inputs and outputs. It does not keep them alive."""
        binding = self._runtime.session.io_binding()
        for name, array in zip(self._runtime.input_names, given, strict=True):
            binding.bind_ortvalue_input(name, to_ort(array))
        for name, array in zip(self._runtime.output_names, taken, strict=True):
            binding.bind_ortvalue_output(name, to_ort(array))
        return binding


def parts_of(description: Description) -> tuple[Json, Json, Json, Json]:
    """The structures of observation, memory, action and next memory.

    Raises:
        LoadError: The model has other arguments.
    """
    match description.arguments, description.results:
        case [[_, [observation]], [_, []]], action:
            return observation, None, action, None
        case [[_, [observation, memory]], [_, []]], {"tuple": [action, kept]}:
            return observation, memory, action, kept
    raise LoadError("a policy takes an observation and its memory, and returns an action and it")


def ports_in(node: Json) -> Iterator[int | None]:
    """The place among the inputs or outputs of each leaf; None if the program does not read it."""
    match node:
        case None:
            return
        case int():
            yield node
        case {"list": children} | {"tuple": children}:
            for child in children:
                yield from ports_in(child)
        case {"dict": items} | {"fields": items}:
            for _, child in items:
                yield from ports_in(child)
        case _:
            yield None


def _buffer(port: Tensor) -> np.ndarray:
    """An array of zeros as the model takes it."""
    return np.array(to_model(np.zeros(port.shape, port.numpy), port.channels_second), order="C")


def check_robot(texts: Mapping[str, str], description: Description) -> dict[str, Any]:
    """Parses and checks the metadata of a user. docs/guides/robots.md lists the keys.

    Args:
        texts: All metadata of a model.
        description: Its signature.

    Raises:
        UsageError: A value has another form, or another size than the joints or the action.
    """
    found = {
        key: _parsed(text)
        for key, text in texts.items()
        if not key.startswith("hlo2onnx.") and key != CONFIG
    }
    joints = found.get("joint_names")
    if joints is not None and (not _all(joints, str) or len(set(joints)) != len(joints)):
        raise UsageError(f"joint_names is {joints!r}, not a list of different names")
    for key in PER_JOINT:
        values = found.get(key)
        if values is not None and (
            not _all(values, int | float) or len(values) != len(joints or ())
        ):
            raise UsageError(f"{key} is {values!r}, not a number for each of joint_names")
    scale = found.get("action_scale", 1.0)
    sizes = {port.shape[-1] for port in description.outputs if port.shape}
    if not isinstance(scale, int | float) and not (
        _all(scale, int | float) and len(scale) in sizes
    ):
        raise UsageError(f"action_scale is {scale!r}, not a number, nor one for each of the action")
    period = found.get("control_period", 1.0)
    if not isinstance(period, int | float) or not period > 0:
        raise UsageError(f"control_period is {period!r}, not a time in seconds")
    inputs = {port.name for port in description.inputs}
    for key in ("observation_ranges", "observation_units"):
        values = found.get(key, {})
        if not isinstance(values, dict) or not values.keys() <= inputs:
            raise UsageError(
                f"{key} is {values!r}: its keys must be of {', '.join(sorted(inputs))}"
            )
    for name, limits in found.get("observation_ranges", {}).items():
        if not _all(limits, int | float) or len(limits) != 2 or not limits[0] < limits[1]:
            raise UsageError(f"observation_ranges has {limits!r} for {name}, not [low, high]")
    return found


def _parsed(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError:
        return text


def _all(values: object, kind: Any) -> bool:
    return isinstance(values, list) and all(isinstance(value, kind) for value in values)


def _order(names: Sequence[str] | None, joints: Sequence[str] | None) -> list[int] | None:
    """The positions of the policy's joints among the robot's.

    Raises:
        UsageError: The robot lacks a joint, or the policy has no names.
    """
    if joints is None:
        return None
    if names is None:
        raise UsageError("the model has no joint_names to compare with joints=")
    lacking = [name for name in names if name not in joints]
    if lacking:
        raise UsageError(f"the robot has no joint {', '.join(lacking)}; it has {', '.join(joints)}")
    return [list(joints).index(name) for name in names]
