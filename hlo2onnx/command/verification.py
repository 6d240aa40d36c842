"""The options of `--verify`."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from hlo2onnx.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from hlo2onnx.verification.compare import Verification


def verify_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of `OnnxProgram.verify`.

    Args:
        arguments: The arguments of the command.
        names: The names of the model's inputs.

    Raises:
        UsageError: The file of inputs cannot be read, or lacks an input.
    """
    options: dict[str, Any] = {
        "seed": arguments.seed,
        "rtol": arguments.rtol,
        "atol": arguments.atol,
        "samples": arguments.samples,
        "sizes": arguments.sizes or None,
        "runtime": arguments.runtime,
    }
    if arguments.inputs is not None:
        options["inputs"] = _arrays(arguments.inputs, names)
    return options


def _arrays(path: Path, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """The arrays of a file of `numpy.savez`, by the names of inputs."""
    import numpy as np

    try:
        with np.load(path) as found:
            if missing := [name for name in names if name not in found]:
                raise UsageError(f"{path} has no array {', '.join(missing)}")
            return tuple(found[name] for name in names)
    except (OSError, ValueError, TypeError, AttributeError) as error:
        raise UsageError(f"--inputs {path} is not a file of numpy.savez: {error}") from error


def check_runtime(arguments: argparse.Namespace) -> None:
    """Checks --runtime before there is work.

    Raises:
        UsageError: Nothing is verified, or there is no such runtime.
    """
    if arguments.runtime is None:
        return
    if not (arguments.verify or arguments.bisect):
        raise UsageError("--runtime has no meaning without --verify or --bisect")
    from hlo2onnx.runtime.adapters.installed import named

    named(arguments.runtime)


def other_runtime(found: Verification) -> str:
    """A warning that the runtime of the target did not run the model; "" if it did."""
    if not found.fallback:
        return ""
    return f"hlo2onnx: verified in {found.runtime}, not in the target's runtime: {found.fallback}"


def weak_outputs(found: Verification) -> str:
    """A warning of outputs that tell little; "" if there are none."""
    names = dict.fromkeys(item.name for item in found.says_little)
    if not names:
        return ""
    return f"hlo2onnx: the verification says little of {', '.join(names)}: pass other inputs"
