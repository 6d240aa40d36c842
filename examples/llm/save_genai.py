"""Write a Llama for onnxruntime-genai into the folder `llama`."""

from functools import partial

import llama

import hlo2onnx

sizes = llama.Config(vocab=1000, layers=2)
config = {
    "model_type": "llama",
    "vocab_size": sizes.vocab,
    "hidden_size": sizes.width,
    "num_hidden_layers": sizes.layers,
    "num_attention_heads": sizes.heads,
    "num_key_value_heads": sizes.kv_heads,
    "max_position_embeddings": 2048,
    "eos_token_id": 2,
}
hlo2onnx.genai.save("llama", partial(llama.step, sizes), llama.create_params(sizes), config)
