"""The threads that a model asks for, in the metadata that ONNX Runtime itself can read."""

from __future__ import annotations

import json
from collections.abc import Mapping

CONFIG = "ort_config"
"""Key of the metadata. ONNX Runtime reads it where the environment has
ORT_LOAD_CONFIG_FROM_MODEL=1."""


def one_thread() -> dict[str, str]:
    """Metadata that ask for one intra-op thread."""
    return {CONFIG: json.dumps({"session_options": {"intra_op_num_threads": 1}})}


def threads_of(metadata: Mapping[str, str]) -> int:
    """The count of intra-op threads that metadata ask for; 0 if they ask for none."""
    try:
        count = json.loads(metadata[CONFIG])["session_options"]["intra_op_num_threads"]
    except (KeyError, TypeError, ValueError):
        return 0
    return count if isinstance(count, int) and count > 0 else 0
