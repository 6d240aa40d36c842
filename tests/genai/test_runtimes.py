"""The tokens that onnxruntime-genai and transformers.js generate with our folders.

HLO2ONNX_CLIENTS names a folder of environments. `genai` in it is a virtual environment with
`requirements.txt`; `transformers.js` a folder in which `npm install @huggingface/transformers` ran;
`builder` a virtual environment with the packages of genai's model builder (docs/llm.md).
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any

import numpy as np
import pytest
from small_llama import (
    ADAPTED,
    ADAPTERS,
    CONFIG,
    COUNT,
    LONGEST,
    PAD,
    PARAMS,
    PROMPTS,
    SIZES,
    STEP,
    all_logits,
    beams,
    buffered,
    conversation,
    in_jax,
    padded,
    shared,
)
from target_costs import use_costs
from web_pages import drive

from hlo2onnx import genai
from tools import run_module
from tools.llm.folder import settings, weights

pytestmark = [pytest.mark.wide, pytest.mark.sampled]


def environment_of(name: str, needed: str) -> Path:
    folder = os.environ.get("HLO2ONNX_CLIENTS")
    if folder is None or not (Path(folder) / name / needed).exists():
        pytest.skip(f"HLO2ONNX_CLIENTS names no folder with {name}/{needed}")
    return Path(folder) / name


def in_genai(folder: Path, *runs: tuple[list[list[int]], dict[str, Any]]) -> list[list[list[int]]]:
    python = environment_of("genai", "bin/python") / "bin" / "python"
    check = Path(__file__).with_name("check.py")
    given = json.dumps({"folder": str(folder), "runs": runs})
    output = subprocess.check_output([python, check], input=given, text=True, timeout=300)
    found: list[list[list[int]]] = json.loads(output.splitlines()[-1])
    return found


BATCH = [[*x, *[PAD] * (LONGEST - len(x))] for x in PROMPTS]
"""Padded on the right, as onnxruntime-genai pads."""
LENGTH = {"max_length": LONGEST + COUNT}


BEAM = {**LENGTH, "num_beams": 3, "num_return_sequences": 3}
SAMPLE = {**LENGTH, "do_sample": True, "top_k": 5, "top_p": 0.9, "random_seed": 3}
SHARES: dict[str, Any] = {"search": {"past_present_share_buffer": True}}
GQA: dict[str, Any] = {"attention": "gqa"}
STEPS = pytest.mark.parametrize(
    ("step", "options"),
    [(STEP, {}), (shared, SHARES), (buffered, SHARES), (STEP, GQA), (STEP, GQA | SHARES)],
    ids=["growing", "shared", "in place", "gqa", "shared gqa"],
)
ENDS = [299, 222, 236]
"""Tokens that end turns early."""
THEN = [(None, PROMPTS[3]), (8, [8, 9])]


def test_genai(folder: Path, expected: list[list[int]]) -> None:
    runs = [(BATCH, LENGTH), (PROMPTS[1:2], BEAM), (PROMPTS[1:2], SAMPLE), (PROMPTS[1:2], SAMPLE)]
    batch, searched, sampled, again = in_genai(folder, *runs)
    assert [row[LONGEST:] for row in batch] == expected
    assert searched == beams(PROMPTS[1], 3)
    assert sampled == again and len(sampled[0]) == LONGEST + COUNT
    ids = np.array(sampled)
    scores = np.asarray(all_logits(PARAMS, ids, np.ones_like(ids)))[0]
    ranks = [np.sum(row > row[token]) for row, token in zip(scores, ids[0, 1:], strict=False)]
    assert 0 < max(ranks[LONGEST - 1 :]) < 5


def test_genai_with_a_shared_cache(tmp_path: Path, expected: list[list[int]]) -> None:
    genai.save(tmp_path, shared, PARAMS, CONFIG, **SHARES)
    (batch,) = in_genai(tmp_path, (BATCH, LENGTH))
    assert [row[LONGEST:] for row in batch] == expected


@STEPS
def test_genai_goes_on(
    step: Any, options: dict[str, Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Prompts after tokens that end a turn; and back to 8 tokens."""
    use_costs(monkeypatch, scattered_row=16)
    genai.save(tmp_path, step, PARAMS, {**CONFIG, "eos_token_id": ENDS}, **options)
    then = [(kept, [ids]) for kept, ids in THEN]
    (found,) = in_genai(tmp_path, (PROMPTS[1:2], {"max_length": 40, "then": then}))
    assert found == [conversation([(None, PROMPTS[1]), *THEN], ENDS, 40)]


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of genai's model builder for the same weights."""
    python = environment_of("builder", "bin/python") / "bin" / "python"
    made = tmp_path_factory.mktemp("built")
    np.savez(made / "weights.npz", **weights(PARAMS))
    (made / "config.json").write_text(json.dumps({**settings(SIZES), "pad_token_id": PAD}))
    options = ["-i", "torch", "-o", "built", "-p", "fp32", "-e", "cpu"]
    for module, arguments in (
        ("tools.llm.folder", ["weights.npz", "config.json", "torch"]),
        ("onnxruntime_genai.models.builder", options),
    ):
        done = run_module(module, arguments, folder=made, seconds=300, python=python)
        assert done.returncode == 0, done.stderr
    return made / "built"


