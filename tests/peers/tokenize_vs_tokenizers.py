"""Compares megabytes per second of Moonring's tokenizer with Hugging Face's (Rust), alternately, on
one thread.

    tokenize_vs_tokenizers.py --moonring PATH --models FOLDER [FOLDER ...] --book FILE
        [--oracle DIR]

Two inputs: the texts of alpaca_en_demo (instruction, input, output, each separately) and a book as
one text. Five passes each: the first one (no word is cached yet) and the best of the others.
Moonring is called from Lua, the tokenizers library by encode_batch_fast; both return lists of ids.
The numbers of tokens must be equal.
"""

import argparse
import json
import os
import subprocess
import tempfile
import time

os.environ["RAYON_NUM_THREADS"] = "1"  # must be set before tokenizers is imported


def peer(folder, texts):
    from tokenizers import Tokenizer

    tokenizer = Tokenizer.from_file(os.path.join(folder, "tokenizer.json"))
    tokenizer.no_truncation()
    tokenizer.no_padding()
    seconds = []
    for _ in range(5):
        began = time.perf_counter()
        tokens = sum(
            len(each.ids) for each in tokenizer.encode_batch_fast(texts, add_special_tokens=False)
        )
        seconds.append(time.perf_counter() - began)
    return {"first": seconds[0], "best": min(seconds[1:]), "tokens": tokens}


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True)
    parser.add_argument("--models", nargs="+", required=True)
    parser.add_argument("--book", required=True)
    parser.add_argument(
        "--oracle",
        default=os.environ.get("MOONRING_ORACLE", os.path.expanduser("~/.cache/moonring-oracle")),
    )
    args = parser.parse_args()
    rows = json.load(open(os.path.join(args.oracle, "data", "alpaca_en_demo.json")))
    inputs = {
        "alpaca_en_demo": [
            row[key] for row in rows for key in ("instruction", "input", "output") if row[key]
        ],
        "book": [open(args.book, errors="replace").read()],
    }
    script = os.path.join(os.path.dirname(os.path.abspath(__file__)), "tokenize.lua")
    print(
        f"{'model':16} {'input':16} {'MB':>6} {'first: ours':>12} {'theirs':>8} {'ratio':>6} "
        f"{'best: ours':>12} {'theirs':>8} {'ratio':>6}"
    )
    for folder in args.models:
        for name, texts in inputs.items():
            with tempfile.NamedTemporaryFile("w", suffix=".jsonl") as file:
                file.writelines(json.dumps([text], ensure_ascii=False) + "\n" for text in texts)
                file.flush()
                ours = json.loads(
                    subprocess.run(
                        [args.moonring, script, folder, file.name],
                        check=True,
                        capture_output=True,
                        text=True,
                    ).stdout
                )
            theirs = peer(folder, texts)
            assert ours["tokens"] == theirs["tokens"], (ours, theirs)
            megabytes = sum(len(text.encode()) for text in texts) / 1e6
            print(f"{os.path.basename(folder.rstrip('/')):16} {name:16} {megabytes:6.2f}", end="")
            for which in ("first", "best"):
                print(
                    f" {megabytes / ours[which]:12.1f} {megabytes / theirs[which]:8.1f} "
                    f"{theirs[which] / ours[which]:6.1f}",
                    end="",
                )
            print(flush=True)


if __name__ == "__main__":
    main()
