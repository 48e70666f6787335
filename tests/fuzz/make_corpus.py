#!/usr/bin/env python3
"""Writes the binary seeds into corpus/TARGET: small, complete files of each format. Inputs that a
fuzzer found (corpus/*/found_*) are added by hand.

python3 tests/fuzz/make_corpus.py
"""

import base64
import io
import json
import pathlib
import pickle
import struct
import zipfile

CORPUS = pathlib.Path(__file__).parent / "corpus"


def write(target: str, name: str, data: bytes) -> None:
    (CORPUS / target).mkdir(parents=True, exist_ok=True)
    (CORPUS / target / name).write_bytes(data)


def safetensors(tensors: dict, metadata: dict | None = None) -> bytes:
    """`tensors`: a map from name to (dtype, shape, bytes)."""
    header, data = {}, b""
    if metadata:
        header["__metadata__"] = metadata
    for name, (dtype, shape, content) in tensors.items():
        header[name] = {
            "dtype": dtype,
            "shape": shape,
            "data_offsets": [len(data), len(data) + len(content)],
        }
        data += content
    text = json.dumps(header).encode()
    return struct.pack("<Q", len(text)) + text + data


def make_safetensors() -> None:
    write(
        "safetensors",
        "two",
        safetensors(
            {"w": ("F32", [2, 2], bytes(16)), "b": ("BF16", [3], bytes(6))}, {"format": "pt"}
        ),
    )
    write(
        "safetensors",
        "odd",
        safetensors(
            {
                "a": ("U8", [3], b"abc"),
                "x": ("F64", [1], bytes(8)),
                "none": ("I64", [0, 7], b""),
                "one": ("BOOL", [], b"\1"),
            }
        ),
    )
    states = {
        f"{part}/model.w": ("F32", [4], bytes(16)) for part in ("exp_avg", "exp_avg_sq", "weight")
    }
    write("safetensors", "states", safetensors({**states, "step/model.w": ("F32", [], bytes(4))}))
    write("safetensors", "header_of_2_to_40_bytes", struct.pack("<Q", 1 << 40) + b"{}")
    write(
        "safetensors",
        "shape_of_2_to_64_bytes",
        safetensors({"w": ("F32", [1 << 31, 1 << 31], b"")}),
    )


U32, I32, F32, BOOL, STRING, ARRAY, U64 = 4, 5, 6, 7, 8, 9, 10


def gguf_text(text) -> bytes:
    data = text if isinstance(text, bytes) else text.encode()
    return struct.pack("<Q", len(data)) + data


def gguf_value(value) -> bytes:
    if isinstance(value, bool):
        return struct.pack("<I?", BOOL, value)
    if isinstance(value, int):
        return struct.pack("<II", U32, value)
    if isinstance(value, float):
        return struct.pack("<If", F32, value)
    if isinstance(value, str):
        return struct.pack("<I", STRING) + gguf_text(value)
    kinds = {
        str: (STRING, gguf_text),
        int: (I32, lambda x: struct.pack("<i", x)),
        float: (F32, lambda x: struct.pack("<f", x)),
    }
    kind, pack = kinds[type(value[0])]
    return struct.pack("<IIQ", ARRAY, kind, len(value)) + b"".join(pack(item) for item in value)


def gguf(metadata: dict, tensors: dict) -> bytes:
    """`tensors`: a map from name to (sizes in the file's order, type, bytes)."""
    head = b"GGUF" + struct.pack("<IQQ", 3, len(tensors), len(metadata))
    head += b"".join(gguf_text(key) + gguf_value(value) for key, value in metadata.items())
    data = b""
    for name, (sizes, kind, content) in tensors.items():
        head += (
            gguf_text(name)
            + struct.pack("<I", len(sizes))
            + b"".join(struct.pack("<Q", size) for size in sizes)
            + struct.pack("<IQ", kind, len(data))
        )
        data += content + bytes(-len(content) % 32)
    return head + bytes(-len(head) % 32) + data


