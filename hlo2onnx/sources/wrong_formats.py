"""Recognises files that are not StableHLO by their first bytes."""

from __future__ import annotations

import io
import zipfile

_HDF5 = "an HDF5 file (of Keras, for example), which holds weights and no StableHLO"
_FROM_PYTHON = "pass the function itself to hlo2onnx.translate in Python, with example arguments"
_FROM_JAX = "export the function with jax.export, or save lower(...).as_text()"

_BEGINNINGS: tuple[tuple[int, bytes, str, str], ...] = (
    (0, b"\x89HDF\r\n\x1a\n", _HDF5, "load the model in Python and translate its function"),
    (4, b"TFL3", "a TensorFlow Lite model", "start from the JAX or TensorFlow function"),
    (0, b"\x93NUMPY", "a NumPy array", _FROM_JAX),
    (0, b"\x1f\x8b", "compressed with gzip", "decompress it first"),
    (0, b"\x28\xb5\x2f\xfd", "compressed with zstd", "decompress it first"),
    (0, b"BZh", "compressed with bzip2", "decompress it first"),
    (0, b"\xfd7zXZ", "compressed with xz", "decompress it first"),
    (0, b"BC\xc0\xde", "LLVM bitcode", _FROM_JAX),
    (0, b"\x7fELF", "a program of the operating system", _FROM_JAX),
    (0, b"\xff\xd8\xff", "a picture (JPEG)", _FROM_JAX),
    (0, b"\x89PNG", "a picture (PNG)", _FROM_JAX),
    (0, b"%PDF", "a PDF document", _FROM_JAX),
)
_PICKLES = tuple(b"\x80" + bytes([protocol]) for protocol in range(2, 6))


def binary_format(content: bytes) -> tuple[str, str] | None:
    """The format of binary content, and advice; None if it is unknown."""
    for offset, beginning, kind, advice in _BEGINNINGS:
        if content.startswith(beginning, offset):
            return kind, advice
    if content.startswith(b"PK\x03\x04"):
        return _archive(content)
    if content[8:10] == b'{"' and int.from_bytes(content[:8], "little") < 1 << 40:
        return "a safetensors file, which holds weights and no program", _FROM_JAX
    if content.startswith(_PICKLES):
        return "a Python pickle", "load it in Python and translate its function"
    if _is_onnx(content):
        return "an ONNX model already", "use it directly; hlo2onnx reads StableHLO and writes ONNX"
    if content.startswith(b"\x08\x01\x12"):
        return "a TensorFlow SavedModel", "convert its function to StableHLO in TensorFlow first"
    return None


def text_format(text: str) -> tuple[str, str] | None:
    """The format of text that is not MLIR, and advice; None if it is unknown."""
    start = text.lstrip()
    for beginnings, kind, advice in _TEXTS:
        if start.startswith(beginnings):
            return kind, advice
    return None


_TEXTS: tuple[tuple[tuple[str, ...], str, str], ...] = (
    (("HloModule",), "XLA's HLO text", "lower(...).as_text() gives StableHLO"),
    (("<",), "a web page, or XML", "check whether the download was redirected"),
    (("version https://git-lfs",), "a Git LFS pointer", "`git lfs pull` fetches the file itself"),
    (('{"', "{\n", "[{"), "JSON", _FROM_JAX),
    (("{ lambda",), "a jaxpr", "pass the function itself, or lower(...).as_text()"),
    (("import ", "from ", "def ", "#!/", '"""'), "a Python program", _FROM_PYTHON),
)


def _archive(content: bytes) -> tuple[str, str]:
    try:
        names = zipfile.ZipFile(io.BytesIO(content)).namelist()
    except (zipfile.BadZipFile, ValueError, NotImplementedError):
        names = []
    if names and all(name.endswith(".npy") for name in names):
        return "a NumPy archive (.npz), which holds arrays and no program", _FROM_JAX
    if any(name.endswith("data.pkl") for name in names):
        return "a PyTorch file", "export the module to StableHLO with torch_xla or torchax first"
    if "model.weights.h5" in names:
        return "a Keras model", "load it with keras.saving.load_model and translate its call"
    return "a zip archive", "unpack it and pass the StableHLO file in it"


def _is_onnx(content: bytes) -> bool:
    """Whether the content begins like a ModelProto in protobuf.

    First is the IR version, and then the name of the producer, the opsets or the graph.
    """
    if content[:1] != b"\x08" or len(content) < 4 or not 3 <= content[1] < 64:
        return False
    return content[2] in (0x12, 0x1A, 0x22, 0x28, 0x32, 0x3A, 0x42) and (
        content[2] not in (0x12, 0x1A, 0x22) or content[4 : 4 + content[3]].isascii()
    )
