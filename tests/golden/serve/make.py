"""Ten steps of training by PyTorch and PEFT with the losses and the optimizer of the Tinker API, in
fp64: losses, gradient norms and log-probs of a small random model (stages/model), for an adapter
(stages/adapter) and for all weights.

    make.py

Each step has three datums with explicit targets. Losses take turns; their formulas are those of the
API's documentation, its optimizer is torch.optim.AdamW with beta2 0.95 and eps 1e-12. Transformers
computes norms and the rotary embedding in fp32 whatever the model's dtype is; here they are in fp64
too, as is the softmax of attention (sdpa).
"""

import json
import os

import torch
from peft import PeftModel
from transformers import AutoModelForCausalLM
from transformers.models.llama import modeling_llama

HERE = os.path.dirname(os.path.abspath(__file__))
STAGES = os.path.join(HERE, "..", "stages")
VOCABULARY = 675
LOSSES = ["cross_entropy", "importance_sampling", "ppo", "cispo", "dro"]


def norm_in_fp64(self, x):
    return self.weight * x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + self.variance_epsilon)


def rotary_in_fp64(self, x, position_ids):
    half = torch.arange(0, self.config.head_dim, 2, dtype=torch.float64) / self.config.head_dim
    angles = position_ids[..., None].double() * self.config.rope_theta**-half
    angles = torch.cat((angles, angles), dim=-1)
    return angles.cos(), angles.sin()


modeling_llama.LlamaRMSNorm.forward = norm_in_fp64
modeling_llama.LlamaRotaryEmbedding.forward = rotary_in_fp64


def datum(step, number):
    """Numbers that are exact in fp32."""
    length = 3 + 5 * number + step % 3
    places = range(length)
    seed = 37 * step + 101 * number
    return {
        "tokens": [(seed + 13 * i * i) % VOCABULARY for i in places],
        "target_tokens": [(seed + 29 * i + 7) % VOCABULARY for i in places],
        "weights": [((i * 3 + number) % 5 - 1) / 4 for i in places],
        "logprobs": [-6.5 - (i * 7 % 11) / 8 for i in places],
        "advantages": [(i * 5 % 7 - 3) / 2 for i in places],
    }


def log_probs(model, given):
    logits = model(input_ids=torch.tensor([given["tokens"]])).logits[0]
    targets = torch.tensor(given["target_tokens"])[:, None]
    return logits.log_softmax(-1).gather(-1, targets)[:, 0]


def loss_of(name, lp, given):
    w, q, a = (torch.tensor(given[k], dtype=lp.dtype) for k in ("weights", "logprobs", "advantages"))
    ratio = torch.exp(lp - q)
    if name == "cross_entropy":
        return -(w * lp).sum()
    if name == "importance_sampling":
        return -(ratio * a).sum()
    if name == "ppo":
        return -torch.minimum(ratio * a, torch.clamp(ratio, 0.8, 1.2) * a).sum()
    if name == "cispo":
        return -(torch.clamp(ratio, 0.0, 4.0).detach() * lp * a).sum()
    return -(lp * a - 0.5 * 0.05 * (lp - q) ** 2).sum()


def settings(step):
    return {
        "learning_rate": 2e-3 * (1 - step / 10),
        "weight_decay": 0.1,
        "grad_clip_norm": [0.0, 1.0][step % 2],
    }


def train(model):
    trained = [p for p in model.parameters() if p.requires_grad]
    optimizer = torch.optim.AdamW(trained, lr=1, betas=(0.9, 0.95), eps=1e-12)
    steps = []
    for step in range(10):
        name = LOSSES[step % len(LOSSES)]
        optimizer.zero_grad()
        total, lps = 0.0, []
        for number in range(3):
            given = datum(step, number)
            lp = log_probs(model, given)
            loss = loss_of(name, lp, given)
            loss.backward()
            total += loss.item()
            lps.append(lp.tolist())
        numbers = settings(step)
        norm = torch.nn.utils.get_total_norm([p.grad for p in trained]).item()
        if numbers["grad_clip_norm"]:
            torch.nn.utils.clip_grad_norm_(trained, numbers["grad_clip_norm"])
        optimizer.param_groups[0]["lr"] = numbers["learning_rate"]
        optimizer.param_groups[0]["weight_decay"] = numbers["weight_decay"]
        optimizer.step()
        steps.append({"loss_fn": name, "loss": total, "norm": norm, "log_probs": lps})
    return steps


def main():
    golden = {
        "steps": [
            {"adam_params": settings(step), "data": [datum(step, n) for n in range(3)]}
            for step in range(10)
        ]
    }
    for kind in ("adapter", "whole"):
        model = AutoModelForCausalLM.from_pretrained(
            os.path.join(STAGES, "model"), dtype=torch.float64, attn_implementation="sdpa"
        )
        if kind == "adapter":
            model = PeftModel.from_pretrained(
                model, os.path.join(STAGES, "adapter"), is_trainable=True
            ).double()
        golden[kind] = train(model.eval())
    with open(os.path.join(HERE, "golden.json"), "w") as f:
        json.dump(golden, f)
        f.write("\n")


if __name__ == "__main__":
    main()
