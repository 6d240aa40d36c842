"""The signature of a program as data that a model keeps as JSON."""

from __future__ import annotations

import hashlib
import json
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field, fields
from io import SEEK_END, BytesIO
from pathlib import Path
from typing import Any

from hlo2onnx.errors import LoadError
from hlo2onnx.interface.pytrees import Json
from hlo2onnx.interface.tensors import Tensor

SIGNATURE = "hlo2onnx.signature."
"""Metadata of a model: its signature. A part of the hash of the value follows, since
`onnx.compose.merge_models` refuses two values of one name."""

FORMAT = 1


@dataclass(frozen=True)
class BoundArgument:
    """An argument whose value is part of the model.

    Attributes:
        name: Its name.
        position: Its position among the arguments; None for a keyword.
    """

    name: str
    position: int | None = None


@dataclass(frozen=True)
class Description:
    """The signature of a program.

    Attributes:
        inputs, outputs: The tensors, in the order of the model.
        arguments: Structure of `[args, kwargs]` (`hlo2onnx.interface.pytrees`); None if the program
            takes and returns flat arrays.
        results: Structure of the results.
        names: Symbols of the extents.
        constraints: Constraints of the symbols, such as "a >= b".
        states: Indices of the outputs that take the memory of a donated input, by index of the
            input, as a text.
        in_place: Outputs that can overwrite their state.
        bound: Arguments that are part of the model.
        statics: Static arguments, by position or name, as texts.
        x64: Whether JAX kept 64-bit types (`jax_enable_x64`).
        origin: Name and hash of the source, the target, and versions, by "source", "sha256",
            "target", "hlo2onnx", "jax" and "jaxlib".
    """

    inputs: tuple[Tensor, ...]
    outputs: tuple[Tensor, ...]
    arguments: Json = None
    results: Json = None
    names: tuple[str, ...] = ()
    constraints: tuple[str, ...] = ()
    states: Mapping[str, int] = field(default_factory=dict)
    in_place: tuple[int, ...] = ()
    bound: tuple[BoundArgument, ...] = ()
    statics: Mapping[str, str] = field(default_factory=dict)
    x64: bool = False
    origin: Mapping[str, str] = field(default_factory=dict)

    def to_metadata(self) -> dict[str, str]:
        """The description as metadata of a model."""
        text = self.to_json()
        return {SIGNATURE + hashlib.sha256(text.encode()).hexdigest()[:8]: text}

    @classmethod
    def from_metadata(cls, metadata: Mapping[str, str]) -> Description:
        """The description in the metadata of a model.

        Raises:
            LoadError: There is none or several, it is damaged, or a newer hlo2onnx wrote it.
        """
        found = [text for name, text in metadata.items() if name.startswith(SIGNATURE)]
        if not found:
            raise LoadError(
                f"the model has no metadata {SIGNATURE}*: hlo2onnx did not write it, or"
                " save(strip=True) or another tool has removed them\n"
                "  next   run it with onnxruntime.InferenceSession"
            )
        if len(found) > 1:
            raise LoadError(f"the model is merged of {len(found)} models: it has their signatures")
        return cls.from_json(found[0])

    def to_json(self) -> str:
        """The description as JSON. What has its default is left out."""
        data: dict[str, Any] = {"format": FORMAT}
        for item in fields(self):
            value = getattr(self, item.name)
            if value is None or value is False or value in ((), {}):
                continue
            data[item.name] = [_short(one) for one in value] if _has_rows(value) else value
        return json.dumps(data)

    @classmethod
    def from_json(cls, text: str) -> Description:
        """The description in a model.

        Raises:
            LoadError: It is damaged, or a newer hlo2onnx wrote it.
        """
        try:
            data = json.loads(text)
            version = data.pop("format")
            if version > FORMAT:
                raise LoadError(
                    f"the signature of the model has format {version}, and this hlo2onnx reads"
                    f" {FORMAT}: upgrade hlo2onnx"
                )
            rows = {"inputs": Tensor, "outputs": Tensor, "bound": BoundArgument}
            for name, kind in rows.items():
                data[name] = tuple(kind(**_tupled(row)) for row in data.get(name, ()))
            return cls(**_tupled(data, skip=("arguments", "results")))
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            raise LoadError(f"the signature of the model is damaged: {error}") from error


def _has_rows(value: object) -> bool:
    return isinstance(value, tuple) and isinstance(value[0], Tensor | BoundArgument)


def _short(row: Any) -> dict[str, object]:
    """A row without values that are the default, other than extents."""
    return {
        name: value
        for name, value in asdict(row).items()
        if name == "shape" or (value is not None and value is not False and value != "")
    }


def _tupled(row: Mapping[str, Any], skip: tuple[str, ...] = ()) -> dict[str, Any]:
    return {
        name: tuple(value) if isinstance(value, list) and name not in skip else value
        for name, value in row.items()
    }


CONFIG = "ort_config"
"""Key of the metadata. ONNX Runtime reads it where the environment has
ORT_LOAD_CONFIG_FROM_MODEL=1."""


def one_thread() -> dict[str, str]:
    """Metadata that ask for one intra-op thread."""
    return {CONFIG: json.dumps({"session_options": {"intra_op_num_threads": 1}})}


_THREADS = re.compile(
    CONFIG.encode() + rb'\x12.{1,2}?\{.{,99}?"intra_op_num_threads": *(\d+)', re.DOTALL
)
"""The entry in a serialized model: the key, the tag and length of the value, and the value."""

_ENDS = 1 << 20
"""The metadata lie within this many bytes of either end of a model. Its weights lie between."""


def advised_threads(model: bytes | str) -> int:
    """The count of intra-op threads that a model asks for; 0 for ONNX Runtime's default.

    Args:
        model: Serialized model, or the path of a model. Other content needs none.
    """
    try:
        with BytesIO(model) if isinstance(model, bytes) else Path(model).open("rb") as stream:
            ends = stream.read(_ENDS)
            stream.seek(max(stream.seek(0, SEEK_END) - _ENDS, 0))
            found = _THREADS.search(ends + stream.read())
    except OSError:  # ONNX Runtime says what is wrong with it
        return 0
    return int(found[1]) if found else 0
