"""Runs a model in ONNX Runtime, in every element type."""

from __future__ import annotations

import ctypes
import math
import threading
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from pathlib import Path
from types import ModuleType
from typing import TYPE_CHECKING, Any, TypeAlias, TypeVar

import numpy as np

from hlo2onnx.errors import NotInstalledError, OverBudgetError, UsageError, VerificationError
from hlo2onnx.interface.description import advised_threads
from hlo2onnx.interface.tensors import numpy_dtype
from hlo2onnx.runtime.denormals import FlushingThread
from hlo2onnx.runtime.paths import check_count, check_libraries

if TYPE_CHECKING:
    import onnx
    import onnxruntime as ort

Result = TypeVar("Result")

Providers: TypeAlias = Sequence[str | tuple[str, Mapping[str, Any]]]
"""Names of execution providers of ONNX Runtime, perhaps with their options. The first that can
run a node runs it."""

DEFAULT_PROVIDERS: Providers = ("CPUExecutionProvider",)
"""Every build of ONNX Runtime has it, and the kernels of the target "ort-cpu" are its kernels."""

_INSTALL = (
    "onnxruntime is not installed: pip install 'hlo2onnx[ort]' (or onnxruntime-gpu, or any other"
    " build of it)"
)


def onnxruntime() -> ModuleType:
    """The onnxruntime module, imported at the first call.

    Raises:
        NotInstalledError: It is not installed.
    """
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise NotInstalledError(_INSTALL) from error


def open_session(
    model: bytes | str,
    providers: Providers | None = None,
    options: ort.SessionOptions | None = None,
    libraries: Sequence[str] = (),
) -> ort.InferenceSession:
    """An inference session.

    Args:
        model: Serialized model, or the path of a model with external data.
        providers: Execution providers. Default: the CPU.
        options: Options of the session. The libraries are added to them. Default: one thread if
            the model asks for it.
        libraries: Paths of shared libraries with custom operators.

    Raises:
        UsageError: This build of ONNX Runtime does not have a provider, or an argument is wrong.
        VerificationError: ONNX Runtime does not load the model or a library, or a provider does not
            start.
    """
    ort = onnxruntime()
    if options is None:
        options = exact_options()
        options.intra_op_num_threads = advised_threads(model)
    wanted = list(DEFAULT_PROVIDERS if providers is None else check_providers(providers))
    for library in check_libraries(libraries):
        _register(options, library)
    try:
        session = ort.InferenceSession(model, options, providers=wanted)
    except Exception as error:
        raise VerificationError(f"ONNX Runtime does not load the model: {error}") from error
    started = session.get_providers()
    for name in map(_name, wanted):
        if name not in started:  # ONNX Runtime would run on another one and say nothing
            raise VerificationError(
                f"{name} does not start: its device, driver or libraries may be missing. ONNX"
                f" Runtime would use {', '.join(started)} instead"
            )
    return session


def exact_options() -> ort.SessionOptions:
    """Options of a session whose products of quantized numbers do not saturate, and that does not
    quantize what is multiplied by dequantized weights.

    On x64 processors without VNNI, ONNX Runtime adds pairs of products of unsigned and signed 8-bit
    numbers in 16 bits. With this option it makes the constants among them unsigned when it loads
    the model. Other processors ignore it.
    """
    options = onnxruntime().SessionOptions()
    options.add_session_config_entry("session.x64quantprecision", "1")
    options.add_session_config_entry("session.qdq_matmulnbits_accuracy_level", "1")
    return options


def check_providers(providers: object) -> Providers:
    """Checks the names of execution providers.

    Raises:
        UsageError: It is not a list of names, or this build of ONNX Runtime does not have one.
    """
    is_text = isinstance(providers, str | bytes)
    if is_text or not isinstance(providers, Sequence) or not providers:
        raise UsageError(f"providers={providers!r} is not a list of names, such as {_EXAMPLE}")
    available = onnxruntime().get_available_providers()
    for item in providers:
        if not _is_provider(item):
            raise UsageError(
                f"providers= holds {item!r}, which is not a name or pair of a name and options"
            )
        if _name(item) not in available:
            raise UsageError(
                f"providers= names {_name(item)!r}; this build of ONNX Runtime has"
                f" {', '.join(available)}"
            )
    return providers


