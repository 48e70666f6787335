"""Inputs of the checks: models with random weights, a tokenizer of bytes, documents. It uses
Python's standard library only, so that any machine can make them.

Weights are bf16 of either sign, uniform over one power of two: random bits with a fixed exponent.
They are slices of one pool of random bits, which makes gigabytes in seconds.
"""

import json
import os
import random
import struct

# Names of weights are Llama's; with `experts`, the model is a Mixtral.
SMOLLM2 = {
    "hidden": 576,
    "inner": 1536,
    "layers": 30,
    "heads": 9,
    "kv_heads": 3,
    "vocabulary": 49152,
}
LLAMA_8 = {
    "hidden": 4096,
    "inner": 14336,
    "layers": 8,
    "heads": 32,
    "kv_heads": 8,
    "vocabulary": 32768,
}  # the width of an 8B model, with a vocabulary for which Transformers' logits fit in memory
LLAMA_4 = LLAMA_8 | {"layers": 4}
SMALL = {"hidden": 256, "inner": 704, "layers": 4, "heads": 4, "kv_heads": 2, "vocabulary": 1024}
MIXTURE = SMALL | {"experts": 4}
# Qwen3.5-MoE at the width of its 35B model: linear attention in three of four layers, experts in
# two tensors per layer. Weights are initialized from config.json (train_from_scratch).
HYBRID = {
    "hidden": 2048,
    "heads": 16,
    "kv_heads": 2,
    "head_dim": 256,
    "layers": 4,
    "linear_key_heads": 16,
    "linear_value_heads": 32,
    "linear_head_dim": 128,
    "experts": 32,
    "expert_inner": 512,
    "vocabulary": 32768,
}
TINY_HYBRID = {
    "hidden": 64,
    "heads": 4,
    "kv_heads": 2,
    "head_dim": 16,
    "layers": 4,
    "linear_key_heads": 2,
    "linear_value_heads": 4,
    "linear_head_dim": 16,
    "experts": 4,
    "expert_inner": 32,
    "vocabulary": 320,
}
TINY = {"hidden": 64, "inner": 96, "layers": 2, "heads": 4, "kv_heads": 2, "vocabulary": 320}

SPECIAL = ("<|endoftext|>", "<|im_start|>", "<|im_end|>")
WORDS = (
    "moon ring tide anchor sail rope light cape harbour wind star mast deck compass chart bell "
    "watch north south east west water stone "
    "and the of a to over under with long small bright quiet old far near every one two three seven"
).split()


def head_dim(shape):
    return shape["hidden"] // shape["heads"]


def tensors_of(shape):
    """Returns (Hugging Face name, dims) of each weight."""
    hidden, inner, rows = shape["hidden"], shape["inner"], head_dim(shape)
    yield "model.embed_tokens.weight", (shape["vocabulary"], hidden)
    for layer in range(shape["layers"]):
        block = f"model.layers.{layer}."
        for name, dims in (
            ("self_attn.q_proj", (shape["heads"] * rows, hidden)),
            ("self_attn.k_proj", (shape["kv_heads"] * rows, hidden)),
            ("self_attn.v_proj", (shape["kv_heads"] * rows, hidden)),
            ("self_attn.o_proj", (hidden, shape["heads"] * rows)),
            ("input_layernorm", (hidden,)),
            ("post_attention_layernorm", (hidden,)),
        ):
            yield block + name + ".weight", dims
        if "experts" in shape:
            yield block + "block_sparse_moe.gate.weight", (shape["experts"], hidden)
            mlps = [
                (f"{block}block_sparse_moe.experts.{expert}.", ("w1", "w3", "w2"))
                for expert in range(shape["experts"])
            ]
        else:
            mlps = [(block + "mlp.", ("gate_proj", "up_proj", "down_proj"))]
        for prefix, (gate, up, down) in mlps:
            yield prefix + gate + ".weight", (inner, hidden)
            yield prefix + up + ".weight", (inner, hidden)
            yield prefix + down + ".weight", (hidden, inner)
    yield "model.norm.weight", (hidden,)


def numel(dims):
    product = 1
    for dim in dims:
        product *= dim
    return product


def parameters_of(shape):
    return sum(numel(dims) for _, dims in tensors_of(shape))


