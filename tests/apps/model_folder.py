# SPDX-License-Identifier: Apache-2.0
"""Folders of models as save_pretrained() writes them, of numbers drawn from a seed."""

import json
import random
import struct

BITS = {"F32": 32, "F16": 16, "BF16": 16}


def brain_bits(value):
    """The bits of a number that BF16 has."""
    return struct.unpack("<I", struct.pack("<f", value))[0] >> 16


def encode(values, dtype):
    if dtype == "BF16":
        return struct.pack(f"<{len(values)}H", *map(brain_bits, values))
    return struct.pack(f"<{len(values)}{'f' if dtype == 'F32' else 'e'}", *values)


def write_safetensors(path, tensors):
    """{name: (dtype, shape, bytes)}"""
    header, offset = {"__metadata__": {"format": "pt"}}, 0
    for name, (dtype, shape, data) in tensors.items():
        header[name] = {"dtype": dtype, "shape": shape, "data_offsets": [offset, offset + len(data)]}
        offset += len(data)
    text = json.dumps(header).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + b"".join(t[2] for t in tensors.values()))


def read_safetensors(path):
    content = path.read_bytes()
    length = struct.unpack("<Q", content[:8])[0]
    header = json.loads(content[8:8 + length])
    header.pop("__metadata__", None)
    data = content[8 + length:]
    return {name: (entry["dtype"], entry["shape"], data[slice(*entry["data_offsets"])])
            for name, entry in header.items()}


def read_folder(folder):
    """All tensors of a folder, of one file or several."""
    index = folder / "model.safetensors.index.json"
    files = ["model.safetensors"]
    if index.exists():
        files = sorted(set(json.loads(index.read_text())["weight_map"].values()))
    tensors = {}
    for file in files:
        tensors |= read_safetensors(folder / file)
    return tensors


def gpt2_shapes(layers, width, vocab, context):
    shapes = {"wte.weight": [vocab, width], "wpe.weight": [context, width]}
    for i in range(layers):
        for name, inner, out in (("attn.c_attn", width, 3 * width), ("attn.c_proj", width, width),
                                 ("mlp.c_fc", width, 4 * width), ("mlp.c_proj", 4 * width, width)):
            shapes[f"h.{i}.{name}.weight"] = [inner, out]
            shapes[f"h.{i}.{name}.bias"] = [out]
        for name in ("ln_1", "ln_2"):
            shapes[f"h.{i}.{name}.weight"] = shapes[f"h.{i}.{name}.bias"] = [width]
    shapes["ln_f.weight"] = shapes["ln_f.bias"] = [width]
    return {f"transformer.{name}": shape for name, shape in shapes.items()}


GPT2 = {"model_type": "gpt2", "architectures": ["GPT2LMHeadModel"], "n_layer": 2, "n_embd": 24,
        "n_head": 3, "n_positions": 20, "vocab_size": 260}


def llama(kind, **keys):
    """The config.json of a tiny model of the LLaMA family."""
    return {"model_type": kind, "num_hidden_layers": 2, "hidden_size": 24, "intermediate_size": 40,
            "num_attention_heads": 6, "num_key_value_heads": 2, "max_position_embeddings": 64,
            "rms_norm_eps": 1e-5, "rope_theta": 500000.0, "tie_word_embeddings": False,
            "vocab_size": 260} | keys


LLAMAS = {
    "llama": llama("llama", rope_scaling={
        "rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
        "original_max_position_embeddings": 32}),
    "mistral": llama("mistral", sliding_window=5),
    "qwen2": llama("qwen2", tie_word_embeddings=True),
    "qwen3": llama("qwen3", head_dim=8),
}


def llama_shapes(config):
    width, ffn, vocab = config["hidden_size"], config["intermediate_size"], config["vocab_size"]
    head = config.get("head_dim", width // config["num_attention_heads"])
    queries, keys = head * config["num_attention_heads"], head * config["num_key_value_heads"]
    shapes = {"model.embed_tokens.weight": [vocab, width]}
    for i in range(config["num_hidden_layers"]):
        layer = {"input_layernorm.weight": [width], "self_attn.q_proj.weight": [queries, width],
                 "self_attn.k_proj.weight": [keys, width], "self_attn.v_proj.weight": [keys, width],
                 "self_attn.o_proj.weight": [width, queries], "post_attention_layernorm.weight": [width],
                 "mlp.gate_proj.weight": [ffn, width], "mlp.up_proj.weight": [ffn, width],
                 "mlp.down_proj.weight": [width, ffn]}
        if config["model_type"] == "qwen2":
            layer |= {"self_attn.q_proj.bias": [queries], "self_attn.k_proj.bias": [keys],
                      "self_attn.v_proj.bias": [keys]}
        if config["model_type"] == "qwen3":
            layer |= {"self_attn.q_norm.weight": [head], "self_attn.k_norm.weight": [head]}
        shapes |= {f"model.layers.{i}.{name}": shape for name, shape in layer.items()}
    shapes["model.norm.weight"] = [width]
    if not config["tie_word_embeddings"]:
        shapes["lm_head.weight"] = [vocab, width]
    return shapes


def llama_tensors(config, dtype="F32"):
    return draw(llama_shapes(config), dtype)


def draw(shapes, dtype):
    """Small numbers, of FP32 with all of its bits, else such as every type has."""
    generator = random.Random(11)
    tensors = {}
    for name, shape in shapes.items():
        count = shape[0] * (shape[1] if len(shape) == 2 else 1)
        values = [generator.uniform(-1, 1) / 8 if dtype == "F32" else generator.randrange(-127, 128) / 1024
                  for _ in range(count)]
        tensors[name] = (dtype, shape, encode(values, dtype))
    return tensors


def widened(tensors):
    """Those of F16 as F32."""
    return {name: ("F32", shape, encode(struct.unpack(f"<{len(data) // 2}e", data), "F32"))
            for name, (_, shape, data) in tensors.items()}


def narrowed(tensors):
    """Those of F32 as BF16, rounded to the nearest."""
    def half(bits):
        return (bits + 0x7fff + (bits >> 16 & 1)) >> 16

    def rounded(data):
        count = len(data) // 4
        return struct.pack(f"<{count}H", *map(half, struct.unpack(f"<{count}I", data)))
    return {name: ("BF16", shape, rounded(data)) for name, (_, shape, data) in tensors.items()}


def gpt2_tensors(dtype="F32", config=None):
    config = config or GPT2
    return draw(gpt2_shapes(config["n_layer"], config["n_embd"], config["vocab_size"],
                            config["n_positions"]), dtype)


def write_folder(folder, config, tensors):
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps(config))
    write_safetensors(folder / "model.safetensors", tensors)
    return folder
