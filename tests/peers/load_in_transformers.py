"""Loads a folder written by `moonring train` with Transformers, and prints one JSON object: its
loss on a text, and its answer to a question.

    load_in_transformers.py FOLDER [--input IN.json | --text TEXT] [--ask QUESTION]
        [--dtype float32] [--max-new-tokens 64]

IN.json has the format of `moonring probe`'s input ({input_ids, labels, lengths}); each document is
run separately, and the loss is the mean over predictions. With --text, the ids are the tokenizer's
without special tokens, and every token but the first is predicted.
"""

import argparse
import json

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder")
    parser.add_argument("--input")
    parser.add_argument("--text")
    parser.add_argument("--ask")
    parser.add_argument("--dtype", default="float32")
    parser.add_argument("--max-new-tokens", type=int, default=64)
    args = parser.parse_args()

    model, info = AutoModelForCausalLM.from_pretrained(
        args.folder,
        dtype=getattr(torch, args.dtype),
        attn_implementation="sdpa",
        output_loading_info=True,
    )
    model.eval()
    out = {
        "missing_keys": sorted(info["missing_keys"]),
        "unexpected_keys": sorted(info["unexpected_keys"]),
        "mismatched_keys": sorted(map(str, info["mismatched_keys"])),
        "rope_theta": model.config.rope_theta,
        "tied": model.config.tie_word_embeddings,
    }
    tokenizer = (
        AutoTokenizer.from_pretrained(args.folder)
        if args.text is not None or args.ask is not None
        else None
    )

    if args.input or args.text is not None:
        if args.input:
            data = json.load(open(args.input))
        else:
            ids = tokenizer.encode(args.text, add_special_tokens=False)
            data = {"input_ids": ids, "labels": ids}
        start, total, predictions = 0, 0.0, 0
        for length in data.get("lengths") or [len(data["input_ids"])]:
            ids, labels = (
                data["input_ids"][start : start + length],
                torch.tensor(data["labels"][start + 1 : start + length] + [-100]),
            )
            with torch.no_grad():
                logits = model(torch.tensor([ids]), use_cache=False).logits[0]
            logits = logits if logits.dtype == torch.float64 else logits.float()
            nll = torch.nn.functional.cross_entropy(
                logits, labels, ignore_index=-100, reduction="none"
            ).double()
            total, predictions, start = (
                total + nll.sum().item(),
                predictions + int((labels != -100).sum()),
                start + length,
            )
        out.update(loss=total / predictions, predictions=predictions)
    if args.ask is not None:
        prompt = tokenizer.apply_chat_template(
            [{"role": "user", "content": args.ask}], add_generation_prompt=True
        )
        ids = model.generate(
            torch.tensor([prompt]),
            attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
            do_sample=False,
            max_new_tokens=args.max_new_tokens,
        )[0]
        out.update(
            answer_ids=ids[len(prompt) :].tolist(),
            answer=tokenizer.decode(ids[len(prompt) :], skip_special_tokens=False),
        )
    print(json.dumps(out, ensure_ascii=False))


if __name__ == "__main__":
    main()
