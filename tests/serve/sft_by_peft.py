#!/usr/bin/env python3
"""The ten steps of clients/sft.py by PyTorch and PEFT: the same documents, the adapter that the
service began with (sft.py --external FOLDER), torch.optim.AdamW. Compares the numbers:

    clients/sft.py --model NAME --external FOLDER > served.json
    sft_by_peft.py --model DIR --adapter FOLDER --served served.json [--dtype float64]

The tolerance is derived: the same steps in fp64 are the reference, and the service, which computes
in fp32, may be at most FACTOR times as far from it as PyTorch in fp32 is (and 1e-6 relative).
"""

import argparse
import json
import pathlib
import sys

import numpy as np
import torch

sys.path.insert(0, str(pathlib.Path(__file__).parent / "clients"))

import datums

FACTOR = 4.0


def policy(options, dtype: torch.dtype):
    import transformers

    model = transformers.AutoModelForCausalLM.from_pretrained(
        options.model, dtype=dtype, attn_implementation="eager"
    )
    if options.adapter:
        import peft

        model = peft.PeftModel.from_pretrained(model, options.adapter, is_trainable=True)
        model = model.to(dtype)
    return model.eval()  # no dropout


def log_probs(model, datum) -> torch.Tensor:
    ids = torch.tensor([list(datum.model_input.to_ints())])
    targets = torch.tensor(datum.loss_fn_inputs["target_tokens"].to_numpy())
    logits = model(input_ids=ids).logits[0].log_softmax(-1)
    return logits.gather(-1, targets[:, None])[:, 0]


def train(options, dtype: torch.dtype) -> dict:
    model = policy(options, dtype)
    trained = [weight for weight in model.parameters() if weight.requires_grad]
    optimizer = torch.optim.AdamW(
        trained, lr=1.0, betas=(0.9, 0.95), eps=1e-12, weight_decay=options.decay
    )
    losses, norms = [], []
    for step in range(options.steps):
        batch = datums.answers(
            options.seed + step % 3, options.batch, options.length, options.vocabulary
        )
        optimizer.zero_grad()
        total = 0.0
        for datum in batch:
            weights = torch.tensor(datum.loss_fn_inputs["weights"].to_numpy()).to(dtype)
            loss = -(weights * log_probs(model, datum)).sum()
            loss.backward()
            total += float(loss.detach())
        losses.append(total)
        norms.append(float(torch.nn.utils.get_total_norm([p.grad for p in trained])))
        if options.clip > 0:
            torch.nn.utils.clip_grad_norm_(trained, options.clip)
        for group in optimizer.param_groups:
            group["lr"] = options.rate * (1 - step / options.steps)
        optimizer.step()
    held_out = [
        datums.unweighted(datums.tokens(90 + index, options.length, options.vocabulary))
        for index in range(3)
    ] + datums.answers(options.seed, options.batch, options.length, options.vocabulary)
    with torch.no_grad():
        after = [log_probs(model, datum).tolist() for datum in held_out]
    return {"losses": losses, "grad_norms": norms, "log_probs": after}


def flat(result: dict, key: str) -> np.ndarray:
    values = result[key]
    return np.concatenate(values) if key == "log_probs" else np.array(values, np.float64)


def distance(result: dict, reference: dict, key: str) -> float:
    wanted = flat(reference, key)
    return float(np.linalg.norm(flat(result, key) - wanted) / np.linalg.norm(wanted))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--model", required=True)
    parser.add_argument("--adapter")
    parser.add_argument("--served", type=pathlib.Path, required=True)
    parser.add_argument("--vocabulary", type=int, default=256)
    parser.add_argument("--length", type=int, default=24)
    parser.add_argument("--steps", type=int, default=10)
    parser.add_argument("--batch", type=int, default=4)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--rate", type=float, default=2e-3)
    parser.add_argument("--clip", type=float, default=0.0)
    parser.add_argument("--decay", type=float, default=0.0)
    options = parser.parse_args()
    served = json.loads(options.served.read_text().splitlines()[-1])
    exact, single = (train(options, dtype) for dtype in (torch.float64, torch.float32))
    found, wrong = {}, []
    for key in ("losses", "grad_norms", "log_probs"):
        ours, theirs = distance(served, exact, key), distance(single, exact, key)
        found[key] = {"moonring": ours, "pytorch": theirs}
        if ours > max(FACTOR * theirs, 1e-6):
            wrong.append(key)
    assert not wrong, f"{wrong} are further from fp64 than {FACTOR} x PyTorch's in fp32: {found}"
    print(json.dumps(found | {"losses_fp64": exact["losses"], "losses_served": served["losses"]}))


if __name__ == "__main__":
    main()
