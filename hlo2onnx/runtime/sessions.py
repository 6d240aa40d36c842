"""Runs a model in ONNX Runtime, in every element type."""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from types import ModuleType
from typing import TYPE_CHECKING, TypeVar

import numpy as np
import onnx
import onnx_ir as oir

from hlo2onnx.errors import VerificationError
from hlo2onnx.runtime.denormals import FlushingThread

if TYPE_CHECKING:
    import onnxruntime as ort

Result = TypeVar("Result")

_INSTALL = (
    "onnxruntime is not installed: pip install 'hlo2onnx[ort]' (or onnxruntime-gpu, or any other"
    " build of it)"
)


def onnxruntime() -> ModuleType:
    """The onnxruntime module, imported at the first call.

    Raises:
        VerificationError: It is not installed.
    """
    try:
        return import_module("onnxruntime")
    except ImportError as error:
        raise VerificationError(_INSTALL) from error


class OrtProgram:
    """An inference session over a model.

    Args:
        model: Serialized model, or the path of a model with external data.
        optimize: Whether ORT may optimize the graph.
        threads: Count of intra-op threads; 0 for ORT's default.
        libraries: Paths of shared libraries with custom operators.
        profile: Prefix of the path of ORT's profile. See `hlo2onnx.runtime.profiling`.
        denormals: "keep", or "flush" to treat denormal floats as zeros, as XLA does on the CPU. The
            session then runs in its own thread (`hlo2onnx.runtime.denormals`).

    Raises:
        VerificationError: ORT does not load the model or a library, or this platform cannot flush
            denormals.
    """

    def __init__(
        self,
        model: bytes | str,
        *,
        optimize: bool = True,
        threads: int = 0,
        libraries: Sequence[str] = (),
        profile: str | None = None,
        denormals: str = "keep",
    ) -> None:
        ort = onnxruntime()
        self._thread = FlushingThread() if denormals == "flush" else None
        options = ort.SessionOptions()
        options.log_severity_level = 4
        options.intra_op_num_threads = threads
        level = ort.GraphOptimizationLevel
        options.graph_optimization_level = (
            level.ORT_ENABLE_ALL if optimize else level.ORT_DISABLE_ALL
        )
        if profile is not None:
            options.enable_profiling = True
            options.profile_file_prefix = profile
        if self._thread is not None:
            options.add_session_config_entry("session.set_denormal_as_zero", "1")
        for library in libraries:
            _register(options, library)
        try:
            self.session = self._in_thread(
                ort.InferenceSession, model, options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:
            raise VerificationError(f"ONNX Runtime does not load the model: {error}") from error
        outputs = self.session.get_outputs()
        self.output_names = [output.name for output in outputs]
        ports = (*self.session.get_inputs(), *outputs)
        self._is_native = all(port.type in _NATIVE_PORTS for port in ports)

    def _in_thread(
        self, function: Callable[..., Result], *args: object, **kwargs: object
    ) -> Result:
        """Calls a function in the thread of the session."""
        if self._thread is None:
            return function(*args, **kwargs)
        return self._thread(function, *args, **kwargs)

    def __call__(self, inputs: Mapping[str, np.ndarray]) -> list[np.ndarray]:
        """Runs the model on arrays of numpy and ml_dtypes types.

        Raises:
            VerificationError: ORT fails at run time.
        """
        try:
            if self._is_native:  # numpy has all types. This takes 35 us less than `OrtValue`s.
                arrays = {name: np.asarray(array) for name, array in inputs.items()}
                return list(self._in_thread(self.session.run, self.output_names, arrays))
            values = {name: to_ort(array) for name, array in inputs.items()}
            run = self.session.run_with_ort_values
            results = self._in_thread(run, self.output_names, values)
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


def to_ort(array: np.ndarray) -> ort.OrtValue:
    """An array of a numpy or ml_dtypes type as an `OrtValue`.

    Raises:
        VerificationError: ORT takes no arrays of this type.
    """
    ort = onnxruntime()
    dtype = oir.DataType.from_numpy(array.dtype)
    array = np.ascontiguousarray(array).reshape(array.shape)
    if dtype.bitwidth < 8:
        raise VerificationError(f"ONNX Runtime's Python API takes no {dtype.name} arrays")
    if array.dtype.kind in "biuf" and dtype.name in _NATIVE:
        return ort.OrtValue.ortvalue_from_numpy(array)
    carrier = array.view(np.uint8 if dtype.bitwidth == 8 else np.uint16)
    return ort.OrtValue.ortvalue_from_numpy_with_onnx_type(carrier, int(dtype))


def _register(options: ort.SessionOptions, library: str) -> None:
    try:
        options.register_custom_ops_library(library)
    except Exception as error:
        raise VerificationError(
            f"ONNX Runtime does not load the custom operators in {library}: {error}"
        ) from error


_NATIVE = frozenset(
    {"FLOAT", "DOUBLE", "FLOAT16", "BOOL", "INT8", "INT16", "INT32", "INT64"}
    | {"UINT8", "UINT16", "UINT32", "UINT64"}
)


_NATIVE_PORTS = frozenset(f"tensor({name.lower()})" for name in _NATIVE)


def from_ort(value: ort.OrtValue) -> np.ndarray:
    """A copy of the content of an `OrtValue`."""
    dtype = oir.DataType(value.element_type())
    if dtype.name in _NATIVE:
        return np.asarray(value.numpy())
    # ORT does not convert types that numpy does not have. Read its memory.
    content = ctypes.string_at(value.data_ptr(), value.tensor_size_in_bytes())
    shape = tuple(value.shape())
    if dtype.bitwidth < 8:
        return _unpacked(content, dtype, math.prod(shape)).reshape(shape)
    return np.frombuffer(content, dtype.numpy()).reshape(shape)


def _unpacked(content: bytes, dtype: oir.DataType, count: int) -> np.ndarray:
    """Elements of fewer than 8 bits. Several share a byte, the first in the low bits."""
    bits = np.unpackbits(np.frombuffer(content, np.uint8), bitorder="little")
    elements = bits[: count * dtype.bitwidth].reshape(count, -1)
    codes = np.packbits(elements, axis=1, bitorder="little")
    return codes.reshape(count).view(dtype.numpy())


def check_model(model: onnx.ModelProto | bytes | str) -> None:
    """Runs the full ONNX checker with strict shape inference.

    Args:
        model: A model, a serialized model, or the path of a model.

    Raises:
        VerificationError: The model is not valid ONNX.
    """
    try:
        onnx.checker.check_model(model, full_check=True)
    except Exception as error:  # also a ValueError, for an attribute that is no element type
        raise VerificationError(f"the model is not valid ONNX: {error}") from error
