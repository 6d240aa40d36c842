"""Runs programs in XLA on the CPU."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import cache
from typing import TypeAlias

import jax
import numpy as np
from jax.extend import backend as jax_backend
from jaxlib import lapack, xla_client
from jaxlib.mlir import ir

from hlo2onnx.errors import VerificationError
from hlo2onnx.frontend.mlir.types import ELEMENT_TYPES, STORED_FLOATS, element_type, is_tensor
from hlo2onnx.frontend.mlir.values import values_of

XlaRun: TypeAlias = Callable[[Iterable[np.ndarray], Sequence[int] | None], list[np.ndarray]]
"""Runs a compiled program, as `XlaProgram` does."""
Compile: TypeAlias = Callable[[bytes], XlaRun]
"""Compiles bytecode of a module."""

COMPILED_TYPES = {*ELEMENT_TYPES, *STORED_FLOATS, "complex<f32>", "complex<f64>"} - {
    "f6E2M3FN",
    "f6E3M2FN",
}
"""Element types that XLA on the CPU compiles. It aborts the process on others."""


def require_known_types(module_operation: ir.Operation) -> None:
    """Checks that XLA has all element types of a module. On others it would abort the process.

    Raises:
        VerificationError: A value has an element type that XLA does not compile.
    """
    for mlir_type in {value.type for value in values_of(module_operation)}:
        if is_tensor(mlir_type) and (element := element_type(mlir_type)) not in COMPILED_TYPES:
            raise VerificationError(f"XLA has no element type {element}, so there is no reference")


class XlaProgram:
    """A StableHLO module compiled by XLA for the CPU.

    Args:
        bytecode: MLIR bytecode of a module with a `main`.
        replicas, partitions: The devices that run it. They get the same arguments, and the results
            are those of the first one. JAX must have them (`jax_num_cpu_devices`).

    Raises:
        VerificationError: XLA does not compile the module.
    """

    def __init__(self, bytecode: bytes, replicas: int = 1, partitions: int = 1) -> None:
        if b"lapack_" in bytecode:
            _find_lapack()
        self._devices = _devices()[: replicas * partitions]
        self._executable = compiled(bytecode, (replicas, partitions))

    def __call__(
        self, arguments: Iterable[np.ndarray], wanted: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Runs the program on arrays, with an empty bool array for a token.

        Args:
            wanted: Positions of the results to return, without tokens; all by default.

        Raises:
            VerificationError: XLA does not run it.
        """
        buffers = [_on_devices(argument, self._devices) for argument in arguments]
        try:
            results = self._executable.execute_sharded(buffers)
            shards = results.disassemble_into_single_device_arrays()
            positions = range(len(shards)) if wanted is None else wanted
            return [np.asarray(shards[position][0]) for position in positions]
        except jax.errors.JaxRuntimeError as error:
            raise VerificationError(f"XLA does not run this module: {error}") from error


def compiled(bytecode: bytes, devices: tuple[int, int] = (1, 1)) -> xla_client.LoadedExecutable:
    """The executable of a module, on so many replicas and partitions.

    Raises:
        VerificationError: XLA does not compile the module.
    """
    client = jax_backend.get_backend("cpu")
    numbers = np.arange(np.prod(devices)).reshape(devices)
    options = xla_client.CompileOptions()
    options.num_replicas, options.num_partitions = devices
    options.device_assignment = xla_client.DeviceAssignment.create(numbers)
    if options.num_partitions > 1:
        options.executable_build_options.use_spmd_partitioning = True
        # Bytecode holds the names of the dialects that occur.
        options.executable_build_options.use_shardy_partitioner = b"sdy" in bytecode
    try:
        where = xla_client.DeviceList(tuple(_devices()[: numbers.size]))
        return client.compile_and_load(bytecode, where, options)
    except (jax.errors.JaxRuntimeError, ValueError) as error:  # ValueError: from LLVM's containers
        raise VerificationError(f"XLA does not compile this module: {error}") from error


def _devices() -> list[jax.Device]:
    return list(jax_backend.get_backend("cpu").local_devices())


@cache
def _find_lapack() -> None:
    """Sets the addresses of LAPACK's functions. JAX sets them only when it lowers a call.

    Otherwise, a module from a file would call address 0.
    """
    lapack.prepare_lapack_call("potrf_ffi", np.dtype(np.float32))


def _on_devices(array: np.ndarray, devices: Sequence[jax.Device]) -> jax.Array:
    mesh = jax.sharding.Mesh(np.array(devices), ("device",))
    # Without x64 device_put would narrow 64-bit arguments.
    with jax.enable_x64(True):
        return jax.device_put(array, jax.NamedSharding(mesh, jax.P()))