def make_gguf() -> None:
    sizes = {
        "embedding_length": 32,
        "block_count": 1,
        "feed_forward_length": 32,
        "context_length": 64,
        "attention.head_count": 4,
        "attention.head_count_kv": 2,
        "attention.layer_norm_rms_epsilon": 1e-5,
        "rope.freq_base": 10000.0,
    }
    tokens = ["<unk>", "<s>", "a", "b", "ab", "\u0120"]
    bpe = {
        "tokenizer.ggml.model": "gpt2",
        "tokenizer.ggml.pre": "default",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.merges": ["a b"],
        "tokenizer.ggml.token_type": [2, 3, 1, 1, 1, 4],
        "tokenizer.ggml.bos_token_id": 1,
        "tokenizer.chat_template": "{{ messages }}",
    }
    pieces = {
        "tokenizer.ggml.model": "llama",
        "tokenizer.ggml.tokens": tokens,
        "tokenizer.ggml.scores": [0.0, 0.0, -1.0, -2.0, -3.0, -4.0],
        "tokenizer.ggml.token_type": [2, 3, 1, 1, 1, 4],
        "tokenizer.ggml.eos_token_id": 1,
        "tokenizer.ggml.add_space_prefix": False,
    }
    # One quantized block of each supported type.
    blocks = {
        0: (1, 4),
        1: (1, 2),
        30: (1, 2),
        2: (32, 18),
        3: (32, 20),
        6: (32, 22),
        7: (32, 24),
        8: (32, 34),
        10: (256, 84),
        11: (256, 110),
        12: (256, 144),
        13: (256, 176),
        14: (256, 210),
        20: (32, 18),
        23: (256, 136),
    }
    for name, tokenizer in (("llama_bpe", bpe), ("llama_pieces", pieces)):
        metadata = {
            "general.architecture": "llama",
            **{f"llama.{key}": value for key, value in sizes.items()},
            **tokenizer,
        }
        write("gguf", name, gguf(metadata, {"token_embd.weight": ((32, 6), 2, bytes(18 * 6))}))
    yarn = {
        "gemma2.rope.scaling.type": "yarn",
        "gemma2.rope.scaling.factor": 4.0,
        "gemma2.attn_logit_softcapping": 50.0,
    }
    metadata = {
        "general.architecture": "gemma2",
        **{f"gemma2.{key}": value for key, value in sizes.items()},
        **yarn,
    }
    write(
        "gguf",
        "gemma2_yarn",
        gguf(
            metadata,
            {
                "token_embd.weight": ((32, 6), 1, bytes(2 * 32 * 6)),
                "rope_freqs.weight": ((4,), 0, bytes(16)),
            },
        ),
    )
    metadata = {
        "general.architecture": "phi3",
        **{f"phi3.{key}": value for key, value in sizes.items()},
    }
    factors = struct.pack("<4f", 1, 1.5, 2, 2.5)
    write(
        "gguf",
        "phi3_longrope",
        gguf(
            metadata,
            {
                "token_embd.weight": ((32, 6), 30, bytes(2 * 32 * 6)),
                "rope_factors_long.weight": ((4,), 0, factors),
                "rope_factors_short.weight": ((4,), 0, factors),
            },
        ),
    )
    write(
        "gguf",
        "every_type",
        gguf(
            {"general.alignment": 32},
            {f"t{kind}": ((n,), kind, bytes(range(size))) for kind, (n, size) in blocks.items()},
        ),
    )
    write("gguf", "count_of_2_to_40", b"GGUF" + struct.pack("<IQQ", 3, 1 << 40, 1))
    write(
        "gguf",
        "array_of_2_to_60",
        b"GGUF"
        + struct.pack("<IQQ", 3, 0, 1)
        + gguf_text("a")
        + struct.pack("<IIQ", ARRAY, U32, 1 << 60)
        + bytes(64),
    )


def global_(name: str) -> bytes:
    module, _, function = name.rpartition(".")
    return f"c{module}\n{function}\n".encode()


def text_(text: str) -> bytes:
    return b"X" + struct.pack("<I", len(text)) + text.encode()