_EXAMPLE = list(DEFAULT_PROVIDERS)


def _is_provider(item: object) -> bool:
    """Whether it is a name, or a pair of a name and options."""
    is_pair = isinstance(item, tuple) and len(item) == 2 and isinstance(item[1], Mapping)
    return isinstance(item[0] if is_pair else item, str)  # type: ignore[index]


def _name(provider: str | tuple[str, Mapping[str, Any]]) -> str:
    return provider if isinstance(provider, str) else provider[0]


class OrtProgram:
    """An inference session over a model.

    Args:
        model: Serialized model, or the path of a model with external data.
        optimize: Whether ORT may optimize the graph.
        threads: Count of intra-op threads; 0 for the one that the model asks for, or else ORT's
            default.
        libraries: Paths of shared libraries with custom operators.
        profile: Prefix of the path of ORT's profile. See `hlo2onnx.runtime.profiling`.
        optimized: Path for the model that ORT runs. Its weights go to a file beside it.
        denormals: "keep", or "flush" to treat denormal floats as zeros, as XLA does on the CPU. The
            session then runs in its own thread (`hlo2onnx.runtime.denormals`).
        providers: Execution providers. Default: the CPU.

    Raises:
        UsageError: This build of ONNX Runtime does not have a provider.
        VerificationError: ORT does not load the model or a library, a provider does not start, or
            this platform cannot flush denormals.
    """

    def __init__(
        self,
        model: bytes | str,
        *,
        optimize: bool = True,
        threads: int = 0,
        libraries: Sequence[str] = (),
        profile: str | None = None,
        optimized: str | None = None,
        denormals: str = "keep",
        providers: Providers | None = None,
    ) -> None:
        ort = onnxruntime()
        self._thread = FlushingThread() if denormals == "flush" else None
        options = exact_options()
        options.log_severity_level = 4
        threads = check_count("threads", threads, 0) or advised_threads(model)
        options.intra_op_num_threads = threads
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = (
            level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
        )
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        if optimized is not None:
            _write_optimized(options, Path(optimized))
        if self._thread is not None:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        self.session = self._in_thread(open_session, model, providers, options, libraries)
        inputs, outputs = self.session.get_inputs(), self.session.get_outputs()
        self.input_names = [value.name for value in inputs]
        self.output_names = [value.name for value in outputs]
        self._is_native = all(value.type in _NATIVE_PORTS for value in (*inputs, *outputs))

    def _in_thread(
        self, function: Callable[..., Result], *args: object, **kwargs: object
    ) -> Result:
        """Calls a function in the thread of the session."""
        if self._thread is None:
            return function(*args, **kwargs)
        return self._thread(function, *args, **kwargs)

    def __call__(
        self, inputs: Mapping[str, np.ndarray], seconds: float = math.inf
    ) -> list[np.ndarray]:
        """Runs the model on arrays of numpy and ml_dtypes types.

        Args:
            seconds: Limit of the time.

        Raises:
            OverBudgetError: It takes longer.
            VerificationError: ORT fails at run time.
        """
        if math.isinf(seconds):
            return self._run(inputs, None)
        options = onnxruntime().RunOptions()
        end = threading.Timer(max(seconds, 0), setattr, (options, "terminate", True))
        end.start()
        try:
            return self._run(inputs, options)
        except VerificationError as error:
            if options.terminate:
                raise OverBudgetError(f"the model gives no result in {seconds:.0f} s") from error
            raise
        finally:
            end.cancel()

    def _run(
        self, inputs: Mapping[str, np.ndarray], options: ort.RunOptions | None
    ) -> list[np.ndarray]:
        try:
            if self._is_native:  # numpy has all types. This takes 35 us less than `OrtValue`s.
                arrays = {name: np.asarray(array) for name, array in inputs.items()}
                run = self.session.run
                return list(self._in_thread(run, self.output_names, arrays, options))
            values = {name: to_ort(array) for name, array in inputs.items()}
            run = self.session.run_with_ort_values
            results = self._in_thread(run, self.output_names, values, options)
        except Exception as error:
            raise VerificationError(f"ONNX Runtime does not run the model: {error}") from error
        return [from_ort(result) for result in results]

    def run_bound(self, binding: ort.IOBinding) -> None:
        """Runs the model with bound inputs and outputs.

        Raises:
            VerificationError: ORT fails at run time.
        """
        try:
            self._in_thread(self.session.run_with_iobinding, binding)
        except Exception as error:
            raise VerificationError(f"ONNX Runtime does not run the model: {error}") from error