class Pool:
    """Random bf16 numbers from any position of a pool, with wrap-around."""

    ELEMENTS = 2**24 - 3  # a prime: rows of a matrix do not repeat

    def __init__(self, seed, elements):
        self.random = random.Random(seed)
        self.elements = min(self.ELEMENTS, elements)
        self.bits = self.random.randbytes(2 * self.elements)
        self.of_exponent = {}

    def take(self, count, exponent):
        """Returns the bytes of `count` numbers with magnitudes in [2^exponent, 2^(exponent +
        1))."""
        if exponent not in self.of_exponent:

            def every(word):
                return int.from_bytes(struct.pack("<H", word) * self.elements, "little")

            bits = int.from_bytes(self.bits, "little") & every(0x807F) | every(
                (127 + exponent) << 7
            )
            self.of_exponent[exponent] = memoryview(bits.to_bytes(2 * self.elements, "little"))
        pool, begin = self.of_exponent[exponent], self.random.randrange(self.elements)
        while count > 0:
            some = min(count, self.elements - begin)
            yield pool[2 * begin : 2 * (begin + some)]
            count, begin = count - some, 0


def write_safetensors(path, shape, seed):
    header, offset = {}, 0
    tensors = list(tensors_of(shape))
    for name, dims in tensors:
        header[name] = {
            "dtype": "BF16",
            "shape": list(dims),
            "data_offsets": [offset, offset + 2 * numel(dims)],
        }
        offset += 2 * numel(dims)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    pool = Pool(seed, max(numel(dims) for _, dims in tensors))
    with open(path, "wb") as f:
        f.write(struct.pack("<Q", len(text)) + text)
        for name, dims in tensors:
            if len(dims) == 1:
                f.write(struct.pack("<H", 0x3F80) * dims[0])  # 1.0
                continue
            # The scale that keeps a product's elements about as large as its input's.
            exponent = 0
            while 2.0**exponent > 0.65 / dims[1] ** 0.5:
                exponent -= 1
            for piece in pool.take(numel(dims), exponent):
                f.write(piece)


def byte_alphabet():
    """Returns the characters by which byte-level BPE represents bytes."""
    printable = [*range(33, 127), *range(161, 173), *range(174, 256)]
    others = [byte for byte in range(256) if byte not in printable]
    return {byte: chr(byte) for byte in printable} | {
        byte: chr(256 + i) for i, byte in enumerate(others)
    }


def write_tokenizer(folder):
    """Writes a tokenizer in which each byte is a token, without merges."""
    alphabet = byte_alphabet()
    vocabulary = {alphabet[byte]: byte for byte in range(256)} | {
        text: 256 + i for i, text in enumerate(SPECIAL)
    }
    level = {
        "type": "ByteLevel",
        "add_prefix_space": False,
        "trim_offsets": True,
        "use_regex": True,
    }
    tokenizer = {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "normalizer": None,
        "pre_tokenizer": level,
        "post_processor": None,
        "decoder": level,
        "added_tokens": [
            {
                "id": 256 + i,
                "content": text,
                "single_word": False,
                "lstrip": False,
                "rstrip": False,
                "normalized": False,
                "special": True,
            }
            for i, text in enumerate(SPECIAL)
        ],
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "vocab": vocabulary,
            "merges": [],
        },
    }
    write_json(os.path.join(folder, "tokenizer.json"), tokenizer)
    write_json(
        os.path.join(folder, "tokenizer_config.json"),
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "eos_token": SPECIAL[2],
            "pad_token": SPECIAL[0],
        },
    )


def write_json(path, value):
    with open(path, "w", encoding="utf-8") as f:
        json.dump(value, f)


def write_model(folder, shape, seed=1):
    os.makedirs(folder)
    mixture = "experts" in shape
    config = {
        "architectures": ["MixtralForCausalLM" if mixture else "LlamaForCausalLM"],
        "model_type": "mixtral" if mixture else "llama",
        "hidden_size": shape["hidden"],
        "intermediate_size": shape["inner"],
        "num_hidden_layers": shape["layers"],
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": head_dim(shape),
        "vocab_size": shape["vocabulary"],
        "max_position_embeddings": 2**21,
        "rope_theta": 1e6,
        "rms_norm_eps": 1e-5,
        "tie_word_embeddings": True,
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "torch_dtype": "bfloat16",
        "bos_token_id": 256,
        "eos_token_id": 258,
    }
    if mixture:
        config |= {
            "num_local_experts": shape["experts"],
            "num_experts_per_tok": 2,
            "sliding_window": None,
        }
    write_json(os.path.join(folder, "config.json"), config)
    write_tokenizer(folder)
    write_safetensors(os.path.join(folder, "model.safetensors"), shape, seed)
    return folder


