"""Writes stages_golden.json: the results of single pre-tokenizers, normalizers and decoders of the
Hugging Face tokenizers library for some texts.

    $MOONRING_ORACLE/venv/bin/python tests/data/text/tokenizer/make_stages_golden.py

{"pre_tokenizers": [{"description": ..., "text": ..., "pieces": [...]}],
 "normalizers": [{"description": ..., "text": ..., "normalized": ...}],
 "decoders": [{"description": ..., "tokens": [...], "text": ...}]}
"""

import json
import os

from tokenizers import Regex, decoders as D, normalizers as N, pre_tokenizers as P

TEXT = (
    "ab12345 AB aab,b.c\nab(|) \u00e9\u6f22\u5b57\u30ab\u180e\x0b\u00b2\u0301\u2460 cd]-z x{a} abc"
)
PATTERNS = [
    r"\p{N}{1,3}+|.",
    r"[^(\s|[.,])]+",
    r"a{,2}",
    r"a{2}?",
    r"^a|b$",
    r"\S+|\s",
    r"[\S]+",
    r"\w+",
    r"\W+",
    r"\p{^L}+",
    r"\P{^L}+",
    r"\p{Han}+",
    r"(?i)ab|CD",
    r"\u0061\x62",
    r"a++b|a",
    r"x{a}",
    r"\v",
    r"(?>a|ab)c",
    r"(?-i:a)",
    r"[a\-z\]]+",
    r"\p{Alpha}+",
    r"x*",
    r"(?:a|b){2}+c",
    r"(?i:'s|'t)|\s+(?!\S)|\s+",
    r"\d+|\D",
    r"(?<=a)b",
    r"(?<!a)b",
    r"\x{6f22}.",
    r"[\p{Han}\w]+",
    r"\A.|.\z",
    r"(a)(b)",
]


def pre_tokenizers():
    for behavior in (
        "isolated",
        "removed",
        "merged_with_previous",
        "merged_with_next",
        "contiguous",
    ):
        for invert in (False, True):
            yield P.Split(Regex(r"\d|,"), behavior, invert), "1a22b,,c3"
            yield P.Split(Regex(r"x*"), behavior, invert), "axxbxc"
    for pattern in PATTERNS:
        yield P.Split(Regex(pattern), "isolated"), TEXT
    for stage in (
        P.Split(".+", "removed"),
        P.Split("\u6f22", "isolated"),
        P.Digits(True),
        P.Digits(False),
        P.Whitespace(),
        P.WhitespaceSplit(),
        P.Punctuation("contiguous"),
        P.Punctuation(),
        P.BertPreTokenizer(),
        P.CharDelimiterSplit("b"),
    ):
        for text in (TEXT, "Hi, you_1 +22\u00bd ok..\u3000\u00e9!", "a.+b.c"):
            yield stage, text
    for scheme in ("first", "always", "never"):
        for split in (False, True):
            stage = P.Metaspace(prepend_scheme=scheme, split=split)
            for text in ("a  b c ", " a", "\u2581a \u2581\u2581 b", "ab", " "):
                yield stage, text
                yield P.Sequence([P.Split("b", "merged_with_next"), stage]), text
                yield P.Sequence([P.Split("a", "removed"), stage]), text
                yield P.Sequence([stage, stage]), text
    yield P.Metaspace(replacement="_", prepend_scheme="always"), "a _b"


