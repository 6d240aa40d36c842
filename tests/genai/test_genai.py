"""Folders for onnxruntime-genai and transformers.js: what is in them."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
import onnx
import onnxruntime
import pytest
from llm import llama
from small_llama import (
    ADAPTED,
    ADAPTERS,
    CONFIG,
    COUNT,
    LONGEST,
    PARAMS,
    PROMPTS,
    STEP,
    all_logits,
    buffered,
    padded,
    shared,
)
from target_costs import use_costs

import hlo2onnx
from hlo2onnx import genai
from hlo2onnx.genai.config import SEARCH


def greedy(session: onnxruntime.InferenceSession, prompts: Any, room: int = 0) -> list[list[int]]:
    """The most likely tokens after prompts by a model with a growing cache, or one with room."""
    inputs = session.get_inputs()
    ids, mask = padded(prompts)
    kind = np.float16 if inputs[-1].type == "tensor(float16)" else np.float32
    past = [np.zeros((len(ids), 2, room, 16), kind)] * 4
    new = ids
    for _ in range(COUNT):
        positions = np.maximum(np.cumsum(mask, 1) - 1, 0)[:, -new.shape[1] :]
        wide = [x.astype(np.int64) for x in (new, mask, positions)]
        feeds = zip((item.name for item in inputs), [*wide, *past], strict=True)
        logits, *past = session.run(None, dict(feeds))
        new = logits[:, -1].argmax(-1)[:, None]
        ids, mask = np.concatenate([ids, new], 1), np.concatenate([mask, np.ones_like(new)], 1)
    found: list[list[int]] = ids[:, LONGEST:].tolist()
    return found


def names_in(folder: Path) -> list[str]:
    return sorted(str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file())


def test_the_files(folder: Path) -> None:
    assert names_in(folder) == ["genai_config.json", "model.onnx", "model.onnx.data"]
    model = onnx.load(folder / "model.onnx", load_external_data=False).graph
    caches = [f"{layer}.{part}" for layer in (0, 1) for part in ("key", "value")]
    ids = ["input_ids", "attention_mask", "position_ids"]
    assert [x.name for x in model.input] == [*ids, *(f"past_key_values.{x}" for x in caches)]
    assert [x.name for x in model.output] == ["logits", *(f"present.{x}" for x in caches)]
    types = [x.type.tensor_type.elem_type for x in model.input]
    assert types == [onnx.TensorProto.INT64] * 3 + [onnx.TensorProto.FLOAT] * 4
    assert "params/embed_tokens" in {x.name for x in model.initializer}


def test_the_config(folder: Path) -> None:
    written = json.loads((folder / "genai_config.json").read_text())
    assert written["search"] == {**SEARCH, "max_length": 64, "top_k": 5}
    model = written["model"]
    decoder = model.pop("decoder")
    assert (model.pop("type"), model.pop("context_length")) == ("llama", 64)
    assert model.items() < CONFIG.items() and len(model) == 4  # the vocabulary and three ids
    assert (decoder["head_size"], decoder["num_key_value_heads"]) == (16, 2)
    assert decoder["inputs"]["past_key_names"] == "past_key_values.%d.key"
    assert decoder["outputs"]["present_value_names"] == "present.%d.value"


def test_tokens_in_plain_onnxruntime(folder: Path, expected: list[list[int]]) -> None:
    """The cache begins empty, and the batch is padded on the left."""
    session = onnxruntime.InferenceSession(folder / "model.onnx")
    assert greedy(session, PROMPTS) == expected


def test_the_web_folder(web_folder: Path, expected: list[list[int]]) -> None:
    models = [f"onnx/model{suffix}.onnx" for suffix in ("", "_fp16", "_q4")]
    assert names_in(web_folder) == sorted(["config.json", *models, *(f"{x}_data" for x in models)])
    written = json.loads((web_folder / "config.json").read_text())
    assert written == {**CONFIG, "transformers.js_config": {"use_external_data_format": True}}
    sizes = [(web_folder / f"{name}_data").stat().st_size for name in models]
    assert sizes[1] < 0.6 * sizes[0] and sizes[2] < 0.4 * sizes[0]
    half, quantized = (onnxruntime.InferenceSession(web_folder / name) for name in models[1:])
    assert greedy(half, PROMPTS[:2]) == expected[:2]
    kinds = [node.op_type for node in onnx.load(web_folder / models[2]).graph.node]
    assert kinds.count("MatMulNBits") == 15
    assert len(greedy(quantized, PROMPTS[:1])[0]) == COUNT


def test_64_bit_integers_of_jax_are_kept(tmp_path: Path) -> None:
    seen = []

    def step(params: Any, ids: Any, *rest: Any) -> Any:
        seen.append(ids.dtype.name)
        return STEP(params, ids, *rest)

    with jax.enable_x64(True):
        genai.save(tmp_path, step, PARAMS, CONFIG)
    assert set(seen) == {"int64"}
    seen.clear()
    genai.save(tmp_path, step, PARAMS, CONFIG, weights="llama.bin")
    assert set(seen) == {"int32"} and (tmp_path / "llama.bin").exists()


def test_a_shared_cache(tmp_path: Path) -> None:
    genai.save(tmp_path, shared, PARAMS, CONFIG, search={"past_present_share_buffer": True})
    model = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph
    dims = [value.type.tensor_type.shape.dim for value in (model.input[3], model.output[1])]
    shapes = [[dim.dim_param or dim.dim_value for dim in each] for each in dims]
    assert shapes == [["batch_size", 2, "T", 16]] * 2


@pytest.mark.parametrize("search", [{}, {"past_present_share_buffer": True}])
def test_attention_that_writes_its_cache(
    search: dict[str, bool], tmp_path: Path, expected: list[list[int]]
) -> None:
    """One step is for a cache that grows and for one that is shared."""
    genai.save(tmp_path, STEP, PARAMS, CONFIG, attention="gqa", search=search)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert greedy(session, PROMPTS, room=20 if search else 0) == expected
    written = json.loads((tmp_path / "genai_config.json").read_text())
    assert search.items() <= written["search"].items()


def test_a_step_that_takes_the_length_of_its_cache(
    tmp_path: Path, expected: list[list[int]]
) -> None:
    """The length of a shared cache is not that of its tokens."""

    def step(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> Any:
        counted = jnp.arange(ids.shape[1]) + past[0][0].shape[2]
        return STEP(params, ids, mask, 0 * positions + counted, past)

    search = {"past_present_share_buffer": True}
    genai.save(tmp_path, step, PARAMS, CONFIG, attention="gqa", search=search)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    ids = PROMPTS[:1]
    assert greedy(session, ids, room=20) == expected[:1]


def test_a_cache_that_others_read_is_not_shared(tmp_path: Path) -> None:
    def step(*args: Any) -> Any:
        logits, present = STEP(*args)
        return logits + args[-1][0][0].sum(), present

    search = {"past_present_share_buffer": True}
    with pytest.raises(hlo2onnx.UsageError, match=r"past_key_values\.0\.key is read by ReduceSum"):
        genai.save(tmp_path, step, PARAMS, CONFIG, attention="gqa", search=search)


@pytest.mark.parametrize("is_in_place", [False, True])
@pytest.mark.parametrize("step", [shared, buffered])
def test_a_shared_cache_grows(
    step: Any,
    is_in_place: bool,
    tmp_path: Path,
    expected: list[list[int]],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """As onnxruntime-genai lets it in a beam search; it is written in place otherwise."""
    use_costs(monkeypatch, scattered_row=16 if is_in_place else 64)
    genai.save(tmp_path, step, PARAMS, CONFIG, search={"past_present_share_buffer": True})
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    assert greedy(session, PROMPTS) == expected
    assert greedy(session, PROMPTS, room=LONGEST + COUNT) == expected
    nodes = onnx.load(tmp_path / "model.onnx", load_external_data=False).graph.node
    branches = [each.g.node for node in nodes if node.op_type == "If" for each in node.attribute]
    written = [[node.op_type for node in each] for each in branches]
    assert written == [["ScatterND"], ["Concat"]] * (4 * is_in_place)


def test_tokenizer_files_are_copied(tmp_path: Path) -> None:
    source = tmp_path / "source"
    source.mkdir()
    for name in ("tokenizer.json", "merges.txt", "model.safetensors"):
        (source / name).write_text(name)
    genai.save(tmp_path / "made", STEP, PARAMS, CONFIG, tokenizer=source)
    assert {"tokenizer.json", "merges.txt"} < set(names_in(tmp_path / "made"))
    assert not (tmp_path / "made" / "model.safetensors").exists()


NONE = {"adapters": {"a": {"norms": PARAMS["norm"]}}}
WRONG: list[tuple[dict[str, Any], str]] = [
    ({"layout": "js"}, "layout='js'"),
    ({"dtypes": "int8"}, "'int8', which is not one of fp32, fp16, q4"),
    ({"dtypes": ["fp32", "q4"]}, "a folder of genai has one model"),
    ({"dtypes": []}, "a folder of genai has one model"),
    ({"layout": "transformers.js", "weights": "w"}, "weights= and adapters= are for genai"),
    ({"search": {"beams": 3}}, "no option 'beams'; it has batch_size"),
    (NONE, "adapter 'a': params/norms \\(64,\\) is not in `params`"),
    ({"tokenizer": "."}, "has no file of a tokenizer"),
    ({"weights": "a/b"}, "does not name a file"),
    ({"config": {"vocab_size": 300}}, "config has no model_type, hidden_size"),
    ({"config": {**CONFIG, "vocab_size": 301}}, "step returns arrays of shapes"),
    ({"step": lambda *given: (STEP(*given)[0], given[-1])}, "step returns arrays of shapes"),
]


@pytest.mark.parametrize(("given", "text"), WRONG)
def test_wrong_usage(
    given: dict[str, Any], text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    arguments = {"folder": tmp_path, "step": STEP, "params": PARAMS, "config": CONFIG, **given}
    with pytest.raises(hlo2onnx.UsageError, match=text):
        genai.save(**arguments)


def test_without_the_quantizer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    module = "onnxruntime.quantization.matmul_nbits_quantizer"
    monkeypatch.setitem(sys.modules, module, None)
    with pytest.raises(hlo2onnx.UsageError, match="pip install onnxruntime"):
        genai.save(tmp_path, STEP, PARAMS, CONFIG, dtypes="q4")


@pytest.mark.wide
def test_the_example(tmp_path: Path) -> None:
    example = Path(llama.__file__).with_name("save_genai.py")
    path = {"PYTHONPATH": str(Path(__file__).parents[2])}
    subprocess.run([sys.executable, example], cwd=tmp_path, env=os.environ | path, check=True)
    assert names_in(tmp_path / "llama") == ["genai_config.json", "model.onnx", "model.onnx.data"]


def feeds_of(session: onnxruntime.InferenceSession, ids: np.ndarray) -> dict[str, np.ndarray]:
    """A first step without padding."""
    names = [item.name for item in session.get_inputs()]
    positions = np.broadcast_to(np.arange(ids.shape[1]), ids.shape)
    past = [np.zeros((len(ids), 2, 0, 16), np.float32)] * 4
    return dict(zip(names, [ids, np.ones_like(ids), positions, *past], strict=True))


def test_adapters(tmp_path: Path) -> None:
    """The model has the weights of `params` without them."""
    genai.save(tmp_path, STEP, PARAMS, CONFIG, adapters=ADAPTERS)
    adapter = onnxruntime.LoraAdapter()
    adapter.Load(str(tmp_path / "other.onnx_adapter"))
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    ids = np.array([[5, 6, 7]])
    feeds = feeds_of(session, ids)
    options = onnxruntime.RunOptions()
    plain = session.run(["logits"], feeds, options)[0]
    options.add_active_adapter(adapter)
    adapted = session.run(["logits"], feeds, options)[0]
    for params, found in ((PARAMS, plain), (ADAPTED, adapted)):
        expected = all_logits(params, ids, np.ones_like(ids))
        np.testing.assert_allclose(jax.nn.log_softmax(found), expected, rtol=1e-4, atol=1e-4)


def test_an_adapter_of_a_weight_in_a_loop(tmp_path: Path) -> None:
    """The body of the loop has no copy of the default."""

    def step(params: Any, ids: Any, mask: Any, positions: Any, past: Any) -> Any:
        logits, present = STEP(params, ids, mask, positions, past)
        count = mask.sum()
        scale = jax.lax.while_loop(
            lambda state: state[0] < count,
            lambda state: (state[0] + 1, jnp.sin(state[1] + params["scale"])),
            (jnp.zeros_like(count), jnp.zeros(300)),
        )[1]
        return logits * 0 + scale, present

    first, second = (np.full(300, number, np.float32) for number in (0.5, 1))
    given = {"adapters": {"one": {"scale": second}}}
    genai.save(tmp_path, step, {**PARAMS, "scale": first}, CONFIG, **given)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    feeds = feeds_of(session, np.ones((1, 2), np.int64))
    for scale, extra in ((first, {}), (second, {"params/scale": second})):
        found = session.run(["logits"], feeds | extra)[0]
        np.testing.assert_allclose(found[0, 0], np.sin(np.sin(scale) + scale), rtol=1e-5)


def test_weights_of_adapters_are_not_quantized(tmp_path: Path) -> None:
    genai.save(tmp_path, STEP, PARAMS, CONFIG, adapters=ADAPTERS, dtypes="q4")
    kinds = [node.op_type for node in onnx.load(tmp_path / "model.onnx").graph.node]
    assert kinds.count("MatMulNBits") == 14