@STEPS
def test_the_builders_tokens(
    step: Any,
    options: dict[str, Any],
    built: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Those of genai's own model, by all kinds of search."""
    use_costs(monkeypatch, scattered_row=16)
    genai.save(tmp_path, step, PARAMS, {**CONFIG, "eos_token_id": ENDS}, **options)
    one, batch = PROMPTS[1:2], [list(range(row, row + LONGEST)) for row in (10, 30, 40, 50)]
    wide = {"max_length": 40}
    then = [(kept, [ids]) for kept, ids in THEN]
    runs = [
        *((ids, wide) for ids in (one, BATCH, batch)),
        *((ids, {**wide, **SAMPLE, "temperature": 1.3}) for ids in (one, BATCH)),
        (one, {**wide, "do_sample": True, "top_k": 0, "top_p": 0.8, "random_seed": 7}),
        (one, {**wide, "repetition_penalty": 1.4, "min_length": 30}),
        (one, {**wide, "no_repeat_ngram_size": 2}),
        (one, {**wide, "then": then}),
        *((ids, {**BEAM, **wide}) for ids in (one, BATCH, batch)),
    ]
    config = json.loads((built / "genai_config.json").read_text())
    config["model"]["eos_token_id"] = ENDS
    config["search"]["past_present_share_buffer"] = "search" in options
    (built / "genai_config.json").write_text(json.dumps(config))
    assert in_genai(tmp_path, *runs) == in_genai(built, *runs)


def js_runs(folders: str, name: str) -> dict[str, Any]:
    """What generate.mjs takes."""
    ids, mask = (x.tolist() for x in padded(PROMPTS))
    sizes = {"ids": ids, "mask": mask, "count": COUNT}
    return {"folders": folders, "name": name, "dtypes": list(genai.SUFFIXES), **sizes}


def of_types(found: Any) -> list[list[list[int]]]:
    return [[row[LONGEST:] for row in rows] for rows in found]


@pytest.fixture(scope="module")
def in_node(web_folder: Path) -> list[list[list[int]]]:
    modules = environment_of("transformers.js", "node_modules")
    node = shutil.which("node")
    assert node is not None
    check = str(Path(__file__).with_name("check.mjs"))
    given = json.dumps(js_runs(f"{web_folder.parent}/", web_folder.name))
    output = subprocess.check_output([node, check, str(modules), given], text=True, timeout=300)
    return of_types(json.loads(output.splitlines()[-1]))


def test_transformers_js(
    in_node: list[list[list[int]]], tmp_path: Path, expected: list[list[int]]
) -> None:
    """Its tokens of the q4 model are those of genai."""
    plain, half, quantized = in_node
    assert plain == half == expected
    genai.save(tmp_path, STEP, PARAMS, CONFIG, dtypes="q4")
    (batch,) = in_genai(tmp_path, (BATCH, LENGTH))
    assert [row[LONGEST:] for row in batch] == quantized


PAGE = """
const page = await open(given.url);
return page.evaluate(async (given) => {
  const library = await import("/node_modules/@huggingface/transformers/dist/transformers.js");
  library.env.backends.onnx.wasm.wasmPaths = "/node_modules/onnxruntime-web/dist/";
  const { generate } = await import("/generate.mjs");
  return generate(library, given);
}, given);
"""


def test_a_browser(web_folder: Path, in_node: list[list[list[int]]], tmp_path: Path) -> None:
    """A page of transformers.js gives the tokens of Node, of each type."""
    site = tmp_path / "site"
    shutil.copytree(web_folder, site / "model")
    (site / "model" / "generation_config.json").write_text("{}")  # no answer is an error of a page
    (site / "index.html").write_text('<link rel="icon" href="data:,">')
    shutil.copy(Path(__file__).with_name("generate.mjs"), site)
    (site / "node_modules").symlink_to(environment_of("transformers.js", ".") / "node_modules")
    handler = partial(SimpleHTTPRequestHandler, directory=str(site))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as server:
        Thread(target=server.serve_forever).start()
        try:
            url = f"http://127.0.0.1:{server.server_port}/"
            found = drive(PAGE, tmp_path, {"url": url, **js_runs("/", "model")})
        finally:
            server.shutdown()
    assert of_types(found) == in_node


def test_genai_with_an_adapter(tmp_path: Path, expected: list[list[int]]) -> None:
    genai.save(tmp_path, STEP, PARAMS, CONFIG, adapters=ADAPTERS)
    adapter = {**LENGTH, "adapter": str(tmp_path / "other.onnx_adapter")}
    plain, adapted = in_genai(tmp_path, (BATCH, LENGTH), (BATCH, adapter))
    assert [row[LONGEST:] for row in plain] == expected
    assert [row[LONGEST:] for row in adapted] == in_jax(PROMPTS, ADAPTED)
