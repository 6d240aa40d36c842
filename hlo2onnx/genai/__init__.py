"""Folders that runtimes of language models load: onnxruntime-genai and transformers.js."""

from __future__ import annotations

import json
import logging
import shutil
from collections.abc import Callable, Mapping, Sequence
from copy import copy
from pathlib import Path
from typing import Any, Literal, TypeAlias

import jax
import jax.numpy as jnp
import numpy as np
import onnx_ir as oir
from jax.tree_util import KeyPath, keystr, tree_leaves_with_path, tree_map_with_path

from hlo2onnx.api import translate
from hlo2onnx.errors import UsageError
from hlo2onnx.frontend.signature import PyTree
from hlo2onnx.genai.config import IDS, KEYS, PARTS, genai_config, heads_of, searched
from hlo2onnx.genai.growth import count_tokens, let_caches_grow
from hlo2onnx.program import OnnxProgram
from hlo2onnx.raising.rules.nn.grouped_query_attention import GROUPED_QUERY_ATTENTION
from hlo2onnx.runtime.paths import output_folder, writing

Layout: TypeAlias = Literal["genai", "transformers.js"]
ModelType: TypeAlias = Literal["fp32", "fp16", "q4"]
Step: TypeAlias = Callable[..., tuple[jax.Array, PyTree]]

SUFFIXES: Mapping[str, str] = {"fp32": "", "fp16": "_fp16", "q4": "_q4"}
"""What transformers.js puts behind "model" for a type."""


TOKENIZER = (
    *("tokenizer.json", "tokenizer_config.json", "tokenizer.model", "special_tokens_map.json"),
    *("added_tokens.json", "vocab.json", "merges.txt", "chat_template.jinja"),
    "generation_config.json",
)
"""The files of a tokenizer, of which a folder has some."""

BLOCK = 32
"""Weights that share a scale in a q4 model, as in those of Hugging Face."""


def save(
    folder: str | Path,
    step: Step,
    params: PyTree,
    config: Mapping[str, Any],
    *,
    layout: Layout = "genai",
    dtypes: ModelType | Sequence[ModelType] = "fp32",
    tokenizer: str | Path | None = None,
    weights: str | None = None,
    search: Mapping[str, float | bool] | None = None,
    adapters: Mapping[str, PyTree] | None = None,
    **options: Any,
) -> None:
    """Writes a language model for onnxruntime-genai or transformers.js.

    Args:
        folder: The folder; it is made if it is not there.
        step: `step(params, input_ids, attention_mask, position_ids, past) -> (logits, present)`,
            for prompts and for single tokens. Shapes: input_ids and position_ids int[b, s],
            attention_mask int[b, t], past a list of a pair of keys and values [b, kv heads, t - s,
            head size] for each layer, logits float[b, s, vocabulary], present a pytree with the
            leaves of past in its order, [b, kv heads, t, head size]. t - s is 0 at first. The ids
            are i64 in the file; `step` gets them as int32 unless JAX has 64-bit types.
        params: The weights. The cache begins with the promoted type of their floats.
        config: The entries of Hugging Face's config.json. Needed: model_type, vocab_size,
            hidden_size, num_hidden_layers, num_attention_heads, max_position_embeddings,
            eos_token_id. Optional: num_key_value_heads, head_dim, bos_token_id, pad_token_id.
        layout: "genai" writes model.onnx and genai_config.json. "transformers.js" writes
            config.json, and onnx/model.onnx, onnx/model_fp16.onnx and onnx/model_q4.onnx, each
            with its weights in `<name>.onnx_data`.
        dtypes: "fp32": the weights as they are. "fp16": floats as float16, logits float32. "q4":
            matrices in 4 bits by ONNX Runtime's quantizer (needs onnxruntime). Several only for
            transformers.js.
        tokenizer: A folder whose tokenizer files are copied.
        weights: Name of genai's file of weights. Default: "model.onnx.data".
        search: Other values of genai's search options. With past_present_share_buffer, the cache
            does not grow: past and present have the shape [b, kv heads, T, head size] with
            T >= t, and `step` writes from position t - s. In a beam search genai does not share
            it; it grows then. With `attention="gqa"`, it is shared although `step` lets it grow.
        adapters: LoRA weights by name, each a part of the tree `params` with other numbers. genai
            gets `<name>.onnx_adapter`. Without an adapter, the model has the numbers of `params`.
        options: Options of `hlo2onnx.translate`, such as `target`, and `attention="gqa"` for the
            operator that genai's own models have.

    Raises:
        UsageError: An argument is wrong, the cache that `step` returns does not fit the one it
            takes, there are no tokenizer files, or onnxruntime is missing for "q4" or adapters.
        TranslationError: ONNX or the target cannot express the step.
        WriteError: A file cannot be written.
    """
    wanted: list[str] = [dtypes] if isinstance(dtypes, str) else list(dtypes)
    is_genai = layout == "genai"
    _check(layout, wanted, weights or adapters, config)
    if wanted[0] == "fp16":
        adapters = jax.tree.map(_as_half, adapters)
    others = {name: _named(tree) for name, tree in (adapters or {}).items()}
    _check_adapters(others, _named(params))
    replaced = sorted(set().union(*others.values()))
    search_options = searched(search or {}, config)
    files = _tokenizer_files(tokenizer)
    folder = output_folder(folder)
    models = folder if is_genai else folder / "onnx"
    with writing(models):
        models.mkdir(parents=True, exist_ok=True)
    is_shared = bool(search_options["past_present_share_buffer"])
    has_room = is_shared and options.get("attention") != "gqa"
    names: list[str] = []
    for dtype in wanted:
        program = _translated(step, params, config, dtype, has_room, replaced, options)
        names = program.input_names
        if is_shared and not has_room:
            caches = [name for name in names if name.startswith("past_key_values.")]
            count_tokens(program.model, *IDS[:2], caches)
            _check_only_attention_reads(program.model)
        name = "model.onnx" if is_genai else f"model{SUFFIXES[dtype]}.onnx"
        data = (weights or f"{name}.data") if is_genai else f"{name}_data"
        program.save(models / name, external_data=data)
    if is_genai:
        _write_json(folder / "genai_config.json", genai_config(config, names, search_options))
    else:
        web = {"use_external_data_format": True}
        _write_json(folder / "config.json", {**config, "transformers.js_config": web})
    for name, arrays in others.items():
        _write_adapter(folder / f"{name}.onnx_adapter", arrays)
    for file in files:
        with writing(folder / file.name):
            shutil.copyfile(file, folder / file.name)


