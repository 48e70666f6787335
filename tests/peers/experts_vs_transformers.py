"""Compares the mixture of experts with Transformers' layer, for the same shapes, forward and
backward, fp32.

    experts_vs_transformers.py BINARY [--threads 2] [--rounds 3] [--seconds 3]
        BINARY: bazel-bin/tests/model/experts_benchmark

The two run alternately, `rounds` times, and a line has the best of each: tokens per second, the
ratio Moonring / Transformers, and the fraction of the roofline that Moonring reaches. The roofline
is the experts' products alone (6 T K D I flops forward, 12 backward, for T tokens with K experts
each, hidden size D and inner size I) at the rate of one large matrix product in the same run.
"""

import argparse
import subprocess
import time

import torch
from transformers.models.mixtral.configuration_mixtral import MixtralConfig
from transformers.models.mixtral.modeling_mixtral import MixtralSparseMoeBlock
from transformers.models.qwen3_moe.configuration_qwen3_moe import Qwen3MoeConfig
from transformers.models.qwen3_moe.modeling_qwen3_moe import Qwen3MoeSparseMoeBlock

# name: hidden, inner, experts, chosen, tokens
SHAPES = {
    "Qwen3-30B-A3B": (2048, 768, 128, 8, 2048),
    "Qwen3-30B-A3B, short": (2048, 768, 128, 8, 256),
    "Qwen1.5-MoE-A2.7B": (2048, 1408, 60, 4, 1024),
    "Mixtral / 4": (1024, 3584, 8, 2, 1024),
    "small": (512, 256, 32, 4, 2048),
}


def theirs(hidden, inner, experts, chosen, tokens, seconds, mixtral):
    if mixtral:
        layer = MixtralSparseMoeBlock(
            MixtralConfig(
                hidden_size=hidden,
                intermediate_size=inner,
                num_local_experts=experts,
                num_experts_per_tok=chosen,
            )
        )
    else:
        layer = Qwen3MoeSparseMoeBlock(
            Qwen3MoeConfig(
                hidden_size=hidden,
                moe_intermediate_size=inner,
                num_experts=experts,
                num_experts_per_tok=chosen,
                norm_topk_prob=True,
            )
        )
    x = torch.randn(1, tokens, hidden, requires_grad=True)
    gradient = torch.randn(1, tokens, hidden)
    forward = both = 1e9
    end = time.perf_counter() + seconds
    rounds = 0
    while True:
        rounds += 1
        begin = time.perf_counter()
        out, _ = layer(x)
        middle = time.perf_counter()
        out.backward(gradient)
        now = time.perf_counter()
        forward, both = min(forward, middle - begin), min(both, now - begin)
        layer.zero_grad(set_to_none=True)
        x.grad = None
        if now > end and rounds >= 5:  # the first rounds allocate memory
            return forward, both


def flops_per_second(seconds, size=2048):
    a, b, out = torch.randn(size, size), torch.randn(size, size), torch.empty(size, size)
    best, end = 1e9, time.perf_counter() + seconds
    while time.perf_counter() < end:
        begin = time.perf_counter()
        torch.mm(a, b, out=out)
        best = min(best, time.perf_counter() - begin)
    return 2 * size**3 / best


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("binary")
    parser.add_argument("--threads", type=int, nargs="+", default=[2])
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seconds", type=int, default=3)
    parser.add_argument("--only", nargs="+", default=list(SHAPES))
    options = parser.parse_args()
    print(
        f"{'':24}{'threads':>8}{'forward: ours':>15}{'theirs':>10}{'ratio':>7}{'both: ours':>13}"
        f"{'theirs':>10}{'ratio':>7}   tokens/s   of the roofline"
    )
    for name in options.only:
        shape = SHAPES[name]
        for threads in options.threads:
            torch.set_num_threads(threads)
            best, peak = [1e9] * 4, 0.0
            for _ in range(options.rounds):
                words = [options.binary, *map(str, shape), str(threads), str(options.seconds)]
                ours = [
                    float(x)
                    for x in subprocess.run(
                        words, check=True, capture_output=True, text=True
                    ).stdout.split()
                ]
                peer = theirs(*shape, options.seconds, "Mixtral" in name)
                peak = max(peak, flops_per_second(1))
                best = [min(a, b) for a, b in zip(best, [ours[0], peer[0], ours[1], peer[1]])]
            hidden, inner, _, chosen, tokens = shape
            rate = [tokens / seconds for seconds in best]
            work = 6 * chosen * hidden * inner / peak
            print(
                f"{name:24}{threads:8}{rate[0]:15.0f}{rate[1]:10.0f}{rate[0] / rate[1]:7.2f}"
                f"{rate[2]:13.0f}{rate[3]:10.0f}{rate[2] / rate[3]:7.2f}"
                f"{rate[0] * work:17.2f}{rate[2] * 3 * work:7.2f}",
                flush=True,
            )


main()
