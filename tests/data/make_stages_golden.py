"""Writes stages_golden.json: what single pre-tokenizers and normalizers of the Hugging Face tokenizers library make of texts.

    $MOONRING_ORACLE/venv/bin/python tests/data/make_stages_golden.py

{"pre_tokenizers": [{"description": ..., "text": ..., "pieces": [...]}], "normalizers": [{"description": ..., "text": ..., "normalized": ...}]}
"""
import json
import os

from tokenizers import Regex, normalizers as N, pre_tokenizers as P

TEXT = "ab12345 AB aab,b.c\nab(|) \u00e9\u6f22\u5b57\u30ab\u180e\x0b\u00b2\u0301\u2460 cd]-z x{a} abc"
PATTERNS = [
    r"\p{N}{1,3}+|.", r"[^(\s|[.,])]+", r"a{,2}", r"a{2}?", r"^a|b$", r"\S+|\s", r"[\S]+", r"\w+", r"\W+", r"\p{^L}+", r"\P{^L}+", r"\p{Han}+", r"(?i)ab|CD",
    r"\u0061\x62", r"a++b|a", r"x{a}", r"\v", r"(?>a|ab)c", r"(?-i:a)", r"[a\-z\]]+", r"\p{Alpha}+", r"x*", r"(?:a|b){2}+c", r"(?i:'s|'t)|\s+(?!\S)|\s+", r"\d+|\D",
    r"(?<=a)b", r"(?<!a)b", r"\x{6f22}.", r"[\p{Han}\w]+", r"\A.|.\z", r"(a)(b)",
]


def pre_tokenizers():
    for behavior in ("isolated", "removed", "merged_with_previous", "merged_with_next", "contiguous"):
        for invert in (False, True):
            yield P.Split(Regex(r"\d|,"), behavior, invert), "1a22b,,c3"
            yield P.Split(Regex(r"x*"), behavior, invert), "axxbxc"
    for pattern in PATTERNS:
        yield P.Split(Regex(pattern), "isolated"), TEXT
    for stage in (P.Split(".+", "removed"), P.Split("\u6f22", "isolated"), P.Digits(True), P.Digits(False), P.Whitespace(), P.WhitespaceSplit(),
                  P.Punctuation("contiguous"), P.Punctuation()):
        for text in (TEXT, "Hi, you_1 +22\u00bd ok..\u3000\u00e9!", "a.+b.c"):
            yield stage, text


def main():
    out = {"pre_tokenizers": [], "normalizers": []}
    for stage, text in pre_tokenizers():
        description = json.loads(stage.__getstate__())
        out["pre_tokenizers"].append({"description": description, "text": text, "pieces": [piece for piece, _ in stage.pre_tokenize_str(text)]})
    for stage in (N.NFC(), N.NFD(), N.NFKC(), N.NFKD(), N.Lowercase(), N.Prepend("_"), N.Replace("a", "bb"), N.Replace(Regex(r"\s+"), " "),
                  N.Sequence([N.NFD(), N.Lowercase(), N.Prepend("_")]), N.Sequence([])):
        for text in ("", "plain", "Caf\u00e9 \ufb01 \u212b  \u0130\u03a3", "\uac00 \u1112\u1161\u11ab", "a\u0323\u0307 \u2460", "\u6f22\u5b57\uf900", "e\u0301\u6f22", "a\u00a0b", "\u1e9b\u0323",
                     "\x00e\u0301"):
            out["normalizers"].append({"description": json.loads(stage.__getstate__()), "text": text, "normalized": stage.normalize_str(text)})
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "stages_golden.json")
    with open(path, "w", encoding="utf-8") as f:
        f.write("{\n" + ",\n".join(json.dumps(k) + ": [\n" + ",\n".join(json.dumps(case) for case in v) + "\n]" for k, v in out.items()) + "\n}\n")
    print({k: len(v) for k, v in out.items()})


if __name__ == "__main__":
    main()
