"""Builds the distributions of a release and checks them. See `tools.release.__main__`."""

RUNTIME = (
    "hlo2onnx/__init__.py",
    "hlo2onnx/__main__.py",
    "hlo2onnx/errors.py",
    "hlo2onnx/py.typed",
    "hlo2onnx/interface/*.py",
    *(
        f"hlo2onnx/runtime/{name}.py"
        for name in ("__init__", "calls", "denormals", "loading", "paths", "sessions", "stepping")
    ),
)
"""The files of hlo2onnx-runtime."""

REPORT = ("hlo2onnx/verify/assets/vendor/*",)
"""The files of hlo2onnx-report."""
