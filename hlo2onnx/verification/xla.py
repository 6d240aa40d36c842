"""XLA on the CPU, the arbiter of what a program computes."""

from __future__ import annotations

import io
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

import jax
import numpy as np
from jax.extend import backend as jax_backend
from jaxlib import lapack, xla_client

from hlo2onnx.errors import VerificationError


class XlaProgram:
    """A StableHLO module compiled by XLA for the CPU.

    Args:
        bytecode: MLIR bytecode of the module; its `main` is what runs.

    Raises:
        VerificationError: XLA does not compile the module.
    """

    def __init__(self, bytecode: bytes) -> None:
        if b"lapack_" in bytecode:
            _find_lapack()
        client = jax_backend.get_backend("cpu")
        self._device = client.local_devices()[0]
        devices = xla_client.DeviceList((self._device,))
        try:
            self._executable = client.compile_and_load(
                bytecode, devices, xla_client.CompileOptions()
            )
        except jax.errors.JaxRuntimeError as error:
            raise VerificationError(f"XLA does not compile this module: {error}") from error

    def __call__(
        self, arguments: Iterable[np.ndarray], wanted: Sequence[int] | None = None
    ) -> list[np.ndarray]:
        """Runs the program on arrays, with an empty bool array for a token.

        Args:
            wanted: Positions of the results to return; all of them by default. A token must not
                be among them.

        Raises:
            VerificationError: XLA refuses to run it.
        """
        buffers = [_on_device(argument, self._device) for argument in arguments]
        try:
            results = self._executable.execute_sharded(buffers)
            shards = results.disassemble_into_single_device_arrays()
            positions = range(len(shards)) if wanted is None else wanted
            return [np.asarray(shards[position][0]) for position in positions]
        except jax.errors.JaxRuntimeError as error:
            raise VerificationError(f"XLA does not run this module: {error}") from error


@cache
def _find_lapack() -> None:
    """Fills in the addresses of LAPACK's functions, which JAX does only when it lowers a call of
    one itself; a module from a file would call address 0."""
    lapack.prepare_lapack_call("potrf_ffi", np.dtype(np.float32))


def _on_device(array: np.ndarray, device: Any) -> Any:
    # Without x64 device_put would narrow 64-bit arguments.
    with jax.enable_x64(True):
        return jax.device_put(array, device)


def module_bytecode(operation: Any) -> bytes:
    """MLIR bytecode of a module operation."""
    stream = io.BytesIO()
    operation.write_bytecode(stream)
    return stream.getvalue()


def run_bytecode(bytecode: bytes, arguments: Sequence[np.ndarray]) -> list[np.ndarray]:
    """Compiles and runs a module once."""
    return XlaProgram(bytecode)(arguments)