_NATIVE = {
    "float32": 1, "uint8": 2, "int8": 3, "uint16": 4, "int16": 5, "int32": 6, "int64": 7,
    "bool": 9, "float16": 10, "float64": 11, "uint32": 12, "uint64": 13,
}  # fmt: skip
"""Types that numpy has, with their numbers in ONNX."""

_OTHERS = {
    "bfloat16": 16, "float8_e4m3fn": 17, "float8_e4m3fnuz": 18, "float8_e5m2": 19,
    "float8_e5m2fnuz": 20, "uint4": 21, "int4": 22, "float4_e2m1fn": 23, "float8_e8m0fnu": 24,
    "uint2": 25, "int2": 26,
}  # fmt: skip
"""Types that ml_dtypes has."""

_NAMES = {number: name for name, number in (_NATIVE | _OTHERS).items()}
_BITS = {"uint4": 4, "int4": 4, "float4_e2m1fn": 4, "uint2": 2, "int2": 2}
"""Types of less than a byte."""

_SPELLING = {"float32": "float", "float64": "double"}
_NATIVE_PORTS = frozenset(f"tensor({_SPELLING.get(name, name)})" for name in _NATIVE)


def to_ort(array: np.ndarray) -> ort.OrtValue:
    """An array of a numpy or ml_dtypes type as an `OrtValue`.

    Raises:
        VerificationError: ORT takes no arrays of this type.
    """
    ort = onnxruntime()
    name = array.dtype.name
    array = np.ascontiguousarray(array).reshape(array.shape)
    if name in _NATIVE:
        return ort.OrtValue.ortvalue_from_numpy(array)
    if name not in _OTHERS or name in _BITS:
        raise VerificationError(f"ONNX Runtime's Python API takes no {name} arrays")
    carrier = array.view(np.uint8 if array.itemsize == 1 else np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(carrier, _OTHERS[name])


def _write_optimized(options: ort.SessionOptions, path: Path) -> None:
    options.optimized_model_filepath = str(path)
    prefix = "session.optimized_model_external_initializers_"
    options.add_session_config_entry(f"{prefix}file_name", f"{path.name}.data")
    options.add_session_config_entry(f"{prefix}min_size_in_bytes", "1024")


def _register(options: ort.SessionOptions, library: str) -> None:
    try:
        options.register_custom_ops_library(library)
    except Exception as error:
        raise VerificationError(
            f"ONNX Runtime does not load the custom operators in {library}: {error}"
        ) from error


def from_ort(value: ort.OrtValue) -> np.ndarray:
    """A copy of the content of an `OrtValue`."""
    name = _NAMES[value.element_type()]
    if name in _NATIVE:
        return np.asarray(value.numpy())
    # ORT does not convert types that numpy does not have. Read its memory.
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    return elements(content, numpy_dtype(name), _BITS.get(name, 8), value.shape())


def elements(content: bytes, dtype: np.dtype, width: int, shape: Sequence[int]) -> np.ndarray:
    """The elements in the memory of a runtime.

    Args:
        width: Bits of an element. Several of fewer than 8 share a byte, the first in the low bits.
    """
    if width >= 8:
        return np.frombuffer(content, dtype).reshape(shape)
    count = math.prod(shape)
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    codes = np.packbits(bits[: count * width].reshape(count, -1), axis=1, bitorder="little")
    return codes.view(dtype).reshape(shape)


def check_model(model: onnx.ModelProto | bytes | str) -> None:
    """Runs the full ONNX checker with strict shape inference.

    Args:
        model: A model, a serialized model, or the path of a model.

    Raises:
        VerificationError: The model is not valid ONNX.
    """
    checker = import_module("onnx.checker")  # where models only run, onnx may be missing
    try:
        checker.check_model(model, full_check=True)
    except Exception as error:  # also a ValueError, for an attribute that is not an element type
        raise VerificationError(f"the model is not valid ONNX: {error}") from error