def tensor_(storage: str, key: str, numel: int, shape: tuple, dtype: str | None = None) -> bytes:
    """A pickled call of _rebuild_tensor_v2 or v3 for a storage, as torch.save writes it."""
    number = lambda n: b"K" + bytes([n])
    tuple_ = lambda items: b"(" + b"".join(items) + b"t"
    strides = [1] * len(shape)
    for i in reversed(range(len(shape) - 1)):
        strides[i] = strides[i + 1] * shape[i + 1]
    described = (
        tuple_([text_("storage"), global_(storage), text_(key), text_("cpu"), number(numel)]) + b"Q"
    )
    arguments = [
        described,
        number(0),
        tuple_(map(number, shape)),
        tuple_(map(number, strides)),
        b"\x89",
        global_("collections.OrderedDict") + b")R",
    ]
    if dtype:
        arguments.append(global_(dtype))
    return (
        global_("torch._utils._rebuild_tensor_v3" if dtype else "torch._utils._rebuild_tensor_v2")
        + tuple_(arguments)
        + b"R"
    )


def state_dict(tensors: dict) -> bytes:
    items = b"".join(text_(name) + value for name, value in tensors.items())
    return (
        b"\x80\x02"
        + global_("collections.OrderedDict")
        + b")Rq\x00("
        + items
        + b"u}"
        + text_("_metadata")
        + b"h\x00sb."
    )


def make_pickles() -> None:
    plain = tensor_("torch.FloatStorage", "0", 4, (2, 2))
    parameter = (
        global_("torch._utils._rebuild_parameter")
        + b"("
        + plain
        + b"\x88"
        + global_("collections.OrderedDict")
        + b")RtR"
    )
    tensors = {
        "w": plain,
        "p": parameter,
        "f8": tensor_("torch.storage.UntypedStorage", "1", 4, (4,), "torch.float8_e4m3fn"),
    }
    whole = state_dict(tensors)
    write("pickle", "state_dict", whole)
    write("pickle", "plain_dict", b"\x80\x02}(" + text_("w") + plain + b"u.")
    for protocol in range(2, 6):
        write(
            "pickle",
            f"values_{protocol}",
            pickle.dumps(
                {"a": [1, -2, 1 << 40, 2.5, None, True, b"x", "y"], "t": (1, (2, 3))}, protocol
            ),
        )
    write("pickle", "list_that_holds_itself", b"\x80\x02]q\x00h\x00ah\x00a.")
    write("pickle", "call_of_os_system", b"cos\nsystem\n(" + text_("true") + b"tR.")
    write("pickle", "text_of_2_to_40_bytes", b"\x80\x04\x8d" + struct.pack("<Q", 1 << 40) + b"x.")
    write("pickle", "marks_3000_deep", b"(" * 3000 + b"t" * 3000 + b".")

    records = {
        "data.pkl": whole,
        "byteorder": b"little",
        "data/0": struct.pack("<4f", 1, 2, 3, 4),
        "data/1": b"abcd",
        "version": b"3\n",
    }
    for name, method in (("stored", zipfile.ZIP_STORED), ("deflated", zipfile.ZIP_DEFLATED)):
        archive = io.BytesIO()
        with zipfile.ZipFile(archive, "w", method) as file:
            for record, content in records.items():
                file.writestr(zipfile.ZipInfo(f"archive/{record}"), content, method)
        write("torch_archive", name, archive.getvalue())
    for name in ("single.bin", "plain_protocol5.bin", "compressed.bin"):
        write(
            "torch_archive",
            name.replace("/", "_"),
            (CORPUS.parent.parent / "model" / "files" / "pickles" / name).read_bytes(),
        )


def varint(number: int) -> bytes:
    out = b""
    while number >= 128:
        out, number = out + bytes([number & 127 | 128]), number >> 7
    return out + bytes([number])


def field(number: int, value) -> bytes:
    if isinstance(value, float):
        return varint(number << 3 | 5) + struct.pack("<f", value)
    if isinstance(value, int):
        return varint(number << 3) + varint(value & (1 << 64) - 1)
    value = value.encode() if isinstance(value, str) else value
    return varint(number << 3 | 2) + varint(len(value)) + value


