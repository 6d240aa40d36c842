"""The built-in handlers: importing this package registers all of them.

One folder per dialect, one file per op family. A handler reads like the spec's sentence about its
op; it emits plain ONNX in the program's own element types and leaves idioms to the raising rules
and missing kernels to legalization.
"""

from __future__ import annotations

import importlib
import pkgutil

for _module in pkgutil.walk_packages(__path__, prefix=f"{__name__}."):
    importlib.import_module(_module.name)
