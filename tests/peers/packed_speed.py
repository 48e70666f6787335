"""Tokens a second of LoRA over a packed base beside the same over the base as it is.

    packed_speed.py --moonring PATH --model DIR --data DIR [--cutoff 512,2048] [--rounds 2]

SmolLM2 or its like, LLaMA-Factory's demo data packed to rows of --cutoff tokens, one row a step;
each code beside the unquantised run, in turn, fp32 and bf16; the median of a run's steps, the best
of the rounds. The chatml template is assumed.
"""

import argparse
import os
import statistics
import sys
import tempfile

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))
from optimizers_table import alpaca, run  # noqa: E402

CODES = [
    ("as it is", {}),
    ("nf4, double", {"quantization_bit": 4}),
    ("nf4", {"quantization_bit": 4, "double_quantization": False}),
    ("int8", {"quantization_bit": 8}),
]


def speed(args, precision, cutoff, more):
    with tempfile.TemporaryDirectory() as folder:
        lora = {
            "finetuning_type": "lora",
            "lora_target": "all",
            "lora_rank": 8,
            "packing": True,
            "cutoff_len": cutoff,
            "per_device_train_batch_size": 1,
            "learning_rate": 1e-4,
            "save_strategy": "no",
        }
        keys = alpaca(args, folder, 8, {**lora, **precision, **more})
        lines = [line for line in run(args, keys, folder) if "tokens_per_second" in line]
        return statistics.median(line["tokens_per_second"] for line in lines[2:])


def main():
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--moonring", required=True, help="the host binary")
    parser.add_argument("--model", required=True, help="a Hugging Face folder")
    parser.add_argument("--data", required=True, help="LLaMA-Factory's data folder")
    parser.add_argument("--cutoff", default="512,2048", help="tokens a step")
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    args = parser.parse_args()
    for dtype, precision in (("fp32", {}), ("bf16", {"bf16": True})):
        for cutoff in map(int, args.cutoff.split(",")):
            best = {}
            for _ in range(args.rounds):
                for name, more in CODES:
                    now = speed(args, precision, cutoff, more)
                    best[name] = max(best.get(name, 0), now)
            for name, found in best.items():
                print(
                    f"{dtype} {cutoff:6} {name:12} {found:7.0f} tokens/s "
                    f"{found / best['as it is']:6.3f}",
                    flush=True,
                )


if __name__ == "__main__":
    main()
