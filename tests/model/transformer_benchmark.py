"""The step of transformer_benchmark.cc in Transformers: SmolLM2-135M's shape, gradient
checkpointing, SDPA attention.

transformer_benchmark.py [--tokens 512 2048] [--bf16] [--keep] [--repeat 3]      (--keep: no
checkpointing)
"""

import argparse
import resource
import time

import torch
from transformers import LlamaConfig, LlamaForCausalLM


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tokens", type=int, nargs="+", default=[512, 2048])
    parser.add_argument("--bf16", action="store_true")
    parser.add_argument("--keep", action="store_true")
    parser.add_argument("--repeat", type=int, default=3)
    options = parser.parse_args()
    config = LlamaConfig(
        vocab_size=49152,
        hidden_size=576,
        intermediate_size=1536,
        num_hidden_layers=30,
        num_attention_heads=9,
        num_key_value_heads=3,
        max_position_embeddings=8192,
        rope_theta=100000.0,
        tie_word_embeddings=True,
    )
    model = LlamaForCausalLM(config).train()
    if not options.keep:
        model.gradient_checkpointing_enable(gradient_checkpointing_kwargs={"use_reentrant": False})
    for tokens in options.tokens:
        ids = torch.randint(0, config.vocab_size, (1, tokens))
        times, work = [], []
        for _ in range(options.repeat):
            begin, spent = time.perf_counter(), time.process_time()
            with torch.autocast("cpu", torch.bfloat16, enabled=options.bf16):
                loss = model(input_ids=ids, labels=ids, use_cache=False).loss
            loss.backward()
            model.zero_grad(set_to_none=True)
            times.append(time.perf_counter() - begin)
            work.append(time.process_time() - spent)
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3
        print(
            f"tokens {tokens}: {min(times):.3f} s, {min(work):.3f} s of CPU "
            f"({tokens / min(times):.1f} tokens/s), process peak {peak:.0f} MB, "
            f"{torch.get_num_threads()} threads"
        )


main()
