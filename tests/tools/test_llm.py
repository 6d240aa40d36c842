"""The measurements of a Llama: the weights for its twins, and the tables."""

from __future__ import annotations

import numpy as np

from tools.llm import folder, page


def test_matrices_are_transposed_under_the_names_of_hugging_face() -> None:
    matrix, scale = np.arange(6.0).reshape(2, 3), np.ones(2)
    layer = {"input_layernorm": scale, "q_proj": matrix, "down_proj": matrix}
    params = {"embed_tokens": matrix, "norm": scale, "lm_head": matrix, "layers": [layer]}
    found = folder.weights(params)
    assert np.array_equal(found["model.embed_tokens.weight"], matrix)
    for name in ("model.layers.0.self_attn.q_proj", "model.layers.0.mlp.down_proj", "lm_head"):
        assert np.array_equal(found[f"{name}.weight"], matrix.T)
    assert found["model.layers.0.input_layernorm.weight"].shape == (2,)


def test_the_best_twin_is_the_fastest_whose_cache_grows() -> None:
    others = {page.SHARED: 2.0, page.OURS_SHARED: 3.0, "exact": 1.2}
    assert page.best({"optimum": 0.5, "builder": 1.1, **others}) == 1.1


def test_a_page_has_a_row_for_each_step_and_model() -> None:
    shared = {page.OURS_SHARED: 2.0, page.SHARED: 1.8}
    step = {"ms": 2.0, "ratios": {"builder": 1.25, **shared}, "difference": 1e-6}
    record = {
        "date": "2026-11-28",
        "versions": {"onnxruntime": "1.32.0"},
        "times": {"fp32, 1 thread": {"prefill 128": step}},
        "files": {"fp32": {"ours": {"nodes": 176}}},
        "cache": {"none": [0.006, 1.0]},
    }
    text = page.text(record)
    assert "| prefill 128 | 2.00 | 1.25 | 0.90 | **1.25** |" in text
    assert "| ours | 176 |" in text and "| none | 6.0 | 1.00 |" in text
    assert "Geometric mean of ours / best: 1.25." in text