def decoders():
    S = "\u2581"
    lists = [
        [],
        [S + "a", S + S, "b" + S],
        [S, "<0xE6>", "<0xBC>", "<0xA2>", S + "b"],
        ["<0xE6>", "<0xBC>", "a", "<0xFF>", "<0xE6>", "<0xBC>", "<0xA2>"],
        ["<0x41>", "<0x4a>", "<0x+F>", "<0xG1>", "<0x1G>", "<0x041>", "0x41", "<0x4>"],
        [" a ", "  b  ", "c"],
        ["\u0120a", "\u00e6\u00bc", "\u00a2", "a b", "\u6f22"],
        ["<s>", S + "x", "</s>"],
        ["a" + S + "b", S + S + "c"],
    ]
    llama = D.Sequence([D.Replace(S, " "), D.ByteFallback(), D.Fuse(), D.Strip(" ", 1, 0)])
    stages = [
        D.ByteLevel(),
        D.Replace(S, " "),
        D.Replace(Regex("[ab]+"), "-"),
        D.ByteFallback(),
        D.Fuse(),
        D.Strip(" ", 1, 0),
        D.Strip(" ", 2, 0),
        D.Strip("c", 0, 1),
        D.Metaspace(prepend_scheme="first"),
        D.Metaspace(prepend_scheme="always"),
        D.Metaspace(prepend_scheme="never"),
        D.Metaspace(replacement="a"),
        llama,
        D.Sequence([D.ByteLevel(), D.Fuse()]),
        D.Sequence([D.ByteFallback(), D.Metaspace()]),
        D.Sequence([D.Metaspace(), D.ByteFallback(), D.Fuse(), D.Replace("a", "")]),
        D.Sequence([D.Fuse(), D.Strip(" ", 1, 0)]),
        D.Sequence([]),
        D.WordPiece(),
        D.WordPiece(prefix="@@", cleanup=False),
        D.BPEDecoder(),
    ]
    lists += [
        ["do", "##n", "'", "t", ".", "##", "a", "n't", "do", "not", "@@x", "'s", ",", "##a##b"],
        ["ab</w>", "c", "d</w>", "</w>"],
    ]
    for stage in stages:
        for tokens in lists:
            yield stage, tokens


def main():
    out = {"pre_tokenizers": [], "normalizers": [], "decoders": []}
    for stage, text in pre_tokenizers():
        description = json.loads(stage.__getstate__())
        out["pre_tokenizers"].append(
            {
                "description": description,
                "text": text,
                "pieces": [piece for piece, _ in stage.pre_tokenize_str(text)],
            }
        )
    for stage in (
        N.NFC(),
        N.NFD(),
        N.NFKC(),
        N.NFKD(),
        N.Lowercase(),
        N.Prepend("_"),
        N.Replace("a", "bb"),
        N.Replace(Regex(r"\s+"), " "),
        N.Sequence([N.NFD(), N.Lowercase(), N.Prepend("_")]),
        N.Sequence([]),
        N.StripAccents(),
        N.Sequence([N.NFD(), N.StripAccents()]),
        N.Strip(),
        N.Strip(left=False),
        N.Strip(right=False),
        N.Nmt(),
        N.BertNormalizer(),
        N.BertNormalizer(lowercase=False),
        N.BertNormalizer(strip_accents=False),
        N.BertNormalizer(clean_text=False, handle_chinese_chars=False),
    ):
        for text in (
            "",
            "plain",
            "Caf\u00e9 \ufb01 \u212b  \u0130\u03a3",
            "\uac00 \u1112\u1161\u11ab",
            "a\u0323\u0307 \u2460",
            "\u6f22\u5b57\uf900",
            "e\u0301\u6f22",
            "a\u00a0b",
            "\u1e9b\u0323",
            "\x00e\u0301",
            " \t\u3000a\x0b\x85b\u200b \r\n",
            "\ufffd\u00ad\ufeff\U0001f600\u0378\ue000\u0903\u20ddx",
            "\u4e2d\u3400\U00020000\uf900\u3042\uac00",
        ):
            out["normalizers"].append(
                {
                    "description": json.loads(stage.__getstate__()),
                    "text": text,
                    "normalized": stage.normalize_str(text),
                }
            )
    for stage, tokens in decoders():
        out["decoders"].append(
            {
                "description": json.loads(stage.__getstate__()),
                "tokens": tokens,
                "text": stage.decode(tokens),
            }
        )
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stages_golden.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write(
            "{\n"
            + ",\n".join(
                json.dumps(k) + ": [\n" + ",\n".join(json.dumps(case) for case in v) + "\n]"
                for k, v in out.items()
            )
            + "\n}\n"
        )
    print({k: len(v) for k, v in out.items()})


if __name__ == "__main__":
    main()