def write_hybrid(folder, shape):
    """Writes a model's folder without weights."""
    os.makedirs(folder)
    layers = shape["layers"]
    kinds = ["full_attention" if i % 4 == 3 else "linear_attention" for i in range(layers)]
    config = {
        "architectures": ["Qwen3_5MoeForCausalLM"],
        "model_type": "qwen3_5_moe_text",
        "hidden_size": shape["hidden"],
        "num_hidden_layers": layers,
        "layer_types": kinds,
        "num_attention_heads": shape["heads"],
        "num_key_value_heads": shape["kv_heads"],
        "head_dim": shape["head_dim"],
        "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": shape["linear_head_dim"],
        "linear_value_head_dim": shape["linear_head_dim"],
        "linear_num_key_heads": shape["linear_key_heads"],
        "linear_num_value_heads": shape["linear_value_heads"],
        "num_experts": shape["experts"],
        "num_experts_per_tok": min(8, shape["experts"]),
        "moe_intermediate_size": shape["expert_inner"],
        "shared_expert_intermediate_size": shape["expert_inner"],
        "vocab_size": shape["vocabulary"],
        "max_position_embeddings": 2**18,
        "rms_norm_eps": 1e-6,
        "rope_parameters": {
            "partial_rotary_factor": 0.25,
            "rope_theta": 1e7,
            "rope_type": "default",
        },
        "tie_word_embeddings": False,
        "hidden_act": "silu",
        "attention_bias": False,
        "initializer_range": 0.02,
        "torch_dtype": "bfloat16",
        "bos_token_id": 256,
        "eos_token_id": 258,
    }
    write_json(os.path.join(folder, "config.json"), config)
    write_tokenizer(folder)
    return folder


def text_of(index, tokens):
    """Returns a text of at least this many bytes."""
    rng, words, size = random.Random(1000 + index), [], 0
    while size < tokens:
        words.append(rng.choice(WORDS))
        size += len(words[-1]) + 1
    return " ".join(words)


def write_documents(folder, lengths):
    """Writes the data sets copy (alpaca), pairs (dpo) and judged (kto) with one row per length.
    Answers have slightly more tokens than the length, so that cutoff_len truncates them.
    """
    os.makedirs(folder)
    texts = [text_of(i, length) for i, length in enumerate(lengths)]
    others = [text_of(7000 + i, length * 3 // 4) for i, length in enumerate(lengths)]
    human = [{"from": "human", "value": "Copy."}]
    write_json(
        os.path.join(folder, "copy.json"),
        [{"instruction": "Copy.", "input": "", "output": text} for text in texts],
    )
    write_json(
        os.path.join(folder, "pairs.json"),
        [
            {
                "conversations": human,
                "chosen": {"from": "gpt", "value": text},
                "rejected": {"from": "gpt", "value": other},
            }
            for text, other in zip(texts, others)
        ],
    )
    write_json(
        os.path.join(folder, "judged.json"),
        [
            {"conversations": human + [{"from": "gpt", "value": text}], "kto_tag": i % 2 == 0}
            for i, text in enumerate(texts)
        ],
    )
    columns = {"messages": "conversations"}
    write_json(
        os.path.join(folder, "dataset_info.json"),
        {
            "copy": {"file_name": "copy.json"},
            "pairs": {
                "file_name": "pairs.json",
                "formatting": "sharegpt",
                "ranking": True,
                "columns": columns | {"chosen": "chosen", "rejected": "rejected"},
            },
            "judged": {
                "file_name": "judged.json",
                "formatting": "sharegpt",
                "columns": columns | {"kto_tag": "kto_tag"},
            },
        },
    )
    return folder


def vocabulary_of(model):
    with open(os.path.join(model, "config.json"), encoding="utf-8") as f:
        config = json.load(f)
    return (config.get("text_config") or config)["vocab_size"]


def write_probe(path, tokens, vocabulary):
    """Writes two documents of random ids, in which a few labels are ignored."""
    rng = random.Random(3)
    ids = [rng.randrange(vocabulary) for _ in range(tokens)]
    labels = [-100 if i % 11 == 0 else each for i, each in enumerate(ids)]
    first = tokens * 5 // 8
    write_json(
        path,
        {
            "input_ids": ids,
            "labels": labels,
            "lengths": [first, tokens - first],
            "positions": [0, 1, first - 1, first, tokens - 1],
        },
    )
    return path