def _translated(
    step: Step,
    params: PyTree,
    config: Mapping[str, Any],
    dtype: str,
    has_room: bool,
    replaced: Sequence[str],
    options: Mapping[str, Any],
) -> OnnxProgram:
    """The program of a type, with the names of Hugging Face's models.

    Args:
        has_room: Whether the past is a buffer that the present replaces.
        replaced: Names of weights that adapters replace: inputs whose defaults are the weights.
    """
    if dtype == "fp16":
        params = jax.tree.map(_as_half, params)
    defaults = {name: array for name, array in _named(params).items() if name in replaced}
    bound = tree_map_with_path(lambda key, x: None if _name(key) in defaults else x, params)
    cache = _cache_type(step, params, config, has_room)
    layers, (heads, size) = config["num_hidden_layers"], heads_of(config)
    past = f"{cache.name}[batch_size, {heads}, {'T' if has_room else 't - s'}, {size}]"
    caches = [f"{layer}.{part}" for layer in range(layers) for part in PARTS]
    wide_step = _with_wide_ids(step)
    with jax.enable_x64(True):
        program = translate(
            wide_step,
            bound,
            defaults,
            "int64[batch_size, s]",  # transformers.js makes empty caches by this name
            "int64[batch_size, t]",
            "int64[batch_size, s]",
            [(past, past)] * layers,
            bind=0,
            constraints=["t >= s", "T >= t"][: 1 + has_room],
            input_names=[*sorted(defaults), *IDS, *(f"past_key_values.{name}" for name in caches)],
            output_names=["logits", *(f"present.{name}" for name in caches)],
            **options,
        )
    if has_room:
        let_caches_grow(program.model, IDS[1], [f"past_key_values.{name}" for name in caches])
    program = _quantized(program) if dtype == "q4" else program
    for value in program.model.graph.inputs:
        if value.name in defaults:
            value.const_value = oir.tensor(np.asarray(defaults[value.name]), name=value.name)
            program.model.graph.register_initializer(value)
    return program


def _with_wide_ids(step: Step) -> Step:
    """A step for 64-bit ids, which traces the user's with the integers that JAX has now."""
    wide = jax.enable_x64.value

    def language_model(
        params: PyTree, free: Mapping[str, Any], *inputs: Any
    ) -> tuple[jax.Array, list[jax.Array]]:
        *ids, past = inputs
        whole = tree_map_with_path(
            lambda key, x: free.get(_name(key), x), params, is_leaf=lambda x: x is None
        )
        with jax.enable_x64(wide):
            ids = [x.astype(np.int64 if wide else np.int32) for x in ids]
            logits, present = step(whole, *ids, past)
        leaves = jax.tree.leaves(present)
        return logits.astype(np.float32), [x.astype(past[0][0].dtype) for x in leaves]

    return language_model


def _cache_type(
    step: Step, params: PyTree, config: Mapping[str, Any], has_room: bool
) -> np.dtype[Any]:
    """The type of the cache that a step returns.

    Raises:
        UsageError: The shapes of its results are not what the runtimes expect.
    """
    layers, (heads, size) = config["num_hidden_layers"], heads_of(config)
    floats = filter(_is_float, jax.tree.leaves(params))
    past = jax.ShapeDtypeStruct((2, heads, 5 if has_room else 2, size), jnp.result_type(*floats))
    ids = [jnp.zeros((2, count), int) for count in (3, 5, 3)]
    logits, tree = jax.eval_shape(step, params, *ids, [(past, past)] * layers)
    present = jax.tree.leaves(tree)
    found = [logits.shape, *(leaf.shape for leaf in present)]
    expected = [(2, 3, config["vocab_size"])] + [(2, heads, 5, size)] * (2 * layers)
    if found != expected:
        raise UsageError(
            f"for b = 2, s = 3, t = 5, step returns arrays of shapes {found}; the config says"
            f" {expected}\n  next   correct `step` or `config`"
        )
    kind: np.dtype[Any] = jnp.result_type(*present)
    return kind


