"""Folders of the small Llama, and its tokens."""

from __future__ import annotations

from pathlib import Path

import pytest
from small_llama import CONFIG, PARAMS, PROMPTS, STEP, in_jax

from hlo2onnx import genai


@pytest.fixture(scope="session")
def expected() -> list[list[int]]:
    return in_jax(PROMPTS)


@pytest.fixture(scope="session")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("genai") / "model"
    genai.save(made, STEP, PARAMS, CONFIG, search={"top_k": 5})
    return made


@pytest.fixture(scope="session")
def web_folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = tmp_path_factory.mktemp("web") / "model"
    genai.save(made, STEP, PARAMS, CONFIG, layout="transformers.js", dtypes=list(genai.SUFFIXES))
    return made
