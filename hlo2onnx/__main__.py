"""The command `hlo2onnx`, also `python -m hlo2onnx`."""

from __future__ import annotations

import sys


def main() -> int:
    """Runs the command; returns its exit code: 3 where only hlo2onnx-runtime is installed."""
    try:
        from hlo2onnx.cli import main as run
    except ModuleNotFoundError as error:
        if error.name != "hlo2onnx.cli":
            raise
        print(
            "hlo2onnx: hlo2onnx-runtime only runs saved models; to translate: pip install hlo2onnx",
            file=sys.stderr,
        )
        return 3
    return run()


if __name__ == "__main__":
    sys.exit(main())
