"""The options of a verification."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.signature import PyTree, Signature
from hlo2onnx.frontend.specialize import check_names, symbols_of
from hlo2onnx.runtime.paths import is_whole
from hlo2onnx.verify.budget import SECONDS

Sizes: TypeAlias = Mapping[str, int]
ToArrays: TypeAlias = Callable[[Sequence[PyTree], Mapping[str, PyTree]], list[np.ndarray]]
"""Converts the arguments of a call to one array for each input."""

OF_FUNCTION = 3
"""Default count of samples from a function of a seed."""


@dataclass(frozen=True)
class Settings:
    """The options of a verification. See `OnnxProgram.verify`.

    Attributes:
        seed: Seed of the random inputs.
        rtol: Tolerance relative to each element; None for that of the element type.
        atol: Absolute tolerance; None for that of the element type.
        inputs: The arguments, or a function of a seed that returns them.
        samples: Count of inputs.
        sizes: Sizes of the symbols, or several mappings.
        weights_dtype: The type in which the model stores f32 weights.
        seconds: The time beyond one run of each side.
        half: The policy of the model for half types.

    Raises:
        UsageError: An option has a wrong type or value.
    """

    seed: int = 0
    rtol: float | None = None
    atol: float | None = None
    inputs: PyTree | Callable[[int], PyTree] | None = None
    samples: int | None = None
    sizes: Sizes | Sequence[Sizes] | None = None
    weights_dtype: str | None = None
    seconds: float = SECONDS
    half: str = "xla"

    def __post_init__(self) -> None:
        if not is_whole(self.seed, 0):
            raise UsageError(f"seed={self.seed!r} is not a whole number of at least 0")
        if self.samples is not None and not is_whole(self.samples, 1):
            raise UsageError(f"samples={self.samples!r} is not a whole number of at least 1")
        for name in ("rtol", "atol", "seconds"):
            value = getattr(self, name)
            if (value is not None or name == "seconds") and not _is_tolerance(value):
                raise UsageError(f"{name}={value!r} is not a number of at least 0")
        for item in self.each_sizes or ():
            if not isinstance(item, Mapping) or not all(is_whole(x, 0) for x in item.values()):
                raise UsageError(
                    f'sizes={self.sizes!r} is not a mapping of names to sizes, as {{"b": 8}},'
                    " or a list of them"
                )

    @property
    def each_sizes(self) -> Sequence[Sizes] | None:
        """The sizes as a list of mappings; None if they are not given."""
        if self.sizes is None:
            return None
        if isinstance(self.sizes, Sequence) and not isinstance(self.sizes, str):
            return self.sizes
        return [self.sizes]  # type: ignore[list-item]  # another type is an error

    def given(
        self,
        signature: Signature,
        args: Sequence[PyTree],
        kwargs: Mapping[str, PyTree],
        to_arrays: ToArrays,
    ) -> list[tuple[list[np.ndarray], str]] | None:
        """The inputs of the user and their descriptions. None if they are to be made.

        Args:
            signature: The signature of the program.
            args, kwargs: The arguments of a call; both are empty if there are none.

        Raises:
            SignatureError: Arguments do not fit.
            UsageError: Options contradict one another.
        """
        for item in self.each_sizes or ():
            check_names(symbols_of(signature), item)
        if args or kwargs:
            self._refuse("arguments", ("inputs", "samples", "sizes"))
            return [(to_arrays(args, kwargs), "")]
        if self.inputs is not None:
            self._refuse("inputs", ("sizes",))
            if not callable(self.inputs):
                self._refuse("inputs", ("samples",))
                return [(to_arrays(*_arguments(self.inputs)), "")]
            seeds = range(self.seed, self.seed + (self.samples or OF_FUNCTION))
            return [
                (to_arrays(*_arguments(self.inputs(seed))), f"inputs of seed {seed}")
                for seed in seeds
            ]
        return None if signature.inputs else [(to_arrays((), {}), "")]

    def _refuse(self, what: str, names: Sequence[str]) -> None:
        for name in names:
            if getattr(self, name) is not None:
                raise UsageError(f"{name}= has no meaning with {what}: pass one of them")


def _arguments(found: PyTree) -> tuple[Sequence[PyTree], Mapping[str, Any]]:
    """Arguments of a call: a tuple of positional ones, a dict of keywords, or one argument."""
    if isinstance(found, tuple) and not hasattr(found, "_fields"):
        return found, {}
    if isinstance(found, dict) and all(isinstance(name, str) for name in found):
        return (), found
    return (found,), {}


def _is_tolerance(value: object) -> bool:
    is_number = isinstance(value, int | float | np.number) and not isinstance(value, bool)
    return is_number and float(value) >= 0 and not math.isnan(float(value))  # type: ignore[arg-type]
