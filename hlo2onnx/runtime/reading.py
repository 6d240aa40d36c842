"""Errors of reading a model file."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager

from hlo2onnx.errors import LoadError


@contextmanager
def reading_model(path: str | os.PathLike[str]) -> Iterator[None]:
    """Says in errors of reading a model which file it is.

    Raises:
        LoadError: Instead of any exception in the block.
    """
    try:
        yield
    except FileNotFoundError as error:
        raise LoadError(f"no such file: {error.filename or path}") from None
    except OSError as error:
        raise LoadError(f"cannot read {path}: {error.strerror}") from error
    except Exception as error:  # protobuf has no base class of its errors
        raise LoadError(f"{path} is no ONNX model: {error}") from error
