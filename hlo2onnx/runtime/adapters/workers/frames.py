"""Messages between a worker and the process that started it.

A message is a header (JSON) and a body (bytes), after the lengths of both: two unsigned 64-bit
numbers, least byte first. Workers run in environments that have only the runtime and numpy, so this
file imports nothing else.

Request   {"model": bytes of the model, "inputs": [{"name", "type", "shape", "size"}, ...],
           "optimize": whether the runtime may optimize the graph, "disabled": names of
           optimizations that it must leave out}
          The body is the model, and then the inputs. Some runtimes also know:
          "path": the file of the model, instead of its bytes;
          "key": a number under which the model stays loaded. With neither bytes nor a path, it is
          the model of this number; "unused": numbers of models that are not wanted any more;
          "threads": how many work on an operator.
Answer    {"outputs": [{"type", "shape", "size"}, ...]}
          The body is the outputs.
      or  {"error": "..."}

Element types are ONNX's numbers. The first message of a worker has its "version", the element types
that it "takes" as inputs and "gives" as outputs, and whether it "keeps" models, "reads_files"
and "has_threads".
An empty request ends it.
"""

import json
import os
import struct
import sys

LENGTHS = struct.Struct("<QQ")
NUMPY = {
    1: "f4", 2: "u1", 3: "i1", 4: "u2", 5: "i2", 6: "i4", 7: "i8", 9: "?", 10: "f2", 11: "f8",
    12: "u4", 13: "u8",
}  # fmt: skip
"""Element types of ONNX that numpy has."""


def serve(hello, answer):
    """Answer requests until there are no more.

    Args:
        hello: the first message.
        answer: gives the header and the parts of the body for the header and the body of a request.
    """
    requests = os.fdopen(os.dup(0), "rb")
    answers = os.fdopen(os.dup(1), "wb")
    os.dup2(2, 1)  # what the runtime prints is no message
    _write(answers, hello, [])
    while True:
        head = requests.read(LENGTHS.size)
        if len(head) < LENGTHS.size:
            return
        header_size, body_size = LENGTHS.unpack(head)
        header = json.loads(requests.read(header_size))
        if not header:
            return
        body = requests.read(body_size)
        try:
            made, parts = answer(header, body)
        except Exception as error:  # noqa: BLE001 - why a model does not run is an answer
            made, parts = {"error": f"{type(error).__name__}: {error}"}, []
        _write(answers, made, parts)


def _write(stream, header, parts):
    text = json.dumps(header).encode()
    stream.write(LENGTHS.pack(len(text), sum(map(len, parts))) + text)
    for part in parts:
        stream.write(part)
    stream.flush()


def split(header, body):
    """Give the model, and the inputs as pairs of their descriptions and bytes."""
    at, inputs = header["model"], []
    for item in header["inputs"]:
        inputs.append((item, body[at : at + item["size"]]))
        at += item["size"]
    return body[: header["model"]], inputs


def outputs(items):
    """Give the answer with outputs: numbers of element types, shapes and bytes."""
    described = [
        {"type": kind, "shape": list(shape), "size": len(content)} for kind, shape, content in items
    ]
    return {"outputs": described}, [content for *_, content in items]


class Models:
    """Loaded models, some of which stay for further requests.

    Args:
        load: loads a model from the header of a request, and its bytes or path.
    """

    def __init__(self, load):
        self._load = load
        self._kept = {}

    def of(self, header, content):
        """Give the model of a request."""
        for key in header.get("unused", ()):
            self._kept.pop(key, None)
        key, source = header.get("key"), header.get("path") or content
        if key is None:
            return self._load(header, source)
        if source:
            self._kept.pop(key, None)
            self._kept[key] = self._load(header, source)
        return self._kept[key]


def argument(position):
    """Give a command-line argument, or None."""
    return sys.argv[position] if len(sys.argv) > position else None