def _check_only_attention_reads(model: oir.Model) -> None:
    """Checks that a cache may have more positions than its program says.

    Raises:
        UsageError: Another operator reads one.
    """
    for cache in model.graph.inputs:
        if cache.name and cache.name.startswith("past_key_values."):
            others = {node.op_type for node in cache.consumers()} - {GROUPED_QUERY_ATTENTION}
            if others or not cache.consumers():
                raise UsageError(
                    f"past_present_share_buffer: {cache.name} is read by"
                    f" {', '.join(sorted(others)) or 'nothing'}, and not by attention alone\n"
                    "  next   without attention='gqa', let `step` write into a buffer"
                )


def _is_float(x: Any) -> bool:
    return bool(jnp.issubdtype(x.dtype, jnp.floating))


def _as_half(x: Any) -> Any:
    return x.astype(np.float16) if _is_float(x) else x


def _name(path: KeyPath) -> str:
    """The name that a weight has in the model."""
    return f"params/{keystr(path, simple=True, separator='/')}"


def _named(tree: PyTree) -> dict[str, Any]:
    return {_name(path): leaf for path, leaf in tree_leaves_with_path(tree)}


def _check_adapters(adapters: Mapping[str, Mapping[str, Any]], params: Mapping[str, Any]) -> None:
    """Checks that adapters have weights of the model.

    Raises:
        UsageError: One is not there, or has another shape.
    """
    for adapter, arrays in adapters.items():
        for name, array in arrays.items():
            if name not in params or params[name].shape != array.shape:
                raise UsageError(f"adapter {adapter!r}: {name} {array.shape} is not in `params`")


def _write_adapter(path: Path, arrays: Mapping[str, Any]) -> None:
    """Writes ONNX Runtime's format of adapters.

    Raises:
        UsageError: ONNX Runtime is not installed.
    """
    try:
        from onnxruntime import AdapterFormat, OrtValue
    except ImportError as error:
        raise UsageError(f"adapters need onnxruntime: {error}") from None
    made = AdapterFormat()
    made.set_adapter_version(1)
    made.set_model_version(1)
    values = {name: OrtValue.ortvalue_from_numpy(np.asarray(x)) for name, x in arrays.items()}
    made.set_parameters(values)
    made.export_adapter(str(path))


def _quantized(program: OnnxProgram) -> OnnxProgram:
    """A program with 4-bit matrices.

    Raises:
        UsageError: ONNX Runtime is not installed.
    """
    try:
        from onnxruntime.quantization.matmul_nbits_quantizer import MatMulNBitsQuantizer
    except ImportError as error:
        raise UsageError(
            f'"q4" needs the quantizer of ONNX Runtime: {error}\n  next   pip install onnxruntime'
        ) from None
    logging.getLogger(MatMulNBitsQuantizer.__module__).setLevel(logging.WARNING)  # a line per node
    quantizer = MatMulNBitsQuantizer(program.model_proto, block_size=BLOCK, is_symmetric=True)
    quantizer.process()
    quantized = copy(program)
    quantized.model = oir.from_proto(quantizer.model.model)
    return quantized


def _check(layout: str, dtypes: Sequence[str], genais: object, config: Mapping[str, Any]) -> None:
    """Checks arguments of `save`.

    Args:
        genais: What only genai has.

    Raises:
        UsageError: One is wrong.
    """
    missing = [key for key in KEYS if config.get(key) is None]
    if missing:
        raise UsageError(f"config has no {', '.join(missing)}")
    if layout not in ("genai", "transformers.js"):
        raise UsageError(f'layout={layout!r} is not one of "genai" and "transformers.js"')
    for dtype in dtypes:
        if dtype not in SUFFIXES:
            raise UsageError(f"dtypes has {dtype!r}, which is not one of {', '.join(SUFFIXES)}")
    if not dtypes or (layout == "genai" and len(dtypes) > 1):
        raise UsageError(f"dtypes={dtypes!r}: a folder of genai has one model")
    if genais and layout != "genai":
        raise UsageError("weights= and adapters= are for genai: transformers.js has no such files")


def _tokenizer_files(folder: str | Path | None) -> list[Path]:
    """The tokenizer files in a folder.

    Raises:
        UsageError: There are none.
    """
    if folder is None:
        return []
    found = [path for name in TOKENIZER if (path := Path(folder) / name).is_file()]
    if not found:
        raise UsageError(f"{folder} has no file of a tokenizer, such as {TOKENIZER[0]}")
    return found


def _write_json(path: Path, content: object) -> None:
    with writing(path):
        path.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
