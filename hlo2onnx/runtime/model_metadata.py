"""Reads the metadata of a model before a session exists, without onnx."""

from __future__ import annotations

from collections.abc import Iterator
from io import SEEK_CUR, BytesIO
from pathlib import Path
from typing import BinaryIO

from hlo2onnx.interface.description import threads_of

_METADATA = 14
"""Number of the field `metadata_props` of a ModelProto."""


def advised_threads(model: bytes | str) -> int:
    """The count of intra-op threads that a model asks for; 0 for ONNX Runtime's default.

    Args:
        model: Serialized model, or the path of a model. What is no model asks for none.
    """
    try:
        with BytesIO(model) if isinstance(model, bytes) else Path(model).open("rb") as stream:
            entries = [dict(_fields(BytesIO(entry))) for entry in _entries(stream)]
            return threads_of({entry[1].decode(): entry[2].decode() for entry in entries})
    except (OSError, EOFError, KeyError, ValueError):  # ONNX Runtime says what is wrong with it
        return 0


def _entries(stream: BinaryIO) -> Iterator[bytes]:
    return (content for number, content in _fields(stream, _METADATA) if number == _METADATA)


def _fields(stream: BinaryIO, only: int = 0) -> Iterator[tuple[int, bytes]]:
    """The numbers and contents of the fields of a protobuf message that have a length.

    Args:
        only: Number of the fields that are read. The others are skipped: the graph may be large.
    """
    while (first := stream.read(1)) != b"":
        tag = _varint(stream, first)
        number, kind = tag >> 3, tag & 7
        if kind == 0:
            _varint(stream, stream.read(1))
        elif kind != 2:
            stream.seek({1: 8, 5: 4}[kind], SEEK_CUR)
        elif only in (0, number):
            yield number, stream.read(_varint(stream, stream.read(1)))
        else:
            stream.seek(_varint(stream, stream.read(1)), SEEK_CUR)


def _varint(stream: BinaryIO, first: bytes) -> int:
    number, shift, byte = 0, 0, first
    while byte:
        number |= (byte[0] & 127) << shift
        if byte[0] < 128:
            return number
        byte, shift = stream.read(1), shift + 7
    raise EOFError