def characters_map() -> bytes:
    """A character map (double array) with one key, U+00C5, which maps to "a"."""
    units = [0] * 512
    root = 0x100
    units[0] = (root << 10) & 0x7FFFFFFF
    first = root ^ 0xC3
    units[first] = ((first ^ 0x180) << 10) & 0x7FFFFFFF | 0xC3
    second = 0x180 ^ 0x85
    units[second] = (second ^ 0x1C0) << 10 | 1 << 8 | 0x85
    units[0x1C0] = 1 << 31
    trie = struct.pack("<512I", *units)
    return struct.pack("<I", len(trie)) + trie + b"a\0"


def make_tokenizers() -> None:
    pieces = [("<unk>", 0.0, 2), ("<s>", 0.0, 3), ("</s>", 0.0, 3)] + [
        (f"<0x{byte:02X}>", 0.0, 6) for byte in (0x0A, 0x41)
    ]
    pieces += [
        (text, -float(i), 1)
        for i, text in enumerate(["\u2581", "l", "o", "lo", "\u2581lo", "H", "e"])
    ] + [("<user>", 0.0, 4)]
    body = b"".join(
        field(1, field(1, text) + field(2, score) + field(3, kind)) for text, score, kind in pieces
    )
    for name, kind in (("unigram", 1), ("bpe", 2)):
        trainer = field(3, kind) + field(35, 1) + field(41, 1) + field(42, 2) + field(43, -1)
        normalizer = (
            field(2, characters_map() if kind == 1 else b"")
            + field(3, 1)
            + field(4, 1)
            + field(5, 1)
        )
        write(
            "model_file",
            f"sentencepiece_{name}",
            b'{"legacy": false}\0' + body + field(2, trainer) + field(3, normalizer),
        )
    write(
        "model_file",
        "sentencepiece_text_of_2_to_40_bytes",
        b"\0" + varint(1 << 3 | 2) + varint(1 << 40) + b"x",
    )
    write("characters_map", "one", characters_map())
    write("characters_map", "trie_of_2_to_32_bytes", struct.pack("<I", 0xFFFFFFFC) + bytes(64))

    byte_stages = {
        "pre_tokenizer": {
            "type": "Sequence",
            "pretokenizers": [
                {
                    "type": "Split",
                    "pattern": {"Regex": "'s| ?\\p{L}+|\\p{N}{1,3}|\\s+(?!\\S)|\\s+"},
                    "behavior": "Isolated",
                    "invert": False,
                },
                {
                    "type": "ByteLevel",
                    "add_prefix_space": False,
                    "trim_offsets": True,
                    "use_regex": False,
                },
            ],
        },
        "decoder": {"type": "ByteLevel"},
        "normalizer": {"type": "NFC"},
    }
    letters = {
        letter: i
        for i, letter in enumerate(
            ["H", "e", "l", "o", "\u0120", "w", "\u0120w", "lo", "\u00c3", "\u00b6"]
        )
    }
    added = [
        {
            "id": 20,
            "content": "<s>",
            "special": True,
            "lstrip": True,
            "rstrip": True,
            "single_word": True,
            "normalized": False,
        },
        {"id": 21, "content": "<|x|>", "special": False, "normalized": True},
    ]
    bpe = {
        "added_tokens": added,
        **byte_stages,
        "model": {
            "type": "BPE",
            "vocab": letters,
            "merges": ["\u0120 w", ["l", "o"]],
            "ignore_merges": True,
        },
    }
    metaspace = {
        "type": "Metaspace",
        "replacement": "\u2581",
        "prepend_scheme": "first",
        "split": True,
    }
    bytes_ = {f"<0x{byte:02X}>": 3 + i for i, byte in enumerate((0x0A, 0xC3, 0xB6))}
    fallback = {
        "added_tokens": added,
        "pre_tokenizer": None,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {"type": "Prepend", "prepend": "\u2581"},
                {"type": "Replace", "pattern": {"String": " "}, "content": "\u2581"},
            ],
        },
        "decoder": {
            "type": "Sequence",
            "decoders": [
                {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
                {"type": "ByteFallback"},
                {"type": "Fuse"},
                {"type": "Strip", "content": " ", "start": 1, "stop": 0},
            ],
        },
        "model": {
            "type": "BPE",
            "unk_token": "<unk>",
            "fuse_unk": True,
            "byte_fallback": True,
            "vocab": {"<unk>": 0, "l": 1, "o": 2, **bytes_, "lo": 6},
            "merges": ["l o"],
        },
    }
    unigram = {
        "added_tokens": added,
        "pre_tokenizer": metaspace,
        "decoder": metaspace,
        "normalizer": {
            "type": "Sequence",
            "normalizers": [
                {
                    "type": "Precompiled",
                    "precompiled_charsmap": base64.b64encode(characters_map()).decode(),
                },
                {"type": "Nmt"},
                {"type": "Strip", "strip_left": True, "strip_right": True},
            ],
        },
        "model": {
            "type": "Unigram",
            "unk_id": 0,
            "byte_fallback": False,
            "vocab": [["<unk>", 0.0], ["\u2581", -2.0], ["l", -3.5], ["lo", -4.25], ["H", -1e-7]],
        },
    }
    bert = {
        "added_tokens": [{"id": 0, "content": "[UNK]", "special": True}],
        "pre_tokenizer": {"type": "BertPreTokenizer"},
        "normalizer": {
            "type": "BertNormalizer",
            "clean_text": True,
            "handle_chinese_chars": True,
            "strip_accents": None,
            "lowercase": True,
        },
        "decoder": {"type": "WordPiece", "prefix": "##", "cleanup": True},
        "model": {
            "type": "WordPiece",
            "unk_token": "[UNK]",
            "continuing_subword_prefix": "##",
            "max_input_chars_per_word": 100,
            "vocab": {"[UNK]": 0, "hell": 1, "##o": 2, ",": 3, "world": 4},
        },
    }
    config = {
        "tokenizer_class": "LlamaTokenizerFast",
        "bos_token": "<s>",
        "eos_token": {"content": "</s>", "special": True},
        "add_bos_token": True,
        "additional_special_tokens": ["<a>", "<b>"],
        "added_tokens_decoder": {"22": {"content": "</s>", "special": True}},
    }
    special = {
        "pad_token": "<pad>",
        "additional_special_tokens": [{"content": "<c>", "lstrip": True}],
    }
    for name, tokenizer in (
        ("bpe_of_bytes", bpe),
        ("bpe_with_byte_fallback", fallback),
        ("unigram", unigram),
        ("word_piece", bert),
    ):
        parts = [
            json.dumps(tokenizer),
            "Hello,  w\u00f6rld's <s> 1234\n\n",
            json.dumps(config) if name != "unigram" else "",
            json.dumps(special) if name == "bpe_with_byte_fallback" else "",
            json.dumps({"<z>": 30}) if name == "bpe_with_byte_fallback" else "",
        ]
        write("tokenizer", name, b"\0".join(part.encode() for part in parts))
    write(
        "tokenizer",
        "id_of_2_to_24",
        json.dumps(
            {"model": {"type": "BPE", "vocab": {"a": (1 << 24) - 2}, "merges": []}}
        ).encode(),
    )
    ranks = b"".join(
        base64.b64encode(text) + f" {i}\n".encode()
        for i, text in enumerate([b"a", b"b", b"ab", b"\xff"])
    )
    write("model_file", "tiktoken", b"\0" + ranks)
    write("model_file", "tiktoken_rank_of_2_to_24", b"\0YQ== 16777215\n")
    tekken = {
        "config": {
            "pattern": "\\p{L}+|.",
            "default_vocab_size": 24,
            "default_num_special_tokens": 21,
            "num_vocab_tokens": 3,
            "version": "v3",
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(text).decode(), "token_str": None}
            for i, text in enumerate([b"a", b"b", b"ab"])
        ],
    }
    write("model_file", "tekken", b"\0" + json.dumps(tekken).encode())
    tekken["config"].update(default_vocab_size=1 << 24, default_num_special_tokens=1 << 24)
    write("model_file", "tekken_of_2_to_24_special_tokens", b"\0" + json.dumps(tekken).encode())


def make_configs() -> None:
    for path in sorted((CORPUS.parent.parent / "golden" / "families").glob("*/config.json")):
        write("config", path.parent.name, path.read_bytes())


def main() -> None:
    make_safetensors()
    make_gguf()
    make_pickles()
    make_tokenizers()
    make_configs()


if __name__ == "__main__":
    main()
