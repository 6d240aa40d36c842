"""The notes and errors about Python callbacks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from hlo2onnx import OnnxProgram, TranslationError, translate

X = np.arange(1, 4, dtype=np.float32)


def notes_of(program: OnnxProgram) -> list[str]:
    return [note for note in program.report.notes if "left out" in note]


def next_of(source: Any, *args: Any, **options: Any) -> str:
    """The advice in the error of a refused program."""
    with pytest.raises(TranslationError) as caught:
        translate(source, *args, **options)
    assert "it calls a Python function of the process" in str(caught.value)
    return caught.value.refusals[0].next
