"""Training steps by Transformers on the documents that `moonring preprocess` wrote; prints a line
"STEP {loss, seconds, peak_bytes}" for each step.

    peer_steps.py MODEL EXAMPLES.jsonl DEVICE

The settings are those of LLaMA-Factory: sdpa attention, gradient checkpointing, autocast to bf16
over fp32 weights, clipping at 1.0, AdamW (fused).
"""

import json
import sys
import time

import torch
from transformers import AutoModelForCausalLM


def main():
    folder, examples, device = sys.argv[1:]
    model = AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation="sdpa"
    ).to(device)
    model.config.use_cache = False
    model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": True})
    model.enable_input_require_grads()
    model.train()
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-5, weight_decay=0.0, fused=True)
    with open(examples, encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    for row in rows:
        ids, labels = (torch.tensor([row[name]], device=device) for name in ("input_ids", "labels"))
        begin = time.perf_counter()
        with torch.autocast(device, torch.bfloat16):
            loss = model(input_ids=ids, labels=labels).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)
        value = loss.item()
        peak = None
        if device == "cuda":
            torch.cuda.synchronize()
            peak = torch.cuda.max_memory_allocated()
        print(
            "STEP "
            + json.dumps(
                {"loss": value, "seconds": time.perf_counter() - begin, "peak_bytes": peak}
            ),
            flush=True,
        )


if __name__ == "__main__":
    main()
