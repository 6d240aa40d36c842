"""The options of `--verify`."""

from __future__ import annotations

import argparse
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

from hlo2onnx.command.paths import check_file
from hlo2onnx.errors import UsageError

if TYPE_CHECKING:
    import numpy as np

    from hlo2onnx.verify.compare import Verification

_OF_VERIFY = ("runtime", "samples", "sizes", "rtol", "atol", "inputs", "seconds")
"""Options that only a verification reads. --reduce reads the seed too."""


def verify_options(arguments: argparse.Namespace, names: Sequence[str]) -> dict[str, Any]:
    """The arguments of `OnnxProgram.verify`.

    Args:
        arguments: The arguments of the command.
        names: The names of the model's inputs.

    Raises:
        UsageError: The file of inputs cannot be read, or lacks an input.
    """
    given = {name: getattr(arguments, name) for name in ("seed", *_OF_VERIFY)}
    options = {name: value for name, value in given.items() if value is not None}
    if arguments.inputs is not None:
        options["inputs"] = _arrays(arguments.inputs, names)
    return options


def _arrays(path: Path, names: Sequence[str]) -> tuple[np.ndarray, ...]:
    """The arrays of a file of `numpy.savez`, by the names of inputs."""
    import numpy as np

    try:
        with path.open("rb") as file, np.load(file) as found:
            if missing := [name for name in names if name not in found]:
                raise UsageError(f"{path} has no array {', '.join(missing)}")
            return tuple(found[name] for name in names)
    except (OSError, ValueError, EOFError, TypeError, BadZipFile, zlib.error) as error:
        raise UsageError(
            f"--inputs {path} is not a file of numpy.savez with arrays of numbers: {error}"
        ) from None


def check_options(arguments: argparse.Namespace) -> None:
    """Checks the options of --verify before there is work.

    Raises:
        UsageError: Nothing is verified, there is no such runtime, or no such file of inputs.
    """
    if not (arguments.verify or arguments.bisect):
        for name in _OF_VERIFY:
            if getattr(arguments, name) is not None:
                raise UsageError(f"--{name} has no meaning without --verify or --bisect")
    if arguments.inputs is not None:
        check_file(arguments.inputs)
    if arguments.runtime is None:
        return
    from hlo2onnx.runtime.adapters.installed import named

    _, place = named(arguments.runtime)
    if place and not Path(place).expanduser().exists():
        raise UsageError(f"--runtime {arguments.runtime}: no such file or folder: {place}")


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
