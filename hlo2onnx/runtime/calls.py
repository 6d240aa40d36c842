"""Calls of a model with the pytrees of its program."""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Generic, TypeVar

import numpy as np

from hlo2onnx.errors import SignatureError
from hlo2onnx.interface.caller import Caller
from hlo2onnx.interface.pytrees import PyTree
from hlo2onnx.runtime.paths import check_count, check_libraries
from hlo2onnx.runtime.sessions import (
    OrtProgram,
    Providers,
    check_providers,
    exact_options,
    open_session,
)
from hlo2onnx.runtime.stepping import Stepper

if TYPE_CHECKING:
    import onnxruntime as ort


T = TypeVar("T")


class Lazy(Generic[T]):
    """A value that the first call makes.

    Threads that call at once get the same value: one makes it, the others wait. If `make` raises
    an error, the next call tries again.
    """

    def __init__(self) -> None:
        self._made: tuple[T] | None = None
        self._lock = threading.Lock()

    def __call__(self, make: Callable[[], T]) -> T:
        """Returns the value, made by `make` if there is none yet."""
        if self._made is None:
            with self._lock:
                if self._made is None:
                    self._made = (make(),)
        return self._made[0]


class CallableProgram(ABC):
    """A model that is called with the pytrees of its program.

    Args:
        caller: The compiled signature.
        libraries: Paths of shared libraries with custom operators.
        denormals: "keep" or "flush".
        providers: Execution providers of ONNX Runtime.
        threads: Count of intra-op threads; 0 for the one that the model asks for, or else ONNX
            Runtime's default.

    Attributes:
        libraries: Paths of shared libraries with custom operators of the model. Sessions made here
            load them; your own sessions must call `register_custom_ops_library`.
        denormals: "keep", or "flush" if calls treat denormal floats as zeros, as XLA does.
    """

    def __init__(
        self,
        caller: Caller,
        libraries: Sequence[str],
        denormals: str,
        providers: Providers | None,
        threads: int = 0,
    ) -> None:
        self._caller = caller
        self.libraries = check_libraries(libraries)
        self.denormals = denormals
        self._threads = threads
        self._providers = None if providers is None else check_providers(providers)
        self._forget_sessions()

    def _forget_sessions(self) -> None:
        self._lazy_runtime = Lazy[OrtProgram]()
        self._lazy_stepper = Lazy[Stepper]()

    @property
    def providers(self) -> Providers | None:
        """Execution providers of ONNX Runtime for calls, steps, profiles and verifications.

        None: the CPU. Set it to a list of names, or of pairs of a name and options:
        `program.providers = ["CUDAExecutionProvider", "CPUExecutionProvider"]`. The next call makes
        a new session. Setting it raises a UsageError if this build of ONNX Runtime does not have a
        provider. A provider that does not start is an error of the call: nothing runs on another
        one instead.
        """
        return self._providers

    @providers.setter
    def providers(self, providers: Providers | None) -> None:
        self._providers = None if providers is None else check_providers(providers)
        self._forget_sessions()

    def session(
        self,
        providers: Providers | None = None,
        options: ort.SessionOptions | None = None,
        threads: int = 0,
    ) -> ort.InferenceSession:
        """A new session of the model, with its libraries of custom operators.

        Args:
            providers: Execution providers. Default: those of the program.
            options: Options of the session.
            threads: Count of intra-op threads; 0 for that of the options, or without options for
                the one that the model asks for.

        Raises:
            UsageError: This build of ONNX Runtime does not have a provider, or an argument is
                wrong.
            VerificationError: ONNX Runtime does not load the model, or a provider does not start.
        """
        if check_count("threads", threads, 0):
            options = options or exact_options()
            options.intra_op_num_threads = threads
        chosen = self.providers if providers is None else providers
        with self._serialized() as model:
            return open_session(model, chosen, options, self.libraries)

    def _new_runtime(self) -> OrtProgram:
        with self._serialized() as model:
            return OrtProgram(
                model,
                threads=self._threads,
                libraries=self.libraries,
                denormals=self.denormals,
                providers=self.providers,
            )

    @abstractmethod
    def _serialized(self) -> AbstractContextManager[bytes | str]:
        """The serialized model, or the path of a file with it."""

    @abstractmethod
    def _in_place(self) -> Collection[int]:
        """Outputs that can overwrite their state in a step."""

    @property
    def _runtime(self) -> OrtProgram:
        return self._lazy_runtime(self._new_runtime)

    @property
    def _stepper(self) -> Stepper:
        return self._lazy_stepper(
            lambda: Stepper(self._runtime, self._caller.description, self._in_place())
        )

    def __call__(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Runs the model in ONNX Runtime.

        Args:
            args, kwargs: The arguments of the JAX function. For a bare StableHLO program, one
                array per input. Leave out static and bound arguments, as for JAX's `Compiled`. If
                `translate` lowered the function itself, you may give static ones with the same
                values. Python scalars are allowed. So are typed PRNG keys where JAX is installed;
                otherwise pass their data. While `jax_enable_x64` is off, 64-bit arrays become
                32-bit arrays where JAX would convert them.

        Returns:
            The results of the JAX function. For a bare StableHLO program, the array or a tuple of
            arrays. Leaves are numpy arrays; typed PRNG keys are JAX arrays where JAX is installed.

        Raises:
            SignatureError: The arguments do not fit.
            VerificationError: ONNX Runtime is not installed, or it does not run the model.
        """
        caller = self._caller
        arrays = caller.arrays(args, kwargs)
        runtime = self._lazy_runtime(self._new_runtime)
        outputs = runtime(caller.feeds(runtime.input_names, arrays))
        return caller.trees.unflatten(caller.results(outputs))

    def step(self, *args: PyTree, **kwargs: PyTree) -> PyTree:
        """Runs the model once and keeps its state in ONNX Runtime's memory.

        States are donated arguments (`jax.jit(..., donate_argnums=...)`) whose memory a result
        takes. Such a result is a `StateArray`. The next step takes it without a copy and reuses
        its memory:

            cache, token = program.step(cache, token)

        Args:
            args, kwargs: The arguments of a call. States may be arrays or `StateArray`s.

        Returns:
            The results of a call, with `StateArray`s for states.

        Raises:
            SignatureError: The arguments do not fit, or an earlier step has taken a state.
            VerificationError: ONNX Runtime is not installed, or it does not run the model.
        """
        arrays = self._caller.arrays(args, kwargs, keeps_states=True)
        return self._caller.trees.unflatten(self._stepper(arrays))

    def flatten(self, *args: PyTree, **kwargs: PyTree) -> list[np.ndarray]:
        """Converts the arguments of a call to flat arrays, one per input.

        Raises:
            SignatureError: The arguments do not fit.
        """
        return self._caller.arrays(args, kwargs)

    def run(self, arrays: Sequence[np.ndarray]) -> list[np.ndarray]:
        """Runs the model on flat arrays, one per input. Complex inputs are complex arrays.

        Raises:
            SignatureError: The count of arrays is not the count of inputs.
            VerificationError: ONNX Runtime is not installed, or it does not run the model.
        """
        inputs = self._caller.description.inputs
        if not isinstance(arrays, Sequence) or len(arrays) != len(inputs):
            names = ", ".join(port.name for port in inputs)
            raise SignatureError(
                f"run takes a list of arrays, one for each of the inputs {names or '(none)'}; call"
                " the program with pytrees"
            )
        items = [np.asarray(array) for array in arrays]
        runtime = self._runtime
        return self._caller.results(runtime(self._caller.feeds(runtime.input_names, items)))
